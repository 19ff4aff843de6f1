"""How far each problem is, by the journal and by what the checks find; every screen and command takes it from here.

    open → previewed → applied → in force now, after login, or after reboot → verified

A problem's progress is computed anew from the applied runs of the journal, so that undoing one changes no other.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from npudoctor.findings import Result, Severity, Status
from npudoctor.fixer import messages
from npudoctor.fixer.journal import APPLIED
from npudoctor.host import Host, Unavailable
from npudoctor.records import record
from npudoctor.sdk import Effect


class Stage(str, Enum):
    """How far a problem is."""

    OPEN = "open"
    PREVIEWED = "previewed"
    APPLIED = "applied"
    AFTER_LOGIN = "after-login"
    AFTER_REBOOT = "after-reboot"
    IN_FORCE = "in-force"
    VERIFIED = "verified"

    @property
    def waits(self) -> bool:
        """Whether the fix is applied and its effect comes later."""
        return self in (Stage.AFTER_LOGIN, Stage.AFTER_REBOOT)


_TEXTS = {
    Stage.OPEN: messages.OPEN,
    Stage.PREVIEWED: messages.PREVIEWED,
    Stage.APPLIED: messages.IN_FORCE_UNVERIFIED,
    Stage.AFTER_LOGIN: messages.AFTER_LOGIN,
    Stage.AFTER_REBOOT: messages.AFTER_REBOOT,
    Stage.IN_FORCE: messages.IN_FORCE,
    Stage.VERIFIED: messages.IN_FORCE_VERIFIED,
}


@record(frozen=True, kw_only=True)
class Change:
    """An applied run. `aims` are the findings that it should resolve, as check and subject; `at` is in UTC.

    `verified` says whether a check has found its effect, now or at a login.
    """

    run: str
    fix: str
    effect: Effect
    at: str
    aims: frozenset[tuple[str, str | None]]
    verified: bool = False

    def covers(self, check: str, subject: str | None = None) -> bool:
        """Whether it should resolve this finding, or without a subject any one of this check."""
        if subject is None:
            return any(aim == check for aim, _ in self.aims)
        return (check, subject) in self.aims or (check, None) in self.aims


@record(frozen=True, kw_only=True)
class Progress:
    """How far one problem is, by which change; `at_login` where the environment of the next login was judged."""

    stage: Stage
    change: Change | None = None
    at_login: bool = False

    @property
    def text(self) -> str:
        """A clause for a person: "fixed by env.profile; in force in new logins"."""
        if self.change is None:
            return _TEXTS[self.stage].text()
        later = self.at_login and self.change.effect is Effect.NEW_LOGIN and self.stage is Stage.VERIFIED
        sentence = messages.VERIFIED_FOR_LOGIN if later else _TEXTS[self.stage]
        return sentence.text(fix=self.change.fix)


def changes(runs: Iterable[Mapping[str, Any]], resolves: Mapping[str, Sequence[str]]) -> tuple[Change, ...]:
    """The applied runs of a history, newest last. `resolves` has the checks of a fix for runs that name no aims."""
    return tuple(
        Change(
            run=str(run["id"]),
            fix=str(run["fix"]),
            effect=Effect(run["effect"]),
            at=str(run["at"]),
            aims=frozenset((check, subject) for check, subject in run.get("aims") or ())
            or frozenset((check, None) for check in resolves.get(str(run["fix"]), ())),
            verified=bool(run.get("rechecked")),
        )
        for run in sorted(runs, key=lambda run: str(run["id"]))
        if run["status"] == APPLIED
    )


def of_change(change: Change, *, booted_at: str | None = None) -> Stage:
    """How far a run is by the journal alone; `booted_at` is the time of the last boot in UTC."""
    if change.effect is Effect.REBOOT:
        return Stage.IN_FORCE if booted_at is not None and booted_at > change.at else Stage.AFTER_REBOOT
    if change.effect is Effect.NEW_LOGIN:
        return Stage.AFTER_LOGIN
    return Stage.VERIFIED if change.verified else Stage.APPLIED


def of_check(
    result: Result,
    applied: Sequence[Change],
    *,
    at_login: bool = False,
    booted_at: str | None = None,
    previewed: bool = False,
) -> Progress | None:
    """How far the problem of a check is; None where it has none and nothing was changed for it.

    `at_login` says that the result is of the environment of the next login: there a fix for a login is in force.
    """
    mine = [change for change in applied if change.covers(result.check)]
    if result.status is Status.OK:
        return Progress(stage=Stage.VERIFIED, change=mine[-1], at_login=at_login) if mine else None
    found = [finding for finding in result.findings if finding.severity >= Severity.WARNING]
    if not found and result.status is not Status.CRASHED:
        return None
    for change in reversed(mine):
        stage = of_change(change, booted_at=booted_at)
        later = stage.waits and not (at_login and stage is Stage.AFTER_LOGIN)
        if later and all(change.covers(result.check, finding.subject) for finding in found):
            return Progress(stage=stage, change=change, at_login=at_login)
    return Progress(stage=Stage.PREVIEWED if previewed else Stage.OPEN, at_login=at_login)


def booted_at(host: Host) -> str | None:
    """When the node was booted, in UTC, from /proc/stat; None where it is unknown."""
    try:
        words = (line.split() for line in host.read("/proc/stat").splitlines())
        seconds = next(float(word[1]) for word in words if len(word) == 2 and word[0] == "btime")
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds")
    except (Unavailable, StopIteration, ValueError, OverflowError, OSError):
        return None


def of_runs(
    runs: Sequence[Mapping[str, Any]], resolves: Mapping[str, Sequence[str]], host: Host
) -> list[dict[str, Any]]:
    """The runs of a history, each with its `stage`; None for one that is not applied."""
    since = booted_at(host)
    stages = {change.run: of_change(change, booted_at=since).value for change in changes(runs, resolves)}
    return [{**run, "stage": stages.get(str(run["id"]))} for run in runs]


def stage_clause(run: Mapping[str, Any]) -> str:
    """The stage of a run of `of_runs` as a clause; empty where the reason of the run says more."""
    return "" if run["stage"] in (None, Stage.APPLIED) else _TEXTS[Stage(run["stage"])].text(fix=run["fix"])


def resolving(fixes: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The checks that each fix of a catalogue claims to resolve."""
    return {id: tuple(fix.resolves) for id, fix in fixes.items()}
