"""How long npudoctor holds the driver after root wrote /run/npudoctor/hands-off; the bar is 2 s.

    python tests/benchmarks/hands_off.py [TRIES]

The slowest of some tries (10) of each: the kept process of the library while it waits and in a question that hangs, a
vendor's tool that runs, and the ranks of a smoke run.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from npudoctor import sim
from npudoctor.host import Unavailable, hands_off
from npudoctor.host.hands_off import Maintenance
from npudoctor.host.live import library, reader
from npudoctor.host.live.rooted import open_root
from npudoctor.smoke import launch, plan, runner
from tests.fake_dcmi import answers, build, nodes

LIMIT_S = 2.0


def seconds(folder: Path, work: Callable[[], object]) -> float:
    """How long `work`, which is under way, goes on after the file appeared."""
    ended: list[float] = []

    def until_it_ends() -> None:
        try:
            work()
        except (Maintenance, Unavailable, plan.Refused):
            ended.append(time.monotonic())

    thread = threading.Thread(target=until_it_ends)
    thread.start()
    time.sleep(1.0 + random.uniform(0, hands_off.WATCH_S))
    path = Path(f"{folder}{hands_off.PATH}")
    path.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    path.write_text("benchmark\n", encoding="utf-8")
    thread.join()
    path.unlink()
    if not ended:
        raise SystemExit("it ended before the file appeared")
    return ended[0] - began


def waiting(folder: Path, compiled: build.Library) -> float:
    """The kept process of the library, between two readings."""
    nodes.put(compiled, folder, answers.of("seed-910b1"))
    reader.keep()
    library.Library(str(folder)).ask("/usr/local/Ascend/driver", pages=False, timeout=60.0)
    kept = reader.KEPT._reader
    assert kept is not None

    def until_it_is_gone() -> None:
        while kept.process.poll() is None:
            time.sleep(0.005)
        raise Unavailable("gone")

    return seconds(folder, until_it_is_gone)


def hanging(folder: Path, compiled: build.Library) -> float:
    """A question to the library that hangs."""
    nodes.put(compiled, folder, answers.of("seed-910b1").but("dcmi_get_device_health 2 0 hang"))
    asking = library.Library(str(folder))
    library.CALL_S = 60.0
    return seconds(folder, lambda: asking.ask("/usr/local/Ascend/driver", pages=False, timeout=60.0))


def running(folder: Path, _: build.Library) -> float:
    """A call of npu-smi that takes a minute."""
    if not (folder / "bin").exists():
        sim.write_tools(sim.simulate("seed-910b1"), str(folder))
    os.environ["NPUDOCTOR_FAKE_DELAY_S"] = "60"
    with contextlib.closing(open_root(str(folder))) as host:
        return seconds(folder, lambda: host.run(["npu-smi", "info"], timeout=120.0))


def smoking(folder: Path, _: build.Library) -> float:
    """Two ranks of a smoke run that never report."""
    python = folder / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    python.chmod(0o755)
    launch.lacks = lambda plan: None
    made = plan.make(plan.Request(device="cpu", ranks=2), plan.Known(python=str(python), environ=os.environ))
    return seconds(folder, lambda: list(runner.run(made, hands_off=f"{folder}{hands_off.PATH}")))


def main() -> int:
    """Measure, print, and judge."""
    tries, missed = int(sys.argv[1]) if sys.argv[1:] else 10, 0
    with tempfile.TemporaryDirectory() as place:
        compiled = build.Library(Path(place) / "compiled")
        for one in (waiting, hanging, running, smoking):
            spent = []
            for number in range(tries):
                folder = Path(place) / f"{one.__name__}-{number}"
                folder.mkdir()
                spent.append(one(folder, compiled))
            missed += max(spent) > LIMIT_S
            print(f"{one.__name__:<10} slowest {max(spent):.2f} s, median {sorted(spent)[len(spent) // 2]:.2f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
