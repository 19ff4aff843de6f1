"""Fixes in the interface: preview, obstacles, and progress."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from npudoctor.control_characters import all_visible, visible, visible_lines
from npudoctor.records import dataclass
from npudoctor.tui.model import clock

if TYPE_CHECKING:
    from npudoctor.fixer.plan import FixPlan
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


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a preview or of progress, after its `head`."""

    kind: Kind
    text: str = ""
    head: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A change for the user to confirm.

    `obstacle` says why it cannot be done here; `command` would do it instead, `sudo` says that it needs root; `word`
    must be typed where the change cannot be undone. `plans` is empty for an undo, whose run is `undoes`, and for the
    undo of interrupted runs (`recovers`).
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
    mends: tuple[str, ...] = ()

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
        finding.fix.id: result.check
        for result in diagnosis.results.values()
        for finding in result.findings
        if finding.fix and finding.fix.id in catalog.fixes and (not checks or result.check in checks)
    }
    ids = [id for id in offered if checks or catalog.fixes[id].risk is Risk.SAFE]
    plans: list[FixPlan] = []
    if cut_off := [run for run in history(session) if run["status"] in CUT_OFF]:
        return recovering(cut_off)
    with session.looking() as host:
        for id in ids:
            try:
                plans.append(plan.make(catalog, host, plan.Request(id), options))
            except Refused as why:
                return Job(title=id, obstacle=visible(why.reason))
    return job_of(plans, recorded=session.source == "bundle", words=session.node.words)


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
        title=plans[0].fix.id if len(plans) == 1 else f"{len(plans)} fixes",
        lines=_visible(lines),
        obstacle=RECORDED if recorded else visible(refused or (barred.reason if barred else "")) or None,
        command=tuple(["sudo", *command] if sudo else command) if plans and not recorded else (),
        sudo=sudo,
        word=next((one.fix.id for one in plans if one.irreversible), None),
        plans=tuple(needed),
        mends=tuple(aim.check for one in plans for aim in one.aims),
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
    gap = True
    for number, one in enumerate(planned.steps, 1):
        head, said = f"Step {number} of {len(planned.steps)}", list(diff(one.preview))
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


def carry_out(session: Session, job: Job, *, irreversible: bool = False) -> Iterator[Line]:
    """Apply the confirmed change, and report each step."""
    from npudoctor.fixer import runner

    session.must_allow_changes()
    catalog, options = session.node.catalog, session.node.selection.options
    with session.looking() as found:
        host = cast("MutableHost", found)  # recordings were refused before
        if job.recovers:
            yield from map(_line_of, runner.recover(host))
        if job.undoes:
            yield from map(_line_of, runner.undo(host, job.undoes))
        for planned in job.plans:
            yield from map(_line_of, runner.apply(catalog, host, planned, options, irreversible=irreversible))


def _visible(lines: Iterable[Line]) -> tuple[Line, ...]:
    return all_visible(tuple(lines), visible_lines)


def _line_of(event: Any) -> Line:
    return all_visible(_unescaped_line_of(event), visible_lines)


def _unescaped_line_of(event: Any) -> Line:
    kind = type(event).__name__
    if kind == "Begun":
        return Line(Kind.TITLE, event.fix)
    if kind == "StepBegun":
        return Line(Kind.STEP, f"step {event.number}: {_short(event.preview)}")
    if kind == "StepDone":
        return Line(Kind.DONE, f"step {event.number} done")
    if kind == "Proving":
        where = " in a fresh login shell" if event.effect.value == "new-login" else ""
        return Line(Kind.PROOF, f"re-checking{where}: {', '.join(event.checks)}")
    if kind == "Undoing":
        return Line(Kind.STEP, f"undoing step {event.number}: {_short(event.preview)}")
    good = event.outcome.value in ("applied", "undone", "nothing")
    instead = f"; instead: {event.instead}" if event.instead else ""
    outcome = event.outcome.value
    reason = event.reason if event.reason.startswith(outcome) else f"{outcome}: {event.reason}"
    return Line(Kind.DONE if good else Kind.BAD, f"{reason}{instead}")


def _short(preview: str) -> str:
    lines = [line for line in preview.splitlines() if line.strip()]
    named = [line[4:] for line in lines if line.startswith(("---", "+++")) and line[4:] != "/dev/null"]
    return (named or lines or [""])[-1 if named else 0].removesuffix(" (then)").removesuffix(" (now)")


# Afterwards


def history(session: Session) -> list[Mapping[str, Any]]:
    """Every run of the journal, newest first; none on a recorded node."""
    from npudoctor.fixer import runner

    with session.looking() as host:
        if session.source == "bundle":
            return []
        return list(reversed(runner.history(cast("MutableHost", host))))


def undoing(run: Mapping[str, Any]) -> Job:
    """The confirmation for undoing a run."""
    from npudoctor.fixer.journal import CUT_OFF

    if run["status"] in CUT_OFF:
        return recovering([run])
    lines = [Line(Kind.TITLE, str(run["title"])), Line(Kind.ABOUT, f"{run['id']} · by {run['by']}"), Line(Kind.SAME)]
    lines.append(Line(Kind.NOTE, "All of its changes are undone:"))
    for preview in run["preview"]:
        lines += diff(preview)
    stands = None if run["status"] == "applied" else f"already {run['status']}"
    if stands is None and not run.get("reversible", True):
        stands = "cannot be undone"
    return Job(
        title=f"Undo {run['fix']}",
        verb="Undo",
        lines=_visible(lines),
        obstacle=stands,
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
    return Job(title="Undo interrupted runs", verb="Undo", lines=_visible(lines), recovers=True, command=command)


def in_terminal(session: Session, argv: Sequence[str]) -> int:
    """Run a command on this terminal; its exit status. Raises ReadOnly."""
    session.must_allow_changes()
    return os.spawnvp(os.P_WAIT, argv[0], list(argv))  # noqa: S606 - without a shell on purpose
