"""Reserves HCCL's host ports in the kernel, now and after a reboot."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.network.ports import KernelPorts, PortRanges
from npudoctor.facts.system.sysctl import LAST_FILE, OURS, SysctlFiles, ours_after
from npudoctor.records import record
from npudoctor.sdk import (
    Host,
    Note,
    Parameters,
    ParseError,
    Refused,
    RemoveFile,
    Risk,
    SetSysctl,
    Step,
    Unavailable,
    WriteFile,
    fix,
)

from . import messages

KEY = "net.ipv4.ip_local_reserved_ports"


@record(frozen=True)
class ReservePorts(Parameters):
    """`ports` are those to reserve, as in 60000-60031; empty for all that HCCL may use."""

    ports: str = ""


@fix("hccl.reserve-ports", resolves=("hccl.ports-reserved", "hccl.ports-persistent"), risk=Risk.SAFE, root=True)
def reserve_ports(
    asked: ReservePorts, host: Host, kernel: KernelPorts, ports: HcclPorts | None, files: SysctlFiles
) -> Iterator[Step | Note]:
    """Reserve HCCL ports, now and for the next boot.

    The range is added to the ports that are already reserved; none of them is released. At boot a
    file of npudoctor's own does it, which is read after those of others: only /etc/sysctl.conf is always read last, so
    that its line is changed.
    """
    wanted = _wanted_ports(asked, ports)
    others = [one for one in files.of(KEY) if one.path not in OURS]
    at_boot = _parse(others[-1].value, others[-1].path) if others else PortRanges()
    united = kernel.reserved | wanted
    is_new = not kernel.reserved.covers(united)
    if is_new and ports is not None and wanted == ports.possible and (more := wanted - ports.certain).spans:
        yield Note(messages.FOR_LATER_CANN.text(certain=ports.certain, more=more))
    yield SetSysctl(KEY, str(united))
    last = files.of(KEY)[-1] if files.of(KEY) else None
    if last is not None and PortRanges.parse(last.value).covers(united | at_boot):
        return
    if others and others[-1].path == LAST_FILE:
        yield Note(messages.LAST_AT_BOOT.text(path=LAST_FILE))
        yield _changed_line(host, LAST_FILE, others[-1].line_number, united | at_boot)
        return
    here = ours_after(others[-1].path if others else None)
    earlier = [path for path in OURS if host.exists(path)]
    mine = [_own(host, path) for path in earlier]
    for path in earlier:
        if path != here:
            yield RemoveFile(path)
    all_of_it = functools.reduce(PortRanges.__or__, mine, united | at_boot)
    yield WriteFile(here, _content(all_of_it, kernel.reserved, at_boot, wanted), 0o644)


def _wanted_ports(asked: ReservePorts, ports: HcclPorts | None) -> PortRanges:
    if asked.ports:
        return _parse(asked.ports, "ports")
    if ports is None:
        raise Unavailable(messages.PORTS_UNKNOWN.text())
    if ports.automatic:
        raise Refused(messages.KERNEL_CHOOSES.text(source=ports.source))
    return ports.possible


def _parse(text: str, where: str) -> PortRanges:
    try:
        return PortRanges.parse(text)
    except ParseError as problem:
        raise Refused(messages.BAD_PORTS.text(where=where, problem=problem.problem)) from problem


def _own(host: Host, path: str) -> PortRanges:
    """What a file of our own already reserves: a second range is added to the first."""
    rows = [line.partition("=")[2].strip() for line in host.read(path).splitlines() if line.startswith(KEY)]
    return _parse(rows[-1], path) if rows else PortRanges()


def _changed_line(host: Host, path: str, line_number: int, ports: PortRanges) -> WriteFile:
    lines = host.read(path).splitlines(keepends=True)
    lines[line_number - 1] = f"{KEY} = {ports}\n"
    return WriteFile(path, "".join(lines))


def _content(united: PortRanges, now: PortRanges, at_boot: PortRanges, wanted: PortRanges) -> str:
    parts = [("HCCL's host ports", wanted), ("reserved before, in the kernel", now - wanted)]
    parts.append(("reserved before, by a file in force at boot", at_boot - now - wanted))
    comments = "".join(f"#   {part}: {what}\n" for what, part in parts if part.spans)
    head = "# Written by npudoctor; undo with `npudoctor undo`. Outgoing connections get none of these ports:\n"
    return f"{head}{comments}{KEY} = {united}\n"
