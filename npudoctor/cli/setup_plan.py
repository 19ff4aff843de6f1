"""`npudoctor setup --packages FOLDER --dry-run`: the plan to install driver, firmware, CANN and wheels."""

from __future__ import annotations

import argparse
import hashlib
import posixpath
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from npudoctor.cli import packages, setup_install, setup_text
from npudoctor.cli.output import UsageError, write, write_json
from npudoctor.cli.staged import staged_in
from npudoctor.control_characters import escape
from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.findings import Report, Status
from npudoctor.host import Host, Refused, Unavailable
from npudoctor.knowledge.patterns import canonical_version
from npudoctor.packages.missing import BOTH, PURPOSES, Missing, find_missing
from npudoctor.packages.node import Node
from npudoctor.packages.plan import PARTS, Plan, PlanStep, make_plan, wanted_parts
from npudoctor.packages.sets import PackageSet, package_sets
from npudoctor.records import record

CHUNK = 4 << 20


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


def is_plan_asked_for(args: argparse.Namespace) -> bool:
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
    only, expected = _parts(args.only), _read_versions(args.expect)
    if not args.dry_run:
        setup_install.refuse_early(args, only, expected)
    found = prepare(args, only, expected)
    if args.json:
        write_json(found.document)
    else:
        narrow = sys.stdout.isatty() and shutil.get_terminal_size().columns < setup_text.width(found.plan)
        lines = list(found.lines(narrow=narrow))
        if args.image:
            lines.insert(-1, f"proof: also the smoke run in {escape(args.image)}, with all NPUs")
        lines += ["nothing was changed"] if args.dry_run or not found.complete else []
        write("\n".join(lines) + "\n")
    if found.node.in_container and not args.dry_run:
        raise Refused("driver and firmware are installed on the host, not in a container")
    if found.complete and found.plan is not None and not args.dry_run:
        sums = {one.path: one.sha256 for one in found.sums}
        return setup_install.install(args, found.plan, sums, found.report)
    return 0 if found.complete else 1


@record(frozen=True, kw_only=True)
class Prepared:
    """A plan, with what it was made from. `plan` is None where the packages leave a choice, or fit in no way."""

    purpose: str
    only: tuple[str, ...]
    staged: StagedPackages
    node: Node
    report: Report
    sets: tuple[PackageSet, ...]
    plan: Plan | None
    lacks: tuple[Missing, ...]
    sums: tuple[setup_text.Checksum, ...]
    absent: tuple[str, ...]

    @property
    def blocked(self) -> list[str]:
        """The checks that the plan fails on."""
        return _blocking_checks(self.report, self.plan)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing or wrong."""
        return not self.against

    @property
    def against(self) -> list[str]:
        """Why the plan is not complete, as clauses; empty where it is."""
        found = []
        if self.plan is None:
            found.append(f"{len(self.sets)} sets match" if self.sets else "no package fits this node")
        if self.lacks:
            found.append(f"missing: {', '.join(dict.fromkeys(one.component for one in self.lacks))}")
        if self.plan is not None and self.plan.refused:
            found.append(f"refused: {'; '.join(self.plan.refused)}")
        found += [f"checksum of {posixpath.basename(one.path)} wrong" for one in self.sums if one.matches is False]
        found += [f"checksum of {posixpath.basename(one.path)} not known" for one in self.sums if one.problem]
        found += self.absent
        found += [f"{name} has found an error" for name in self.blocked]
        return found

    @property
    def _verdict(self) -> str:
        if against := self.against:
            return f"the plan is not complete: {'; '.join(against)}"
        unknown = [one.check for one in self.report.results if setup_text.is_unknown(one)]
        return f"the plan is complete; not known: {', '.join(unknown)}" if unknown else "the plan is complete"

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The sets to choose from, each with its title and what `--expect` takes."""
        names = wanted_parts(self.purpose, self.only)
        return [(one.title, setup_text.expectation(one, names)) for one in self.sets]

    @property
    def _drivers(self) -> list[PlanStep]:
        return [step for step in (self.plan.steps if self.plan else ()) if step.component in setup_install.INSTALLED]

    @property
    def commands(self) -> list[str]:
        """The command that installs driver and firmware, where the plan has such a step."""
        return [setup_text.install_command(self._drivers)] if self._drivers else []

    @property
    def install_words(self) -> list[str]:
        """The options that install driver and firmware; empty where the plan has no such step."""
        return setup_text.words_of(self._drivers) if self._drivers else []

    @property
    def holders(self) -> list[str]:
        """What the checks say of who holds an NPU."""
        held = [result for result in self.report.results if result.check == "install.holders"]
        return [escape(finding.summary) for result in held for finding in result.findings]

    def lines(self, *, narrow: bool = False) -> Iterator[str]:
        """The plan as text; `narrow` lists the steps instead of a table, for a terminal of 80 columns."""
        steps = setup_text.step_lines if narrow else setup_text.table
        yield from setup_text.lines(
            self.node, self.purpose, self.only, list(self.sets), self.plan, self.lacks, self.sums, steps
        )
        yield from setup_text.not_used(self.staged, self.node, every=not self.sets)
        yield from setup_text.trial_lines(self.report)
        yield escape(self._verdict)

    @property
    def document(self) -> dict[str, Any]:
        """The plan for scripts."""
        sets, plan, whole = list(self.sets), self.plan, self.complete
        made = setup_text.document(self.staged, self.node, self.purpose, sets, plan, self.lacks, self.sums, whole=whole)
        checks = [setup_text.check(result) for result in self.report.results]
        return {**made, "absent": list(self.absent), "blocked": self.blocked, "checks": checks}


def of_args(args: argparse.Namespace) -> Prepared:
    """The plan for options of this command; raises UsageError."""
    return prepare(args, _parts(args.only), _read_versions(args.expect))


def prepare(args: argparse.Namespace, only: tuple[str, ...], expected: dict[str, str]) -> Prepared:
    """Read the folders, examine the node, and plan; raises UsageError for a folder that cannot be listed."""
    purpose = args.purpose or BOTH
    staged = staged_in(args.packages)
    args.packages = []  # read once: the options of the run take `staged`
    node, report = packages.examine_node(args, staged)
    found = package_sets(staged, node, cann=args.cann)
    sets = [one for one in found.sets if all(_has(one, part, version) for part, version in expected.items())]
    absent = (*packages.without_cann(found, args.cann), *_not_there(found.sets, expected))
    sets = _distinct_sets(sets, staged, node, purpose, only)
    plan = make_plan(sets[0], staged, node, purpose=purpose, only=only) if len(sets) == 1 else None
    lacks = find_missing(sets[0] if plan else None, node, purpose) if not only and len(sets) < 2 else ()
    return Prepared(
        purpose=purpose,
        only=only,
        staged=staged,
        node=node,
        report=report,
        sets=tuple(sets),
        plan=plan,
        lacks=tuple(lacks),
        sums=_checksums(plan) if plan else (),
        absent=absent,
    )


def _parts(text: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if unknown := [name for name in names if name not in PARTS]:
        raise UsageError(f"--only {unknown[0]}: expected some of {', '.join(PARTS)}")
    return names


def _read_versions(text: str | None) -> dict[str, str]:
    found = {}
    for pair in filter(None, (part.strip() for part in (text or "").split(","))):
        name, equals, version = pair.partition("=")
        if name not in PARTS or not equals or not version:
            raise UsageError(f"--expect {pair}: expected PART=VERSION with a part of {', '.join(PARTS)}")
        found[name] = version
    return found


def _has(one: PackageSet, part: str, version: str) -> bool:
    """Whether a set has this version of a part; for Python, of torch_npu."""
    package = setup_text.version_package(one, part)
    return package is not None and canonical_version(package.version or "") == canonical_version(version)


def _not_there(sets: Sequence[PackageSet], expected: dict[str, str]) -> Iterator[str]:
    """The expected versions that no set has, each with those that there are."""
    for part, version in expected.items():
        if not any(_has(one, part, version) for one in sets):
            there = {package.version for one in sets if (package := setup_text.version_package(one, part)) is not None}
            others = f"there is {escape(', '.join(sorted(filter(None, there))))}" if there else "there is none"
            yield f"--expect {part}={escape(version)}: no matching set has it; {others}"


def _blocking_checks(report: Report, plan: Plan | None) -> list[str]:
    """The checks that a plan fails on: errors, and kernels for which the driver's modules cannot be built."""
    builds = plan is not None and any(step.component in ("driver", "combined") for step in plan.steps)
    return [
        result.check
        for result in report.results
        if result.status in (Status.ERROR, Status.CRASHED)
        or (builds and result.check == "install.module-build" and result.status is Status.WARNING)
    ]


def _distinct_sets(
    sets: list[PackageSet], staged: StagedPackages, node: Node, purpose: str, only: tuple[str, ...]
) -> list[PackageSet]:
    """One of the sets that lead to the same steps."""
    found: dict[tuple[Any, ...], PackageSet] = {}
    for one in sets:
        plan = make_plan(one, staged, node, purpose=purpose, only=only)
        found.setdefault((plan.steps, plan.unchanged, plan.refused), one)
    return list(found.values())


# Checksums


def _checksums(plan: Plan) -> tuple[setup_text.Checksum, ...]:
    from npudoctor.cli.staged import this_machine

    host = this_machine()
    try:
        return tuple(
            _checksum(host, path) for path in dict.fromkeys(path for step in plan.steps for path in step.paths)
        )
    finally:
        host.close()


def _checksum(host: Host, path: str) -> setup_text.Checksum:
    digest = hashlib.sha256()
    place = 0
    try:
        while piece := host.read_part(path, place, CHUNK):
            digest.update(piece)
            place += len(piece)
    except Unavailable as why:
        return setup_text.Checksum(path, None, None, why.reason)
    found = digest.hexdigest()
    for suffix in ("sha256", "sha256sum"):
        try:
            if not host.exists(f"{path}.{suffix}"):
                continue
            said = host.read_bytes(f"{path}.{suffix}", limit=4096).decode("ascii", "replace").lower()
        except Unavailable as why:
            return setup_text.Checksum(path, found, None, why.reason)
        return setup_text.Checksum(path, found, found in said.split())
    return setup_text.Checksum(path, found)
