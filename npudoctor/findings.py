"""Findings, results and the report of a run: the data of every report format.

These models are the JSON contract `npudoctor.report/1`: fields may be added in 1.x, never renamed or removed.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from npudoctor.control_characters import all_visible
from npudoctor.inventory_models import Inventory as Inventory
from npudoctor.inventory_models import InventoryChip as InventoryChip
from npudoctor.inventory_models import InventoryNpu as InventoryNpu
from npudoctor.models import Line as Line
from npudoctor.models import Lines as Lines
from npudoctor.models import Model as Model
from npudoctor.reasons import Because as Because
from npudoctor.records import field, replace
from npudoctor.value_rules import Before, Written


class Severity(str, Enum):
    """How much a finding matters; ordered, INFO < WARNING < ERROR."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Its place in the order."""
        return ("info", "warning", "error").index(self.value)

    def __lt__(self, other: str) -> bool:
        return self.rank < Severity(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Severity(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Severity(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Severity(other).rank


class Status(str, Enum):
    """How a check ended. A finding of severity info leaves it OK; a check without a result is never OK.

    SILENCED: it has findings above info that the site has silenced.
    """

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"
    CRASHED = "crashed"
    SILENCED = "silenced"


class Skip(str, Enum):
    """Why a check was skipped: not applicable, blocked by another check, or its facts are unknown."""

    NOT_APPLICABLE = "not-applicable"
    BLOCKED = "blocked"
    COULD_NOT_LOOK = "could-not-look"


class Verdict(str, Enum):
    """The result of a whole run."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNDETERMINED = "undetermined"


class Evidence(Model):
    """One piece of evidence: its source, expected and actual value."""

    source: Line
    expected: Line | None = None
    actual: Line | None = None


class FixOffer(Model):
    """A fix for a finding, with its parameters."""

    id: Line
    params: Annotated[dict[str, Any], Written(all_visible)] = field(default_factory=dict)
    """The fix gets the unescaped parameters; printed ones are escaped."""


class Silenced(Model):
    """A silence of a check or a code by the site: its reason and last day (None: for ever)."""

    reason: Line | None = None
    until: datetime.date | None = None

    def __str__(self) -> str:
        until = f" until {self.until}" if self.until else ""
        return f"silenced{until}" + (f": {self.reason}" if self.reason else " by this site's configuration")


def _visible_params(params: object) -> object:
    return all_visible(params) if isinstance(params, dict) else params


def _fix_by_id(fix: object) -> object:
    return {"id": fix} if isinstance(fix, str) else fix


_NAMED = 8
"""So many chips are named in one line."""


class Finding(Model):
    """One problem or remark about one subject of the node.

    `code` is its id below its check, `npu.health/alarm`, with `params` for its texts: code that reads a finding reads
    these and never a sentence. It is None where a plug-in makes findings without `Message`. `subject` is `host`,
    `python`, `container`, `npu:3`, `npu:3/chip:1`, `nic:eth0`; where one cause concerns several chips it is `host`,
    or the first chip of their one NPU, and `subjects` names them all. `silenced` is set where the site has silenced
    this code: the finding is kept, and decides nothing. `of_live_job` marks what a running job explains: while the node
    is in service the engine reports it as info (see `--expect-idle`). `symptom` marks what an error of a check in
    `explained_by` explains, or its warning about the same chips: it is then not reported beside its cause.
    """

    code: Line | None = None
    params: Annotated[dict[str, Any], Before(_visible_params)] = field(default_factory=dict)
    subject: Line = "host"
    subjects: tuple[Line, ...] = ()
    severity: Severity = Severity.ERROR
    summary: Line
    detail: Lines | None = None
    hint: Line | None = None
    commands: tuple[Line, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    fix: Annotated[FixOffer | None, Before(_fix_by_id)] = None
    pitfall: Line | None = None
    links: tuple[Line, ...] = ()
    silenced: Silenced | None = None
    of_live_job: bool = field(default=False, metadata={"exclude": True})
    symptom: bool = field(default=False, metadata={"exclude": True})

    if TYPE_CHECKING:  # a fix may be given by its id

        def __init__(
            self,
            *,
            summary: str,
            code: str | None = None,
            params: Mapping[str, Any] = ...,
            subject: str = ...,
            subjects: tuple[str, ...] = ...,
            severity: Severity = ...,
            detail: str | None = None,
            hint: str | None = None,
            commands: tuple[str, ...] = (),
            evidence: tuple[Evidence, ...] = (),
            fix: FixOffer | str | None = None,
            pitfall: str | None = None,
            links: tuple[str, ...] = (),
            silenced: Silenced | None = None,
            of_live_job: bool = False,
            symptom: bool = False,
        ) -> None: ...

    @property
    def chips(self) -> tuple[str, ...]:
        """The NPUs and chips that it is about; none where it is about something else."""
        return tuple(one for one in self.subjects or (self.subject,) if one.startswith("npu:"))

    @property
    def where(self) -> str:
        """What it is about, in a few words; empty for this host, this Python or this container."""
        if self.subjects:
            more = f" and {len(self.subjects) - _NAMED} more" if len(self.subjects) > _NAMED else ""
            return ", ".join(self.subjects[:_NAMED]) + more
        return "" if self.subject in ("host", "python", "container") else self.subject

    def is_about(self, chip: str) -> bool:
        """Whether it is about this chip, or about the NPU that has it."""
        return any(chip == one or chip.startswith(f"{one}/") for one in self.chips)


class ProblemProgress(Model):
    """How far the problem of a check is: its stage, in words, and the fix and run of the journal that changed it.

    Stages: open, applied (in force, no check verifies it), after-login, after-reboot, in-force, verified. `waits` says
    that it is fixed and the effect comes later.
    """

    stage: Line
    text: Line
    waits: bool = False
    fix: Line | None = None
    run: Line | None = None


class Result(Model):
    """How one check ended. `reason` is a full clause; `detail` holds the traceback of a crash.

    `silenced` is set where the site has silenced this check: its findings are kept, and do not affect the verdict.
    `because` says why the facts of a `could-not-look` are unknown, or the rest of the facts of a check that has found
    something; `reported_by` is the check that reports that failure
    as a finding. `duration_s` is in seconds. `progress` is set where npudoctor has changed the node.
    `page` is where the documentation explains a built-in check that has found something.
    """

    check: Line
    title: Line
    tags: tuple[Line, ...] = ()
    status: Status
    reason: Line | None = None
    skip: Skip | None = None
    because: Because | None = None
    blocked_by: Line | None = None
    reported_by: Line | None = None
    duration_s: float = 0.0
    findings: tuple[Finding, ...] = ()
    silenced: Silenced | None = None
    detail: Lines | None = None
    progress: ProblemProgress | None = None
    page: Line | None = None

    @property
    def waits(self) -> bool:
        """Whether its problem is fixed, and the effect comes at a login or a boot."""
        return self.progress is not None and self.progress.waits

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """The findings that the site has not silenced."""
        return () if self.silenced else tuple(finding for finding in self.findings if not finding.silenced)

    @property
    def worst(self) -> Severity | None:
        """The highest severity of findings that are not silenced; None without one."""
        return max((finding.severity for finding in self.open_findings), default=None)

    def names(self, chips: Collection[str]) -> bool:
        """Whether findings above info, silenced or not, are about each of these chips, its NPU, or a chip of it."""
        told = [one for one in self.findings if one.severity > Severity.INFO]
        return all(
            any(one.is_about(chip) or any(part.startswith(f"{chip}/") for part in one.chips) for one in told)
            for chip in chips
        )

    def is_elsewhere(self, chips: Collection[str]) -> bool:
        """Whether its errors are about single chips, and not about these."""
        errors = [one for one in self.findings if one.severity is Severity.ERROR]
        return bool(errors) and all(one.chips for one in errors) and not self.names(chips)

    def with_cause_from(self, results: Mapping[str, Result]) -> Result:
        """This result; where the check that blocks it does not apply on this node, it does not apply either."""
        cause = results.get(self.blocked_by) if self.blocked_by else None
        if cause is None or cause.skip is not Skip.NOT_APPLICABLE:
            return self
        return replace(self, skip=Skip.NOT_APPLICABLE, blocked_by=None, reason=cause.reason)

    @property
    def leaves_undetermined(self) -> bool:
        """Whether a tool's failure, not the state of the node, left this check without a result."""
        if self.silenced:
            return False
        return self.status is Status.CRASHED or self.because in (Because.TIMED_OUT, Because.FAILED)


class HostSummary(Model):
    """The node of a report. `container` names the container's runtime, `python` the inspected interpreter.

    `python_user` is the user that ran that interpreter, if not the user of npudoctor.
    """

    hostname: Line | None = None
    machine: Line | None = None
    os: Line | None = None
    kernel: Line | None = None
    container: Line | None = None
    python: Line | None = None
    python_user: Line | None = None

    @property
    def python_line(self) -> str | None:
        """The interpreter and its user as text; None without an inspected one."""
        who = f", run as {self.python_user}" if self.python_user else ""
        return f"Python {self.python}{who}" if self.python else None


class Report(Model):
    """The whole of one run: what `npudoctor check --json` prints."""

    schema: str = "npudoctor.report/1"
    tool_version: Line
    started_at: Line
    duration_s: float
    host: HostSummary
    profile: Line
    verdict: Verdict
    exit_code: int
    role: Line
    in_service: bool | None
    environment: Line
    fail_on: Severity = Severity.ERROR
    summary: dict[Line, int]
    results: tuple[Result, ...]
    inventory: Inventory | None = None


def status_of(findings: Iterable[Finding]) -> Status:
    """The status of a check that ran to its end with these findings."""
    worst = max((finding.severity for finding in findings), default=Severity.INFO)
    return Status.OK if worst is Severity.INFO else Status(worst.value)


def apply_site_policy(result: Result, severities: Mapping[str, Severity], silences: Mapping[str, Silenced]) -> Result:
    """The result with its site's severity for what is above info, and marked where silenced.

    A silence names the check, one of its tags, or the code of a finding.
    """
    severity = severities.get(result.check)
    silenced = next((silences[name] for name in (result.check, *result.tags) if name in silences), None)
    quiet = {finding.code for finding in result.findings if finding.code in silences}
    if severity is None and silenced is None and not quiet:
        return result
    findings = tuple(
        replace(
            finding,
            severity=finding.severity if severity is None or finding.severity is Severity.INFO else severity,
            silenced=silences.get(finding.code or ""),
        )
        for finding in result.findings
    )
    status = result.status
    if status not in (Status.SKIPPED, Status.CRASHED):
        status = status_of(finding for finding in findings if not finding.silenced)
        if status is Status.OK and quiet:  # whatever is above info is silenced by its code
            silenced = next(finding.silenced for finding in findings if finding.silenced)
        if silenced and status_of(findings) is not Status.OK:
            status = Status.SILENCED
    return replace(result, findings=findings, status=status, silenced=silenced)


def count(results: Iterable[Result]) -> dict[str, int]:
    """How many results ended in each status, in the order of `Status`."""
    ended = [result.status for result in results]
    return {status.value: ended.count(status) for status in Status}


def judge(
    results: Sequence[Result], *, fail_on: Severity = Severity.ERROR, named: Collection[str] = ()
) -> tuple[Verdict, int]:
    """The verdict and the exit code of a run; `named` holds the checks asked for by id.

    1: a finding at or above `fail_on`. 3: nothing worse, but a check crashed, a tool failed or did not answer, or a
    check named on the command line was skipped, or the cause that blocks one is not in this report.
    0: otherwise.
    """
    worst = max((result.worst for result in results if result.worst), default=None)
    shown = {result.check for result in results}
    undetermined = any(
        result.leaves_undetermined
        or (result.blocked_by is not None and result.blocked_by not in shown)
        or (result.check in named and result.status is Status.SKIPPED and not result.silenced)
        for result in results
    )
    failed = worst is not None and worst >= fail_on
    if undetermined and not failed:
        return Verdict.UNDETERMINED, 3
    verdict = Verdict.OK if worst in (None, Severity.INFO) else Verdict(worst.value)
    return verdict, 1 if failed else 0
