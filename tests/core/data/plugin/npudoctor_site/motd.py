"""The message of the day names the owner of the node."""

from collections.abc import Iterator
from dataclasses import dataclass

from npudoctor.sdk import Effect, Finding, FixOffer, Host, Risk, Severity, Step, WriteFile, check, fix, probe


@dataclass(frozen=True)
class Motd:
    """The text that a login shows."""

    text: str


@probe
def motd(host: Host) -> Motd:
    """From /etc/motd."""
    return Motd(host.read("/etc/motd"))


@check("site.owner", tags=("site",), fix="site.name-owner")
def owner_is_named(motd: Motd) -> Iterator[Finding]:
    """Owner in the message of the day

    Whoever finds a fault at night must know whom to call.
    """
    if "owner:" not in motd.text:
        yield Finding(
            summary="owner missing in /etc/motd",
            severity=Severity.WARNING,
            hint="Add a line `owner: NAME` to /etc/motd.",
            fix=FixOffer(id="site.name-owner"),
        )


@fix("site.name-owner", resolves=("site.owner",), risk=Risk.SAFE, effect=Effect.NOW, root=True)
def name_owner(motd: Motd) -> Iterator[Step]:
    """Name the operations team as the owner."""
    if "owner:" not in motd.text:
        yield WriteFile("/etc/motd", motd.text + "owner: operations\n")
