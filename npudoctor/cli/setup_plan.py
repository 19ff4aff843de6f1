"""`npudoctor setup --packages FOLDER --dry-run`: the plan to install driver, firmware, CANN and wheels."""

from __future__ import annotations

import argparse
import hashlib
import posixpath
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.cli import packages, setup_install
from npudoctor.cli.output import UsageError, write, write_json
from npudoctor.cli.staged import staged_in
from npudoctor.control_characters import visible
from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.findings import Report, Result, Status
from npudoctor.host import Host, Refused, Unavailable
from npudoctor.knowledge.patterns import canonical
from npudoctor.packages.missing import BARE, BOTH, CONTAINERS, PURPOSES, Missing, missing
from npudoctor.packages.node import Node
from npudoctor.packages.plan import NO_WAY_BACK, PARTS, Plan, planned, wanted
from npudoctor.packages.sets import PackageSet, package_sets
from npudoctor.records import record

_PURPOSE = {
    CONTAINERS: "jobs in containers",
    BARE: "jobs on the node",
    BOTH: "jobs in containers and on the node",
}
CHUNK = 4 << 20


@record(frozen=True)
class Checksum:
    """The SHA-256 of a file, and whether a checksum file beside it says the same; None where there is none."""

    path: str
    sha256: str | None
    matches: bool | None = None
    problem: str | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the plan."""
    group = parser.add_argument_group("driver, firmware, CANN and wheels from a folder (docs/setup.md)")
    group.add_argument(
        "--packages", action="append", default=[], metavar="FOLDER", help="plan the installation of these packages"
    )
    group.add_argument("--for", dest="purpose", choices=PURPOSES, help="what will run on the node (default: both)")
    group.add_argument("--only", metavar="PARTS", help=f"only these of {', '.join(PARTS)}, joined by commas")
    group.add_argument("--cann", metavar="V", help="the CANN to install, where several are in the folder")
    group.add_argument(
        "--expect", metavar="PART=V", help="the versions to install, such as driver=25.5.2,firmware=7.8.0.7.220"
    )


def asked(args: argparse.Namespace) -> bool:
    """Whether a plan is asked for; raises UsageError for options that need a folder."""
    for option, value in (
        ("--for", args.purpose),
        ("--only", args.only),
        ("--cann", args.cann),
        ("--expect", args.expect),
    ):
        if value and not args.packages:
            raise UsageError(f"{option} requires --packages FOLDER")
    return bool(args.packages)


def run(args: argparse.Namespace) -> int:
    """Print the plan; 0 where it is whole, 1 where a choice or a package is missing."""
    only, expected = _parts(args.only), _expected(args.expect)
    if not args.dry_run:
        setup_install.refuse_early(args, only, expected)
    purpose = args.purpose or BOTH
    staged = staged_in(args.packages)
    args.packages = []  # read once: the options of the run take `staged`
    node, report = packages.examined(args, staged)
    found = package_sets(staged, node, cann=args.cann)
    sets = [one for one in found.sets if all(_has(one, part, version) for part, version in expected.items())]
    absent = [*packages.without_cann(found, args.cann), *_not_there(found.sets, expected)]
    sets = _distinct(sets, staged, node, purpose, only)
    chosen = sets[0] if len(sets) == 1 else None
    plan = planned(chosen, staged, node, purpose=purpose, only=only) if chosen else None
    lacks = missing(chosen, node, purpose) if not only and len(sets) < 2 else ()
    sums = _checksums(plan) if plan else ()
    whole = plan is not None and not lacks and not plan.refused and all(one.matches is not False for one in sums)
    blocked = _blocked(report, plan)
    whole = whole and not absent and not blocked
    if args.json:
        checks = [_check(result) for result in report.results]
        document = _document(staged, node, purpose, sets, plan, lacks, sums, whole=whole)
        write_json({**document, "absent": absent, "blocked": blocked, "checks": checks})
    else:
        lines = [*_lines(node, purpose, only, sets, plan, lacks, sums), *absent, *_tried(report)]
        lines += [f"not ready for this plan: {', '.join(blocked)}"] if blocked else []
        lines += ["nothing was changed"] if args.dry_run or not whole else []
        write("\n".join(lines) + "\n")
    if node.in_container and not args.dry_run:
        raise Refused("driver and firmware are installed on the host, not in a container")
    if whole and plan is not None and not args.dry_run:
        return setup_install.install(args, plan, {one.path: one.sha256 for one in sums}, report)
    return 0 if whole else 1


def _parts(text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if unknown := [name for name in names if name not in PARTS]:
        raise UsageError(f"--only {unknown[0]}: expected some of {', '.join(PARTS)}")
    return names


def _expected(text: str | None) -> dict[str, str]:
    found = {}
    for pair in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, version = pair.partition("=")
        if name not in PARTS or not equals or not version:
            raise UsageError(f"--expect {pair}: expected PART=VERSION with a part of {', '.join(PARTS)}")
        found[name] = version
    return found


def _decisive(one: PackageSet, part: str) -> Package | None:
    """The package of a set whose version stands for a part."""
    components = {"python": ("torch_npu",), "cann": ("toolkit", "combined")}.get(part, PARTS[part])
    return one.of(*components) or (one.of("hdk_bundle") if part == "driver" else None)


def _has(one: PackageSet, part: str, version: str) -> bool:
    """Whether a set has this version of a part; for Python, of torch_npu."""
    package = _decisive(one, part)
    return package is not None and canonical(package.version or "") == canonical(version)


def _not_there(sets: Sequence[PackageSet], expected: dict[str, str]) -> Iterator[str]:
    """The expected versions that no set has, each with those that there are."""
    for part, version in expected.items():
        if not any(_has(one, part, version) for one in sets):
            there = {package.version for one in sets if (package := _decisive(one, part)) is not None}
            others = f"there is {visible(', '.join(sorted(filter(None, there))))}" if there else "there is none"
            yield f"--expect {part}={visible(version)}: no matching set has it; {others}"


def _blocked(report: Report, plan: Plan | None) -> list[str]:
    """The checks that a plan fails on: errors, and kernels for which the driver's modules cannot be built."""
    builds = plan is not None and any(step.component in ("driver", "combined") for step in plan.steps)
    return [
        result.check
        for result in report.results
        if result.status in (Status.ERROR, Status.CRASHED)
        or (builds and result.check == "install.module-build" and result.status is Status.WARNING)
    ]


def _distinct(
    sets: list[PackageSet], staged: StagedPackages, node: Node, purpose: str, only: tuple[str, ...]
) -> list[PackageSet]:
    """One of the sets that lead to the same steps."""
    found: dict[tuple[Any, ...], PackageSet] = {}
    for one in sets:
        plan = planned(one, staged, node, purpose=purpose, only=only)
        found.setdefault((plan.steps, plan.unchanged, plan.refused), one)
    return list(found.values())


# Checksums


def _checksums(plan: Plan) -> tuple[Checksum, ...]:
    from npudoctor.cli.staged import this_machine

    host = this_machine()
    try:
        return tuple(
            _checksum(host, path) for path in dict.fromkeys(path for step in plan.steps for path in step.paths)
        )
    finally:
        host.close()


def _checksum(host: Host, path: str) -> Checksum:
    digest = hashlib.sha256()
    place = 0
    try:
        while piece := host.read_part(path, place, CHUNK):
            digest.update(piece)
            place += len(piece)
    except Unavailable as why:
        return Checksum(path, None, None, why.reason)
    found = digest.hexdigest()
    for suffix in ("sha256", "sha256sum"):
        try:
            said = host.read_bytes(f"{path}.{suffix}", limit=4096).decode("ascii", "replace").lower()
        except Unavailable:
            continue
        return Checksum(path, found, found in said.split())
    return Checksum(path, found)


# Output


def _document(
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
    return {
        "schema": "npudoctor.setup-plan/1",
        "purpose": purpose,
        "complete": whole,
        "folders": list(staged.folders),
        "node": {name: getattr(node, name) for name in Node.__dataclass_fields__},
        "sets": [packages.set_document(one) for one in sets],
        "steps": [
            {name: getattr(step, name) for name in step.__dataclass_fields__} for step in (plan.steps if plan else ())
        ],
        "unchanged": list(plan.unchanged) if plan else [],
        "refused": list(plan.refused) if plan else [],
        "uncertain": list(plan.uncertain) if plan else [],
        "reboot": plan.reboot if plan else None,
        "system_packages": list(_system_packages(node, plan)),
        "missing": [{"component": one.component, "published": one.published, "why": one.why} for one in lacks],
        "checksums": [{name: getattr(one, name) for name in one.__dataclass_fields__} for one in sums],
    }


def _system_packages(node: Node, plan: Plan | None) -> tuple[str, ...]:
    if plan is None or not any(step.component in ("driver", "combined") for step in plan.steps):
        return ()
    return knowledge.install().driver_packages(node.os_id or "", node.kernel or "$(uname -r)")


def _lines(
    node: Node,
    purpose: str,
    only: tuple[str, ...],
    sets: list[PackageSet],
    plan: Plan | None,
    lacks: tuple[Missing, ...],
    sums: tuple[Checksum, ...],
) -> Iterator[str]:
    yield f"node: {packages.described(node)}"
    yield f"for: {_PURPOSE[purpose]}"
    if plan is None:
        yield from _choice(sets, wanted(purpose, only))
    else:
        yield f"set: {visible(sets[0].title)}"
        yield from (f"  {visible(reason)}" for reason in sets[0].reasons)
        yield ""
        yield from _table(plan)
        yield from _rest(node, plan, sums)
    if lacks:
        yield "missing, by the vendor's name:"
        yield from (f"  {one.published}  ({one.why})" for one in lacks)


def _check(result: Result) -> dict[str, Any]:
    findings = [
        {"code": finding.code, "severity": finding.severity.value, "summary": finding.summary}
        for finding in result.findings
    ]
    return {"check": result.check, "status": result.status.value, "reason": result.reason, "findings": findings}


def _tried(report: Report) -> Iterator[str]:
    """What the checks before an installation found just now; details with `npudoctor check install`."""
    yield "checked now (npudoctor check install --packages FOLDER):"
    good = [result.check for result in report.results if result.status is Status.OK and not result.findings]
    if good:
        yield f"  ok: {', '.join(good)}"
    for result in report.results:
        yield from (
            f"  {finding.severity.value}: {visible(finding.summary)} ({result.check})" for finding in result.findings
        )
        if result.status in (Status.SKIPPED, Status.CRASHED):
            yield f"  not known: {result.check}: {visible(result.reason or '')}"


def _choice(sets: list[PackageSet], names: tuple[str, ...]) -> Iterator[str]:
    if not sets:
        yield "no packages that fit this node; see npudoctor packages FOLDER"
        return
    yield f"{len(sets)} matching sets; choose one:"
    for one in sets[: packages.SHOWN_SETS]:
        versions = [f"{name}={package.version}" for name in names if (package := _decisive(one, name)) is not None]
        yield f"  --expect {visible(','.join(versions))}"


def _table(plan: Plan) -> Iterator[str]:
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
                f"{step.disk_mb} MB" if step.disk_mb else "not known",
                step.way_back,
            )
        )
    cells = [tuple(map(visible, row)) for row in rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]) - 1)]
    for row in cells:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
    yield f"reboot: {plan.reboot}, by you" if plan.reboot else "reboot: none"


def _rest(node: Node, plan: Plan, sums: tuple[Checksum, ...]) -> Iterator[str]:
    yield ""
    yield from (f"installed already: {visible(text)}" for text in plan.unchanged)
    yield from (f"refused: {visible(text)}" for text in plan.refused)
    if needed := _system_packages(node, plan):
        yield f"system packages required before: {' '.join(needed)}"
    if plan.steps:
        yield "commands of the vendor, in this order:"
        yield from (f"  {number}. {visible(step.command)}" for number, step in enumerate(plan.steps, 1))
    if drivers := [step for step in plan.steps if step.component in setup_install.INSTALLED]:
        yield f"driver and firmware are installed by: {visible(setup_install.command(drivers))}"
    if toolkits := [step for step in plan.steps if step.component == "toolkit"]:
        paths = [path for step in plan.steps if step.id == "cann.install" for path in step.paths]
        folders = dict.fromkeys(map(posixpath.dirname, paths))
        words = [word for folder in folders for word in ("--packages", folder)]
        command = shlex.join(["npudoctor", "fix", "cann.install", *words, "--set", f"cann={toolkits[0].then}"])
        yield f"CANN can be installed by: {visible(command)}"
    if any("--quiet" in step.command for step in plan.steps):
        yield "  --quiet accepts the vendor's licence"
    if sums:
        yield "SHA-256, computed now:"
        yield from (f"  {_sum(one)}" for one in sums)
    if plan.uncertain:
        yield "uncertain:"
        yield from (f"  {visible(text)}" for text in plan.uncertain)
    if any(step.way_back == NO_WAY_BACK for step in plan.steps):
        yield f"{NO_WAY_BACK}: {', '.join(step.component for step in plan.steps if step.way_back == NO_WAY_BACK)}"


def _sum(one: Checksum) -> str:
    name = visible(posixpath.basename(one.path))
    if one.sha256 is None:
        return f"{name}: {visible(one.problem or 'not read')}"
    said = {None: "no checksum file beside it", True: "as in its checksum file", False: "NOT as in its checksum file"}
    return f"{one.sha256}  {name}  ({said[one.matches]})"
