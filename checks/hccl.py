"""The host ports of HCCL: well formed, and kept from other programs, now and after a reboot."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.network.hccl import BASE_PORT, HOST_RANGE, NPU_RANGE, HcclPorts, parse_base_port, parse_port_list
from npudoctor.facts.network.ports import LAST_PORT, RANGE_FILE, RESERVED_FILE, KernelPorts, PortRanges
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import DriverStack, SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.sysctl import LAST_FILE, Setting, SysctlFiles
from npudoctor.sdk import Evidence, Finding, FixOffer, NotApplicable, ParseError, Severity, Unavailable, check

from ._owners import need_several

KEY = "net.ipv4.ip_local_reserved_ports"
OUR_FILE = "/etc/sysctl.d/99-npudoctor-hccl.conf"


@check("hccl.base-port", requires=(SoftwareStack,), fix="env.profile")
def port_variables_are_legal(environment: JobEnvironment, ports: HcclPorts | None) -> Iterator[Finding]:
    """HCCL's port variables are well formed and in range.

    HCCL reads them when a communicator is made, and aborts with EI0001 where it cannot.
    """
    for name in (HOST_RANGE, NPU_RANGE):
        yield from _port_list(name, environment.get(name, ""))
    base = environment.filled(BASE_PORT)
    if base is not None:
        yield from _base_port(base, ports, overruled=bool(environment.get(HOST_RANGE, "").strip()))
    yield from _one_side(environment)


def _one_side(environment: JobEnvironment) -> Iterator[Finding]:
    """Ranges are for several processes on one card, which need them on both sides."""
    there = [name for name in (HOST_RANGE, NPU_RANGE) if environment.get(name, "").strip()]
    if len(there) != 1 or any(one.severity is Severity.ERROR for one in _port_list(there[0], environment[there[0]])):
        return
    other, side = (NPU_RANGE, "on the cards' own network") if there == [HOST_RANGE] else (HOST_RANGE, "on the host")
    device = knowledge.hccl().ports.device
    takes = f"port {device}" if other == NPU_RANGE else "HCCL's usual ports"
    yield Finding(
        severity=Severity.INFO,
        summary=f"{there[0]} is set and {other} is not: {side} every process takes {takes}",
        hint="Several processes on one card need both, the same on all ranks; one process on each card needs neither.",
        commands=(f"export {other}=auto", f"unset {there[0]}"),
        evidence=(Evidence(source=there[0], actual=environment[there[0]]), Evidence(source=other, actual="not set")),
        pitfall="P023",
    )


def _port_list(name: str, text: str) -> Iterator[Finding]:
    try:
        listed = parse_port_list(text)
    except ParseError as problem:
        yield _illegal(name, text, problem.problem, "ports and ranges such as 60000,60050-60100, or auto")
        return
    if system := listed & PortRanges.of((1, 1023)):
        yield Finding(
            severity=Severity.WARNING,
            summary=f"{name} names ports that belong to the system: {system}",
            detail="Only root may listen below 1024, and services of the system do.",
            hint="Use ports from 1024 on.",
            evidence=(Evidence(source=name, expected="1024 to 65535", actual=text),),
            pitfall="P048",
        )


def _base_port(text: str, ports: HcclPorts | None, *, overruled: bool) -> Iterator[Finding]:
    known = knowledge.hccl().ports
    try:
        base = parse_base_port(text)
    except ParseError as problem:
        yield _illegal(BASE_PORT, text, problem.problem, f"a number from {known.base_min} to {known.base_max}")
        return
    if overruled:
        yield Finding(
            severity=Severity.INFO,
            summary=f"{BASE_PORT}={text} has no effect: {HOST_RANGE} is set and goes before it",
            evidence=(Evidence(source=BASE_PORT, actual=text),),
        )
        return
    room = LAST_PORT - base + 1
    if ports is not None and ports.count is not None and room < ports.count:
        problem_text = f"the {ports.count} ports that this CANN takes run past {LAST_PORT}"
        yield _illegal(BASE_PORT, text, problem_text, f"at most {LAST_PORT - ports.count + 1}")
    elif room < known.full_count:
        yield Finding(
            severity=Severity.INFO,
            summary=f"{BASE_PORT}={text} leaves no room for the {known.full_count} ports of CANN "
            f"{known.full_from_cann} and later",
            evidence=(Evidence(source=BASE_PORT, expected=f"at most {LAST_PORT - known.full_count + 1}", actual=text),),
        )


def _illegal(name: str, value: str, problem: str, expected: str) -> Finding:
    return Finding(
        summary=f"{name} is not legal: {problem}",
        detail="HCCL refuses it when the first communicator is made: EI0001, and the job ends.",
        hint="Correct the variable, or unset it for HCCL's default.",
        commands=(f"unset {name}",),
        evidence=(Evidence(source=name, expected=expected, actual=value),),
        fix=FixOffer(id="env.profile", params={"unset": [name]}),
        pitfall="P048",
    )


def _at_risk(ports: HcclPorts, kernel: KernelPorts) -> tuple[PortRanges, PortRanges]:
    """The ports that an outgoing connection may be given: those that HCCL certainly takes, and all that it may take."""
    if ports.automatic:
        raise NotApplicable(f"the kernel chooses HCCL's ports: {ports.source}")
    return ports.certain & kernel.ephemeral, ports.possible & kernel.ephemeral


@check("hccl.ports-reserved", requires=(DriverStack,), after=("hccl.base-port",), fix="hccl.reserve-ports")
def ports_are_reserved(
    kernel: KernelPorts, ports: HcclPorts, cards: Chips, container: Container | None, files: SysctlFiles | None
) -> Iterator[Finding]:
    """The kernel keeps HCCL's host ports from outgoing connections.

    Any program's connection may otherwise be given one of them, and the next job fails to bind it: EJ0003, EI0019.
    """
    need_several(cards, container)
    certain, possible = _at_risk(ports, kernel)
    missing = certain - kernel.reserved or possible - kernel.reserved
    if not possible:
        yield Finding(
            severity=Severity.INFO,
            summary=f"HCCL's ports {ports.possible} need no reservation: outgoing connections use {kernel.ephemeral}",
            evidence=(Evidence(source=RANGE_FILE, actual=str(kernel.ephemeral)),),
        )
    elif missing:
        yield _unreserved(missing, bool(missing & certain), ports, kernel, container, files)


def _unreserved(
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
    if own_network:
        hint = "This network is the container's own: reserve them at its start (a pod: securityContext.sysctls)."
        commands = (f"docker run --sysctl {KEY}={united} …",)
    elif container is not None:
        hint = "Not mendable in here: this container shares its host's network; root has to reserve them on the host."
    else:
        hint = "Reserve them, now and for the next boot."
    detail = (
        "An outgoing connection of any program may be given one of these ports; the next job then fails to bind it "
        "(EJ0003, EI0019)."
    )
    if not certain:
        detail += " This CANN takes 16 ports by its documents; those of later releases name 32."
    expected = ports.certain if certain else ports.possible
    return Finding(
        severity=Severity.WARNING if certain and not own_network else Severity.INFO,
        summary=f"HCCL's ports {missing} are not reserved",
        detail=detail,
        hint=hint,
        commands=commands,
        evidence=(
            Evidence(source=RESERVED_FILE, expected=str(expected), actual=str(kernel.reserved)),
            Evidence(source=RANGE_FILE, actual=str(kernel.ephemeral)),
            Evidence(source="HCCL's host ports", actual=ports.source),
        ),
        fix=None if container is not None else _offer(ports),
        pitfall="P003",
    )


def _offer(ports: HcclPorts) -> FixOffer:
    return FixOffer(id="hccl.reserve-ports", params={"ports": str(ports.possible)})


def _reserve(united: PortRanges, files: SysctlFiles | None) -> tuple[str, str]:
    """The commands that reserve ports now and for the next boot, there in the file that has the last word."""
    now = f"sudo sysctl -w {KEY}={united}"
    settings = files.of(KEY) if files else ()
    last = settings[-1] if settings else None
    if last is None or (last.path != LAST_FILE and posixpath.basename(last.path) < posixpath.basename(OUR_FILE)):
        return now, f"echo '{KEY} = {united}' | sudo tee {OUR_FILE}"
    return now, f"sudo sed -i '{last.line_number}s/.*/{KEY} = {united}/' {last.path}"


@check(
    "hccl.ports-persistent",
    requires=(DriverStack,),
    after=("hccl.base-port", "hccl.ports-reserved"),
    fix="hccl.reserve-ports",
)
def reservation_survives_a_reboot(
    kernel: KernelPorts, ports: HcclPorts, files: SysctlFiles, cards: Chips, container: Container | None
) -> Iterator[Finding]:
    """The reservation of HCCL's ports is also in force after a reboot.

    A setting made with `sysctl -w` alone is gone then, and the job that fails next month gives no hint of it.
    """
    if container is not None:
        raise NotApplicable("the sysctl files of a container say nothing about its host")
    need_several(cards, container)
    needed, _ = _at_risk(ports, kernel)
    if not needed:
        raise NotApplicable("HCCL's ports need no reservation")
    if needed - kernel.reserved:
        raise Unavailable("the ports are not reserved now", blocked_by="hccl.ports-reserved")
    settings = files.of(KEY)
    reserved, problem = _after_reboot(settings)
    missing = needed - reserved
    if not missing:
        return
    if files.unreadable:
        raise Unavailable(f"{files.unreadable[0]} cannot be read by this user")
    yield Finding(
        severity=Severity.WARNING,
        summary=f"the reservation of HCCL's ports {missing} is gone after a reboot",
        detail=problem,
        hint="Write it where the next boot finds it.",
        commands=_reserve(kernel.reserved | reserved | ports.possible, files)[1:],
        evidence=(
            Evidence(source=RESERVED_FILE, actual=str(kernel.reserved)),
            *(Evidence(source=f"{one.path}:{one.line_number}", actual=one.value) for one in settings),
        ),
        fix=_offer(ports),
        pitfall="P003",
    )


def _after_reboot(settings: tuple[Setting, ...]) -> tuple[PortRanges, str]:
    """What the files reserve at boot, and what is wrong with how they do it."""
    if not settings:
        return PortRanges(), "It was made in the running kernel only; no file in force at boot repeats it."
    last = settings[-1]
    where = f"Line {last.line_number} of {last.path} has the last word at boot"
    try:
        reserved = PortRanges.parse(last.value)
    except ParseError as problem:
        return PortRanges(), f"{where}, and the kernel refuses it: {problem.problem}."
    if len(settings) > 1:
        return reserved, f"{where}, and undoes what {settings[-2].path} reserves."
    return reserved, f"{where}, and reserves less than is reserved now."
