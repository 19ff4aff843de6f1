"""The network interface that HCCL uses on the host, and those of gloo and tensorpipe beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from npudoctor.facts.cann.startup_files import StartupFiles
from npudoctor.facts.network.hccl import IF_IP, IFNAME, Choice, NameRule, candidates, chosen, family_of
from npudoctor.facts.network.interfaces import Interface, Interfaces, Routes, parse_address
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Evidence, Finding, FixOffer, Message, ParseError, Severity, Unavailable, check

from ._setting_lines import naming_lines
from .messages import hccl as messages

OTHERS = {"GLOO_SOCKET_IFNAME": Severity.ERROR, "TP_SOCKET_IFNAME": Severity.WARNING}
"""What gloo and tensorpipe read, and how bad a wrong name in it is."""


@check("hccl.interface", requires=(SoftwareStack,), fix="env.profile")
def interface_is_usable(
    environment: JobEnvironment,
    interfaces: Interfaces,
    cluster: Cluster | None,
    routes: Routes | None,
    startup: StartupFiles | None,
) -> Iterator[Finding]:
    """HCCL network interface up and routed to the other nodes.

    Ranks meet over the host's network before they use the NPU network: on the wrong interface they wait for each other
    until HCCL_CONNECT_TIMEOUT, and end with EI0006 or EI0015.
    """
    if not interfaces.interfaces:
        raise Unavailable(messages.NO_INTERFACE_KNOWN.text())
    address, rule = environment.filled(IF_IP), environment.filled(IFNAME)
    choice = chosen(environment, interfaces)
    several = cluster is not None and cluster.several
    if address is not None:
        for found in _by_address(address, choice, interfaces, several):
            yield naming_lines(found, startup, environment, IF_IP)
        if rule is not None:
            evidence = (Evidence(source=IFNAME, actual=rule),)
            yield messages.NAME_OVERRIDDEN.finding(name=IFNAME, value=rule, other=IF_IP, evidence=evidence)
    elif rule is not None:
        yield from _by_rule(rule, choice, interfaces, several)
    else:
        yield from _by_default(choice, candidates(interfaces, family_of(environment)), interfaces, cluster, routes)
    for name, severity in OTHERS.items():
        if value := environment.filled(name):
            yield from _beside(name, value, choice, interfaces, severity, several)


def _listing(interfaces: Interfaces) -> Evidence:
    """Interfaces with their addresses in one line."""
    shown = []
    for one in interfaces.interfaces:
        text = " ".join([one.name, *(str(own.ip) for own in one.addresses)])
        shown.append(text if one.up else messages.INTERFACE_DOWN.text(interface=text))
    return Evidence(source=messages.INTERFACES.text(), actual=", ".join(shown))


def _names(interfaces: Iterable[Interface]) -> list[str]:
    return [one.name for one in interfaces]


def _wrong(message: Message, name: str, value: str, expected: str, present: Interfaces, /, **more: Any) -> Finding:
    return message.finding(
        name=name,
        value=value,
        commands=("ip -brief address", *_exports(candidates(present)[:1]), f"unset {name}"),
        evidence=(Evidence(source=name, expected=expected, actual=value), _listing(present)),
        fix=FixOffer(id="env.profile", params={"unset": [name]}),
        **more,
    )


def _exports(interfaces: Iterable[Interface]) -> list[str]:
    """The line that sets an interface for HCCL, gloo and tensorpipe; HCCL's first = asks for the whole name."""
    return [
        f"export {IFNAME}=={one.name} GLOO_SOCKET_IFNAME={one.name} TP_SOCKET_IFNAME={one.name}" for one in interfaces
    ]


def _by_address(text: str, choice: Choice | None, interfaces: Interfaces, several: bool) -> Iterator[Finding]:
    if parse_address(text) is None:
        yield _wrong(messages.ADDRESS_INVALID, IF_IP, text, messages.OWN_ADDRESS.text(), interfaces)
    elif choice is None:
        yield _wrong(messages.ADDRESS_ELSEWHERE, IF_IP, text, messages.OWN_ADDRESS.text(), interfaces)
    elif not choice.interface.up:
        up = messages.ADDRESS_THAT_IS_UP.text()
        yield _wrong(messages.ADDRESS_DOWN, IF_IP, text, up, interfaces, interface=choice.interface.name)
    elif choice.address.is_loopback:
        yield _loopback(IF_IP, text, choice, interfaces, several)


def _loopback(name: str, text: str, choice: Choice, interfaces: Interfaces, several: bool) -> Finding:
    """The ranks of one node may meet on it; other nodes cannot reach it."""
    return _wrong(
        messages.LOOPBACK,
        name,
        text,
        messages.INTERFACE_TO_OTHERS.text(),
        interfaces,
        interface=choice.interface.name,
        severity=Severity.ERROR if several else Severity.WARNING,
        detail=messages.WAITS.text() if several else messages.WAITS_WITH_SEVERAL.text(),
    )


def _by_rule(text: str, choice: Choice | None, interfaces: Interfaces, several: bool) -> Iterator[Finding]:
    try:
        rule = NameRule.parse(text)
    except ParseError:
        yield _wrong(messages.NAME_INVALID, IFNAME, text, messages.INTERFACE_NAMES.text(), interfaces)
        return
    if text != text.strip():
        yield _wrong(messages.NAME_WITH_BLANK, IFNAME, repr(text), repr(text.strip()), interfaces)
        return
    taken = [one for one in interfaces.interfaces if rule.takes(one.name)]
    if choice is None and taken:
        up = messages.INTERFACE_THAT_IS_UP.text()
        yield _wrong(messages.NAME_DOWN, IFNAME, text, up, interfaces, interfaces=_names(taken))
    elif choice is None:
        yield _wrong(messages.NAME_ELSEWHERE, IFNAME, text, messages.INTERFACE_THAT_IS_UP.text(), interfaces)
    elif choice.interface.loopback and (rule.inverted or several or not text.strip("=, ").startswith("lo")):
        yield _loopback(IFNAME, text, choice, interfaces, several)
    else:
        usable = [one for one in taken if one.up and one.addresses]
        if len(usable) > 1 and not rule.inverted:
            yield messages.SEVERAL_MATCH.finding(
                name=IFNAME,
                value=text,
                interfaces=_names(usable),
                interface=choice.interface.name,
                evidence=(Evidence(source=IFNAME, actual=text),),
            )


def _by_default(
    choice: Choice | None,
    usable: tuple[Interface, ...],
    interfaces: Interfaces,
    cluster: Cluster | None,
    routes: Routes | None,
) -> Iterator[Finding]:
    evidence = _listing(interfaces)
    if choice is None:
        commands = ("ip -brief address", "sudo ip link set lo up")
        yield messages.NO_ADDRESS.finding(commands=commands, evidence=(evidence,))
        return
    name = choice.interface.name
    if cluster is not None and cluster.several:
        route = _route(cluster, interfaces, routes)
        if (route is not None and route != name) or (route is None and choice.interface not in usable):
            yield _wrong_route(choice, route, usable, cluster, evidence)
        return
    if len(usable) > 1 or (usable and choice.interface not in usable):
        yield messages.FIRST_BY_NAME.finding(
            name=IFNAME,
            interface=name,
            address=choice.address,
            commands=tuple(_exports(usable[:1])),
            evidence=(evidence,),
        )


def _route(cluster: Cluster, interfaces: Interfaces, routes: Routes | None) -> str | None:
    """The interface that leads to rank 0's node; None where that is not known."""
    if cluster.master is None:
        return None
    leading = interfaces.holding(cluster.master) or interfaces.beside(cluster.master)
    if leading is not None:
        return leading.name
    return routes.to(cluster.master) if routes else None


def _wrong_route(
    choice: Choice, route: str | None, usable: tuple[Interface, ...], cluster: Cluster, evidence: Evidence
) -> Finding:
    better = [one for one in usable if one.name == route] or list(usable[:1])
    source, value = cluster.evidence or (messages.JOB.text(), messages.SEVERAL_NODES.text())
    common: dict[str, Any] = {
        "name": IFNAME,
        "interface": choice.interface.name,
        "address": choice.address,
        "source": source,
        "value": value,
        "commands": tuple(_exports(better)),
        "evidence": (evidence,),
        "fix": FixOffer(id="env.profile", params={"set": {IFNAME: f"={better[0].name}"}}) if better else None,
    }
    if route is None:
        return messages.NO_ROUTE.finding(**common)
    return messages.OTHER_ROUTE.finding(master=cluster.master, route=route, **common)


def _beside(
    name: str, text: str, choice: Choice | None, interfaces: Interfaces, severity: Severity, several: bool
) -> Iterator[Finding]:
    """What gloo or tensorpipe uses: every name of the list must be an interface here, and agree with HCCL's."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    found = {part: interfaces.named(part) for part in wanted}
    bad = [part for part, one in found.items() if one is None or not one.up or not one.addresses]
    expected = messages.INTERFACE_THAT_IS_UP.text()
    common: dict[str, Any] = {
        "name": name,
        "value": text,
        "severity": severity,
        "commands": (f"export {name}={choice.interface.name}" if choice else "ip -brief address", f"unset {name}"),
        "evidence": (Evidence(source=name, expected=expected, actual=text), _listing(interfaces)),
        "fix": FixOffer(id="env.profile", params={"unset": [name]}),
    }
    absent = next((part for part in bad if found[part] is None), None)
    if not wanted:
        yield messages.GLOO_EMPTY.finding(**common)
    elif absent is not None and absent[0] in "=^":
        yield messages.GLOO_SIGNS.finding(interface=absent, **common)
    elif absent is not None:
        yield messages.GLOO_ELSEWHERE.finding(interface=absent, **common)
    elif bad:
        yield messages.GLOO_DOWN.finding(interface=bad[0], **common)
    elif choice is not None and choice.interface.name not in wanted:
        yield messages.GLOO_DIFFERS.finding(
            name=name,
            value=text,
            interface=choice.interface.name,
            severity=None if several else Severity.INFO,
            commands=(f"export {name}={choice.interface.name}",) if several else (),
            evidence=(Evidence(source=name, expected=choice.interface.name, actual=text),),
        )
