"""The network interface that HCCL takes on the host, and those of gloo and tensorpipe beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npudoctor.facts.network.hccl import IF_IP, IFNAME, Choice, NameRule, candidates, chosen, family_of
from npudoctor.facts.network.interfaces import Interface, Interfaces, Routes, parse_address
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Evidence, Finding, FixOffer, ParseError, Severity, Unavailable, check

OTHERS = {"GLOO_SOCKET_IFNAME": Severity.ERROR, "TP_SOCKET_IFNAME": Severity.WARNING}
"""What gloo and tensorpipe read, and how bad a wrong name in it is."""


@check("hccl.interface", requires=(SoftwareStack,), fix="env.profile")
def interface_is_usable(
    environment: JobEnvironment, interfaces: Interfaces, cluster: Cluster | None, routes: Routes | None
) -> Iterator[Finding]:
    """HCCL takes a network interface that is up and leads to the other nodes.

    Ranks meet over the host's network before they talk over the cards': on the wrong interface they wait for each
    other until HCCL_CONNECT_TIMEOUT, and end with EI0006 or EI0015.
    """
    if not interfaces.interfaces:
        raise Unavailable("no network interface is known here")
    address, rule = environment.filled(IF_IP), environment.filled(IFNAME)
    choice = chosen(environment, interfaces)
    several = cluster is not None and cluster.several
    if address is not None:
        yield from _by_address(address, choice, interfaces, several)
        if rule is not None:
            yield _info(f"{IFNAME}={rule} has no effect: {IF_IP} is set and goes before it", IFNAME, rule)
    elif rule is not None:
        yield from _by_rule(rule, choice, interfaces, several)
    else:
        yield from _by_default(choice, candidates(interfaces, family_of(environment)), interfaces, cluster, routes)
    for name, severity in OTHERS.items():
        if value := environment.filled(name):
            yield from _beside(name, value, choice, interfaces, severity, several)


def _listing(interfaces: Iterable[Interface]) -> str:
    """Interfaces with their addresses in one line."""
    return ", ".join(
        " ".join([one.name, *(str(own.ip) for own in one.addresses)]) + ("" if one.up else " (down)")
        for one in interfaces
    )


def _names(interfaces: Iterable[Interface]) -> str:
    return ", ".join(one.name for one in interfaces)


def _info(summary: str, source: str, value: str) -> Finding:
    return Finding(severity=Severity.INFO, summary=summary, evidence=(Evidence(source=source, actual=value),))


def _wrong(name: str, value: str, problem: str, expected: str, detail: str, interfaces: Interfaces) -> Finding:
    return Finding(
        summary=f"{name}={value} {problem}",
        detail=detail,
        hint="Correct it for this node, or unset it and let HCCL choose.",
        commands=("ip -brief address", *_exports(candidates(interfaces)[:1]), f"unset {name}"),
        evidence=(
            Evidence(source=name, expected=expected, actual=value),
            Evidence(source="network interfaces", actual=_listing(interfaces.interfaces)),
        ),
        fix=FixOffer(id="env.profile", params={"unset": [name]}),
        pitfall="P016",
    )


def _exports(interfaces: Iterable[Interface]) -> list[str]:
    """The line that has HCCL, gloo and tensorpipe take an interface; HCCL's first = asks for the whole name."""
    return [
        f"export {IFNAME}=={one.name} GLOO_SOCKET_IFNAME={one.name} TP_SOCKET_IFNAME={one.name}" for one in interfaces
    ]


def _by_address(text: str, choice: Choice | None, interfaces: Interfaces, several: bool) -> Iterator[Finding]:
    detail = "HCCL looks for this very address, finds it on no interface, and aborts: EI0001."
    if parse_address(text) is None:
        yield _wrong(IF_IP, text, "is no IP address", "one address of this node", detail, interfaces)
    elif choice is None:
        problem = "is no address of this node"
        detail += " Such a value is often copied from another node."
        yield _wrong(IF_IP, text, problem, "one address of this node", detail, interfaces)
    elif not choice.interface.up:
        problem = f"is the address of {choice.interface.name}, which is down"
        yield _wrong(IF_IP, text, problem, "an address of an interface that is up", detail, interfaces)
    elif choice.address.is_loopback:
        yield _loopback(IF_IP, text, "is the loopback", interfaces, several)


def _loopback(name: str, text: str, problem: str, interfaces: Interfaces, several: bool) -> Finding:
    """The ranks of one node may meet on it; nobody else ever will."""
    detail = "The other nodes cannot reach it and wait for this one until their time is up: EI0006, EI0015."
    found = _wrong(name, text, problem, "an interface that leads to other nodes", detail, interfaces)
    if several:
        return found
    alone = "Ranks of this one node meet on it; a job of several nodes waits until its time is up: EI0006, EI0015."
    return found.model_copy(update={"severity": Severity.WARNING, "detail": alone})


def _by_rule(text: str, choice: Choice | None, interfaces: Interfaces, several: bool) -> Iterator[Finding]:
    detail = "HCCL finds no interface by it and aborts: EI0001, `set ifname to … but not found in the environment`."
    try:
        rule = NameRule.parse(text)
    except ParseError:
        yield _wrong(IFNAME, text, "names no interface", "eth, =eth0, ^docker or ^=docker0", detail, interfaces)
        return
    if text != text.strip():
        problem = "begins or ends with a blank"
        detail = f"HCCL takes the blank for a part of the name, and then for none of this node's. {detail}"
        yield _wrong(IFNAME, repr(text), problem, repr(text.strip()), detail, interfaces)
        return
    taken = [one for one in interfaces.interfaces if rule.takes(one.name)]
    if choice is None:
        problem = f"selects {_names(taken)}, without address or down" if taken else "selects no interface of this node"
        yield _wrong(IFNAME, text, problem, "an interface that is up and has an address", detail, interfaces)
        return
    usable = [one for one in taken if one.up and one.addresses]
    if choice.interface.loopback and (rule.inverted or several or not text.strip("=, ").startswith("lo")):
        yield _loopback(IFNAME, text, f"leaves only the loopback ({choice.interface.name})", interfaces, several)
        return
    if len(usable) > 1 and not rule.inverted:
        summary = f"{IFNAME}={text} selects {_names(usable)}; HCCL takes {choice.interface.name}"
        yield _info(summary, IFNAME, text)


def _by_default(
    choice: Choice | None,
    usable: tuple[Interface, ...],
    interfaces: Interfaces,
    cluster: Cluster | None,
    routes: Routes | None,
) -> Iterator[Finding]:
    evidence = Evidence(source="network interfaces", actual=_listing(interfaces.interfaces))
    if choice is None:
        yield Finding(
            summary="no network interface is up and has an address",
            detail="Ranks meet over the host's network, even those of one node: HCCL aborts without an address.",
            hint="Bring an interface up; the loopback is enough for one node.",
            commands=("ip -brief address", "sudo ip link set lo up"),
            evidence=(evidence,),
            pitfall="P016",
        )
        return
    name = choice.interface.name
    if cluster is not None and cluster.several:
        way = _way(cluster, interfaces, routes)
        if (way is not None and way != name) or (way is None and choice.interface not in usable):
            yield _off_the_way(choice, way, usable, cluster, evidence)
        return
    if len(usable) > 1 or (usable and choice.interface not in usable):
        yield Finding(
            severity=Severity.INFO,
            summary=f"HCCL takes {name} ({choice.address}): {IFNAME} is not set, and it is the first by name",
            hint="One node works with any of them; for several nodes name the one that leads to the others.",
            commands=tuple(_exports(usable[:1])),
            evidence=(evidence,),
        )


def _way(cluster: Cluster, interfaces: Interfaces, routes: Routes | None) -> str | None:
    """The interface that leads to rank 0's node; None where that is not known."""
    if cluster.master is None:
        return None
    leading = interfaces.holding(cluster.master) or interfaces.beside(cluster.master)
    if leading is not None:
        return leading.name
    return routes.to(cluster.master) if routes else None


def _off_the_way(
    choice: Choice, way: str | None, usable: tuple[Interface, ...], cluster: Cluster, evidence: Evidence
) -> Finding:
    name = choice.interface.name
    leads = f"the way to {cluster.master} is {way}" if way else "it leads to no other node"
    better = [one for one in usable if one.name == way] or list(usable[:1])
    source, value = cluster.evidence or ("the job", "several nodes")
    return Finding(
        severity=Severity.WARNING,
        summary=f"HCCL takes {name} ({choice.address}), but {leads}",
        detail=f"Several nodes are configured ({source}: {value}), and {IFNAME} is not set: HCCL takes the first "
        "interface by name. Ranks then wait for each other until their time is up: EI0006, EI0015.",
        hint="Name the interface that leads to the other nodes.",
        commands=tuple(_exports(better)),
        evidence=(evidence,),
        fix=FixOffer(id="env.profile", params={"set": {IFNAME: f"={better[0].name}"}}) if better else None,
        pitfall="P016",
    )


def _beside(
    name: str, text: str, choice: Choice | None, interfaces: Interfaces, severity: Severity, several: bool
) -> Iterator[Finding]:
    """What gloo or tensorpipe would take: every name of the list must be there, and agree with HCCL's."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    found = {part: interfaces.named(part) for part in wanted}
    bad = [part for part, one in found.items() if one is None or not one.up or not one.addresses]
    if bad or not wanted:
        missing = [part for part in bad if found[part] is None]
        problem = f"names {bad[0]}, which is down or has no address" if bad else "names no interface"
        if missing:
            problem = f"names {missing[0]}, which this node does not have"
            problem += " (the signs = and ^ are HCCL's alone)" if missing[0][0] in "=^" else ""
        yield Finding(
            severity=severity,
            summary=f"{name}={text} {problem}",
            detail="Groups with the gloo backend, or remote calls, fail to connect: `connectFullMesh failed`.",
            hint="Name the same interface as for HCCL, without signs.",
            commands=(f"export {name}={choice.interface.name}" if choice else "ip -brief address", f"unset {name}"),
            evidence=(
                Evidence(source=name, expected="an interface that is up and has an address", actual=text),
                Evidence(source="network interfaces", actual=_listing(interfaces.interfaces)),
            ),
            fix=FixOffer(id="env.profile", params={"unset": [name]}),
            pitfall="P016",
        )
    elif choice is not None and choice.interface.name not in wanted:
        yield Finding(
            severity=Severity.WARNING if several else Severity.INFO,
            summary=f"{name}={text}, but HCCL takes {choice.interface.name}",
            hint="Let both take the interface that leads to the other nodes.",
            commands=(f"export {name}={choice.interface.name}",) if several else (),
            evidence=(Evidence(source=name, expected=choice.interface.name, actual=text),),
        )
