"""How fast `npudoctor explain --log` reads, and in how much memory.

    python tests/benchmarks/explain_log.py                    64 MiB of each kind of log
    python tests/benchmarks/explain_log.py --mib 2048         the same with 2 GiB (in --folder, removed afterwards)
    python tests/benchmarks/explain_log.py --job --mib 2048   a run's folder: 20 ranks on 4 nodes
    python tests/benchmarks/explain_log.py --grep             next to `grep -c -E` with as many patterns: takes hours
    python tests/benchmarks/explain_log.py --bars             exit 1 below 60 MB/s, or above 120 MiB

Kinds: `training` are the steps of eight ranks and CANN's own log, the failure in the last lines; `errors` is a flood of
error lines; `prose` are lines of which no two are alike. The figures are those of whole processes, the log in the page
cache.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from npudoctor import knowledge

MIB = 1 << 20
BAR_MB_PER_S = 60
BAR_MIB = 120
LETTERS = (
    "etaoinshrdlucmfwypvbgkxjqz",
    (12, 9, 8, 8, 7, 7, 6, 6, 6, 4, 4, 3, 3, 2, 2, 2, 2, 2, 1, 1, 2, 1, 1, 1, 1, 1),
)
"""Letters, and how often they stand in English."""

FAILURE = (
    b"[rank3]: [ERROR] 2025-04-08-18:07:20 (PID:1292363, Device:3, RankID:3) ERR02200 DIST call hccl api failed.\n"
    b"[rank3]: EJ0003: [PID: 1292363] 2025-04-08-18:07:20.444.436 Failed to bind the IP port. Reason: The IP address "
    b"and port have been bound already.\n"
)


@dataclass(frozen=True)
class Cost:
    """What one command costs: wall time in seconds, processor time in seconds, peak resident memory in MiB."""

    seconds: float
    processor: float
    mebibytes: float


def training(chance: random.Random) -> bytes:
    """One line of a job that goes well."""
    if chance.random() < 0.5:
        return (
            f"2025-04-08 18:07:{chance.randrange(60):02},{chance.randrange(1000):03} INFO [rank{chance.randrange(8)}] "
            f"iteration {chance.randrange(10**5)}/ 500000 | consumed samples: {chance.randrange(10**7)} | elapsed time "
            f"per iteration (ms): {chance.random() * 999:.1f} | loss: {chance.random() * 9:.6f}\n"
        ).encode()
    return (
        f"[INFO] HCCL({chance.randrange(10**6)},python3):2025-04-08-18:07:20.{chance.randrange(1000):03}.100 "
        f"[op_base.cc:1234] [{chance.randrange(10**6)}]Entry-HcclAllReduce: tag[AllReduce_group_name_1], "
        f"sendBuf[{chance.getrandbits(46):#x}], count[{chance.randrange(10**7)}], dataType[float16], op[sum]\n"
    ).encode()


def errors(chance: random.Random) -> bytes:
    """One line of a job that fails without end."""
    return (
        f"[ERROR] RUNTIME({chance.randrange(10**6)},python3):2025-04-08-18:07:20.{chance.randrange(1000):03}.100 "
        f"[task_info.cc:{chance.randrange(2000)}] {chance.randrange(10**6)} TaskFailCallBack:task execute failed, "
        f"device_id={chance.randrange(8)}, stream_id={chance.randrange(999)}, retCode={chance.getrandbits(27):#x}\n"
    ).encode()


def prose(chance: random.Random) -> bytes:
    """One line like no other."""
    words = ("".join(chance.choices(*LETTERS, k=chance.randrange(2, 10))) for _ in range(16))
    return " ".join(words).encode() + b"\n"


KINDS: dict[str, Callable[[random.Random], bytes]] = {"training": training, "errors": errors, "prose": prose}


def generate(path: Path, kind: str, size: int) -> None:
    """Write a log of about this size; it ends with a failure."""
    chance = random.Random(kind)
    lines = [KINDS[kind](chance) for _ in range(120_000)]
    with path.open("wb") as file:
        while file.tell() < size:
            chance.shuffle(lines)
            file.write(b"".join(lines)[: size - file.tell()])
        file.write(b"\n" + FAILURE)


def generated(path: Path, kind: str, mib: int) -> None:
    """Write it in another process: a child's peak memory would count the memory of the process that forks it."""
    subprocess.run([sys.executable, __file__, "--write", kind, str(path), "--mib", str(mib)], check=True)


def job(folder: Path, mib: int) -> int:
    """Write a run's folder of about this size: 20 ranks on 4 nodes, every fifth with errors; its size in bytes."""
    for rank in range(20):
        path = folder / f"node-{rank // 5}" / f"rank_{rank}.log"
        path.parent.mkdir(exist_ok=True)
        generated(path, "errors" if rank % 5 == 4 else "training", max(mib // 20, 1))
    return sum(path.stat().st_size for path in folder.rglob("*.log"))


def once(argv: Sequence[str | Path]) -> Cost:
    """Run a command; what it cost."""
    with tempfile.TemporaryFile() as out:  # not /dev/null: grep would stop at the first line that it finds
        began = time.perf_counter()
        process = subprocess.Popen(argv, stdout=out, env={**os.environ, "LC_ALL": "C"})
        _, _, usage = os.wait4(process.pid, 0)
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def patterns() -> list[str]:
    """As many patterns as `explain` has, in grep's grammar."""
    found = [one for row in knowledge.pitfalls().rows for one in (*row.symptoms, *row.hints, *row.general)]
    found += [row.code for row in knowledge.errors().codes if not row.code.startswith("HCCL")]
    return [
        one.replace(r"[.\d]", "[.0-9]").replace(r"\d", "[0-9]").replace(r"\S", "[^ ]").replace("(?:", "(")
        for one in found
        if "(?!" not in one
    ]


def main() -> int:
    """Print the table; 1 where a bar is asked for and missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=64, help="size of each log (default: 64)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="which logs (default: all)")
    parser.add_argument("--folder", default=None, help="where the logs are written for the time being")
    parser.add_argument("--grep", action="store_true", help="grep as well, which takes hours with so many patterns")
    parser.add_argument("--job", action="store_true", help="a run's folder in place of single logs")
    parser.add_argument("--bars", action="store_true", help="exit 1 where `training` misses a bar")
    parser.add_argument("--write", nargs=2, metavar=("KIND", "FILE"), help="only write a log")
    args = parser.parse_args()
    if args.write:
        generate(Path(args.write[1]), args.write[0], args.mib * MIB)
        return 0
    if args.job:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            megabytes = job(Path(folder), args.mib) / 1e6
            cost = once([sys.executable, "-m", "npudoctor", "explain", "--log", folder])
        print(
            f"job {megabytes / cost.seconds:.0f} MB/s, CPU {megabytes / cost.processor:.0f}, {cost.mebibytes:.0f} MiB"
        )
        return 0
    missed = False
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        log, expressions = Path(folder, "log"), Path(folder, "patterns")
        expressions.write_text("".join(f"{one}\n" for one in patterns()), encoding="utf-8")
        print(f"{len(patterns())} patterns, {args.mib} MiB each")
        print(f"log        MB/s   CPU MB/s  MiB peak{'  grep MB/s  ratio' * args.grep}")
        for kind in args.kinds:
            generated(log, kind, args.mib)
            megabytes = log.stat().st_size / 1e6
            once(["wc", "-l", log])
            cost = once([sys.executable, "-m", "npudoctor", "explain", "--log", log])
            line = (
                f"{kind:<9}{megabytes / cost.seconds:>6.0f}{megabytes / cost.processor:>11.0f}{cost.mebibytes:>10.0f}"
            )
            if args.grep:
                grep = once(["grep", "-c", "-E", "-f", expressions, log])
                line += f"{megabytes / grep.seconds:>11.0f}{grep.seconds / cost.seconds:>7.2f}"
            print(line, flush=True)
            if kind == "training":
                missed = megabytes / cost.seconds < BAR_MB_PER_S or cost.mebibytes > BAR_MIB
    return int(args.bars and missed)


if __name__ == "__main__":
    raise SystemExit(main())
