"""What the merge of many nodes costs, and how quick its screens are; the answers are simulated.

    python tests/benchmarks/fleet.py                 1,000 and 10,000 nodes
    python tests/benchmarks/fleet.py --nodes 1000    only these
    python tests/benchmarks/fleet.py --bars          exit 1 where a goal of the design is missed

Asking: processor time of the head for each of 256 nodes, and its peak memory, also against a Python that has imported
nothing; in place of ssh there is a program that prints a node's line. Merge: processor time and peak memory of
`npudoctor fleet merge RUN`. Folding: 1,000 irregular names. Terminal: processor time to the first frame, and from a key
to the drawn screen at 80 x 24. HTML: the size of the page.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

FAULTS = "drift=3,dead=2,slow=1,dup-ip=2,swap=1,sick=3,storage=1"
ASKED = 256
ASKING_S, ASKING_MIB, ASKING_RATIO = 0.025, 45, 4.5
"""Goals F5. The design's 40 MiB are for nodes without NPUs; the ones here have eight."""
MERGE = {1_000: (2.0, 64), 10_000: (15.0, 256)}
"""Goals F1: processor seconds and MiB by the number of nodes."""
FOLDING_S = 0.2
FRAME_S, KEY_S = 1.0, 0.05
HTML_MIB = 5
Row = tuple[str, float, str, float | None]


USAGE = """
import resource, sys
if len(sys.argv) > 1:
    from npudoctor.cli import main
    main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(used.ru_utime + used.ru_stime, int(peak) / 1024, file=sys.stderr)
"""


def used_by(*words: str, path: str = "") -> tuple[float, float]:
    """Processor seconds and peak MiB of npudoctor with these words, without its children; of Python alone without."""
    environ = os.environ | {"PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", USAGE, *words], capture_output=True, text=True, env=environ, check=True
    )
    cpu_s, mib = done.stderr.splitlines()[-1].split()
    return float(cpu_s), float(mib)


def asking(base: Path) -> Iterator[Row]:
    """The head of a check over ssh; its ssh finds the node's name among its words."""
    answers = base / "answers"
    argv = [sys.executable, "-m", "npudoctor", "fleet", "sim", str(ASKED), str(answers), "--faults", FAULTS]
    subprocess.run(argv, check=True, capture_output=True)
    for file in (answers / "nodes").iterdir():
        body = base64.b64encode(file.read_bytes()).decode()
        file.write_text(f"NPUDOCTOR1 {hashlib.sha256(body.encode()).hexdigest()} {body}\n", encoding="utf-8")
    ssh = base / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\nfor word; do f="{answers}/nodes/$word.json.gz"; [ -f "$f" ] && exec cat "$f"; done\n')
    ssh.chmod(0o755)
    words = ("fleet", "check", "--hostfile", str(answers / "expected.txt"), "--run", str(base / "run"))
    cpu_s, mib = used_by(*words, path=str(ssh.parent))
    _, bare = used_by()
    yield f"asking {ASKED} nodes, for each", cpu_s / ASKED, "CPU s", ASKING_S
    yield f"peak memory of asking {ASKED}", mib, "MiB", ASKING_MIB
    yield "the same against bare Python", mib / bare, "times", ASKING_RATIO


def merge(folder: Path, nodes: int) -> Iterator[Row]:
    """Processor time and memory of a process that merges the run."""
    argv = [sys.executable, "-m", "npudoctor", "fleet", "merge", str(folder)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    seconds, mib = MERGE.get(nodes, (None, None))
    yield f"merge of {nodes:,} nodes", used.ru_utime + used.ru_stime, "CPU s", seconds
    yield f"peak memory of {nodes:,} nodes", used.ru_maxrss / 1024, "MiB", mib
    if nodes == 1_000:
        yield "HTML of 1,000 nodes", (folder / "report.html").stat().st_size / (1 << 20), "MiB", HTML_MIB


def folding() -> Iterator[Row]:
    """Names that differ in two numbers."""
    from npudoctor.fleet.targets import fold

    names = [f"rack{number * 7 % 101}-node{number * 13 % 997}-bmc" for number in range(1_000)]
    began = time.process_time()
    fold(names)
    yield "folding of 1,000 irregular names", time.process_time() - began, "CPU s", FOLDING_S


def screens(folder: Path) -> Iterator[Row]:
    """The first frame, and what a key costs on the grid."""
    from npudoctor.tui.fleet_app import FleetApp
    from npudoctor.tui.loop import Loop

    async def opened() -> tuple[float, list[float]]:
        app, keys = FleetApp([str(folder)]), []
        began = time.process_time()
        async with app.run_test(size=(80, 24)) as pilot:
            first = time.process_time() - began
            while app.diagnosis.running or app.diagnosis.members is None or app._told:
                await pilot.pause(0.05)
            await pilot.pause()
            for key in ("right", "down", "n", "left", "up") * 10:
                began = time.process_time()
                await pilot.press(key)
                app.screen._compositor.render_strips()
                keys.append(time.process_time() - began)
        return first, keys

    loop = Loop()
    try:
        first, keys = loop.run_until_complete(opened())
    finally:
        loop.close()
    yield "first frame", first, "CPU s", FRAME_S
    yield "key to screen (median)", statistics.median(keys), "CPU s", KEY_S


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--bars", action="store_true", help="exit 1 where a goal is missed")
    args = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as base:
        os.environ |= {"XDG_CONFIG_HOME": base, "LC_ALL": "C.UTF-8"}
        rows = [*asking(Path(base)), *folding()]
        for nodes in args.nodes:
            folder = Path(base, str(nodes))
            argv = [sys.executable, "-m", "npudoctor", "fleet", "sim", str(nodes), str(folder), "--faults", FAULTS]
            subprocess.run(argv, check=True, capture_output=True)
            rows += merge(folder, nodes)
            if nodes == 1_000:
                rows += screens(folder)
    for name, value, unit, bar in rows:
        wrong = bar is not None and value > bar
        missed |= wrong
        goal = "" if bar is None else f"goal {bar:g}"
        print(f"{name:<36}{value:>9.3f} {unit:<6} {goal}{'  MISSED' if wrong else ''}")
    return int(args.bars and missed)


if __name__ == "__main__":
    sys.exit(main())
