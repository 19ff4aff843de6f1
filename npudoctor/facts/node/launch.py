"""How the processes on the NPUs were started: as ranks of a launcher, or each by itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping

from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import record
from npudoctor.sdk import Host, Unavailable, probe

LAUNCHED = ("TORCHELASTIC_RUN_ID", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE")
"""The variables that a launcher gives its ranks, the most telling first; nothing else of a process is kept."""

# Texts and not patterns: what a healthy node never needs is not compiled each time a check starts.
_WORKER = r"spawn_main\(|--local[-_]rank\b|--multiprocessing-fork"
"""What the command line of a process holds that torch.distributed or multiprocessing started as one of several."""

_RANKS = r"--nproc[-_]per[-_]node[= ]([0-9]{1,4})(?![0-9])"
_LAUNCHER = r"\btorchrun\b|torch[._]distributed[._/](run|launch)|torch_npu_run"
_TOGETHER_S = 5.0


@record(frozen=True)
class LaunchVariables:
    """Those of `LAUNCHED` that each process on an NPU was started with, by pid; a process whose variables this user may
    not read is missing."""

    by_pid: Mapping[int, Mapping[str, str]]


def parse_variables(text: str) -> dict[str, str]:
    """Read /proc/PID/environ: what is in it of `LAUNCHED`."""
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return {name: value[:80] for name, equals, value in pairs if equals and name in LAUNCHED}


@probe(of_the_moment=True)
def launch_variables(host: Host, holders: CardHolders) -> LaunchVariables:
    """From /proc/PID/environ of the live processes that hold an NPU."""
    found = {}
    for pid in sorted(holders.pids):
        with contextlib.suppress(Unavailable):
            if text := host.read(f"/proc/{pid}/environ"):
                found[pid] = parse_variables(text)
    return LaunchVariables(found)


def was_launched(process: Process, variables: LaunchVariables | None, others: Iterable[Process]) -> bool:
    """Whether a process was started as one of several ranks: by its command line, else by its variables; where these
    cannot be read, by others that run the same command since the same moment, unbuffered as torchrun starts them."""
    if re.search(_WORKER, " ".join(process.cmdline)):
        return True
    known = variables.by_pid.get(process.pid) if variables else None
    if known is not None:
        return "TORCHELASTIC_RUN_ID" in known or {"LOCAL_RANK", "LOCAL_WORLD_SIZE"} <= known.keys()
    return process.cmdline[1:2] == ("-u",) and any(_twins(process, other) for other in others)


def _twins(one: Process, other: Process) -> bool:
    if one.pid == other.pid or one.create_time_s is None or other.create_time_s is None:
        return False
    alike = (one.cmdline, one.username, one.ppid) == (other.cmdline, other.username, other.ppid)
    return alike and abs(one.create_time_s - other.create_time_s) <= _TOGETHER_S


def is_left_alone(process: Process, processes: Processes | None) -> bool:
    """Whether the process that started this one has ended; that alone says nothing (nohup, services)."""
    parent = processes.get(process.ppid) if processes else None
    collects = parent is not None and parent.name == "systemd"
    return process.ppid is not None and (process.ppid == 1 or parent is None or collects)


def left_alone(holders: CardHolders, processes: Processes | None, launched: LaunchVariables | None) -> frozenset[int]:
    """The workers on NPUs whose launcher has ended."""
    living = [holder.process for holder in holders.holders if holder.process is not None]
    return frozenset(
        process.pid
        for process in living
        if is_left_alone(process, processes) and was_launched(process, launched, living)
    )


def ranks_on_this_node(job: Iterable[Process], variables: LaunchVariables | None) -> tuple[int, str] | None:
    """How many ranks a job was started with here, and who says so; None where nothing does."""
    for process in job:
        known = variables.by_pid.get(process.pid, {}) if variables else {}
        count = known.get("LOCAL_WORLD_SIZE", "")
        if "TORCHELASTIC_RUN_ID" in known and count.isdecimal():
            return int(count), f"process {process.pid}: LOCAL_WORLD_SIZE"
        line = " ".join(process.cmdline)
        if re.search(_LAUNCHER, line) and (said := re.search(_RANKS, line)):
            return int(said[1]), f"process {process.pid}: --nproc_per_node"
    return None
