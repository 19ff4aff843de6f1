"""Reserves HCCL's host ports in the kernel, now and after a reboot."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.network.ports import KernelPorts, PortRanges
from npudoctor.facts.system.sysctl import LAST_FILE, SysctlFiles
from npudoctor.records import record
from npudoctor.sdk import (
    Host,
    Note,
    Parameters,
    ParseError,
    Refused,
    Risk,
    SetSysctl,
    Step,
    Unavailable,
    WriteFile,
    fix,
)

from . import messages

KEY = "net.ipv4.ip_local_reserved_ports"
OUR_FILE = "/etc/sysctl.d/99-npudoctor-hccl.conf"


@record(frozen=True)
class ReservePorts(Parameters):
    """`ports` are those to reserve, as in 60000-60031; empty for all that HCCL may use."""

    ports: str = ""


@fix("hccl.reserve-ports", resolves=("hccl.ports-reserved", "hccl.ports-persistent"), risk=Risk.SAFE, root=True)
def reserve_ports(
    asked: ReservePorts, host: Host, kernel: KernelPorts, ports: HcclPorts | None, files: SysctlFiles
) -> Iterator[Step | Note]:
    """Reserve HCCL ports, now and for the next boot.

    The range is added to the ports that are already reservedby anyone; none of them is released.
    """
    wanted = _wanted(asked, ports)
    assigned = [one for one in files.of(KEY) if one.path != OUR_FILE]
    at_boot = _parsed(assigned[-1].value, assigned[-1].path) if assigned else PortRanges()
    ours = _own(host)
    united = kernel.reserved | wanted
    yield SetSysctl(KEY, str(united))
    last = files.of(KEY)[-1] if files.of(KEY) else None
    if last is not None and PortRanges.parse(last.value).covers(united | at_boot):
        return
    later = assigned[-1] if assigned else None
    if later is not None and (later.path == LAST_FILE or _comes_after(later.path)):
        yield Note(messages.LAST_AT_BOOT.text(path=later.path))
        yield _changed(host, later.path, later.line_number, united | at_boot)
    yield WriteFile(OUR_FILE, _content(united | at_boot | ours, kernel.reserved, at_boot, wanted), 0o644)


def _wanted(asked: ReservePorts, ports: HcclPorts | None) -> PortRanges:
    if asked.ports:
        return _parsed(asked.ports, "ports")
    if ports is None:
        raise Unavailable(messages.PORTS_UNKNOWN.text())
    if ports.automatic:
        raise Refused(messages.KERNEL_CHOOSES.text(source=ports.source))
    return ports.possible


def _parsed(text: str, where: str) -> PortRanges:
    try:
        return PortRanges.parse(text)
    except ParseError as problem:
        raise Refused(messages.BAD_PORTS.text(where=where, problem=problem.problem)) from problem


def _own(host: Host) -> PortRanges:
    """What our own file already reserves: a second range is added to the first."""
    if not host.exists(OUR_FILE):
        return PortRanges()
    rows = [line.partition("=")[2].strip() for line in host.read(OUR_FILE).splitlines() if line.startswith(KEY)]
    return _parsed(rows[-1], OUR_FILE) if rows else PortRanges()


def _comes_after(path: str) -> bool:
    return posixpath.basename(path) > posixpath.basename(OUR_FILE)


def _changed(host: Host, path: str, line_number: int, ports: PortRanges) -> WriteFile:
    lines = host.read(path).splitlines(keepends=True)
    lines[line_number - 1] = f"{KEY} = {ports}\n"
    return WriteFile(path, "".join(lines))


def _content(united: PortRanges, now: PortRanges, at_boot: PortRanges, wanted: PortRanges) -> str:
    parts = [("HCCL's host ports", wanted), ("reserved before, in the kernel", now - wanted)]
    parts.append(("reserved before, by a file in force at boot", at_boot - now - wanted))
    comments = "".join(f"#   {part}: {what}\n" for what, part in parts if part.spans)
    head = "# Written by npudoctor; undo with `npudoctor undo`. Outgoing connections get none of these ports:\n"
    return f"{head}{comments}{KEY} = {united}\n"
