"""What packet filters do with a connection that arrives for a port: a walk through their chains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from npudoctor.facts.network.firewall_rules import FirewallChain, FirewallRule
from npudoctor.facts.network.ports import LAST_PORT, PortRanges
from npudoctor.records import record

_ALL = PortRanges.of((0, LAST_PORT))
_NONE = PortRanges()
_DEEPEST = 16
# Texts and not patterns: what a healthy node never needs is not compiled each time a check starts.
_LOOPBACK = r"""\biif(?:name)? "?lo"?(?:\s|$)|(?:^|\s)-i lo(?:\s|$)"""
_STATES = r"(?i)\bct (?:state|status) (\{[^{}]*\}|\S+)|--(?:ctstate|state|ctstatus) (\S+)"
_OTHER_PROTOCOL = r"(?i)\bicmp|\bigmp|\bsctp\b|\besp\b|\bvrrp\b|\bproto(?:col)? (?:47|50|51|112)\b"
_REJECTED = ("drop", "reject", "queue")


@record(frozen=True, kw_only=True)
class Dropped:
    """Ports that a chain keeps new TCP connections from, and the rule (or the policy of the chain) that does it."""

    ports: PortRanges
    tool: str
    chain: str
    rule: str


@record(frozen=True)
class _Walked:
    """What became of the ports: dropped with the reason, and those that go on to the next rule."""

    dropped: tuple[tuple[PortRanges, str], ...]
    left: PortRanges


def dropped_ports(chains: Iterable[FirewallChain], ports: PortRanges, *, over_loopback: bool) -> tuple[Dropped, ...]:
    """The ports of these that no new TCP connection reaches, from other hosts or over the loopback.

    A rule that holds only for some packets lets a port pass (who may pass is not known here), and never drops it.
    """
    known = list(chains)
    found = []
    for chain in known:
        if chain.hook != "input":
            continue
        own = {one.name: one for one in known if one.tool == chain.tool and one.table == chain.table}
        walked = _walk(chain, own, ports, over_loopback, 0)
        reasons = list(walked.dropped)
        if walked.left and (chain.policy or "") in _REJECTED:
            reasons.append((walked.left, f"policy {chain.policy}"))
        name = f"{chain.table} {chain.name}".strip()
        found += [Dropped(ports=which, tool=chain.tool, chain=name, rule=rule) for which, rule in reasons]
    return tuple(found)


def _walk(
    chain: FirewallChain, known: Mapping[str, FirewallChain], ports: PortRanges, over_loopback: bool, depth: int
) -> _Walked:
    left, reasons, returned = ports, [], _NONE
    for rule in chain.rules:
        if not left or rule.verdict is None or not _may_concern(rule, over_loopback):
            continue
        these = left & (rule.ports if rule.ports is not None else _ALL)
        if not these:
            continue
        certain = not rule.narrow or (over_loopback and _only_loopback(rule))
        if rule.verdict == "accept":
            left -= these
        elif rule.verdict in _REJECTED and certain:
            reasons.append((these, rule.text))
            left -= these
        elif rule.verdict == "return" and certain:
            returned |= these
            left -= these
        elif rule.verdict.startswith(("jump ", "goto ")) and depth < _DEEPEST:
            target = known.get(rule.verdict.split(" ", 1)[1])
            if target is None:
                continue
            inner = _walk(target, known, these, over_loopback, depth + 1)
            if certain:
                reasons += inner.dropped
                after = inner.left if rule.verdict.startswith("jump ") else _NONE
                returned |= _NONE if rule.verdict.startswith("jump ") else inner.left
                left = (left - these) | after
            else:
                left -= these - inner.left - _unite(inner.dropped)
    return _Walked(tuple(reasons), left | returned)


def _unite(reasons: Iterable[tuple[PortRanges, str]]) -> PortRanges:
    found = _NONE
    for ports, _ in reasons:
        found |= ports
    return found


def _only_loopback(rule: FirewallRule) -> bool:
    """Whether the one thing that narrows a rule is that it is about the loopback."""
    return bool(re.search(_LOOPBACK, rule.text)) and not re.search(_STATES, rule.text) and "addr" not in rule.text


def _may_concern(rule: FirewallRule, over_loopback: bool) -> bool:
    """Whether a rule can be about the first packet of a TCP connection on this way."""
    if rule.protocol not in (None, "tcp", "all", "6"):
        return False
    if rule.narrow and re.search(_OTHER_PROTOCOL, rule.text):
        return False
    if re.search(_LOOPBACK, rule.text) and "!" not in rule.text and not over_loopback:
        return False
    states = re.search(_STATES, rule.text)
    return states is None or "new" in (states[1] or states[2] or "").lower()
