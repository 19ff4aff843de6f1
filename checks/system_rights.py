"""What the current user cannot see."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.node.context import Presence
from npudoctor.facts.node.current_user import Asker
from npudoctor.sdk import Evidence, Finding, check

from .messages import system as messages


@check("system.rights", profile="standard")
def nothing_is_hidden(asker: Asker, found: Presence | None, devices: NetworkDevices | None) -> Iterator[Finding]:
    """Current user can see everything the checks need.

    Some of what is checked is visible to root alone. npudoctor skips what it cannot see and does not call it healthy.
    """
    if asker.is_root or found is None or not (found.cards or found.software):
        return
    hidden = [messages.KERNEL_LOG.text(), messages.FIREWALL.text(), messages.OTHER_USERS.text()]
    if devices is not None and not found.in_container:
        hidden.insert(0, messages.NPU_PORTS.text())
    yield messages.HIDDEN.finding(
        user=asker.user.name,
        hidden=hidden,
        hint=messages.OF_THE_HOST.text() if found.in_container else None,
        commands=() if found.in_container else ("sudo npudoctor check",),
        evidence=(Evidence(source="user", expected="root", actual=f"{asker.user.name} (uid {asker.user.uid})"),),
    )
