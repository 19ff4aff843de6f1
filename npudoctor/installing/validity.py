"""Whether an installation may go on here and now: on the same node, on which boot, and for how long."""

from __future__ import annotations

from datetime import datetime

from npudoctor import clock
from npudoctor.fixer.journal import Journal
from npudoctor.host import Refused
from npudoctor.host.apart import ApartHost
from npudoctor.installing import state
from npudoctor.installing.state import Node

VALID_H = 24


def must_be_the_node(journal: Journal, run: str, again: Node) -> None:
    """Raise Refused where this is not the node of the plan, or where that is not known."""
    planned, _ = state.plan_of(journal, run)
    another = "this is another node than the one of the installation: "
    if not planned.machine_id or journal.machine_id != planned.machine_id:
        raise Refused(f"{another}/etc/machine-id differs")
    if again.system != planned.system:
        raise Refused(f"{another}its system UUID differs")
    if again.cards != planned.cards:
        raise Refused(f"{another}its NPUs on the PCI bus differ")
    known = planned.serials or state.serials_left(journal, run)
    if known and not again.serials:
        raise Refused("whether this is the same node is not known: the serial numbers of its NPUs cannot be read now")
    before, now = ({one.rpartition(" ")[2] for one in table} for table in (known, again.serials))
    if known and not (before <= now or now <= before):  # an NPU may answer only before, or only after
        raise Refused(f"{another}serial numbers of NPUs differ")


def must_be_recent(at: str) -> None:
    """Raise Refused where this was not within the last day."""
    if _age_h(at) < 0:
        raise Refused(f"the installation is of {at}, later than the clock of this node says; set the clock")
    if _age_h(at) > VALID_H:
        raise Refused(f"the installation is of {at}, not of the last {VALID_H} hours; plan again")


def has_expired(journal: Journal, run: str) -> bool:
    """Whether an installation that waits for a reboot is too old to be resumed; not where the clock was set back."""
    proved_at = state.verified_at(journal, run, len(state.plan_of(journal, run)[1]))
    return proved_at is not None and _age_h(proved_at) > VALID_H


def has_rebooted(host: ApartHost, journal: Journal, run: str) -> bool:
    """Whether the node was rebooted since a run was opened."""
    return host.boot_id() not in ("", state.plan_of(journal, run)[0].boot_id)


def _age_h(at: str) -> float:
    return (clock.now() - datetime.fromisoformat(at)).total_seconds() / 3600
