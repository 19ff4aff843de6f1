"""The NPUs: leftover processes on them, and the TLS switch of their ports."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.hccn.probes import PortTls
from npudoctor.facts.node.context import Service
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import dataclass
from npudoctor.sdk import EndProcess, Note, Parameters, Refused, Run, Step, fix

from . import messages


@dataclass(frozen=True)
class Release(Parameters):
    """`pids` are the processes to end. `others` allows root to end those of other users."""

    pids: tuple[int, ...] = ()
    others: bool = False


@fix("npu.release", resolves=("npu.processes", "hccl.ports-free"))
def release_cards(asked: Release, processes: Processes) -> Iterator[Step | Note]:
    """End leftover processes on NPUs or ports.

    They are identified by pid and start time, both compared again just before each signal: TERM, ten seconds, KILL. It
    then waits until the driver releases the device. This cannot be undone.
    """
    if not asked.pids:
        raise Refused(messages.NAME_PROCESSES.text(), instead="--set pids=4711")
    for pid in asked.pids:
        process = processes.by_pid.get(pid)
        if process is None or process.dead:
            yield Note(messages.PROCESS_GONE.text(pid=pid))
            continue
        _may_end(process, processes)
        if process.create_time_s is None:
            raise Refused(messages.START_UNKNOWN.text(pid=pid))
        yield EndProcess(pid, process.create_time_s, _what(process), asked.others)


def _may_end(process: Process, processes: Processes) -> None:
    import os

    if process.pid <= 1 or process.pid in (os.getpid(), os.getppid()):
        raise Refused(messages.NEVER_ENDED.text(pid=process.pid))
    launcher = processes.by_pid.get(process.ppid) if process.ppid else None
    if launcher is not None and launcher.pid > 1 and "torch" in " ".join(launcher.cmdline):
        raise Refused(messages.HAS_LAUNCHER.text(pid=process.pid, launcher=launcher.pid))


def _what(process: Process) -> str:
    user = process.username or messages.UNKNOWN.text()
    return messages.COMMAND_OF_USER.text(command=process.command[:80], user=user)


@dataclass(frozen=True)
class TlsOff(Parameters):
    """`devices` are the numbers of the devices; empty for all whose switch is on."""

    devices: tuple[int, ...] = ()


@fix("npu.tls-off", resolves=("npu.tls",), root=True)
def switch_tls_off(asked: TlsOff, tls: PortTls, service: Service | None) -> Iterator[Step | Note]:
    """Disable TLS on the NPU network ports.

    A link requires the same setting at both ends.
    """
    if service is None or service.in_service:
        raise Refused(messages.IN_SERVICE.text())
    switches = {device: next((card.switch for card in said.cards), 0) for device, said in tls.by_device.items()}
    chosen = asked.devices or tuple(device for device, switch in switches.items() if switch)
    yield Note(messages.LOWERS_SECURITY.text())
    yield Note(messages.CUTS_OFF.text())
    for device in chosen:
        if device not in switches:
            raise Refused(messages.SWITCH_UNKNOWN.text(device=device))
        if switches[device]:
            argv = ("hccn_tool", "-i", str(device), "-tls", "-s", "enable")
            yield Run((*argv, "0"), (*argv, "1"))
