"""What /etc/hosts makes of this host's own name."""

from __future__ import annotations

from npudoctor.facts.network.interfaces import Address, parse_address
from npudoctor.records import record
from npudoctor.sdk import Host, probe

PATH = "/etc/hosts"


@record(frozen=True, kw_only=True)
class OwnName:
    """This host's name, and the address that /etc/hosts gives it first; None where the file does not name it and
    something else (usually DNS) decides. `line_number` counts from 1."""

    name: str
    address: Address | None = None
    line_number: int | None = None


def parse(text: str, name: str) -> OwnName:
    """Read /etc/hosts for one name, long or short; the first line counts, as in the resolver, which passes over lines
    that do not start with an address."""
    wanted = {name.lower(), name.lower().partition(".")[0]}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("#")[0].split()
        if len(fields) > 1 and wanted.intersection(field.lower() for field in fields[1:]):
            address = parse_address(fields[0])
            if address is None:
                continue
            return OwnName(name=name, address=address, line_number=number)
    return OwnName(name=name)


@probe(of_the_moment=True)
def own_name(host: Host) -> OwnName:
    """From /etc/hosts, which the resolver asks before anything else unless told otherwise."""
    return parse(host.read(PATH), host.about.hostname)
