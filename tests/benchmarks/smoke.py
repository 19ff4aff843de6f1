"""What a smoke run costs beside what a person would write by hand: medians of the rounds of one run, and ratios;
best rounds for what noise only ever makes worse.

    python tests/benchmarks/smoke.py --python ~/train/bin/python            print the table
    python tests/benchmarks/smoke.py --python ~/train/bin/python --bars     exit 1 where a bar is missed

Two ranks with gloo. The baselines: torchrun of a plain script that does the same work, and `accelerate test` where the
named Python has accelerate (--accelerate names another one).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PLAIN = """
import json, os, sys, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64):
    part = torch.ones(1024, dtype=dtype)
    dist.all_reduce(part)
    dist.all_gather([torch.zeros_like(part) for _ in range(world)], part)
    dist.reduce_scatter(torch.zeros_like(part), [part.clone() for _ in range(world)])
    dist.broadcast(part, world - 1)
dist.barrier()
speeds, began = {}, time.time()
for size in (8 << (2 * power) for power in range(11)):
    buffer = torch.zeros(size // 4)
    for _ in range(2):
        dist.all_reduce(buffer)
    times = []
    for _ in range(21):
        start = time.perf_counter()
        dist.all_reduce(buffer)
        times.append(time.perf_counter() - start)
    speeds[size] = size / sorted(times)[10] / 1e9
def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
def train(net, batches):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for images, labels in batches:
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
data = TensorDataset(torch.randn(32 * world * 10, 784), torch.randint(0, 10, (32 * world * 10,)))
loader = DataLoader(data, 32, sampler=DistributedSampler(data))
net = torch.nn.parallel.DistributedDataParallel(model(), gradient_as_bucket_view=True)
for _ in range(3):
    train(net, loader)
one = next(iter(loader))
if rank == 0:
    train(model(), [one] * 60)
dist.barrier()
train(model(), [one] * 22)
if rank == 0:
    train(model(), [one] * 22)
dist.barrier()
train(net, [one] * 22)
if rank == 0:
    json.dump(speeds, open(sys.argv[1], "w"))
dist.destroy_process_group()
"""

IN_TURN = """
import json, os, runpy, statistics, sys, time
worker = runpy.run_path(sys.argv[1])
Rank = worker["Rank"]
measure = Rank.bandwidth
def plain(size):
    import torch, torch.distributed as dist
    buffer, times = torch.zeros(size // 4), []
    for _ in range(2):
        dist.all_reduce(buffer)
    for _ in range(21):
        start = time.perf_counter()
        dist.all_reduce(buffer)
        times.append(time.perf_counter() - start)
    return size / sorted(times)[10] / 1e9
def bandwidth(rank):
    speeds = []
    for turn in range(TURNS):
        for size in SIZES:
            rank.told["sizes"] = [size]
            if turn % 2:
                measure(rank)
            speeds.append((size, plain(size)))
            if not turn % 2:
                measure(rank)
    if rank.rank == 0:
        with open("FILE", "w") as file:
            json.dump(speeds, file)
Rank.bandwidth = bandwidth
worker["main"]()
"""
"""A rank whose bandwidth stage alternates npudoctor's measurement with a loop of all_reduce in the same processes."""

APART = str(8 << 20)
"""The size that runs of their own are compared at, beside the bars."""

TURNS, SIZES = 15, (4 << 20, 8 << 20, 32 << 20)


def timed(argv: Sequence[str], environment: dict[str, str]) -> tuple[float, str]:
    """Wall time of a command in seconds, and what it printed; gloo aborts now and then, and gets two more tries."""
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", env=environment, check=False)
        if not done.returncode:
            return time.perf_counter() - began, done.stdout
        print(f"failed: {' '.join(argv[:6])}\n{done.stderr[:3000]}", file=sys.stderr)
    raise SystemExit(1)


def off_a_plain_loop(python: str, environment: dict[str, str]) -> dict[int, float]:
    """By size, how far npudoctor's figure is off that of a plain loop just before or after it: the median of the turns.

    The same ranks take turns: two runs of one loop differ by more than the bar where anything runs beside them.
    """
    with tempfile.TemporaryDirectory() as folder:
        script, speeds, wrapper = (Path(folder) / name for name in ("in_turn.py", "speeds.json", "python"))
        script.write_text(
            IN_TURN.replace("TURNS", str(TURNS)).replace("SIZES", str(SIZES)).replace("FILE", str(speeds)),
            encoding="utf-8",
        )
        wrapper.write_text(
            f'#!/bin/sh\ncase "$1" in *worker.py) exec {python} {script} "$@";; esac\nexec {python} "$@"\n',
            encoding="utf-8",
        )
        wrapper.chmod(0o755)
        smoke = [sys.executable, "-m", "npudoctor", "smoke", "--device", "cpu", "--json", "--steps", "4"]
        smoke += ["--bandwidth-time", "60", "--deadline", "bandwidth=120", "--python", str(wrapper)]
        report = json.loads(timed(smoke, environment)[1])
        found: dict[int, tuple[list[float], list[float]]] = {size: ([], []) for size in SIZES}
        for row in report["bandwidth"]:
            found[row["size_bytes"]][0].append(row["algorithm_gb_s"])
        for size, speed in json.loads(speeds.read_text(encoding="utf-8")):
            found[size][1].append(speed)
    ratios = {size: [one / other for one, other in zip(*both, strict=True)] for size, both in found.items()}
    return {size: abs(statistics.median(values) - 1) for size, values in ratios.items()}


def figures(python: str, accelerate: str | None, runs: int) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Medians in seconds, and each bar as (measured, allowed)."""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
    smoke = [sys.executable, "-m", "npudoctor", "smoke", "--device", "cpu", "--json", "--python", python]
    with tempfile.TemporaryDirectory() as folder:
        script, speeds = Path(folder) / "plain.py", Path(folder) / "speeds.json"
        script.write_text(PLAIN, encoding="utf-8")
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
        walls: dict[str, list[float]] = {"npudoctor smoke": [], "torchrun plain.py": []}
        around, rows = [], list[tuple[float, float]]()
        for _ in range(runs + 1):
            wall, text = timed(smoke, environment)
            report = json.loads(text)
            walls["npudoctor smoke"].append(wall)
            around.append(wall - report["duration_s"])
            walls["torchrun plain.py"].append(timed([*torchrun, str(speeds)], environment)[0])
            plain = json.loads(speeds.read_text(encoding="utf-8"))
            ours = {str(row["size_bytes"]): row["algorithm_gb_s"] for row in report["bandwidth"]}
            rows += [(ours[APART], plain[APART])] if APART in ours else []
            if accelerate:
                test = [accelerate, "-m", "accelerate.commands.accelerate_cli", "test"]
                beside = {**environment, "PATH": f"{Path(accelerate).parent}:{os.environ['PATH']}"}
                walls.setdefault("accelerate test", []).append(timed(test, beside)[0])
    medians = {name: statistics.median(values[1:]) for name, values in walls.items()}
    own = medians["npudoctor smoke"]
    for name, speed in zip(walls, map(statistics.median, zip(*rows, strict=True)), strict=False):
        medians[f"a call of all-reduce of 8 MiB in {name}"] = int(APART) / speed / 1e9
    bars = {
        "smoke ≤ 1.1 × torchrun of a plain script": (own / medians["torchrun plain.py"], 1.1),
        "what surrounds the ranks, s": (statistics.median(around[1:]), 0.5),
    }
    for size, off in off_a_plain_loop(python, environment).items():
        bars[f"all-reduce of {size >> 20} MiB off a plain loop"] = (off, 0.1)
    if accelerate:
        bars["smoke ≤ 0.6 × accelerate test"] = (own / medians["accelerate test"], 0.6)
    return medians, bars


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="an interpreter with torch")
    parser.add_argument("--accelerate", metavar="PYTHON", help="an interpreter with torch and accelerate")
    parser.add_argument("--runs", type=int, default=5, help="rounds per median, after one that does not count")
    parser.add_argument("--bars", action="store_true", help="exit 1 where a bar is missed")
    args = parser.parse_args()
    medians, bars = figures(args.python, args.accelerate, args.runs)
    for name, seconds in medians.items():
        print(f"{name:<60} {seconds:8.4g} s")
    for name, (value, limit) in bars.items():
        print(f"{name:<60} {value:8.2f}   at most {limit:g}{'' if value <= limit else '   MISSED'}")
    return int(args.bars and any(value > limit for value, limit in bars.values()))


if __name__ == "__main__":
    raise SystemExit(main())
