"""The packet filters of this host: nftables, iptables, and whether firewalld keeps them; read, never changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from npudoctor.facts.network.firewall_rules import FirewallChain, parse_iptables, parse_nft
from npudoctor.records import record
from npudoctor.sdk import Because, Completed, Host, ParseError, Unavailable, probe

NFT = ("nft", "list", "ruleset")
IPTABLES = ("iptables", "-S")
FIREWALLD = ("firewall-cmd", "--state")
_DENIED = r"ermission denied|not permitted|must be root|uthorization failed|ot authorized"


@record(frozen=True, kw_only=True)
class Firewall:
    """The chains that were found, in order. `firewalld` is whether it runs, None where that is not known.

    `unseen` says of each tool that gave no rules why; what it would have shown is not known.
    """

    firewalld: bool | None = None
    chains: tuple[FirewallChain, ...] = ()
    unseen: Mapping[str, str]


def parse_state(text: str) -> bool:
    """Read the output of `firewall-cmd --state`."""
    words = text.split()
    if "running" not in words:
        raise ParseError("not the state of firewalld", line_number=1, line=text[:80])
    return "not" not in words


@probe
def firewall(host: Host) -> Firewall:
    """From `nft list ruleset`, `iptables -S` and `firewall-cmd --state`, as far as they are there and answer."""
    chains: list[FirewallChain] = []
    unseen: dict[str, Unavailable] = {}
    readers: tuple[tuple[tuple[str, ...], Callable[[str], tuple[FirewallChain, ...]]], ...] = (
        (NFT, parse_nft),
        (IPTABLES, parse_iptables),
    )
    for command, parse in readers:
        try:
            chains += parse(_output_of(host, command))
        except (Unavailable, ParseError) as why:
            unseen[command[0]] = why if isinstance(why, Unavailable) else _not_understood(command, why)
    if len(unseen) == len(readers):
        raise _gravest_reason(list(unseen.values()))
    firewalld = None
    try:
        firewalld = parse_state(_state(host.run(FIREWALLD)))
    except (Unavailable, ParseError) as why:
        unseen[FIREWALLD[0]] = why if isinstance(why, Unavailable) else _not_understood(FIREWALLD, why)
    reasons = {tool: why.reason for tool, why in unseen.items()}
    return Firewall(firewalld=firewalld, chains=tuple(chains), unseen=reasons)


def _gravest_reason(reasons: list[Unavailable]) -> Unavailable:
    """Why nothing is known: a right that is missing, else a tool that failed, before one that is not installed."""
    order = (Because.NO_RIGHT, Because.TIMED_OUT, Because.FAILED, Because.NOT_RECORDED)
    return next((why for because in order for why in reasons if why.because is because), reasons[0])


def _not_understood(command: tuple[str, ...], problem: ParseError) -> Unavailable:
    text = f"`{' '.join(command)}` printed unexpected output: {problem}"
    return Unavailable(text, because=Because.FAILED)


def _output_of(host: Host, command: tuple[str, ...]) -> str:
    done = host.run(command)
    _check(done, " ".join(command))
    return done.stdout


def _check(done: Completed, command: str) -> None:
    if done.timed_out:
        raise Unavailable(f"`{command}` timed out after {done.seconds:.3g} s", because=Because.TIMED_OUT)
    text = done.stderr or done.stdout
    if done.returncode:
        said = next((line.strip()[:160] for line in text.splitlines() if line.strip()), "it printed nothing")
        denied = re.search(_DENIED, text)
        because = Because.NO_RIGHT if denied else Because.FAILED
        raise Unavailable(f"`{command}` {'requires root' if denied else 'failed'}: {said}", because=because)


def _state(done: Completed) -> str:
    """What firewall-cmd says; that firewalld does not run has an exit status of its own."""
    text = done.stdout + done.stderr
    if "running" not in text:
        _check(done, " ".join(FIREWALLD))
    return text
