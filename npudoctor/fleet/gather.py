"""A run: ask the nodes that have not answered yet, keep every outcome at once, then merge what is stored."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from npudoctor import __version__
from npudoctor.data import read
from npudoctor.fleet import intake, line, merge
from npudoctor.fleet.digest import Digest
from npudoctor.fleet.engines import Engine, Plan
from npudoctor.fleet.merge import Fleet, Member, Reader
from npudoctor.fleet.outcomes import Outcome
from npudoctor.fleet.store import Run
from npudoctor.fleet.verdict import FleetReport
from npudoctor.host.live.safe_files import Unreadable, read_as
from npudoctor.host.live.trust import writer_within
from npudoctor.records import replace

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


MOST_REPORT = 256 << 20
"""The most bytes of a stored verdict that are read."""


class BadInput(ValueError):
    """A baseline or a golden node that cannot be used; the text is one line."""


def ask(run: Run, plan: Plan, engine: Engine, *, progress: Callable[[int, int], None] = lambda _a, _b: None) -> None:
    """Ask the nodes of a plan without a readable answer in this run; each outcome is stored as it comes.

    A node that an engine says nothing about is silent.
    """
    before, readable = run.outcomes(), {member.name for member in of_run(run).members}
    left = [name for name in plan.names if not (name in readable and name in before and before[name].answered)]
    waiting = dict.fromkeys(left)
    for answer in engine(replace(plan, names=tuple(left))) if left else ():
        outcome, content = intake.take(answer)
        if outcome.kind == "sudo":
            line_to_add = f"{getpass.getuser()} ALL=(root) NOPASSWD: {' '.join((*plan.command, *plan.own))}"
            outcome = replace(outcome, detail=f"{outcome.detail}; the line to add: {line_to_add}")
        run.keep(outcome, content)
        waiting.pop(answer.node, None)
        progress(len(left) - len(waiting), len(left))
    for name in waiting:
        run.keep(Outcome(node=name, kind="silent", detail="the engine brought no answer"), None)


def of_run(run: Run) -> Fleet:
    """The fleet of a run folder: every expected node is there, with an outcome."""
    reader, outcomes = Reader(), run.outcomes()
    names = run.expected_names() or list(outcomes)
    members = []
    for name in names:
        outcome = outcomes.setdefault(name, Outcome(node=name, kind="silent", detail="not asked yet"))
        if outcome.kind == "scheduler":
            continue
        content = run.content(name)
        try:
            if content is None:
                if outcome.answered:
                    raise line.Garbled("its answer is missing in the run folder")
                continue
            members.append(reader.member(name, line.read(content, whole=False), outcome))
            if not outcome.answered:  # it came after the run had given it up
                outcomes[name] = replace(outcome, kind="late")
        except line.Garbled as problem:
            outcomes[name] = Outcome(node=name, kind="garbled", detail=str(problem))
    kept = {name: outcomes[name] for name in names}
    return Fleet(names=tuple(names), outcomes=kept, members=tuple(members), head=__version__)


def of_files(paths: Sequence[str], expected: Iterable[str] = ()) -> Fleet:
    """The fleet of answers that came by themselves: a drop folder, or files that were carried here. Raises BadInput."""
    must_be_usable(paths)
    reader, names = Reader(), list(expected)
    outcomes: dict[str, Outcome] = {}
    members: dict[str, Member] = {}
    for found, digest in intake.of_files(paths):
        if digest is None:
            outcomes.setdefault(found.node, found)
            continue
        name = merge.name_for(digest, members, names)
        outcomes[name] = replace(found, node=name)
        members[name] = reader.member(name, digest, outcomes[name])
    if expected and names:
        unexpected = [name for name in outcomes if name not in set(names)]
    else:
        names, unexpected = [], list(outcomes)
    everyone = [*names, *unexpected]
    kept = {name: outcomes.get(name) or Outcome(node=name, kind="silent") for name in everyone}
    return Fleet(
        names=tuple(everyone),
        outcomes=kept,
        members=tuple(members[name] for name in everyone if name in members),
        head=__version__,
    )


def must_be_usable(paths: Sequence[str]) -> None:
    """Raise BadInput for a path that is not there, and as root for a folder that another user could fill."""
    if missing := next((path for path in paths if not os.path.exists(path)), None):
        raise BadInput(f"{missing} does not exist")
    for path in paths if os.geteuid() == 0 else ():
        for folder in (path, os.path.join(path, "nodes")):
            if os.path.isdir(folder) and (writer := writer_within(os.path.abspath(folder))):
                raise BadInput(f"{path} is refused as root: {writer.reason}")


def stored_fleet(paths: Sequence[str]) -> tuple[Fleet, Run | None]:
    """The fleet of a run folder, or of files and folders with answers; raises BadInput."""
    must_be_usable(paths)
    run = Run(paths[0]) if len(paths) == 1 else None
    if run is not None and os.path.isdir(run.folder) and run.expected_names() and os.path.isdir(run.path("nodes")):
        return of_run(run), run
    fleet = of_files(paths, run.expected_names() if run is not None else ())
    if not fleet.names:
        raise BadInput(f"{paths[0]}: no answers in it")
    return fleet, None


def answer_of(paths: Sequence[str], name: str) -> Digest | None:
    """The whole answer of one node of a run folder, or of files and folders; None without one."""
    with contextlib.suppress(line.Garbled):
        if len(paths) == 1 and (content := Run(paths[0]).content(name)) is not None:
            return line.read(content)
    taken: dict[str, object] = {}
    for _, digest in intake.of_files(paths):
        if digest is not None:
            called = merge.name_for(digest, taken, [name])
            taken[called] = digest
            if called == name:
                return digest
    return None


def golden_of(fleet: Fleet, named: str) -> Member:
    """The node that others must equal: one that answered, or a file with its digest; raises BadInput."""
    if found := next((one for one in fleet.members if one.name == named), None):
        return found
    digests = []
    with contextlib.suppress(OSError):
        digests = [digest for _, digest in intake.of_files([named]) if digest is not None]
    if len(digests) != 1:
        raise BadInput(f"--golden {named}: expected a node that answered, or a file with one answer")
    return Reader().member(digests[0].name, digests[0], Outcome(node=digests[0].name, kind="answered"))


def report_of(folder: str) -> FleetReport:
    """The verdict that an earlier run has stored; raises BadInput."""
    path = os.path.join(folder, "fleet.json")
    try:
        return read(FleetReport, json.loads(read_as(path, MOST_REPORT)), ignore_unknown=True)
    except Unreadable as problem:
        raise BadInput(str(problem)) from None
    except (ValueError, RecursionError):
        raise BadInput(f"{path}: expected a verdict of npudoctor fleet") from None


def baseline_of(path: str) -> dict[str, Mapping[str, tuple[str, str]]]:
    """The versions that a site wants: `driver = {from = "25.3.1", to = "25.5.2"}`, for all or in [groups."910B3"].

    Raises BadInput.
    """
    from npudoctor.fleet.checks.software import VERSIONS

    try:
        said = tomllib.loads(read_as(path).decode())
    except Unreadable as problem:
        raise BadInput(str(problem)) from None
    except (ValueError, RecursionError) as problem:
        raise BadInput(f"{path}: not valid TOML: {str(problem)[:120]}") from None
    groups = said.pop("groups", {})
    found: dict[str, Mapping[str, tuple[str, str]]] = {}
    for group, table in [("", said), *(groups.items() if isinstance(groups, dict) else ())]:
        wanted: dict[str, tuple[str, str]] = {}
        for key, value in table.items() if isinstance(table, dict) else ():
            if not (isinstance(value, dict) and {"from", "to"} == set(value)):
                raise BadInput(f'{path}: {key}: expected {{from = "VERSION", to = "VERSION"}}')
            wanted[VERSIONS.get(str(key), str(key))] = (str(value["from"]), str(value["to"]))
        if wanted:
            found[str(group)] = wanted
    if not found:
        raise BadInput(f"{path}: names no version")
    return found
