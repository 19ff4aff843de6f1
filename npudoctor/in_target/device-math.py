"""Multiplies small matrices on the NPUs that NPUDOCTOR_CARDS names and compares with the CPU, each in its own process.

The numbers are small integers whose sums are exact in every data type, so the tolerance is zero, on products that
compute in half precision too. NPUs in NPUDOCTOR_BUSY are left alone. An NPU has NPUDOCTOR_FIRST_S seconds for its
first product, which compiles, and NPUDOCTOR_NEXT_S for the rest. Standard library and torch, syntax of Python 3.6.
"""

import faulthandler
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SIZE = 128
_SAID_BYTES = 2000
_NOISE_BYTES = 1 << 20
_CODE = re.compile(r"error code is \d+|\bE[A-Z]\d{4}\b")


def _numbers(name: str) -> "list[int]":
    return [int(part) for part in os.environ.get(name, "").split(",") if part.strip().isdigit()]


# The process of one NPU


def _card(number: int) -> None:
    faulthandler.enable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != own]

    def say(**said: "object") -> None:
        out.write(json.dumps(said) + "\n")
        out.flush()

    try:
        say(**_multiply(number, lambda: say(first=True)))
    except BaseException as problem:
        words = "%s: %s" % (type(problem).__name__, str(problem).strip()[:_SAID_BYTES])
        say(ok=False, error=words)
    sys.stdout.flush()  # os._exit does not write what it holds
    os._exit(0)


def _multiply(number: int, first: "object") -> "dict[str, object]":
    import torch
    import torch_npu  # noqa: F401 - brings the device

    began = time.monotonic()
    device = "npu:%d" % number
    torch.npu.set_device(device)
    count = torch.arange(SIZE * SIZE)
    worst = 0.0
    for dtype in (torch.float16, torch.float32):
        left = (count % 5 - 2).reshape(SIZE, SIZE).to(dtype)
        right = (count % 3 - 1).reshape(SIZE, SIZE).to(dtype)
        expected = torch.matmul(left.double(), right.double())
        product = torch.matmul(left.to(device), right.to(device)).cpu().double()
        difference = (product - expected).abs()
        worst = max(worst, float(difference.max()) if bool((difference == difference).all()) else float("inf"))
        first()  # type: ignore[operator]
    said = {"ok": worst == 0.0, "max_abs_error": min(worst, 1e30), "seconds": round(time.monotonic() - began, 2)}
    if worst:
        said["error"] = "the product of two small integer matrices differs from the CPU's by %g" % worst
    return said


# The process that supervises them


def _ask(number: int, folder: str) -> "dict[str, object]":
    first_s = float(os.environ.get("NPUDOCTOR_FIRST_S", "240"))
    next_s = float(os.environ.get("NPUDOCTOR_NEXT_S", "60"))
    noise = os.path.join(folder, "stderr-%d" % number)
    lines = []  # type: list[bytes]
    began = threading.Event()
    with open(noise, "wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-B", os.path.abspath(__file__), str(number)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
            cwd=folder,
        )

    def read() -> None:
        for line in process.stdout or ():
            lines.append(line)
            began.set()
        began.set()

    reader = threading.Thread(target=read)
    reader.daemon = True
    reader.start()
    late = None
    if not began.wait(first_s):
        late = "the first product did not come back within %g s" % first_s
    else:
        reader.join(next_s)
        if reader.is_alive():
            late = "products stopped coming back: none within %g s" % next_s
    if late:
        process.kill()
        return {"ok": False, "error": late}
    status = process.wait()
    with open(noise, "rb") as file:
        said = file.read()[-_NOISE_BYTES:].decode("utf-8", "replace").strip().splitlines()
    if status == 0 and lines:
        result = json.loads(lines[-1].decode("utf-8", "replace"))  # type: dict[str, object]
        coded = next((line.strip() for line in said if _CODE.search(line)), None)
        if "error" in result and coded and coded not in str(result["error"]):
            result["error"] = "%s (%s)" % (result["error"], coded[:_SAID_BYTES])
        return result
    last = next((line for line in said if not line.startswith(("Fatal Python", "Current thread", "  "))), "")
    ended = "signal %d" % -status if status < 0 else "exit status %d" % status
    return {"ok": False, "error": "its process ended with %s%s" % (ended, ": " + last if last else "")}


def _main() -> None:
    results = {str(number): {"skipped": "busy"} for number in _numbers("NPUDOCTOR_BUSY")}
    waiting = _numbers("NPUDOCTOR_CARDS")
    folder = tempfile.mkdtemp(prefix="npudoctor-")
    try:
        turn = threading.Lock()

        def work() -> None:
            while True:
                with turn:
                    if not waiting:
                        return
                    number = waiting.pop(0)
                try:
                    results[str(number)] = _ask(number, folder)
                except Exception as problem:
                    results[str(number)] = {"ok": False, "error": "%s: %s" % (type(problem).__name__, problem)}

        at_once = min(len(waiting), len(os.sched_getaffinity(0)))
        workers = [threading.Thread(target=work) for _ in range(at_once)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"ok": all(one.get("ok", True) for one in results.values()), "devices": results}, sort_keys=True))


if len(sys.argv) > 1:
    _card(int(sys.argv[1]))
else:
    _main()
