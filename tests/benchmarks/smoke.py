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
    for _ in range(7):
        start = time.perf_counter()
        dist.all_reduce(buffer)
        times.append(time.perf_counter() - start)
    speeds[size] = size / sorted(times)[3] / 1e9
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


def timed(argv: Sequence[str], environment: dict[str, str]) -> tuple[float, str]:
    """Wall time of a command in seconds, and what it printed; gloo aborts now and then, and gets two more tries."""
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        if not done.returncode:
            return time.perf_counter() - began, done.stdout
        print(f"failed: {' '.join(argv[:6])}\n{done.stderr[:3000]}", file=sys.stderr)
    raise SystemExit(1)


def figures(python: str, accelerate: str | None, runs: int) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Medians in seconds, and each bar as (measured, allowed)."""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
    smoke = [sys.executable, "-m", "npudoctor", "smoke", "--device", "cpu", "--json", "--python", python]
    with tempfile.TemporaryDirectory() as folder:
        script, speeds = Path(folder) / "plain.py", Path(folder) / "speeds.json"
        script.write_text(PLAIN)
        torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
        walls: dict[str, list[float]] = {"npudoctor smoke": [], "torchrun plain.py": []}
        around, ours, plain = [], dict[str, float](), dict[str, float]()
        for _ in range(runs + 1):
            wall, text = timed(smoke, environment)
            report = json.loads(text)
            walls["npudoctor smoke"].append(wall)
            around.append(wall - report["duration_s"])
            walls["torchrun plain.py"].append(timed([*torchrun, str(speeds)], environment)[0])
            for size, speed in json.loads(speeds.read_text()).items():
                plain[size] = max(speed, plain.get(size, 0.0))
            for row in report["bandwidth"]:
                ours[str(row["size_bytes"])] = max(row["algorithm_gb_s"], ours.get(str(row["size_bytes"]), 0.0))
            if accelerate:
                test = [accelerate, "-m", "accelerate.commands.accelerate_cli", "test"]
                beside = {**environment, "PATH": f"{Path(accelerate).parent}:{os.environ['PATH']}"}
                walls.setdefault("accelerate test", []).append(timed(test, beside)[0])
    medians = {name: statistics.median(values[1:]) for name, values in walls.items()}
    own = medians["npudoctor smoke"]
    off = max(abs(ours[size] / plain[size] - 1) for size in ours if int(size) >= 4 << 20 and size in plain)
    bars = {
        "smoke ≤ 1.1 × torchrun of a plain script": (own / medians["torchrun plain.py"], 1.1),
        "what surrounds the ranks, s": (statistics.median(around[1:]), 0.5),
        "bandwidth at 4 MiB and above off a plain loop (best rounds)": (off, 0.1),
    }
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
        print(f"{name:<60} {seconds:8.2f} s")
    for name, (value, limit) in bars.items():
        print(f"{name:<60} {value:8.2f}   at most {limit:g}{'' if value <= limit else '   MISSED'}")
    return int(args.bars and any(value > limit for value, limit in bars.values()))


if __name__ == "__main__":
    raise SystemExit(main())
