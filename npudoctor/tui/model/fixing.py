"""Fixes in the interface: preview, obstacles, and progress."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from npudoctor.control_characters import all_visible, escape, visible_lines
from npudoctor.records import record, replace
from npudoctor.tui.model import clock

if TYPE_CHECKING:
    from npudoctor.fixer.plan import FixPlan
    from npudoctor.fixer.progress import Change
    from npudoctor.host import MutableHost
    from npudoctor.tui.model.diagnosis import Diagnosis
    from npudoctor.tui.model.session import Session

RECORDED = "recordings are read-only: run this on the node itself"
_WHEN = {"now": "now", "new-login": "after next login", "reboot": "after a reboot"}


class Kind(Enum):
    """The kind of a line."""

    TITLE = "title"
    ABOUT = "about"
    NOTE = "note"
    STEP = "step"
    PLUS = "plus"
    MINUS = "minus"
    SAME = "same"
    PROOF = "proof"
    DONE = "done"
    BAD = "bad"


@record(frozen=True)
class Line:
    """One line of a preview or of progress, after its `head`."""

    kind: Kind
    text: str = ""
    head: str = ""


@record(frozen=True, kw_only=True)
class Job:
    """A change for the user to confirm.

    `obstacle` says why it cannot be done here; `command` would do it instead, `sudo` says that it needs root; `word`
    must be typed where the change cannot be undone. `plans` is empty for an undo, whose run is `undoes`, and for the
    undo of interrupted runs (`recovers`). `packages` are the staged packages that the plans were made from.
    """

    title: str
    verb: str = "Apply"
    lines: tuple[Line, ...] = ()
    obstacle: str | None = None
    command: tuple[str, ...] = ()
    sudo: bool = False
    word: str | None = None
    plans: tuple[Any, ...] = ()
    undoes: str | None = None
    recovers: bool = False
    resolves: tuple[str, ...] = ()
    packages: Any = None

    @property
    def ready(self) -> bool:
        """Whether it can be confirmed."""
        return self.obstacle is None and bool(self.plans or self.undoes or self.recovers)

    @property
    def command_line(self) -> str:
        """The command as it could be typed."""
        return shlex.join(self.command)


def propose(session: Session, diagnosis: Diagnosis, checks: Sequence[str]) -> Job:
    """Plan the fixes that these checks offer; without checks, all safe ones. Planning changes nothing.

    Raises ReadOnly: a plan may start programs, such as pip.
    """
    session.must_allow_changes()
    from npudoctor.fixer import plan
    from npudoctor.fixer.journal import CUT_OFF
    from npudoctor.host import Refused
    from npudoctor.sdk import Risk

    catalog, options = session.node.catalog, session.node.selection.options
    offered = {
        finding.fix.id: check
        for check in reversed(list(catalog.checks))  # the first check that offers a fix decides its place
        if check in diagnosis.results and (not checks or check in checks)
        for finding in diagnosis.results[check].findings
        if finding.fix and finding.fix.id in catalog.fixes
    }
    ids = [
        id
        for id in sorted(offered, key=lambda one: list(catalog.checks).index(offered[one]))
        if checks or catalog.fixes[id].risk is Risk.SAFE
    ]
    plans: list[FixPlan] = []
    try:
        runs = session.history()
    except Refused as why:
        return Job(title=ids[0] if ids else "fix", obstacle=escape(why.reason))
    if cut_off := [run for run in runs if run["status"] in CUT_OFF]:
        return recovering(cut_off)
    with session.judging() as host:
        for id in ids:
            try:
                plans.append(plan.make(catalog, host, plan.Request(id), options))
            except Refused as why:
                return Job(title=id, obstacle=escape(why.reason))
    made = job_of(plans, recorded=session.source == "bundle", words=session.node.words)
    if checks:
        return made
    asking = [id for id in offered if id not in ids]
    return replace(made, lines=_visible_lines([*_together(ids, asking), *made.lines]))


def _together(ids: Sequence[str], asking: Sequence[str]) -> Iterator[Line]:
    """What several fixes at once do, and which of those offered they leave out."""
    if ids:
        together = "Will be applied; each can be undone alone" if len(ids) > 1 else "Will be applied; can be undone"
        yield Line(Kind.NOTE, f"{together}: {', '.join(ids)}")
    if asking:
        yield Line(
            Kind.NOTE, f"Will not be applied; each needs its own confirmation (f on its problem): {', '.join(asking)}"
        )
    if ids:
        yield Line(Kind.SAME)


def job_of(plans: Sequence[FixPlan], *, recorded: bool = False, words: Sequence[str] = ()) -> Job:
    """The change to confirm for these plans."""
    lines = [line for number, one in enumerate(plans) for line in _preview(one, first=number == 0)]
    refused = next((one.refused.reason for one in plans if one.refused), None)
    barred = next((one.obstacle for one in plans if one.obstacle), None)
    sudo = bool(barred and barred.root)
    needed = [one for one in plans if one.steps]
    command = ["npudoctor", "fix", *(one.fix.id for one in plans), *words]
    if not plans:
        refused = "no finding offers a safe fix"
    return Job(
        title=plans[0].fix.id if len(plans) == 1 else f"{len(plans)} fixes" if plans else "Safe fixes",
        lines=_visible_lines(lines),
        obstacle=RECORDED if recorded else escape(refused or (barred.reason if barred else "")) or None,
        command=tuple(["sudo", *command] if sudo else command) if plans and not recorded else (),
        sudo=sudo,
        word=next((one.fix.id for one in plans if one.irreversible), None),
        plans=tuple(needed),
        resolves=tuple(aim.check for one in plans for aim in one.aims),
    )


def _preview(planned: FixPlan, *, first: bool) -> Iterator[Line]:
    fix = planned.fix
    if not first:
        yield Line(Kind.SAME)
    yield Line(Kind.TITLE, fix.title)
    rights = "needs root" if fix.root else "no root needed"
    undo = "cannot be undone" if planned.irreversible else "can be undone"
    change = f"{rights} · {undo} · effective {_WHEN[fix.effect.value]}" if planned.steps else "changes nothing"
    yield Line(Kind.ABOUT, f"{fix.id} · {change}")
    for note in planned.notes:
        yield Line(Kind.NOTE, note)
    if planned.empty:
        yield Line(Kind.DONE, "already applied; nothing to change")
    yield from _steps_of([one.preview for one in planned.steps])


def _steps_of(previews: Sequence[str]) -> Iterator[Line]:
    gap = True
    for number, preview in enumerate(previews, 1):
        head, said = f"Step {number} of {len(previews)}", list(diff(preview))
        short = len(said) == 1 and said[0].kind is Kind.SAME
        if gap or not short:
            yield Line(Kind.SAME)
        gap = not short
        if short:
            yield Line(Kind.SAME, said[0].text, head=f"{head}  ")
        else:
            yield Line(Kind.STEP, head)
            yield from said


def diff(text: str) -> Iterator[Line]:
    """The lines of a preview, by kind."""
    for line in text.rstrip("\n").splitlines():
        if line.startswith(("+++", "---", "@@")):
            yield Line(Kind.ABOUT, line)
        elif line.startswith("+"):
            yield Line(Kind.PLUS, line)
        elif line.startswith("-"):
            yield Line(Kind.MINUS, line)
        else:
            yield Line(Kind.SAME, line)


def carry_out(
    session: Session, job: Job, *, irreversible: bool = False, stream: Callable[[str], None] | None = None
) -> Iterator[Line]:
    """Apply the confirmed change, and report each step; `stream` gets the output of its commands as it comes."""
    from npudoctor.explain.causes import causes_in
    from npudoctor.fixer import runner
    from npudoctor.fixer.journal import state_folder

    session.must_allow_changes()
    catalog, options = session.node.catalog, replace(session.node.selection.options, packages=job.packages)
    with session.looking() as own, session.judging() as found:
        host = cast("MutableHost", found)  # recordings were refused before
        state = state_folder(own)  # a login may name another folder
        if job.recovers:
            yield from map(_line_of, runner.recover(host, state=state))
        if job.undoes:
            yield from map(_line_of, runner.undo(host, job.undoes, state=state))
        for planned in job.plans:
            events = runner.apply(
                catalog, host, planned, options, irreversible=irreversible, state=state, stream=stream
            )
            for event in events:
                if isinstance(event, runner.Ended) and event.verification.text:
                    yield _visible_lines([Line(Kind.NOTE, event.verification.text)])[0]
                yield _line_of(event)
                if isinstance(event, runner.Ended) and event.output:
                    yield from _visible_lines(Line(Kind.NOTE, line) for line in causes_in(event.output))


def _visible_lines(lines: Iterable[Line]) -> tuple[Line, ...]:
    return all_visible(tuple(lines), visible_lines)


def _line_of(event: Any) -> Line:
    return all_visible(_event_line(event), visible_lines)


def _event_line(event: Any) -> Line:
    from npudoctor.fixer.events import in_one_line

    kind = type(event).__name__
    if kind == "Begun":
        return Line(Kind.TITLE, event.fix)
    if kind == "StepBegun":
        return Line(Kind.STEP, f"step {event.number}: {in_one_line(event.preview)}")
    if kind == "StepDone":
        return Line(Kind.DONE, f"step {event.number} done")
    if kind == "Proving":
        where = " in a fresh login shell" if event.effect.value == "new-login" else ""
        return Line(Kind.PROOF, f"re-checking{where}: {', '.join(event.checks)}")
    if kind == "Undoing":
        return Line(Kind.STEP, f"undoing step {event.number}: {in_one_line(event.preview)}")
    good = event.outcome.value in ("applied", "undone", "nothing")
    instead = f"; instead: {event.instead}" if event.instead else ""
    outcome = event.outcome.value
    reason = event.reason if outcome == "applied" else f"{outcome}: {event.reason}"
    return Line(Kind.DONE if good else Kind.BAD, f"{reason}{instead}")


# Afterwards


def changes_of(job: Job) -> tuple[Change, ...]:
    """What a job has changed, for a journal that this user cannot read."""
    from npudoctor.fixer.journal import now
    from npudoctor.fixer.progress import Change

    return tuple(
        Change(
            run="sudo",
            fix=planned.fix.id,
            effect=planned.fix.effect,
            at=now(),
            aims=frozenset((aim.check, aim.subject) for aim in planned.aims),
        )
        for planned in job.plans
    )


def history(session: Session) -> tuple[tuple[Mapping[str, Any], ...], str]:
    """Every run, newest first, and why there are none where the journal cannot be read or trusted."""
    from npudoctor.host import Refused

    try:
        return tuple(session.history()), ""
    except Refused as why:
        return (), escape(why.reason)


def told_of(run: Mapping[str, Any]) -> list[str]:
    """What is known of a run: its stage, or why it ended, and what was verified."""
    from npudoctor.fixer import progress, runner

    names = ("turned", "rechecked", "seconds")
    verified = runner.Verification(**{name: run[name] for name in names if name in run})
    said = progress.stage_clause(run) or str(run.get("reason") or "")
    return [escape(text) for text in (said, verified.text) if text]


def undoing(session: Session, run: Mapping[str, Any]) -> Job:
    """The confirmation for undoing a run: what the undo changes, newest step first."""
    from npudoctor.fixer import runner
    from npudoctor.fixer.journal import CUT_OFF
    from npudoctor.host import Refused, Unavailable
    from npudoctor.steps import StepFailed

    if run["status"] in CUT_OFF:
        return recovering([run])
    lines = [Line(Kind.TITLE, f"Undo: {run['title']}"), Line(Kind.ABOUT, f"{run['id']} · by {run['by']}")]
    obstacle = None if run["status"] == "applied" else f"already {run['status']}"
    if obstacle is None:
        try:
            with session.looking() as host:
                previews = runner.undo_preview(cast("MutableHost", host), str(run["id"]))
            lines += _steps_of(previews)
        except Refused as why:
            obstacle = why.reason
        except (Unavailable, StepFailed, OSError) as why:
            obstacle = str(why)
    return Job(
        title=f"Undo {run['fix']}",
        verb="Undo",
        lines=_visible_lines(lines),
        obstacle=obstacle and visible_lines(obstacle),
        undoes=str(run["id"]),
        command=("npudoctor", "undo", str(run["id"])),
    )


def recovering(runs: Sequence[Mapping[str, Any]]) -> Job:
    """The confirmation for interrupted runs, which must be undone before anything else."""
    lines = [Line(Kind.TITLE, "A crash or a power loss interrupted npudoctor; these runs must be undone first:")]
    for run in runs:
        begun = clock.day_and_time(str(run["started_at"]))
        lines.append(Line(Kind.NOTE, f"{run['fix']}, started {begun} by {run['by']}"))
    for run in runs:
        lines += [Line(Kind.SAME), Line(Kind.ABOUT, str(run["id"]))]
        lines += [line for preview in run["preview"] for line in diff(preview)]
    command = ("npudoctor", "fix", "--recover")
    return Job(title="Undo interrupted runs", verb="Undo", lines=_visible_lines(lines), recovers=True, command=command)


def in_terminal(session: Session, argv: Sequence[str]) -> int:
    """Run a command on this terminal; its exit status. Raises ReadOnly."""
    session.must_allow_changes()
    return os.spawnvp(os.P_WAIT, argv[0], list(argv))  # noqa: S606 - without a shell on purpose
