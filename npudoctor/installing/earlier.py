"""Earlier installations of this node: which one stands against a new one, and which give way to it."""

from __future__ import annotations

from npudoctor.fixer.journal import RUNNING, STOPPED, WAITING, Journal
from npudoctor.host import Refused
from npudoctor.host.apart import ApartHost
from npudoctor.installing import apart, proof, state, validity

BEFORE_FIRST = "INTERRUPTED before step 1"


def refuse_second(host: ApartHost, journal: Journal, *, but: str = "") -> None:
    """Raise Refused where another installation has begun or waits, `but` the run that is undone, or where a process of
    an interrupted installer still runs."""
    for id in journal.runs():
        status = journal.status(id)
        if status is None or journal.elsewhere(id):
            continue
        if status.status == STOPPED:
            _refuse_leftover(host, journal, id)
        elif id == but:
            continue
        elif status.status == RUNNING and journal.document(id, state.PLAN) is None:
            journal.mark(id, STOPPED, BEFORE_FIRST)
        elif status.status == RUNNING:
            option = "--resume" if validity.has_rebooted(host, journal, id) else "--attach"
            raise Refused(f"installation {id} has begun", instead=f"npudoctor setup {option}")
        elif status.status == WAITING and not validity.has_expired(journal, id):
            raise Refused(f"installation {id} waits for a reboot", instead="npudoctor setup --resume")


def _refuse_leftover(host: ApartHost, journal: Journal, id: str) -> None:
    """An installer that was killed may leave a process that flashes; what a finished one has started is a service."""
    for name in host.list_dir(journal.archive(id, "")):
        folder = journal.archive(id, name)
        if not name.startswith("step-") or apart.exit_code(host, folder) in (proof.DONE, proof.DONE_AT_REBOOT):
            continue
        if left := host.processes_with(apart.variable(host, folder)):
            raise Refused(f"process {left[0]} of the interrupted installation {id} still runs; wait until it has ended")


def run_to_verify(host: ApartHost, journal: Journal) -> str:
    """The installation that was interrupted, or not resumed in time, where all is installed by now.

    Raises Refused where there is none, or this is still the boot on which it was begun.
    """
    found = state.current_run(journal)
    nothing = "nothing is to be installed"
    if found is None or not all(step.then for step in state.plan_of(journal, found)[1]):
        raise Refused(nothing)
    if not validity.has_rebooted(host, journal, found):
        raise Refused(f"{nothing}, and run {found} was interrupted on this boot: reboot the node, then verify it so")
    return found


def runs_to_replace(journal: Journal) -> list[str]:
    """Installations that were stopped, or that are too old to be resumed: a new one, confirmed anew, replaces them."""
    statuses = {id: journal.status(id) for id in journal.runs()}
    return [
        id
        for id, status in statuses.items()
        if status is not None  # a run that was not begun may have no record: the disk was full
        and not journal.elsewhere(id)
        and (status.status == STOPPED or (status.status == WAITING and validity.has_expired(journal, id)))
    ]
