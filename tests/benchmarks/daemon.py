"""What the daemon costs: memory, processor and descriptors over time, and how long a scrape of many takes.

    python tests/benchmarks/daemon.py soak --minutes 20      looks every second: slope of memory, descriptors, processes
    python tests/benchmarks/daemon.py idle --minutes 10      as it is installed: memory, and its share of a core
    python tests/benchmarks/daemon.py scrape                 /metrics of 16 cards under 50 parallel scrapers

Each prints its figures as JSON, and ends with 1 where a bar is missed. The node is simulated, its tools are real
executables.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WARM_UP_SHARE = 0.2
SLOPE_BAR_MIB, IDLE_BAR_MIB, IDLE_BAR_PERCENT, SCRAPE_BAR_MS = 1.0, 110.0, 0.3, 10.0


@contextlib.contextmanager
def daemon(scenario: str, settings: str) -> Iterator[tuple[int, Path]]:
    """A daemon over a simulated node with real executables; its process and its socket."""
    with tempfile.TemporaryDirectory() as name:
        folder, node = Path(name), Path(name) / "node"
        write = [sys.executable, "-m", "npudoctor", "sim", "tools", str(node), scenario]
        subprocess.run(write, check=True, stdout=subprocess.DEVNULL)
        (folder / "config.toml").write_text(f"[daemon]\n{settings}", encoding="utf-8")
        path = folder / "s.sock"
        words = ["--root", str(node), "--socket", str(path), "--state-dir", name]
        argv = [sys.executable, "-m", "npudoctor", "daemon", *words, "--config", str(folder / "config.toml")]
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(argv, stderr=log)
        try:
            while not (path.exists() and b"npu.links" in ask(path, "/metrics")):
                if process.poll() is not None:
                    raise SystemExit((folder / "log").read_text(encoding="utf-8"))
                time.sleep(0.1)
            yield process.pid, path
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def ask(path: Path, what: str) -> bytes:
    """One request; all that came back."""
    with socket.socket(socket.AF_UNIX) as talking:
        try:
            talking.connect(str(path))
        except ConnectionRefusedError:
            return b'"looked_at":null'
        talking.sendall(f"GET {what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        found = b""
        while piece := talking.recv(65536):
            found += piece
        return found


def sample(pid: int) -> dict[str, float]:
    """Both processes of the daemon: resident memory in MiB, descriptors, threads, tools, and processor time in seconds.

    The second is the one in which the looks run; processes below that are tools.
    """
    both = [pid, *below(pid)]
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [Path(f"/proc/{one}/stat").read_text(encoding="utf-8").rpartition(")")[2].split() for one in both]
    status = [
        dict(
            line.split(":", 1)
            for line in Path(f"/proc/{one}/status").read_text(encoding="utf-8").splitlines()
            if ":" in line
        )
        for one in both
    ]
    return {
        "rss_mib": sum(int(one["VmRSS"].split()[0]) for one in status) / 1024,
        "descriptors": sum(len(os.listdir(f"/proc/{one}/fd")) for one in both),
        "threads": sum(int(one["Threads"]) for one in status),
        "children": len({tool for child in both[1:] for tool in below(child)}),
        "own_s": sum(int(one[11]) + int(one[12]) for one in fields) / ticks,
        "tools_s": sum(int(one[13]) + int(one[14]) for one in fields) / ticks,
    }


def below(pid: int) -> list[int]:
    """The processes that a process has started and not yet waited for."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="utf-8").split())
    return found


def soak(minutes: float, scenario: str) -> tuple[dict[str, Any], bool]:
    """Looks every second; memory between two looks, and whether anything piles up."""
    settings = "quick_s = 1\ncounters_s = 30\nstandard_s = 120\n"
    taken: list[tuple[float, dict[str, float]]] = []
    with daemon(scenario, settings) as (pid, path):
        began = time.monotonic()
        while (now := time.monotonic() - began) < minutes * 60:
            taken.append((now, sample(pid)))
            for what in ("/metrics", "/v1/report", "/v1/issues", "/v1/history", "/v1/cards"):
                ask(path, what)
            time.sleep(5)
        report = json.loads(ask(path, "/v1/cards").partition(b"\r\n\r\n")[2])
        metrics = ask(path, "/metrics").decode()
    runs = [line for line in metrics.splitlines() if line.startswith("npudoctor_runs_total")]
    warm = [(at, one) for at, one in taken if at >= WARM_UP_SHARE * minutes * 60]
    times, sizes = [at for at, _ in warm], [one["rss_mib"] for _, one in warm]
    slope = statistics.linear_regression(times, sizes).slope * (times[-1] - times[0])
    first, last = warm[: len(warm) // 4], warm[-len(warm) // 4 :]
    figures: dict[str, Any] = {
        "minutes": minutes,
        "cards": len(report["cards"]),
        "runs": runs,
        "rss_mib": [round(sizes[0], 1), round(max(sizes), 1), round(sizes[-1], 1)],
        "growth_mib_after_warm_up": round(slope, 2),
        "descriptors": [min(one["descriptors"] for _, one in part) for part in (first, last)],
        "threads": [min(one["threads"] for _, one in part) for part in (first, last)],
        "children": [min(one["children"] for _, one in part) for part in (first, last)],
    }
    still = all(part[0] >= part[1] for part in (figures["descriptors"], figures["threads"], figures["children"]))
    return figures, slope <= SLOPE_BAR_MIB and still


def idle(minutes: float, scenario: str) -> tuple[dict[str, Any], bool]:
    """As installed, looks every minute: resident memory, and its share of a core, that of its tools apart."""
    with daemon(scenario, "") as (pid, _):
        time.sleep(30)
        before, began = sample(pid), time.monotonic()
        time.sleep(minutes * 60)
        after, seconds = sample(pid), time.monotonic() - began
    own = 100 * (after["own_s"] - before["own_s"]) / seconds
    figures = {
        "minutes": minutes,
        "rss_mib": round(after["rss_mib"], 1),
        "own_percent_of_a_core": round(own, 3),
        "tools_percent_of_a_core": round(100 * (after["tools_s"] - before["tools_s"]) / seconds, 3),
    }
    return figures, after["rss_mib"] <= IDLE_BAR_MIB and own <= IDLE_BAR_PERCENT


async def _scraper(path: Path, until: float, pause_s: float, times: list[float]) -> None:
    chance = random.Random()
    await asyncio.sleep(chance.uniform(0, pause_s))
    while time.perf_counter() < until:
        reader, writer = await asyncio.open_unix_connection(str(path), limit=1 << 20)
        while time.perf_counter() < until:
            began = time.perf_counter()
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
                )
                await reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            times.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(pause_s)
        writer.close()


def scrape(seconds: float, scrapers: int, scenario: str) -> tuple[dict[str, Any], bool]:
    """Latency in milliseconds: each scraper once a second, and, for comparison, without a pause."""

    async def all_of_them(path: Path, pause_s: float) -> list[float]:
        times: list[float] = []
        until = time.perf_counter() + seconds
        await asyncio.gather(*(_scraper(path, until, pause_s, times) for _ in range(scrapers)))
        return sorted(times)

    figures: dict[str, Any] = {"scrapers": scrapers, "load": os.getloadavg()[0]}
    gc.disable()  # of this process: the scrapers' own pauses are not what is measured
    with daemon(scenario, "") as (_, path):
        time.sleep(3)
        figures["bytes"] = len(ask(path, "/metrics"))
        for name, pause_s in (("once_a_second", 1.0), ("without_a_pause", 0.0)):
            times = asyncio.run(all_of_them(path, pause_s))
            at = {f"p{share}_ms": round(times[len(times) * share // 100], 2) for share in (50, 95, 99)}
            figures[name] = {"scrapes": len(times), **at, "worst_ms": round(times[-1], 2)}
    return figures, figures["once_a_second"]["p99_ms"] <= SCRAPE_BAR_MS


def main() -> int:
    """Run what was asked for; 1 where its bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("soak", "idle", "scrape"))
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--scrapers", type=int, default=50)
    parser.add_argument("--scenario")
    args = parser.parse_args()
    if args.what == "soak":
        figures, held = soak(args.minutes, args.scenario or "in-service")
    elif args.what == "idle":
        figures, held = idle(args.minutes, args.scenario or "in-service")
    else:
        figures, held = scrape(args.seconds, args.scrapers, args.scenario or "healthy-a3")
    print(json.dumps({args.what: figures, "held": held}, indent=1))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
