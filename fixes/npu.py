"""The cards: processes that were left on them, and the TLS switch of their ports."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.by_chip import PerPort
from npudoctor.facts.hccn.tls import Tls
from npudoctor.facts.node.context import Service
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import dataclass
from npudoctor.sdk import EndProcess, Note, Parameters, Refused, Run, Step, fix


@dataclass(frozen=True)
class Release(Parameters):
    """`pids` are the processes to end. `others` allows root to end those of other users."""

    pids: tuple[int, ...] = ()
    others: bool = False


@fix("npu.release", mends=("npu.processes", "hccl.ports-free"))
def release_cards(asked: Release, processes: Processes) -> Iterator[Step | Note]:
    """End processes that were left on cards or ports, and wait until the driver lets go.

    They are known by their number and the moment of their start, both compared again just before each signal: TERM,
    ten seconds, KILL. What has ended does not come back.
    """
    if not asked.pids:
        raise Refused("say which processes", instead="--set pids=4711")
    for pid in asked.pids:
        process = processes.by_pid.get(pid)
        if process is None or process.dead:
            yield Note(f"process {pid} is not here any more")
            continue
        _may_end(process, processes)
        if process.create_time_s is None:
            raise Refused(f"when process {pid} was started is not visible, so it could be mistaken for another")
        yield EndProcess(pid, process.create_time_s, _what(process), asked.others)


def _may_end(process: Process, processes: Processes) -> None:
    import os

    if process.pid <= 1 or process.pid in (os.getpid(), os.getppid()):
        raise Refused(f"process {process.pid} is none that npudoctor ends")
    launcher = processes.by_pid.get(process.ppid) if process.ppid else None
    if launcher is not None and launcher.pid > 1 and "torch" in " ".join(launcher.cmdline):
        raise Refused(f"process {process.pid} has its launcher {launcher.pid}; end that job with the launcher")


def _what(process: Process) -> str:
    return f"{process.command[:80]} (user {process.username or 'unknown'})"


@dataclass(frozen=True)
class TlsOff(Parameters):
    """`devices` are the numbers of the cards; empty for all whose switch is on."""

    devices: tuple[int, ...] = ()


@fix("npu.tls-off", mends=("npu.tls",), root=True)
def switch_tls_off(asked: TlsOff, tls: PerPort[Tls], service: Service | None) -> Iterator[Step | Note]:
    """Switch TLS off on the ports of the cards, so that all have the same.

    Links need the same switch at both ends.
    """
    if service is None or service.in_service:
        raise Refused("a job is, or may be, at work on the cards")
    switches = {device: next((card.switch for card in said.cards), 0) for device, said in tls.by_device.items()}
    chosen = asked.devices or tuple(device for device, switch in switches.items() if switch)
    yield Note("this lowers security: what the cards send between nodes is not encrypted after that")
    yield Note("nodes whose cards have TLS on are cut off from these")
    for device in chosen:
        if device not in switches:
            raise Refused(f"the switch of card {device} is not known")
        if switches[device]:
            argv = ("hccn_tool", "-i", str(device), "-tls", "-s", "enable")
            yield Run((*argv, "0"), (*argv, "1"))
