"""What the person who asks is not shown."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.node.context import Presence
from npudoctor.facts.node.current_user import Asker
from npudoctor.sdk import Evidence, Finding, Severity, check


@check("system.rights", profile="standard")
def nothing_is_hidden(asker: Asker, found: Presence | None, devices: NetworkDevices | None) -> Iterator[Finding]:
    """Nothing is hidden from the user who asks.

    Some of what is judged is shown to root alone; what npudoctor may not see it skips, and does not call healthy.
    """
    if asker.is_root or found is None or not (found.cards or found.software):
        return
    hidden = ["the kernel log", "the firewall", "processes and sockets of other users"]
    if devices is not None and not found.in_container:
        hidden.insert(0, "the cards' network ports (hccn_tool)")
    yield Finding(
        severity=Severity.INFO,
        summary=f"as {asker.user.name} npudoctor may not see everything; root would add {', '.join(hidden)}",
        hint="Checks that need one of these are skipped and say so. Nothing has to be run as root for the others.",
        commands=("sudo npudoctor check",),
        evidence=(Evidence(source="user", expected="root", actual=f"{asker.user.name} (uid {asker.user.uid})"),),
    )
