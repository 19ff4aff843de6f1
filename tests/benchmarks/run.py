"""How fast and how large `npudoctor check` is: medians in one run, and ratios to baselines of the same run.

    python tests/benchmarks/run.py             print the table
    python tests/benchmarks/run.py --bars      the same, and exit 1 where a relative bar is missed

Wall time and peak resident memory of whole processes. The baselines: `python -c pass`; where they are installed, two
tools of the field.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import npudoctor
from npudoctor.daemon import state

NPUDOCTOR = [sys.executable, "-m", "npudoctor"]
SLOW_CALL_S = 0.7
LIBRARY_CALL_MS = 3
FAST_CALL_S = 0.05
SMI_SLOW = {"NPUDOCTOR_FAKE_DELAY_S_npu_smi": str(SLOW_CALL_S), "NPUDOCTOR_FAKE_DELAY_S_hccn_tool": str(FAST_CALL_S)}
BOTH_SLOW = {f"NPUDOCTOR_FAKE_DELAY_S_{tool}": str(SLOW_CALL_S) for tool in ("npu_smi", "hccn_tool")}
QUIET_S = 0.35
"""What a check takes with tools that answer at once, on a machine with nothing else to do; it is not in the bars."""
Bars = dict[str, tuple[float, float]]
REPOSITORY = Path(__file__).resolve().parents[2]
HELPER = Path(npudoctor.__file__).parent / "host/live/read_dcmi.py"
QUICK = "npudoctor check --profile quick --json"
NOISE = 1.2
"""What a busy machine may add to a ratio before `--bars` calls it missed; the table shows the bars as they are."""


@dataclass(frozen=True)
class Cost:
    """What one command costs: medians of wall time in seconds and of peak resident memory in MiB."""

    seconds: float
    mebibytes: float


def once(argv: Sequence[str], environment: dict[str, str]) -> Cost:
    """Run a command; its wall time and its own peak memory."""
    began = time.perf_counter()
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=nothing, stdout=nothing, stderr=nothing, env=environment)
    _, _, usage = os.wait4(process.pid, 0)
    return Cost(time.perf_counter() - began, usage.ru_maxrss / 1024)


def measure(commands: dict[str, Sequence[str]], runs: int, environment: dict[str, str]) -> dict[str, Cost]:
    """Medians of `runs` rounds; the commands take turns, so that a busy minute of the machine meets them all."""
    for argv in commands.values():
        once(argv, environment)
    rounds = [{name: once(argv, environment) for name, argv in commands.items()} for _ in range(runs)]
    return {
        name: Cost(
            statistics.median(one[name].seconds for one in rounds),
            statistics.median(one[name].mebibytes for one in rounds),
        )
        for name in commands
    }


def write_node(folder: Path, scenario: str) -> None:
    """A simulated node whose tools are real executables."""
    subprocess.run([*NPUDOCTOR, "sim", "tools", str(folder), scenario], check=True, stdout=subprocess.DEVNULL)


def from_a_daemon(folder: Path) -> list[str]:
    """Options for a container with eight cards, over which a daemon has found nothing wrong just now."""
    (folder / "dev").mkdir()
    for number in range(8):
        (folder / "dev" / f"davinci{number}").touch()
    path = str(folder / "state.json")
    cards = tuple(state.CardState(number, None) for number in range(8))
    state.write(path, state.State(state.boot_id(), state.now_s(), 3600.0, cards))
    return ["--state", path, "--root", str(folder)]


def installed(module: str) -> bool:
    done = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False)
    return done.returncode == 0


def slow_tools(node: Path, environment: dict[str, str], runs: int) -> tuple[float, float, int, bool]:
    """With a slow npu-smi: median wall time in seconds, what the slowness adds, calls, and whether one repeats.

    What it adds is the difference of the fastest runs, taken by turns: other processes can only make a run slower.
    """
    log = node / "calls.log"
    times, quick, calls, repeated = [], [], 0, False
    argv = [*NPUDOCTOR, "check", "--profile", "quick", "--json", "--root", str(node)]
    for _ in range(runs):
        quick.append(once(argv, environment).seconds)
        log.unlink(missing_ok=True)
        times.append(once(argv, {**environment, "NPUDOCTOR_FAKE_DELAY_S": str(SLOW_CALL_S)}).seconds)
        lines = log.read_text(encoding="utf-8").splitlines()
        vendor = [line for line in lines if line.startswith(("npu-smi", "hccn_tool"))]
        calls = len(vendor)
        repeated |= len(set(lines)) < len(lines)
    return statistics.median(times), min(times) - min(quick), calls, repeated


def through_the_library(folder: Path, environment: dict[str, str], runs: int) -> tuple[dict[str, Cost], Bars]:
    """Checks of nodes with a driver's library beside slow tools; none where the stub library cannot be compiled.

    A row is the fastest of three runs: they wait more than they compute, and another process can only make them slower.
    """
    if not shutil.which("gcc"):
        return {}, {}
    commands: dict[str, Sequence[str]] = {
        "python -I -S -c pass": [sys.executable, "-I", "-S", "-c", "pass"],
        "the process that asks libdcmi": [sys.executable, "-I", "-S", str(HELPER), "1"],
    }
    costs = measure(commands, runs, environment)
    asking, bare = costs["the process that asks libdcmi"], costs["python -I -S -c pass"]
    bars: Bars = {
        "the process that asks libdcmi ≤ 2.5 × python -I -S": (asking.seconds / bare.seconds, 2.5),
        "its memory in MiB": (asking.mebibytes, 20.0),
    }
    for scenario, chips, limit_s in (("seed-910b1", 8, 2.5), ("healthy-a3", 16, 3.5)):
        node = folder / scenario
        write = [sys.executable, "-m", "tests.fake_dcmi.nodes", str(node), scenario, str(LIBRARY_CALL_MS)]
        subprocess.run(write, check=True, cwd=REPOSITORY)
        check = [*NPUDOCTOR, "check", "--json", "--root", str(node)]
        at_once, _ = fastest(node, check, environment)
        slow, asked = fastest(node, check, environment | SMI_SLOW)
        quick, in_quick = fastest(node, [*check, "--profile", "quick"], environment | BOTH_SLOW)
        costs |= {f"check, {chips} chips, libdcmi of 3 ms": at_once, f"… npu-smi 0.7 s, hccn 0.05 s, {chips}": slow}
        costs[f"… quick, {chips} chips"] = quick
        if chips == 8:
            both, _ = fastest(node, check, environment | BOTH_SLOW, runs=1)
            costs[f"… both tools 0.7 s, {chips} chips"] = both
            added = both.seconds - at_once.seconds
            bars["both tools of 0.7 s add to a check of 8 chips in s"] = (added, 14.0 - QUIET_S)
        bars |= {
            f"slow tools and libdcmi add to a check of {chips} chips in s": (
                slow.seconds - at_once.seconds,
                limit_s - QUIET_S,
            ),
            f"calls of hccn_tool for {chips} chips, 2 each": (asked["hccn_tool"], 2.0 * chips),
            f"calls of npu-smi for {chips} chips": (asked["npu-smi"], 2.0),
            f"calls of vendor tools in a quick check of {chips} chips": (sum(in_quick.values()), 0.0),
        }
    return costs, bars


def fastest(node: Path, argv: Sequence[str], environment: dict[str, str], runs: int = 3) -> tuple[Cost, Counter[str]]:
    """The fastest of some runs, and how often it called each vendor tool."""
    log = node / "calls.log"
    spent = []
    for _ in range(runs):
        log.unlink(missing_ok=True)
        spent.append(once(argv, environment))
    called = Counter(
        line.split(" ")[0] for line in (log.read_text(encoding="utf-8").splitlines() if log.exists() else ())
    )
    cost = min(spent, key=lambda one: one.seconds)
    return cost, Counter({tool: called[tool] for tool in ("npu-smi", "hccn_tool")})


def figures(runs: int) -> tuple[dict[str, Cost], Bars]:
    """What everything costs, and each bar as (measured, allowed)."""
    unlike_a_user = ("NPUDOCTOR_", "PYTHONDONTWRITEBYTECODE")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(unlike_a_user)}
    with tempfile.TemporaryDirectory() as folder:
        node = Path(folder) / "node"
        write_node(node, "seed-910b1")
        commands: dict[str, Sequence[str]] = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "npudoctor --version": [*NPUDOCTOR, "--version"],
            QUICK: [*NPUDOCTOR, "check", "--profile", "quick", "--json", "--root", str(node)],
            "npudoctor check --json": [*NPUDOCTOR, "check", "--json", "--root", str(node)],
            "npudoctor check": [*NPUDOCTOR, "check", "--root", str(node)],
            "npudoctor healthcheck": [*NPUDOCTOR, "healthcheck", "--no-daemon", "--root", str(node)],
            "healthcheck, from a daemon": [*NPUDOCTOR, "healthcheck", *from_a_daemon(Path(folder))],
        }
        if installed("msprechecker"):
            commands["msprechecker"] = [sys.executable, "-m", "msprechecker", "precheck"]
        if installed("torch"):
            commands["torch.utils.collect_env"] = [sys.executable, "-m", "torch.utils.collect_env"]
        costs = measure(commands, runs, environment)
        wall_s, added_s, calls, repeated = slow_tools(node, environment, max(3, runs // 2))
        (Path(folder) / "with").mkdir()
        library_costs, library_bars = through_the_library(Path(folder) / "with", environment, runs)
    bare, check = costs["python -c pass"], costs[QUICK]
    from_daemon = costs["healthcheck, from a daemon"]
    costs[f"check, npu-smi of {SLOW_CALL_S} s a call"] = Cost(wall_s, check.mebibytes)
    costs |= library_costs
    two_at_a_time_s = math.ceil(calls / 2) * SLOW_CALL_S
    return costs, {
        "memory of check --profile quick ≤ bare Python + 20 MiB": (check.mebibytes - bare.mebibytes, 20.0),
        "healthcheck from a daemon ≤ 3 × bare Python": (from_daemon.seconds / bare.seconds, 3.0),
        "its memory in MiB": (from_daemon.mebibytes, 25.0),
        "--version ≤ 3 × bare Python": (costs["npudoctor --version"].seconds / bare.seconds, 3.0),
        f"{calls} slow calls add ≤ 1.5 × two at a time": (added_s / two_at_a_time_s, 1.5),
        "commands that ran twice": (float(repeated), 0.0),
        **library_bars,
    }


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="rounds per median (default: 9)")
    parser.add_argument("--bars", action="store_true", help="exit 1 where a relative bar is missed, thrice in a row")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    for _ in range(3 if args.bars else 1):  # another process on the machine can only make a figure worse
        costs, bars = figures(args.runs)
        missed = [name for name, (value, limit) in bars.items() if value > limit * NOISE]
        if args.json:
            print(json.dumps({"costs": {name: vars(cost) for name, cost in costs.items()}, "bars": bars}, indent=2))
        else:
            show(costs, bars)
        if not missed:
            break
    return 1 if args.bars and missed else 0


def show(costs: dict[str, Cost], bars: dict[str, tuple[float, float]]) -> None:
    """Print the table."""
    bare = costs["python -c pass"]
    print(f"{'medians':<34} {'s':>8} {'MiB':>8} {'× bare':>8}")
    for name, cost in costs.items():
        print(f"{name:<34} {cost.seconds:>8.3f} {cost.mebibytes:>8.1f} {cost.seconds / bare.seconds:>8.1f}")
    for name, (value, limit) in bars.items():
        print(f"{'ok  ' if value <= limit else 'MISS'} {name}: {value:.2f} (at most {limit:g})")


if __name__ == "__main__":
    sys.exit(main())
