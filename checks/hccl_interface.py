"""The network interface that HCCL uses on the host, and those of gloo and tensorpipe beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from npudoctor.facts.cann.startup_files import StartupFiles
from npudoctor.facts.network.hccl import IF_IP, IFNAME, Choice, NameRule, candidates, choose_interface, family_of
from npudoctor.facts.network.interfaces import Interface, Interfaces, Routes, parse_address
from npudoctor.facts.node.cluster import Cluster
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.sdk import Evidence, Finding, FixOffer, Message, ParseError, Severity, Unavailable, check

from ._setting_lines import naming_lines
from ._together import by_setting
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
    address, rule = environment.non_empty(IF_IP), environment.non_empty(IFNAME)
    choice = choose_interface(environment, interfaces)
    several = cluster is not None and cluster.several
    beside = _group_alike(environment)
    named: list[Finding] = []
    explained: list[str] = []
    if address is not None:
        named = list(_by_address(address, choice, interfaces, several))
        if choice is not None and not _any_wrong(named):
            named += list(_off_the_way([IF_IP], address, choice, interfaces, cluster, routes))
        for found in named:
            yield naming_lines(found, startup, environment, IF_IP)
        if rule is not None:
            evidence = (Evidence(source=IFNAME, actual=rule),)
            yield messages.NAME_OVERRIDDEN.finding(name=IFNAME, value=rule, other=IF_IP, evidence=evidence)
    elif rule is not None:
        same = [name for names in beside if _plain(environment[names[0]]) == _plain(rule) for name in names]
        named = list(_by_rule([IFNAME, *same], rule, choice, interfaces, several))
        if choice is not None and not _any_wrong(named):
            named += list(_off_the_way([IFNAME, *same], rule, choice, interfaces, cluster, routes))
        yield from named
        explained = same if _any_wrong(named) else []
    else:
        named = list(_by_default(choice, candidates(interfaces, family_of(environment)), interfaces, cluster, routes))
        yield from named
    # What HCCL should use is then not what it does use: the others are compared with the way to the other nodes.
    if several and cluster is not None and any(one.code in _NOT_ON_THE_WAY for one in named):
        route = _route(cluster, interfaces, routes)
        leading = interfaces.interface(route) if route else None
        choice = Choice(leading, leading.addresses[0].ip) if leading is not None and leading.addresses else None
    for names in beside:
        if names[0] not in explained:
            yield from _beside(names, environment[names[0]], choice, interfaces, several)


def _any_wrong(findings: Iterable[Finding]) -> bool:
    return any(one.severity > Severity.INFO for one in findings)


def _plain(text: str) -> frozenset[str]:
    """The names of interfaces in a value, without the signs that HCCL alone knows."""
    return frozenset(part.strip() for part in text.strip().lstrip("=^").split(",") if part.strip())


def _group_alike(environment: JobEnvironment) -> list[list[str]]:
    """The variables of gloo and tensorpipe that are set, those with one value together."""
    return by_setting((name for name in OTHERS if environment.non_empty(name)), lambda name: environment[name])


_NOT_ON_THE_WAY = ("hccl.interface/named-other-route", "hccl.interface/other-route", "hccl.interface/no-route")


def _off_the_way(
    names: list[str],
    value: str,
    choice: Choice,
    interfaces: Interfaces,
    cluster: Cluster | None,
    routes: Routes | None,
) -> Iterator[Finding]:
    """A named interface that is up, and does not lead to the node where the ranks meet."""
    if cluster is None or not cluster.several or cluster.master is None or choice.interface.loopback:
        return
    route = _route(cluster, interfaces, routes)
    if route == choice.interface.name or (route is None and not choice.interface.virtual):
        return
    better = [one for one in candidates(interfaces) if one.name == route]
    source, stated = cluster.evidence or (messages.JOB.text(), messages.SEVERAL_NODES.text())
    shown, last = _settings(names, value)
    yield messages.NAMED_OTHER_ROUTE.finding(
        names=shown,
        value=last,
        count=len(names),
        interface=choice.interface.name,
        address=choice.address,
        master=cluster.master,
        route=route or messages.NONE.text(),
        source=source,
        stated=stated,
        severity=Severity.ERROR if choice.interface.virtual else None,
        commands=(f"ip route get {cluster.master}", *_exports(better), f"unset {' '.join(names)}"),
        evidence=(
            *(Evidence(source=name, expected=route, actual=_own(name, value)) for name in names),
            Evidence(source=source, actual=stated),
            _listing(interfaces),
        ),
        fix=FixOffer(id="env.profile", params={"set": _setting(names, better[0])}) if better else None,
    )


def _setting(names: Iterable[str], interface: Interface) -> dict[str, str]:
    """The values that name an interface; HCCL's first = asks for the whole name."""
    return {name: f"={interface.name}" if name == IFNAME else interface.name for name in names}


def _own(name: str, value: str) -> str:
    """The value of one of several variables that name the same interface; only HCCL's begins with a sign."""
    return value.lstrip("=^") if name in OTHERS else value


def _settings(names: Sequence[str], value: str) -> tuple[list[str], str]:
    """Names for `NAMES=VALUE`, and the value; a name whose value differs from the last one's has its own."""
    last = _own(names[-1], value)
    return [name if _own(name, value) == last else f"{name}={_own(name, value)}" for name in names], last


def _listing(interfaces: Interfaces) -> Evidence:
    """Interfaces with their addresses in one line."""
    shown = []
    for one in interfaces.interfaces:
        text = " ".join([one.name, *(str(own.ip) for own in one.addresses)])
        shown.append(text if one.up else messages.INTERFACE_DOWN.text(interface=text))
    return Evidence(source=messages.INTERFACES.text(), actual=", ".join(shown))


def _names(interfaces: Iterable[Interface]) -> list[str]:
    return [one.name for one in interfaces]


def _wrong_finding(
    message: Message, names: Sequence[str], value: str, expected: str, present: Interfaces, /, **more: Any
) -> Finding:
    right, unset = _exports(candidates(present)[:1]), [f"unset {' '.join(names)}"]
    shown, last = _settings(names, value)
    return message.finding(
        name=", ".join(shown),
        value=last,
        commands=("ip -brief address", *(unset + right if IF_IP in names else right + unset)),
        evidence=(
            *(Evidence(source=name, expected=expected, actual=_own(name, value)) for name in names),
            _listing(present),
        ),
        fix=FixOffer(id="env.profile", params={"unset": list(names)}),
        **more,
    )


def _exports(interfaces: Iterable[Interface]) -> list[str]:
    """The line that sets an interface for HCCL, gloo and tensorpipe; HCCL's first = asks for the whole name."""
    return [
        f"export {IFNAME}=={one.name} GLOO_SOCKET_IFNAME={one.name} TP_SOCKET_IFNAME={one.name}"
        f"  # {messages.WHOLE_NAME.text(name=one.name)}"
        for one in interfaces
    ]


def _by_address(text: str, choice: Choice | None, interfaces: Interfaces, several: bool) -> Iterator[Finding]:
    if parse_address(text) is None:
        yield _wrong_finding(messages.ADDRESS_INVALID, [IF_IP], text, messages.OWN_ADDRESS.text(), interfaces)
    elif choice is None:
        yield _wrong_finding(messages.ADDRESS_ELSEWHERE, [IF_IP], text, messages.OWN_ADDRESS.text(), interfaces)
    elif not choice.interface.up:
        up = messages.ADDRESS_THAT_IS_UP.text()
        yield _wrong_finding(messages.ADDRESS_DOWN, [IF_IP], text, up, interfaces, interface=choice.interface.name)
    elif choice.address.is_loopback:
        yield _loopback([IF_IP], text, choice, interfaces, several)


def _loopback(names: Sequence[str], text: str, choice: Choice, interfaces: Interfaces, several: bool) -> Finding:
    """The ranks of one node may meet on it; other nodes cannot reach it."""
    return _wrong_finding(
        messages.LOOPBACK,
        names,
        text,
        messages.INTERFACE_TO_OTHERS.text(),
        interfaces,
        interface=choice.interface.name,
        severity=Severity.ERROR if several else Severity.WARNING,
        detail=messages.WAITS.text() if several else messages.WAITS_WITH_SEVERAL.text(),
    )


def _by_rule(
    names: Sequence[str], text: str, choice: Choice | None, interfaces: Interfaces, several: bool
) -> Iterator[Finding]:
    try:
        rule = NameRule.parse(text)
    except ParseError:
        yield _wrong_finding(messages.NAME_INVALID, names, text, messages.INTERFACE_NAMES.text(), interfaces)
        return
    if text != text.strip():
        yield _wrong_finding(messages.NAME_WITH_BLANK, [IFNAME], repr(text), repr(text.strip()), interfaces)
        return
    taken = [one for one in interfaces.interfaces if rule.takes(one.name)]
    if choice is None and taken:
        up = messages.INTERFACE_THAT_IS_UP.text()
        yield _wrong_finding(messages.NAME_DOWN, names, text, up, interfaces, interfaces=_names(taken))
    elif choice is None:
        up = messages.INTERFACE_THAT_IS_UP.text()
        yield _wrong_finding(messages.NAME_ELSEWHERE, names, text, up, interfaces, count=len(names))
    elif choice.interface.loopback and (rule.inverted or several or not text.strip("=, ").startswith("lo")):
        yield _loopback(names, text, choice, interfaces, several)
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
    names: Sequence[str], text: str, choice: Choice | None, interfaces: Interfaces, several: bool
) -> Iterator[Finding]:
    """What gloo or tensorpipe uses: every name of the list must be an interface here, and agree with HCCL's."""
    name, severity = ", ".join(names), max(OTHERS[one] for one in names)
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    found = {part: interfaces.interface(part) for part in wanted}
    bad = [part for part, one in found.items() if one is None or not one.up or not one.addresses]
    expected = messages.INTERFACE_THAT_IS_UP.text()
    common: dict[str, Any] = {
        "name": name,
        "value": text,
        "severity": severity,
        "commands": (
            *((f"export {one}={choice.interface.name}" for one in names) if choice else ("ip -brief address",)),
            f"unset {' '.join(names)}",
        ),
        "evidence": (
            *(Evidence(source=one, expected=expected, actual=text) for one in names),
            _listing(interfaces),
        ),
        "fix": FixOffer(id="env.profile", params={"unset": list(names)}),
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
            commands=tuple(f"export {one}={choice.interface.name}" for one in names) if several else (),
            evidence=tuple(Evidence(source=one, expected=choice.interface.name, actual=text) for one in names),
        )
