"""Applies a plan, reports what happens as typed events, verifies it, and undoes it if it has not helped.

    for event in runner.apply(catalog, host, plan, options):
        ...                          # Begun, StepBegun, StepDone, Proving, Undoing, and Ended as the last one

The consumer has shown `plan.preview` and asked before. Closing the generator, an interrupt and every exception undo
what was done, newest first. `undo` undoes an applied run, `recover` one that was interrupted; both yield the same
events. Nothing is raised but what interrupts the process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from npudoctor.findings import Finding, Result, Status
from npudoctor.fixer import control, messages, plan, serialise
from npudoctor.fixer.control import standing_against as standing_against
from npudoctor.fixer.events import Begun as Begun
from npudoctor.fixer.events import Ended as Ended
from npudoctor.fixer.events import Event as Event
from npudoctor.fixer.events import Outcome as Outcome
from npudoctor.fixer.events import Proving as Proving
from npudoctor.fixer.events import StepBegun as StepBegun
from npudoctor.fixer.events import StepDone as StepDone
from npudoctor.fixer.events import Undoing as Undoing
from npudoctor.fixer.events import Verification as Verification
from npudoctor.fixer.journal import (
    APPLIED,
    CUT_OFF,
    OF_INSTALLATION,
    ROLLED_BACK,
    UNDOING,
    UNDONE,
    Journal,
    RunRecord,
    now,
)
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.host import MutableHost, Refused, Unavailable
from npudoctor.host.live import audit
from npudoctor.plugins import Catalog
from npudoctor.records import replace
from npudoctor.sdk import Effect, Options
from npudoctor.steps import Commands, Step, StepFailed, output_to
from npudoctor.steps.installers import InstallPackage
from npudoctor.steps.packages import KeepPackages
from npudoctor.steps.system import Run

_FAILURES = (StepFailed, OSError, Unavailable, Refused, serialise.InvalidData)


def apply(
    catalog: Catalog,
    host: MutableHost,
    planned: FixPlan,
    options: Options,
    *,
    irreversible: bool = False,
    state: str | None = None,
    stream: Callable[[str], None] | None = None,
) -> Iterator[Event]:
    """Apply a plan that a person has seen and confirmed; `irreversible` is their word for steps without a way back.

    `stream` gets the output of the commands of its steps as it comes.
    """
    fix = planned.fix
    if stands := standing_against(planned, irreversible=irreversible):
        yield Ended(outcome=Outcome.REFUSED, fix=fix.id, reason=stands.reason, instead=stands.instead)
        return
    if not planned.empty and (forbidden := control.forbidden_now(options, host)):
        yield Ended(outcome=Outcome.REFUSED, fix=fix.id, reason=forbidden.reason, instead=forbidden.instead)
        return
    if planned.empty:
        yield Ended(outcome=Outcome.NOTHING, fix=fix.id, reason=messages.ALREADY_APPLIED.text())
        return
    journal = Journal(host, state)
    try:
        journal.prepare()
        with control.lock_journal(journal):
            journal.refuse_during_installation()
            yield from _cut_off(journal)
            again = plan.make(catalog, host.fresh(), Request(fix.id, planned.params), options)
            if again.digest != planned.digest:
                raise Refused(messages.NODE_CHANGED.text())
            yield from _Run(catalog, host, planned, options, journal, stream).events()
    except (Refused, OSError) as why:
        reason = why.reason if isinstance(why, Refused) else messages.JOURNAL_NOT_WRITABLE.text(problem=why)
        instead = why.instead if isinstance(why, Refused) else None
        yield Ended(outcome=Outcome.REFUSED, fix=fix.id, reason=reason, instead=instead)


class _Run:
    def __init__(
        self,
        catalog: Catalog,
        host: MutableHost,
        planned: FixPlan,
        options: Options,
        journal: Journal,
        stream: Callable[[str], None] | None,
    ) -> None:
        self.catalog = catalog
        self.host = host
        self.plan = planned
        self.options = options
        self.journal = journal
        self.id = journal.new_name(planned.fix.id)
        self.verification = Verification()
        self.stream = stream

    def events(self) -> Iterator[Event]:
        """Apply, prove, keep or undo."""
        self._open()
        yield Begun(self.id, self.plan.fix.id, len(self.plan.steps))
        try:
            for number, one in enumerate(self.plan.steps):
                step = self._place_in_run(one.step, number)
                self.journal.note(self.id, number, step, step.inverse(self.host))
                yield StepBegun(number + 1, one.preview)
                commands: Commands = []
                try:
                    with output_to(self.stream, commands):
                        step.apply(self.host)
                finally:
                    self.journal.note_commands(self.id, number, commands)
                yield StepDone(number + 1)
            remaining, told = yield from self._prove()
            if not remaining:
                self.journal.mark(self.id, APPLIED, told, **serialise.write_form(self.verification))
        except _FAILURES as problem:
            yield from self._roll_back(_reason(problem), output=getattr(problem, "output", ""))
            return
        except BaseException:
            for _ in self._roll_back(messages.INTERRUPTED.text()):
                pass
            raise
        if remaining:
            first = remaining[0].summary
            yield from self._roll_back(messages.STILL_THERE.text(problem=first), remaining)
            return
        control.log(self.journal, self.id, "applied", told)
        back = any(one.inverse for one in self.plan.steps)
        yield Ended(
            outcome=Outcome.APPLIED,
            fix=self.plan.fix.id,
            run=self.id,
            reason=told,
            reversible=back,
            verification=self.verification,
        )

    def _place_in_run(self, step: Step, number: int) -> Step:
        """What keeps files keeps them in the folder of the run."""
        if isinstance(step, KeepPackages) and not step.archive:
            return replace(step, archive=self.journal.archive(self.id, f"kept-{number:03}.tar"))
        if isinstance(step, InstallPackage) and not step.private_copy:
            return replace(step, private_copy=self.journal.archive(self.id, f"package-{number:03}.run"))
        return step

    def _open(self) -> None:
        fix, user = self.plan.fix, self.host.user
        who = audit.asker() if self.host.about.source == "live" else audit.NOBODY
        self.journal.begin(
            RunRecord(
                id=self.id,
                fix=fix.id,
                title=fix.title,
                params=json.dumps(self.plan.params, sort_keys=True, default=list),
                by=messages.BY_USER.text(user=user.name, uid=user.uid),
                started_at=now(),
                effect=fix.effect.value,
                preview=tuple(one.preview for one in self.plan.steps),
                reversible=not self.plan.irreversible,
                aims=tuple((aim.check, aim.subject) for aim in self.plan.aims),
                reason=self.options.reason,
                login=who.login,
                sudo_user=who.sudo_user,
                origin=who.origin,
                host=self.host.about.hostname,
                machine_id=self.journal.machine_id,
            )
        )

    def _prove(self) -> Generator[Event, None, tuple[tuple[Finding, ...], str]]:
        """The findings that are still there, and what a person should know about the proof."""
        fix, aims = self.plan.fix, self.plan.aims
        if fix.effect is Effect.REBOOT:
            return (), messages.AT_NEXT_BOOT.text()
        if self.plan.unproved:
            return (), messages.NOT_VERIFIED.text(why=self.plan.unproved)
        checks = plan.provers(self.catalog, fix)
        if not checks:
            return (), messages.APPLIED.text(checked=self.plan.recheck(self.host.fresh()))
        yield Proving(checks, fix.effect)
        told = messages.VERIFIED.text()
        host = self.host.fresh()
        if fix.effect is Effect.NEW_LOGIN:
            try:
                host = host.after_login()
                _ = host.environ
            except Unavailable as why:
                return (), messages.NO_LOGIN.text(problem=why.reason)
            told = messages.VERIFIED_AT_LOGIN.text()
        report, _ = plan.run_checks(self.catalog, host, checks, self.options)
        self.verification = Verification(
            turned=tuple(one.check for one in report.results if self._is_better(one)),
            rechecked=len(report.results),
            seconds=report.duration_s,
        )
        aimed = {(aim.check, aim.subject) for aim in aims}
        left = [
            finding
            for result, finding in plan.offers(report).get(fix.id, ())
            if (result.check, finding.subject) in aimed
            and finding.fix
            and plan.covers_offer(finding.fix, self.plan.params)
        ]
        worse = [result for result in report.results if fix.effect is Effect.NOW and self._is_worse(result)]
        return (*left, *(finding for result in worse for finding in _as_findings(result))), told

    def _is_better(self, result: Result) -> bool:
        return result.status is Status.OK and self.plan.before.get(result.check) in (
            Status.WARNING,
            Status.ERROR,
            Status.CRASHED,
        )

    def _is_worse(self, result: Result) -> bool:
        before = self.plan.before.get(result.check)
        bad = (Status.ERROR, Status.CRASHED)
        return result.status in bad and before in (Status.OK, Status.WARNING)

    def _roll_back(self, reason: str, remaining: tuple[Finding, ...] = (), *, output: str = "") -> Iterator[Event]:
        fix = self.plan.fix.id
        try:
            yield from taken_back(self.journal, self.id)
            self.journal.mark(self.id, ROLLED_BACK, reason)
            control.log(self.journal, self.id, "rolled back", reason)
        except _FAILURES as problem:
            reason = messages.UNDO_FAILED.text(reason=reason, problem=_reason(problem))
            again = "npudoctor fix --recover"
            yield Ended(outcome=Outcome.STUCK, fix=fix, run=self.id, reason=reason, instead=again, output=output)
            return
        ended = Ended(outcome=Outcome.ROLLED_BACK, fix=fix, run=self.id, reason=reason, remaining=remaining)
        yield replace(ended, output=output)


def _as_findings(result: Result) -> tuple[Finding, ...]:
    crashed = messages.CHECK_CRASHED.text(check=result.check, problem=result.reason)
    return result.findings or (Finding(summary=crashed),)


def _reason(problem: BaseException) -> str:
    return getattr(problem, "reason", None) or str(problem)


def taken_back(journal: Journal, run: str) -> Iterator[Event]:
    """Take the inverse of every step that was begun, newest first."""
    entries = journal.entries(run)
    for number in range(len(entries), 0, -1):
        inverse = entries[number - 1].inverse
        if inverse is not None:
            yield Undoing(number, inverse.preview(journal.host))
            inverse.apply(journal.host)


# Afterwards


def undo(
    host: MutableHost, run: str | None = None, *, force: bool = False, state: str | None = None
) -> Iterator[Event]:
    """Undo an applied run, the newest without a name; refused with a diff if its files have changed since."""
    journal = Journal(host, state)
    fix = ""
    try:
        if not journal.runs():
            raise Refused(messages.NO_SUCH_RUN.text(run=run) if run else messages.NOTHING_TO_UNDO.text())
        journal.prepare()
        with control.lock_journal(journal):
            journal.refuse_during_installation()
            yield from _cut_off(journal)
            run = _applied_id(journal, run)
            fix = journal.record(run).fix
            if (there := journal.elsewhere(run)) and not force:
                raise Refused(
                    messages.OF_ANOTHER_HOST.text(run=run, host=there), instead=f"npudoctor undo {run} --force"
                )
            _must_be_undoable(journal, run, force)
            journal.mark(run, UNDOING)
            yield Begun(run, fix, len(journal.entries(run)))
            yield from taken_back(journal, run)
            journal.mark(run, UNDONE)
            control.log(journal, run, "undone", messages.UNDONE.text())
            yield Ended(outcome=Outcome.UNDONE, fix=fix, run=run, reason=messages.UNDONE.text())
    except Refused as why:
        yield Ended(outcome=Outcome.REFUSED, fix=fix, run=run, reason=why.reason, instead=why.instead)
    except _FAILURES as problem:
        yield Ended(outcome=Outcome.STUCK, fix=fix, run=run, reason=_reason(problem), instead="npudoctor fix --recover")


def to_undo(host: MutableHost, run: str | None, *, state: str | None = None) -> RunRecord:
    """The record of the named run, or of the newest applied one; raises Refused where it is not applied."""
    journal = Journal(host, state)
    return journal.record(_applied_id(journal, run))


def undo_preview(host: MutableHost, run: str, *, state: str | None = None, force: bool = False) -> tuple[str, ...]:
    """What undoing an applied run would change, in the order in which it is done; raises Refused where it cannot be."""
    journal = Journal(host, state)
    _applied_id(journal, run)
    inverses = [entry.inverse for entry in reversed(journal.entries(run)) if entry.inverse is not None]
    _must_be_undoable(journal, run, force=force)
    fresh = host.fresh()
    return tuple(one.preview(fresh) for one in inverses if not one.holds(fresh))


def _applied_id(journal: Journal, run: str | None) -> str:
    statuses = {one: journal.status(one) for one in journal.runs()}
    if run is None:
        done = [one for one, status in statuses.items() if status is not None and status.status == APPLIED]
        if not done:
            raise Refused(messages.NOTHING_TO_UNDO.text())
        return done[-1]
    status = statuses.get(run)
    if status is None:
        raise Refused(messages.NO_SUCH_RUN.text(run=run))
    if status.status in OF_INSTALLATION:
        raise Refused(messages.RUN_IS_HELD.text(run=run, status=status.status))
    if status.status != APPLIED:
        raise Refused(messages.RUN_IS.text(run=run, status=status.status))
    return run


def _must_be_undoable(journal: Journal, run: str, force: bool) -> None:
    entries = journal.entries(run)
    if not any(entry.inverse for entry in entries):
        raise Refused(messages.NOTHING_REVERSIBLE.text())
    host = journal.host.fresh()
    later: set[str] = set()
    for entry in reversed(entries):
        superseded = later & entry.subjects
        later |= entry.subjects
        if entry.inverse is None:
            continue
        if found := entry.inverse.obstacle(host):
            raise Refused(found.reason, instead="sudo" if found.root else None)
        if force or superseded or isinstance(entry.step, Run) or entry.step.holds(host) or entry.inverse.holds(host):
            continue
        change = entry.step.preview(host)
        raise Refused(messages.CHANGED_SINCE.text(change=change), instead=f"npudoctor undo {run} --force")


def recover(host: MutableHost, *, state: str | None = None) -> Iterator[Event]:
    """Finish what a crash has interrupted."""
    journal = Journal(host, state)
    try:
        if not journal.runs():
            yield Ended(outcome=Outcome.NOTHING, fix="", reason=messages.NOTHING_CUT_OFF.text())
            return
        journal.prepare()
        with control.lock_journal(journal):
            journal.refuse_during_installation()
            count = 0
            for event in _cut_off(journal):
                count += isinstance(event, Begun)
                yield event
            reason = messages.CUT_OFF_UNDONE.text(count=count) if count else control.nothing_cut_off(journal)
            outcome = Outcome.UNDONE if count else Outcome.NOTHING
            yield Ended(outcome=outcome, fix="", reason=reason)
    except Refused as why:
        yield Ended(outcome=Outcome.REFUSED, fix="", reason=why.reason, instead=why.instead)
    except _FAILURES as problem:
        yield Ended(outcome=Outcome.STUCK, fix="", reason=_reason(problem), instead="npudoctor fix --recover")


def _cut_off(journal: Journal) -> Iterator[Event]:
    """Undo every run that was interrupted, newest first."""
    for run in reversed(journal.runs()):
        status = journal.status(run)
        if status is None:
            journal.drop(run)
        elif status.status in CUT_OFF and not journal.elsewhere(run):
            record = journal.record(run)
            yield Begun(run, record.fix, len(journal.entries(run)))
            yield from taken_back(journal, run)
            journal.mark(run, UNDONE if status.status == UNDOING else ROLLED_BACK, messages.CUT_OFF.text())


def history(host: MutableHost, *, state: str | None = None) -> list[Mapping[str, Any]]:
    """Every run with what became of it, oldest first."""
    return Journal(host, state).history()
