"""What the journal holds of an installation: its plan, which never changes, and a folder of each step.

    RUN/installation.json   the plan: steps with the SHA-256 of their files, and the node that it is for
    RUN/holders.json        what is stopped before step 1 and started after the proof; containers of before; the image;
                            the runs whose place it takes once it has begun
    RUN/packages/           the copies that are executed
    RUN/step-1/begun.json   written before the installer of step 1 is started
    RUN/step-1/pid          by the process that runs the installer, before it begins; then log, and code, its exit code
    RUN/step-1/ended.json   how it was verified; vendor-… are the ends of the vendor's logs
    RUN/ending.json         the last line, the NPUs before and after, and what is different

The run's status is running, waiting-for-reboot, stopped or done. Recovery and the undo of other runs leave it alone.
"""

from __future__ import annotations

from typing import Any, TypeVar

from npudoctor.fixer import serialise
from npudoctor.fixer.journal import HELD, STOPPED, Journal
from npudoctor.host import Refused
from npudoctor.records import record

T = TypeVar("T")
PLAN, ENDING, HOLDERS = "installation.json", "ending.json", "holders.json"


@record(frozen=True, kw_only=True)
class Step:
    """One package. `now` is empty where the part is not installed, `then` where the step removes it. `options` are the
    installer's, `file` the name of the copy, `source` where it is copied from, `sha256` its digest. An uninstaller of
    the node has no copy: its `file` is empty. `back` is the package of the version before, where the plan found it."""

    id: str
    component: str
    title: str
    now: str
    then: str
    way_back: str
    source: str
    file: str
    sha256: str
    options: tuple[str, ...]
    back: str = ""
    back_sha256: str = ""


@record(frozen=True, kw_only=True)
class Node:
    """The node that a plan is for. `cards` are the NPUs on the PCI bus as address and device id, `serials` the serial
    numbers of NPUs where they are known, `system` the UUID of the machine (empty without one), `unmanaged` that the
    person says that no scheduler manages it."""

    cards: tuple[str, ...]
    serials: tuple[str, ...]
    machine_id: str
    boot_id: str
    unmanaged: bool
    system: str = ""


@record(frozen=True, kw_only=True)
class Holder:
    """Who holds an NPU and may be stopped: a unit, or a container of an engine, by its name."""

    name: str
    stop: tuple[str, ...]
    start: tuple[str, ...]


@record(frozen=True, kw_only=True)
class Begun:
    """That the installer of a step is about to be started, on this boot. `service` says who took the node out of it,
    `before` what of the vendor's files was there (`proof.traces`)."""

    at: str
    boot_id: str
    command: tuple[str, ...]
    service: str
    before: tuple[tuple[str, str], ...] = ()


@record(frozen=True, kw_only=True)
class Ended:
    """How the installer of a step ended: `proof` is what was found, `problem` why it is none (empty: it is one).
    `exit_code` is None where it is not known. `reboot`: it is in force after a reboot."""

    at: str
    exit_code: int | None
    proof: str
    problem: str
    reboot: bool


def current_run(journal: Journal) -> str | None:
    """The newest installation on this node that is not done; None where there is none.

    One that was stopped before its first step is none: the one before it may still wait to be verified.
    """
    for run in reversed(journal.runs()):
        status = journal.status(run)
        if status is None or status.status not in HELD or journal.elsewhere(run):
            continue
        if status.status != STOPPED or read_beginning(journal, run, 1) is not None:
            return run
    return None


def plan_of(journal: Journal, run: str) -> tuple[Node, tuple[Step, ...]]:
    """The plan of a run; raises Refused for data that is not ours."""
    data = journal.document(run, PLAN)
    steps = data.get("steps") if data else None
    if data is None or not isinstance(steps, list) or not steps:
        raise Refused(f"run {run} has no plan: it was interrupted before its first step")
    return _read(Node, run, data.get("node")), tuple(_read(Step, run, step) for step in steps)


def holders(journal: Journal, run: str) -> tuple[tuple[Holder, ...], dict[str, str]]:
    """What a run stops and starts again, and the names of the containers of before, by id."""
    data = journal.document(run, HOLDERS) or {}
    stop, containers = data.get("stop", []), data.get("containers", {})
    if not isinstance(stop, list) or not isinstance(containers, dict):
        raise Refused(f"the journal of run {run} is not what npudoctor writes: {HOLDERS}")
    return tuple(_read(Holder, run, one) for one in stop), {str(id): str(name) for id, name in containers.items()}


def note_stopping(journal: Journal, run: str) -> None:
    """Write down that the holders are about to be stopped."""
    journal.keep(run, HOLDERS, {**(journal.document(run, HOLDERS) or {}), "stopping": True})


def were_stopped(journal: Journal, run: str) -> bool:
    """Whether the holders of a run were stopped, or some of them."""
    return bool((journal.document(run, HOLDERS) or {}).get("stopping"))


def replaced_by(journal: Journal, run: str) -> dict[str, str]:
    """The runs whose place a run takes once it has begun, with the words before its id."""
    found = (journal.document(run, HOLDERS) or {}).get("replaces") or {}
    return {str(id): str(words) for id, words in found.items()} if isinstance(found, dict) else {}


def image(journal: Journal, run: str) -> str:
    """The image in which the smoke run is part of the proof; empty without one."""
    return str((journal.document(run, HOLDERS) or {}).get("image") or "")


def serials_left(journal: Journal, run: str) -> tuple[str, ...]:
    """The serial numbers of NPUs when the run last ended; empty where they are not known."""
    after = (journal.document(run, ENDING) or {}).get("after")
    found = after.get("serials") if isinstance(after, dict) else None
    return tuple(map(str, found)) if isinstance(found, list) else ()


def read_beginning(journal: Journal, run: str, number: int) -> Begun | None:
    """That a step was about to be started; None where it was not."""
    data = journal.document(run, f"step-{number}/begun.json")
    return None if data is None else _read(Begun, run, data)


def read_end(journal: Journal, run: str, number: int) -> Ended | None:
    """How a step ended; None where that was not found out yet."""
    data = journal.document(run, f"step-{number}/ended.json")
    return None if data is None else _read(Ended, run, data)


def verified_at(journal: Journal, run: str, count: int) -> str | None:
    """When the last of so many steps was verified; None where not all are."""
    done = [read_end(journal, run, number) for number in range(1, count + 1)]
    return done[-1].at if done and all(one is not None and not one.problem for one in done) and done[-1] else None


def _read(kind: type[T], run: str, data: Any) -> T:
    try:
        return serialise.read(kind, data)
    except serialise.InvalidData as problem:
        raise Refused(f"the journal of run {run} is not what npudoctor writes: {problem}") from problem
