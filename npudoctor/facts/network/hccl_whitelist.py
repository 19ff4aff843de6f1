"""The list of hosts that HCCL lets join, where it is switched on."""

from __future__ import annotations

import json

from npudoctor.facts.network.interfaces import Address, parse_address
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.records import record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

DISABLE, FILE = "HCCL_WHITELIST_DISABLE", "HCCL_WHITELIST_FILE"


@record(frozen=True, kw_only=True)
class HcclWhitelist:
    """Whether HCCL asks a whitelist, and the file that HCCL_WHITELIST_FILE names, None where it names none.

    `hosts` are the addresses of its host_ip; `problem` is a clause that says why HCCL cannot use the file.
    """

    enabled: bool = True
    path: str | None = None
    hosts: tuple[Address, ...] = ()
    problem: str | None = None


def reduce_whitelist(text: str) -> str:
    """A whitelist as it may be recorded: its addresses, and of any other file nothing but its shape."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as problem:
        return "\n" * (min(getattr(problem, "lineno", 1), 10_000) - 1) + "?"
    listed = said.get("host_ip") if isinstance(said, dict) else None
    if not isinstance(listed, list):
        return "{}"
    return json.dumps({"host_ip": [word if isinstance(word, str) and parse_address(word) else "?" for word in listed]})


def parse(text: str) -> tuple[Address, ...]:
    """Read the addresses of `{"host_ip": ["10.0.0.7"], "device_ip": []}`; an error quotes nothing of it."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ParseError(f"not JSON (line {getattr(problem, 'lineno', 1)})") from None
    listed = said.get("host_ip") if isinstance(said, dict) else None
    if not isinstance(listed, list) or not listed:
        raise ParseError("no list host_ip")
    found = []
    for word in listed:
        address = parse_address(word) if isinstance(word, str) else None
        if address is None:
            raise ParseError("an entry of host_ip is no address")
        found.append(address)
    return tuple(found)


@probe
def hccl_whitelist(host: Host, environment: JobEnvironment) -> HcclWhitelist:
    """From the file, where HCCL_WHITELIST_DISABLE=0 makes HCCL read it."""
    if (environment.non_empty(DISABLE) or "1").strip() != "0":
        return HcclWhitelist(enabled=False)
    path = environment.non_empty(FILE)
    if path is None:
        return HcclWhitelist(problem="no file is named")
    if not path.startswith("/"):
        return HcclWhitelist(path=path, problem="it is no absolute path")
    try:
        return HcclWhitelist(path=path, hosts=parse(host.read(path)))
    except ParseError as why:
        return HcclWhitelist(path=path, problem=str(why))
    except Unavailable as why:
        if why.because is Because.NOT_RECORDED:
            raise
        return HcclWhitelist(path=path, problem=why.reason)
