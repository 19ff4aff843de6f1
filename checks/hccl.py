"""The host ports of HCCL: well formed, and kept from other programs, now and after a reboot."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.network.hccl import BASE_PORT, HOST_RANGE, NPU_RANGE, HcclPorts, parse_base_port, parse_port_list
from npudoctor.facts.network.ports import LAST_PORT, RANGE_FILE, RESERVED_FILE, KernelPorts, PortRanges
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import DriverStack, SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.sysctl import LAST_FILE, OURS, Setting, SysctlFiles, ours_after
from npudoctor.sdk import Evidence, Finding, FixOffer, NotApplicable, ParseError, Severity, Unavailable, check

from ._owners import need_several
from ._places import start_again
from .messages import hccl as messages
from .messages import places

RESERVE = "hccl.reserve-ports"
KEY = "net.ipv4.ip_local_reserved_ports"


@check("hccl.base-port", requires=(SoftwareStack,), fix="env.profile")
def port_variables_are_legal(environment: JobEnvironment, ports: HcclPorts | None) -> Iterator[Finding]:
    """HCCL port variables valid.

    HCCL reads them when a communicator is created, and aborts with EI0001 if a value is not valid.
    """
    for name in (HOST_RANGE, NPU_RANGE):
        yield from _port_list(name, environment.get(name, ""))
    base = environment.non_empty(BASE_PORT)
    if base is not None:
        yield from _base_port(base, ports, overruled=bool(environment.get(HOST_RANGE, "").strip()))
    yield from _one_side(environment)


def _one_side(environment: JobEnvironment) -> Iterator[Finding]:
    """Ranges are for several processes on one NPU, which need them on both sides."""
    there = [name for name in (HOST_RANGE, NPU_RANGE) if environment.get(name, "").strip()]
    if len(there) != 1 or any(one.severity is Severity.ERROR for one in _port_list(there[0], environment[there[0]])):
        return
    other = NPU_RANGE if there == [HOST_RANGE] else HOST_RANGE
    commands = (f"export {other}=auto", f"unset {there[0]}")
    evidence = (Evidence(source=there[0], actual=environment[there[0]]), Evidence(source=other, actual="not set"))
    if other == NPU_RANGE:
        yield messages.NPU_RANGE_MISSING.finding(
            name=other,
            other=there[0],
            port=knowledge.hccl().ports.device,
            commands=commands,
            evidence=evidence,
        )
    else:
        yield messages.HOST_RANGE_MISSING.finding(name=other, other=there[0], commands=commands, evidence=evidence)


def _port_list(name: str, text: str) -> Iterator[Finding]:
    try:
        listed = parse_port_list(text)
    except ParseError as problem:
        yield _invalid_finding(name, text, problem.problem, messages.PORT_LIST.text())
        return
    if system := listed & PortRanges.of((1, 1023)):
        expected = messages.FROM_TO.text(first=1024, last=LAST_PORT)
        yield messages.SYSTEM_PORTS.finding(
            name=name, ports=system, evidence=(Evidence(source=name, expected=expected, actual=text),)
        )


def _base_port(text: str, ports: HcclPorts | None, *, overruled: bool) -> Iterator[Finding]:
    known = knowledge.hccl().ports
    try:
        base = parse_base_port(text)
    except ParseError as problem:
        expected = messages.PORT_FROM_TO.text(first=known.base_min, last=known.base_max)
        yield _invalid_finding(BASE_PORT, text, problem.problem, expected)
        return
    if overruled:
        yield messages.BASE_PORT_OVERRIDDEN.finding(
            name=BASE_PORT, value=text, other=HOST_RANGE, evidence=(Evidence(source=BASE_PORT, actual=text),)
        )
        return
    room = LAST_PORT - base + 1
    if ports is not None and ports.count is not None and room < ports.count:
        past = messages.PAST_THE_LAST.text(count=ports.count, last=LAST_PORT)
        yield _invalid_finding(BASE_PORT, text, past, messages.AT_MOST.text(most=LAST_PORT - ports.count + 1))
    elif room < known.full_count:
        most = messages.AT_MOST.text(most=LAST_PORT - known.full_count + 1)
        yield messages.BASE_PORT_HIGH.finding(
            name=BASE_PORT,
            value=text,
            count=known.full_count,
            release=known.full_from_cann,
            evidence=(Evidence(source=BASE_PORT, expected=most, actual=text),),
        )


def _invalid_finding(name: str, value: str, problem: str, expected: str) -> Finding:
    return messages.PORTS_INVALID.finding(
        name=name,
        problem=problem,
        commands=(f"unset {name}",),
        evidence=(Evidence(source=name, expected=expected, actual=value),),
        fix=FixOffer(id="env.profile", params={"unset": [name]}),
    )


def _at_risk(ports: HcclPorts, kernel: KernelPorts) -> tuple[PortRanges, PortRanges]:
    """The ports that an outgoing connection may be given: those that HCCL certainly uses, and all that it may use."""
    if ports.automatic:
        raise NotApplicable(messages.KERNEL_CHOOSES.text(source=ports.source))
    return ports.certain & kernel.ephemeral, ports.possible & kernel.ephemeral


@check("hccl.ports-reserved", requires=(DriverStack,), after=("hccl.base-port",), fix="hccl.reserve-ports")
def ports_are_reserved(
    kernel: KernelPorts, ports: HcclPorts, cards: Chips, container: Container | None, files: SysctlFiles | None
) -> Iterator[Finding]:
    """HCCL ports reserved.

    The kernel otherwise hands them out to outgoing connections, and the next job fails to bind them: EJ0003, EI0019.
    """
    need_several(cards, container)
    certain, possible = _at_risk(ports, kernel)
    missing = certain - kernel.reserved or possible - kernel.reserved
    if not possible:
        yield messages.RESERVATION_NOT_NEEDED.finding(
            ports=ports.possible,
            ephemeral=kernel.ephemeral,
            evidence=(Evidence(source=RANGE_FILE, actual=str(kernel.ephemeral)),),
        )
    elif missing:
        yield _unreserved_finding(missing, bool(missing & certain), ports, kernel, container, files)


def _unreserved_finding(
    missing: PortRanges,
    certain: bool,
    ports: HcclPorts,
    kernel: KernelPorts,
    container: Container | None,
    files: SysctlFiles | None,
) -> Finding:
    own_network = container is not None and container.host_network is not True
    united = kernel.reserved | ports.possible
    commands: tuple[str, ...] = _reserve(united, files if container is None else None)
    hint = None
    if container is None and certain and ports.possible != ports.certain:
        hint = messages.RESERVE_FOR_LATER_CANN.text(ports=ports.possible, certain=ports.certain)
    if container is not None and own_network:
        change = start_again(
            container,
            f"--sysctl {KEY}={united}",
            pod=places.POD_PORTS.text(key=KEY, value=united),
            request=places.SEND_PORTS.text(key=KEY, value=united),
        )
        hint, commands = change.hint or messages.RESERVE_AT_START.text(), change.commands
    elif container is not None:
        hint = messages.RESERVE_ON_HOST.text()
    expected = ports.certain if certain else ports.possible
    return messages.UNRESERVED.finding(
        ports=missing,
        severity=None if certain and not own_network else Severity.INFO,
        detail=None if certain else messages.UNRESERVED_FOR_LATER_CANN.text(),
        hint=hint,
        commands=commands,
        evidence=(
            Evidence(source=RESERVED_FILE, expected=str(expected), actual=str(kernel.reserved)),
            Evidence(source=RANGE_FILE, actual=str(kernel.ephemeral)),
            Evidence(source=messages.HOST_PORTS.text(), actual=ports.source),
        ),
        fix=None if container is not None else _offer(ports),
    )


def _offer(ports: HcclPorts) -> FixOffer:
    return FixOffer(id=RESERVE, params={"ports": str(ports.possible)})


def _reserve(united: PortRanges, files: SysctlFiles | None) -> tuple[str, str]:
    """The commands that reserve ports now and for the next boot, there in the file that has the last word."""
    now = f"sudo sysctl -w {KEY}={united}"
    others = [one for one in (files.of(KEY) if files else ()) if one.path not in OURS]
    last = others[-1] if others else None
    if last is not None and last.path == LAST_FILE:
        return now, f"sudo sed -i '{last.line_number}s/.*/{KEY} = {united}/' {last.path}"
    return now, f"echo '{KEY} = {united}' | sudo tee {ours_after(last.path if last else None)}"


@check(
    "hccl.ports-persistent",
    requires=(DriverStack,),
    after=("hccl.base-port", "hccl.ports-reserved"),
    fix="hccl.reserve-ports",
)
def reservation_survives_a_reboot(
    kernel: KernelPorts, ports: HcclPorts, files: SysctlFiles, cards: Chips, container: Container | None
) -> Iterator[Finding]:
    """HCCL port reservation kept after a reboot.

    A setting made with `sysctl -w` alone is lost then, and the error of the next job does not point to it.
    """
    if container is not None:
        raise NotApplicable(messages.SYSCTL_OF_CONTAINER.text())
    need_several(cards, container)
    needed, _ = _at_risk(ports, kernel)
    if not needed:
        raise NotApplicable(messages.NOTHING_TO_RESERVE.text())
    if needed - kernel.reserved:
        raise Unavailable(messages.NOT_RESERVED_NOW.text(), blocked_by="hccl.ports-reserved")
    settings = files.of(KEY)
    reserved, problem = _after_reboot(settings)
    missing = needed - reserved
    if not missing:
        yield from _overridden_owner(settings, reserved, ports)
        return
    if files.unreadable:
        raise Unavailable(messages.UNREADABLE.text(path=files.unreadable[0]))
    yield messages.LOST_AT_REBOOT.finding(
        ports=missing,
        detail=problem,
        commands=_reserve(kernel.reserved | reserved | ports.possible, files)[1:],
        evidence=(
            Evidence(source=RESERVED_FILE, actual=str(kernel.reserved)),
            *(Evidence(source=f"{one.path}:{one.line_number}", actual=one.value) for one in settings),
        ),
        fix=_offer(ports),
    )


def _overridden_owner(settings: tuple[Setting, ...], reserved: PortRanges, ports: HcclPorts) -> Iterator[Finding]:
    """What the file of somebody else has reserved since npudoctor's own file, which is read after it, was written."""
    others = [one for one in settings if one.path not in OURS]
    if not others or settings[-1].path not in OURS:
        return
    theirs, mine = others[-1], settings[-1]
    try:
        lost = PortRanges.parse(theirs.value) - reserved
    except ParseError:
        return
    if lost:
        yield messages.OWNER_CHANGED.finding(
            ports=lost,
            path=theirs.path,
            ours=mine.path,
            commands=(f"npudoctor fix {RESERVE}",),
            evidence=tuple(
                Evidence(source=f"{one.path}:{one.line_number}", actual=one.value) for one in (theirs, mine)
            ),
            fix=_offer(ports),
        )


def _after_reboot(settings: tuple[Setting, ...]) -> tuple[PortRanges, str]:
    """What the files reserve at boot, and what is wrong with how they do it."""
    if not settings:
        return PortRanges(), messages.RUNNING_KERNEL_ONLY.text()
    last = settings[-1]
    line, path = last.line_number, last.path
    try:
        reserved = PortRanges.parse(last.value)
    except ParseError as problem:
        return PortRanges(), messages.REJECTED_AT_BOOT.text(line=line, path=path, problem=problem.problem)
    if len(settings) > 1:
        return reserved, messages.OVERRIDDEN_AT_BOOT.text(line=line, path=path, other=settings[-2].path)
    return reserved, messages.LESS_AT_BOOT.text(line=line, path=path)
