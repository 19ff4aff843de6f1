"""The rules of nftables and iptables, as far as they say which ports they let through and which they drop."""

from __future__ import annotations

import re
import shlex

from npudoctor.facts.cells import lines_of, refusal
from npudoctor.facts.network.ports import PortRanges
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class FirewallRule:
    """One rule, in the order of its chain.

    `verdict` is accept, drop, reject, return, `jump NAME`, or what else ends the rule; None where it only counts or
    marks. `ports` are the local TCP or UDP ports that it is about, None for all. `narrow`: it holds only for some
    packets to these ports (an address, an interface, a state, ...), as `text` says.
    """

    text: str
    verdict: str | None = None
    protocol: str | None = None
    ports: PortRanges | None = None
    narrow: bool = False


@record(frozen=True, kw_only=True)
class FirewallChain:
    """One chain. `hook` is input, output, forward or another place in the kernel, None for a chain that others call.

    `policy` is what becomes of a packet that no rule decides on; None where the chain has none.
    """

    tool: str
    table: str
    name: str
    hook: str | None = None
    policy: str | None = None
    rules: tuple[FirewallRule, ...] = ()


_BLOCK = r"\s*(table|chain|set|map|flowtable|counter|quota|ct \w+|limit|secmark|synproxy)\b(.*)\{\s*"
_BASE = r"type \w+ hook (\w+) .*?;(?:\s*policy (\w+);)?"
_NFT_VERDICT = r"\b(accept|drop|reject|return|queue|continue|(?:jump|goto) \S+)\b"
_NFT_PORTS = r"\b(tcp|udp|sctp|th) dport (\{[^{}]*\}|[0-9-]+)"
_NFT_SILENT = (
    r'comment "[^"]*"|\bcounter(?: packets [0-9]+ bytes [0-9]+)?|log(?: (?:prefix "[^"]*"|level \w+|flags \w+))*|'
    r"\bmeta l4proto (?:tcp|udp)\b|\bwith .*|\bhandle [0-9]+|#.*"
)


def parse_nft(text: str) -> tuple[FirewallChain, ...]:
    """Read the output of `nft list ruleset`; an empty one has no chains."""
    chains: list[FirewallChain] = []
    blocks: list[str] = []
    table = name = ""
    hook = policy = None
    rules: list[FirewallRule] = []
    lines = lines_of(text)
    for number, line in enumerate(lines, 1):
        said = line.strip()
        if opened := re.fullmatch(_BLOCK, line):
            blocks.append(opened[1])
            if opened[1] == "table":
                table = opened[2].strip()
            elif opened[1] == "chain":
                name, hook, policy, rules = opened[2].strip(), None, None, []
        elif said == "}" and blocks:
            if blocks.pop() == "chain":
                chains.append(_chain("nft", table, name, hook, policy, rules))
        elif blocks[-1:] == ["chain"] and (base := re.match(_BASE, said)):
            hook, policy = base[1], base[2]
        elif blocks[-1:] == ["chain"] and said and not said.startswith("#"):
            rules.append(_nft_rule(said))
        elif said and not blocks and not said.startswith("#"):
            raise refusal("not the output of nft list ruleset", lines, number)
    return tuple(chains)


def _chain(
    tool: str, table: str, name: str, hook: str | None, policy: str | None, rules: list[FirewallRule]
) -> FirewallChain:
    return FirewallChain(tool=tool, table=table, name=name, hook=hook, policy=policy, rules=tuple(rules))


def _nft_rule(said: str) -> FirewallRule:
    bare = re.sub(_NFT_SILENT, " ", said)
    verdict = next(iter(re.findall(_NFT_VERDICT, bare)[-1:]), None)
    found = re.search(_NFT_PORTS, bare)
    ports, whole = _ports(found[2].strip("{} ").split(",")) if found else (None, True)
    rest = re.sub(_NFT_VERDICT, " ", re.sub(_NFT_PORTS, " ", bare, count=1))
    protocol = found[1] if found else next(iter(re.findall(r"\bmeta l4proto (tcp|udp)\b", said)), None)
    return FirewallRule(
        text=said,
        verdict=verdict,
        protocol=None if protocol == "th" else protocol,
        ports=ports,
        narrow=bool(rest.strip(" ;")) or not whole,
    )


def _ports(words: list[str]) -> tuple[PortRanges | None, bool]:
    """The ports of a list such as 22,60000-60015, and whether all of it was understood."""
    spans = []
    for word in words:
        found = re.fullmatch(r"\s*([0-9]{1,5})(?:[-:]([0-9]{1,5}))?\s*", word)
        if found is None:
            return None, False
        spans.append((int(found[1]), int(found[2] or found[1])))
    return PortRanges.of(*spans), True


def parse_iptables(text: str) -> tuple[FirewallChain, ...]:
    """Read the output of `iptables -S`, which shows the table `filter`."""
    policies: dict[str, str | None] = {}
    rules: dict[str, list[FirewallRule]] = {}
    lines = lines_of(text)
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words[:1] == ["-P"] and len(words) >= 3:
            policies[words[1]] = words[2].lower()
        elif words[:1] == ["-N"] and len(words) == 2:
            policies.setdefault(words[1], None)
        elif words[:1] == ["-A"] and len(words) >= 2:
            policies.setdefault(words[1], None)
            rules.setdefault(words[1], []).append(_iptables_rule(line.strip()))
        elif words and not line.startswith("#"):
            raise refusal("not the output of iptables -S", lines, number)
    if not policies:
        raise refusal("not the output of iptables -S", lines)
    return tuple(
        _chain("iptables", "filter", name, _HOOKS.get(name), policy, rules.get(name, []))
        for name, policy in policies.items()
    )


_HOOKS = {"INPUT": "input", "OUTPUT": "output", "FORWARD": "forward"}
_IPTABLES_VERDICTS = frozenset({"ACCEPT", "DROP", "REJECT", "RETURN"})
_SILENT_MODULES = frozenset({"tcp", "udp", "multiport", "comment"})
_TAKES_ANY_TEXT = frozenset({"--comment", "--log-prefix"})
_SILENT = _TAKES_ANY_TEXT | {"--reject-with", "--log-level"}


def _iptables_rule(said: str) -> FirewallRule:
    try:
        words = shlex.split(said)[2:]
    except ValueError:
        words = said.split()[2:]
    verdict = protocol = None
    ports: PortRanges | None = None
    narrow = False
    while words:
        option = words.pop(0)
        negated = option == "!" and bool(words)
        option = words.pop(0) if negated else option
        takes = bool(words) and (option in _TAKES_ANY_TEXT or not (words[0].startswith("-") or words[0] == "!"))
        value = words.pop(0) if takes else ""
        if option in ("-j", "-g"):
            verdict = value.lower() if value in _IPTABLES_VERDICTS else f"jump {value}"
        elif option == "-p" and not negated:
            protocol = value
        elif option in ("--dport", "--dports") and not negated:
            ports, whole = _ports(value.split(","))
            narrow |= not whole
        elif option not in _SILENT and not (option == "-m" and value in _SILENT_MODULES):
            narrow = True
    return FirewallRule(text=said, verdict=verdict, protocol=protocol, ports=ports, narrow=narrow)
