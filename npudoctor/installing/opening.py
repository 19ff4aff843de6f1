"""The beginning of a run: its plan, and the copies of the packages, which only root can change."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from npudoctor.fixer import messages, serialise
from npudoctor.fixer.journal import RUNNING, STOPPED, Journal, RunRecord
from npudoctor.host import Refused, Unavailable
from npudoctor.host.apart import ApartHost
from npudoctor.installing import state
from npudoctor.installing.state import Holder, Node, Step
from npudoctor.steps import StepFailed
from npudoctor.steps.installers import compare_copy, copy_package, not_roots


def open_run(
    journal: Journal,
    run: RunRecord,
    node: Node,
    steps: Sequence[Step],
    stop: Sequence[Holder] = (),
    containers: Mapping[str, str] | None = None,
    image: str = "",
    replaced: Mapping[str, str] | None = None,
) -> None:
    """Write the plan, the holders to stop, and the copies of its packages; nothing of the node has been changed when
    this returns. `containers` are those that are older than what is installed, `image` that of the site in which the
    smoke run is part of the proof, `replaced` the runs whose place it takes once it has begun, with the words before
    its id.

    A run that cannot be opened is stopped and has no plan, which is the last thing that is written; it raises Refused.
    """
    try:
        journal.begin(run, status=RUNNING)
    except OSError as problem:
        with contextlib.suppress(OSError, Unavailable):
            journal.drop(run.id)
        raise Refused(messages.JOURNAL_NOT_WRITABLE.text(problem=problem)) from problem
    try:
        held = {
            "stop": [serialise.write_form(one) for one in stop],
            "containers": dict(containers or {}),
            "image": image,
            "replaces": dict(replaced or {}),
        }
        journal.keep(run.id, state.HOLDERS, held)
        journal.make(run.id, "packages")
        for step in steps:
            _copy(journal, run.id, step)
        data = {"node": serialise.write_form(node), "steps": [serialise.write_form(step) for step in steps]}
        journal.keep(run.id, state.PLAN, data)
    except (Refused, OSError, Unavailable) as problem:
        drop_copies(journal, run.id, steps)
        with contextlib.suppress(OSError, Unavailable):  # a disk that is full; without a plan nothing goes on
            journal.mark(run.id, STOPPED, f"INTERRUPTED before step 1: {problem}")
        if isinstance(problem, OSError):
            raise Refused(messages.JOURNAL_NOT_WRITABLE.text(problem=problem)) from problem
        raise


def _copy(journal: Journal, run: str, step: Step) -> None:
    host = journal.host
    assert isinstance(host, ApartHost)
    if host.user.uid == 0 and (problem := not_roots(host, step.source)):
        raise Refused(problem)
    try:
        if step.file:
            copy_package(host, host.outside(step.source), host.outside(copy_of(journal, run, step)), step.sha256)
        else:
            compare_copy(host, host.outside(step.source), host.outside(step.source), step.sha256)
    except StepFailed as problem:
        raise Refused(str(problem)) from problem


def copy_of(journal: Journal, run: str, step: Step) -> str:
    """What is executed: the copy of a package, or an uninstaller of the node."""
    return journal.archive(run, f"packages/{step.file}") if step.file else step.source


def drop_copies(journal: Journal, run: str, steps: Sequence[Step]) -> None:
    """Remove the copies of a run that has ended."""
    for step in filter(lambda one: one.file, steps):
        with contextlib.suppress(OSError, Refused, Unavailable):
            journal.host.remove(copy_of(journal, run, step))
