"""The plan of `npudoctor setup --packages` as text and as JSON."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.cli import packages, setup_install
from npudoctor.control_characters import escape
from npudoctor.data import to_data
from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.findings import Report, Result, Status
from npudoctor.messages import gigabytes
from npudoctor.packages.missing import BARE, BOTH, CONTAINERS, Missing
from npudoctor.packages.node import Node, why_not
from npudoctor.packages.plan import NO_WAY_BACK, PARTS, Plan, PlanStep, wanted_parts
from npudoctor.packages.sets import PackageSet
from npudoctor.records import record

SHOWN_NOT_USED = 8
_PURPOSE = {
    CONTAINERS: "jobs in containers",
    BARE: "jobs on the node",
    BOTH: "jobs in containers and on the node",
}


@record(frozen=True)
class Checksum:
    """The SHA-256 of a file, and whether a checksum file beside it says the same; None where there is none.

    `problem` says why one of the two cannot be read."""

    path: str
    sha256: str | None
    matches: bool | None = None
    problem: str | None = None


def version_package(one: PackageSet, part: str) -> Package | None:
    """The package of a set whose version stands for a part."""
    components = {"python": ("torch_npu",), "cann": ("toolkit", "combined")}.get(part, PARTS[part])
    return one.of(*components) or (one.of("hdk_bundle") if part == "driver" else None)


def document(
    staged: StagedPackages,
    node: Node,
    purpose: str,
    sets: list[PackageSet],
    plan: Plan | None,
    lacks: tuple[Missing, ...],
    sums: tuple[Checksum, ...],
    *,
    whole: bool,
) -> dict[str, Any]:
    """The plan for scripts."""
    return {
        "schema": "npudoctor.setup-plan/1",
        "purpose": purpose,
        "complete": whole,
        "folders": list(staged.folders),
        "node": to_data(node),
        "sets": [packages.set_document(one) for one in sets],
        "steps": to_data(plan.steps) if plan else [],
        "unchanged": list(plan.unchanged) if plan else [],
        "refused": list(plan.refused) if plan else [],
        "uncertain": list(plan.uncertain) if plan else [],
        "reboot": plan.reboot if plan else None,
        "system_packages": list(_system_packages(node, plan)),
        "missing": [{"component": one.component, "published": one.published, "why": one.why} for one in lacks],
        "checksums": to_data(sums),
    }


def _system_packages(node: Node, plan: Plan | None) -> tuple[str, ...]:
    if plan is None or not any(step.component in ("driver", "combined") for step in plan.steps):
        return ()
    return knowledge.install().driver_packages(node.os_id or "", node.kernel or "$(uname -r)")


def lines(
    node: Node,
    purpose: str,
    only: tuple[str, ...],
    sets: list[PackageSet],
    plan: Plan | None,
    lacks: tuple[Missing, ...],
    sums: tuple[Checksum, ...],
    steps: Callable[[Plan], Iterator[str]],
) -> Iterator[str]:
    """The plan for a person; `steps` draws its steps."""
    yield f"node: {packages.describe_node(node)}"
    yield from (f"not known of the node: {escape(reason)}" for reason in node.unknown[:3])
    if node.in_container:
        yield "driver and firmware are planned on the host, not in a container"
    elif not node.chips:
        yield "driver and firmware are planned on a node with NPUs, or from its recording: --replay node.tar.gz"
    yield f"for: {_PURPOSE[purpose]}"
    if plan is None:
        yield from _choice(sets, wanted_parts(purpose, only))
    else:
        yield f"set: {escape(sets[0].title)}"
        yield from (f"  {escape(reason)}" for reason in sets[0].reasons)
        yield ""
        yield from steps(plan)
        yield from _rest(node, plan, sums)
    if lacks:
        yield "missing, by the vendor's name:"
        yield from (f"  {one.published}  ({one.why})" for one in lacks)


def check(result: Result) -> dict[str, Any]:
    """One check before an installation, for scripts."""
    findings = [
        {"code": finding.code, "severity": finding.severity.value, "summary": finding.summary}
        for finding in result.findings
    ]
    return {"check": result.check, "status": result.status.value, "reason": result.reason, "findings": findings}


def trial_lines(report: Report) -> Iterator[str]:
    """What the checks before an installation found just now; details with `npudoctor check install`."""
    yield "checked now (npudoctor check install --packages FOLDER):"
    good = [result.check for result in report.results if result.status is Status.OK and not result.findings]
    if good:
        yield f"  ok: {', '.join(good)}"
    for result in report.results:
        yield from (
            f"  {finding.severity.value}: {escape(finding.summary)} ({result.check})" for finding in result.findings
        )
        if result.status in (Status.SKIPPED, Status.CRASHED):
            word = "not known" if is_unknown(result) else "does not apply"
            yield f"  {word}: {result.check}: {escape(result.reason or '')}"


def is_unknown(result: Result) -> bool:
    """Whether a check has no answer although it applies to the node."""
    return result.status is Status.CRASHED or (result.status is Status.SKIPPED and result.because is not None)


def not_used(staged: StagedPackages, node: Node, *, every: bool) -> Iterator[str]:
    """The unusable packages, each with its reason; with `every` also those for another node."""
    reasons = {one.path: why for one in staged.packages if (why := why_not(one, node)) and (every or not one.usable)}
    if not reasons and every:
        yield f"{', '.join(map(escape, staged.folders))}: {'no package' if not staged.packages else 'no set'} in it"
    elif reasons:
        yield "not used:"
    yield from (escape(f"  {path}: {why}") for path, why in list(reasons.items())[:SHOWN_NOT_USED])
    if len(reasons) > SHOWN_NOT_USED:
        yield f"  and {len(reasons) - SHOWN_NOT_USED} more: npudoctor packages FOLDER"


def _choice(sets: list[PackageSet], names: tuple[str, ...]) -> Iterator[str]:
    if not sets:
        yield "no packages that fit this node"
        return
    yield f"{len(sets)} matching sets; choose one:"
    for one in sets[: packages.SHOWN_SETS]:
        yield f"  --expect {escape(expectation(one, names))}"


def expectation(one: PackageSet, names: Sequence[str]) -> str:
    """The versions of a set, as `--expect` takes them."""
    return ",".join(
        f"{name}={package.version}" for name in names if (package := version_package(one, name)) is not None
    )


def words_of(steps: Sequence[PlanStep]) -> list[str]:
    """The options of `npudoctor setup` that install these steps of a plan."""
    parts = [step.component for step in steps]
    folders = dict.fromkeys(posixpath.dirname(path) for step in steps for path in step.paths)
    words = [word for folder in folders for word in ("--packages", folder)]
    words += ["--only", ",".join(parts), "--expect", ",".join(f"{step.component}={step.then}" for step in steps)]
    words += [word for step in steps for word in ("--allow", step.id)]
    words += ["--irreversible"] if any(step.way_back == NO_WAY_BACK for step in steps) else []
    return words


def install_command(steps: Sequence[PlanStep]) -> str:
    """How these steps of a plan are installed."""
    return shlex.join(["npudoctor", "setup", *words_of(steps), "--reason", "TICKET"])


def step_lines(plan: Plan) -> Iterator[str]:
    """The steps below each other, for 80 columns."""
    if not plan.steps:
        yield "no steps: nothing is to be installed"
        return
    for number, step in enumerate(plan.steps, 1):
        seen, reboot = sorted(set(step.seconds_seen or ())), step.reboot or "no"
        took = f"{'-'.join(map(str, seen))} s seen" if seen else "duration not known"
        disk = gigabytes(step.disk_mb) if step.disk_mb else "disk space not known"
        change = f"{escape(step.now or 'none')} → {escape(step.then)}"
        yield f"{number}. {escape(step.id)} ({step.component}): {change}"
        yield f"   {'root' if step.root else 'no root'}; reboot: {reboot}; {took}; {disk}"
        yield f"   way back: {escape(step.way_back)}"
    yield f"reboot: {plan.reboot}, by you" if plan.reboot else "reboot: none"


def width(plan: Plan | None) -> int:
    """The columns that the table of a plan needs."""
    return max(map(len, table(plan))) if plan is not None else 0


def table(plan: Plan) -> Iterator[str]:
    """The steps as a table."""
    if not plan.steps:
        yield "no steps: nothing is to be installed"
        return
    rows = [("", "STEP", "FROM → TO", "ROOT", "REBOOT", "SECONDS", "DISK", "WAY BACK")]
    for number, step in enumerate(plan.steps, 1):
        seen = sorted(set(step.seconds_seen or ()))
        rows.append(
            (
                str(number),
                f"{step.id} ({step.component})",
                f"{step.now or 'none'} → {step.then}",
                "yes" if step.root else "no",
                step.reboot or "no",
                f"{'-'.join(map(str, seen))} seen" if seen else "not known",
                gigabytes(step.disk_mb) if step.disk_mb else "not known",
                step.way_back,
            )
        )
    cells = [tuple(map(escape, row)) for row in rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]) - 1)]
    for row in cells:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
    yield f"reboot: {plan.reboot}, by you" if plan.reboot else "reboot: none"


def _rest(node: Node, plan: Plan, sums: tuple[Checksum, ...]) -> Iterator[str]:
    yield ""
    yield from (f"installed already: {escape(text)}" for text in plan.unchanged)
    yield from (f"refused: {escape(text)}" for text in plan.refused)
    if needed := _system_packages(node, plan):
        yield f"system packages required before: {' '.join(needed)}"
    if plan.steps:
        yield "commands of the vendor, in this order:"
        yield from (f"  {number}. {escape(step.command)}" for number, step in enumerate(plan.steps, 1))
    if drivers := [step for step in plan.steps if step.component in setup_install.INSTALLED]:
        yield f"driver and firmware are installed by: {escape(install_command(drivers))}"
    if toolkits := [step for step in plan.steps if step.component == "toolkit"]:
        paths = [path for step in plan.steps if step.id == "cann.install" for path in step.paths]
        folders = dict.fromkeys(map(posixpath.dirname, paths))
        words = [word for folder in folders for word in ("--packages", folder)]
        command = shlex.join(["npudoctor", "fix", "cann.install", *words, "--set", f"cann={toolkits[0].then}"])
        yield f"CANN can be installed by: {escape(command)}"
    if wheels := [step for step in plan.steps if step.id == "python.create"]:
        folders = dict.fromkeys(posixpath.dirname(path) for step in wheels for path in step.paths)
        words = [word for folder in folders for word in ("--packages", folder)]
        command = shlex.join(["npudoctor", "fix", "python.create", *words])
        yield f"torch and torch_npu can be installed by: {escape(command)}"
    if any("--quiet" in step.command for step in plan.steps):
        yield "  --quiet accepts the vendor's licence"
    if sums:
        yield "SHA-256, computed now:"
        yield from (f"  {_sum(one)}" for one in sums)
    if plan.uncertain:
        yield "uncertain:"
        yield from (f"  {escape(text)}" for text in plan.uncertain)
    if any(step.way_back == NO_WAY_BACK for step in plan.steps):
        yield f"{NO_WAY_BACK}: {', '.join(step.component for step in plan.steps if step.way_back == NO_WAY_BACK)}"


def _sum(one: Checksum) -> str:
    name = escape(posixpath.basename(one.path))
    said = {None: "no checksum file beside it", True: "as in its checksum file", False: "NOT as in its checksum file"}
    return f"{one.sha256 or 'not known'}  {name}  ({escape(one.problem or said[one.matches])})"
