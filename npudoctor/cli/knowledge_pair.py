"""`npudoctor knowledge pair`: matching releases, the rule that was applied, and where it is published."""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.cli.output import UsageError, write
from npudoctor.facts.python.published_releases import is_too_old, misfit
from npudoctor.facts.versions import CannVersion, is_older
from npudoctor.knowledge.pairs import Fit, TorchNpuRelease
from npudoctor.knowledge.patterns import train, wheel
from npudoctor.knowledge.solver import Solution, Stack, solve
from npudoctor.knowledge.tables.compatibility import Compatibility
from npudoctor.knowledge.tables.stacks import Framework, FrameworkRelease, UnknownFramework

SHOWN = 6

_LONGEST = 60
"""Characters of a version."""


def run(args: argparse.Namespace) -> int:
    """Answer from the given versions; 1 where no table has them."""
    if args.list or args.word:
        raise UsageError(f"{args.list!r}: give versions by --cann, --python, --torch, --torch-npu or --driver")
    if not (args.cann or args.torch or args.torch_npu or args.driver or args.framework or args.vllm_ascend):
        raise UsageError(
            "pair requires at least one of --cann, --torch, --torch-npu, --driver, --for and --vllm-ascend"
        )
    for name in ("cann", "python", "torch", "torch_npu", "driver"):
        value = getattr(args, name)
        if value and (train(value) is None or len(value) > _LONGEST):
            option = f"--{name.replace('_', '-')} {value[:_LONGEST]}"
            raise UsageError(f"{option}: expected a version such as 8.3.RC1 or 2.7.1")
    if args.framework or args.vllm_ascend:
        return _framework(args)
    if not (args.cann or args.torch or args.torch_npu):
        return _of_driver(args)
    answer = _of_torch_npu(args) if args.torch_npu else _of_cann(args) if args.cann else _of_torch(args)
    write(json.dumps(answer, ensure_ascii=False, indent=1) + "\n" if args.json else _text(answer))
    return 0 if answer["install"] or answer["releases"] else 1


def _of_driver(args: argparse.Namespace) -> int:
    """Print the releases of CANN that a driver serves, the newest first; 1 where no table has it."""
    table = knowledge.compatibility()
    fits = [(support.cann, support.judge(args.driver)) for support in table.hdk_support]
    served = {fit.value: [cann for cann, one in fits if one is fit] for fit in (Fit.PAIRED, Fit.COMPATIBLE)}
    found = any(served.values())
    if args.json:
        answer = {"given": {"driver": args.driver}, "cann": served, "as_of": table.as_of}
        write(json.dumps(answer, ensure_ascii=False, indent=1) + "\n")
    elif not found:
        said = f"driver {args.driver}: not in the tables as of {table.as_of}"
        write(f"{said}; see npudoctor knowledge compatibility hdk\n")
    else:
        write(f"driver {args.driver}: releases of CANN, as of {table.as_of}\n")
        for how, releases in served.items():
            if releases:
                write(f"  {how:<11} {', '.join(releases)}\n")
        first = next(iter([*served[Fit.PAIRED.value], *served[Fit.COMPATIBLE.value]]))
        write(f"The packages for one: npudoctor knowledge pair --cann {first} --driver {args.driver}\n")
    return 0 if found else 1


def _of_cann(args: argparse.Namespace) -> dict[str, Any]:
    """The torch and torch_npu for a CANN: what to install, and alternatives."""
    table = knowledge.compatibility()
    pythons = table.python(args.cann) if args.python else None
    if pythons is not None and not pythons.supports(args.python):
        return {**_answer(args, table, None, []), "python_supported": [pythons.oldest, pythons.newest]}
    if _driver_fit(args.driver, args.cann) == _TOO_OLD:
        support = table.hdk(args.cann)
        return {**_answer(args, table, None, []), "driver_required": list(support.paired) if support else []}
    stack = Stack(cann=args.cann, python=args.python, driver=args.driver, torch=args.torch)
    releases = [
        release
        for release in table.releases_for_cann(args.cann, python=args.python)
        if args.torch is None or release.torch == wheel(args.torch)
    ]
    answer = _answer(args, table, solve(stack, table) if args.torch else None, releases)
    if args.torch and not releases:  # no pair fits both: what fits each of them, newest first
        of_cann = table.releases_for_cann(args.cann, python=args.python)
        answer["fits"] = {
            "cann": _alternative(of_cann, args.cann) if of_cann else None,
            "torch": _best_for_torch(table, args),
        }
    if not args.torch and releases:
        answer["install"] = {"torch": releases[0].torch, "torch_npu": releases[0].version}
        fit = table.judge(releases[0], args.cann)
        answer["rests_on"] = f"{fit.value} by the tables as of {table.as_of}"
    return answer


def _alternative(releases: list[TorchNpuRelease] | tuple[TorchNpuRelease, ...], cann: str | None) -> dict[str, Any]:
    """The first of some releases, with the CANN that it is for."""
    release = releases[0]
    return {"torch": release.torch, "torch_npu": release.version, "cann": cann or next(iter(release.cann), None)}


def _best_for_torch(table: Compatibility, args: argparse.Namespace) -> dict[str, Any] | None:
    releases = [
        release
        for release in table.releases_for_torch(args.torch)
        if release.cann and (args.python is None or release.supports_python(args.python) is not False)
    ]
    releases.sort(key=lambda release: release.is_test_build)
    return _alternative(releases, None) if releases else None


def _of_torch(args: argparse.Namespace) -> dict[str, Any]:
    table = knowledge.compatibility()
    every = table.releases_for_torch(args.torch)
    releases = [one for one in every if args.python is None or one.supports_python(args.python) is not False]
    answer = _answer(args, table, None, releases)
    if not releases:
        pythons = {python for one in every for python in one.pythons}
        answer["python_supported"] = sorted(pythons, key=lambda one: train(one) or (0, 0))
    return answer


def _of_torch_npu(args: argparse.Namespace) -> dict[str, Any]:
    """What matches a torch_npu; where a CANN or torch is given too, the smallest change that makes them match."""
    table = knowledge.compatibility()
    release = table.release(args.torch_npu)
    if release is not None and args.python and release.supports_python(args.python) is False:
        said = release.python_range or (", ".join(release.pythons),)
        return {**_answer(args, table, None, []), "python_supported": list(said)}
    solution = None
    if args.cann or args.torch:
        torch = args.torch or (release.torch if release is not None else None)
        stack = Stack(torch_npu=args.torch_npu, torch=torch, cann=args.cann, python=args.python, driver=args.driver)
        solution = solve(stack, table)
    return _answer(args, table, solution, [release] if release else [])


def _answer(
    args: argparse.Namespace, table: Compatibility, solution: Solution | None, releases: list[TorchNpuRelease]
) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in ("cann", "python", "torch", "torch_npu", "driver")}
    return {
        "given": {name: value for name, value in given.items() if value},
        "install": {change.part: change.then for change in solution.changes} if solution else {},
        "advice": solution.text if solution else None,
        "rests_on": solution.rests_on if solution else None,
        "as_of": table.as_of,
        "releases": [_row(table, release, args) for release in releases[:SHOWN]],
        "more": max(len(releases) - SHOWN, 0),
    }


def _row(table: Compatibility, release: TorchNpuRelease, args: argparse.Namespace) -> dict[str, Any]:
    window = table.window(release.pta_release) if release.pta_release else None
    cann = args.cann or next(iter(release.cann), None)
    hdk = table.hdk(cann) if cann else None
    return {
        "torch_npu": release.version,
        "torch": release.torch,
        "cann": list(release.cann),
        "cann_also": _newest_first({*release.cann_seen, *(window.cann_ok if window else ())} - {*release.cann}),
        "cann_expected": list(release.cann_guess),
        "fit": table.judge(release, args.cann).value if args.cann else None,
        "python": list(release.pythons) or ([" to ".join(release.python_range)] if release.python_range else []),
        "driver": list(hdk.paired) if hdk else [],
        "driver_also": list(hdk.compatible) if hdk else [],
        "driver_fit": _driver_fit(args.driver, cann),
        "known_defects": [
            f"{defect.summary}; fixed in {defect.fixed_in[wheel(release.version)]}"
            for defect in table.known_bad(release.version, python=args.python, cann=args.cann)
        ],
        "confidence": release.confidence.value,
        "sources": list(release.sources),
    }


def _driver_fit(driver: str | None, cann: str | None) -> str | None:
    """How a given driver goes with a CANN; None where none is given, or no table has that CANN."""
    support = knowledge.compatibility().hdk(cann) if cann is not None else None
    if support is None or driver is None:
        return None
    return _TOO_OLD if is_too_old(driver, support) else support.judge(driver).value


def _newest_first(releases: Iterable[str]) -> list[str]:
    """Releases of CANN, and patterns of them (8.5.X), the newest first."""
    return sorted(releases, key=lambda one: (CannVersion.parse(one.replace(".X", ".0")), one), reverse=True)


def _text(answer: dict[str, Any]) -> str:
    return "\n".join(_lines(answer)) + "\n"


_TOO_OLD = "too old"
_WORDS = {
    "torch": "requires torch",
    "cann": "CANN, paired",
    "cann_also": "CANN, also",
    "cann_expected": "CANN, expected",
    "fit": "with this CANN",
    "python": "Python",
    "driver": "driver, paired",
    "driver_also": "driver, also",
    "driver_fit": "with this driver",
    "known_defects": "known defect",
    "confidence": "source",
    "sources": "source",
}


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    given = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in answer["given"].items())
    if pythons := answer.get("python_supported"):
        whose = "CANN" if answer["given"].get("cann") else "release"
        supported = f"{pythons[0]} to {pythons[-1]}" if len(pythons) > 1 else pythons[0]
        yield f"{given}: this {whose} supports Python {supported}; see npudoctor knowledge compatibility python"
        return
    if required := answer.get("driver_required"):
        yield f"{given}: the driver is too old for this CANN; published with it: {', '.join(required)}"
        return
    if not answer["install"] and not answer["releases"] and not any((answer.get("fits") or {}).values()):
        near = _later_parts(answer["given"])
        hint = f"did you mean {' or '.join(near)}?" if near else "see npudoctor knowledge compatibility releases"
        yield f"{given}: not in the tables as of {answer['as_of']}; {hint}"
        return
    if answer.get("fits"):
        yield from _apart(given, answer)
    elif answer["advice"]:
        yield f"{given}: {answer['advice']} ({answer['rests_on']})"
        yield from _pip_lines(answer["install"], "  ")
    elif answer["install"]:
        install = answer["install"]
        yield f"{given}: install torch {install['torch']} and torch_npu {install['torch_npu']} ({answer['rests_on']})"
        yield from _pip_lines(install, "  ")
    for number, row in enumerate(answer["releases"]):
        if number or answer["advice"] or answer["install"]:
            yield ""
        yield f"torch_npu {row['torch_npu']}"
        for name, words in _WORDS.items():
            value = row[name]
            if value:
                yield f"  {words:<17} {', '.join(value) if isinstance(value, list) else value}"
    if answer["more"]:
        word = answer["given"].get("torch") or answer["given"].get("cann")
        yield f"\n{answer['more']} more: npudoctor knowledge compatibility releases {word}"
    yield ""
    yield f"as of {answer['as_of']}"


def _pip_lines(releases: Mapping[str, str], indent: str) -> Iterator[str]:
    """The commands that install torch and torch_npu, as far as they are among these releases."""
    if torch := releases.get("torch"):
        yield f'{indent}pip install "torch=={torch}"  # on x86_64: "torch=={torch}+cpu"'
    if torch_npu := releases.get("torch_npu"):
        note = knowledge.compatibility().note_of_wheel(torch_npu)
        yield f'{indent}pip install --no-deps "torch_npu=={torch_npu}"{note}'


def _later_parts(given: Mapping[str, str]) -> list[str]:
    """Releases of CANN or torch that begin with the one that is given: 8.3.RC1 for 8.3."""
    table = knowledge.compatibility()
    every = [*(cann for row in table.releases for cann in row.cann), *(row.torch for row in table.releases)]
    asked = [f"{value}." for part, value in given.items() if part in ("cann", "torch")]
    return list(dict.fromkeys(one for one in every if any(map(one.startswith, asked))))[:4]


def _apart(given: str, answer: dict[str, Any]) -> Iterator[str]:
    """The smallest change for two releases that no published pair holds together, and the pairs of each."""
    yield f"{given}: no published pair has both"
    if answer["advice"]:
        yield f"smallest change: {answer['advice']} ({answer['rests_on']})"
        yield from _pip_lines(answer["install"], "    ")
    yield "published pairs:"
    asked = answer["given"]
    for part, fits in answer["fits"].items():
        named = f"{'CANN' if part == 'cann' else part} {asked[part]}"
        if fits is None:
            yield f"  {named}: not in the tables"
            continue
        other = f", with CANN {fits['cann']}" if part == "torch" else ""
        yield f"  {named}: torch {fits['torch']} and torch_npu {fits['torch_npu']}{other}"
        yield from _pip_lines(fits, "    ")


# A framework


def _framework(args: argparse.Namespace) -> int:
    """The published sets of one release of a framework, else one of each of the newest that match what is given.

    Final releases come before candidates (rc), and those with just the torch_npu that is given before all.
    """
    name, _, version = (args.framework or f"vllm-ascend={args.vllm_ascend}").partition("=")
    table = knowledge.stacks()
    try:
        framework = table.find(name)
    except UnknownFramework as problem:
        raise UsageError(f"--for: {problem}") from problem
    version = version.lstrip("=").strip()
    parts = ("cann", "python", "torch", "torch_npu", "driver")
    here = {part: getattr(args, part) for part in parts if getattr(args, part)}
    known = table.of(framework.name)
    named_parts = {part for row in known for one in row.sets() for part in (*one.requires, "driver")}
    not_named = [part for part in here if part not in named_parts]
    here = {part: release for part, release in here.items() if part in named_parts}
    final_first = sorted(known, key=lambda row: row.is_candidate)
    found = [table.release(framework.name, version)] if version else final_first
    sets = [[one for one in row.sets() if all(_names(one, part, here) for part in here)] for row in found if row]
    named = here.get("torch_npu")  # a set that has just this build comes before those that another one suits too
    sets = [sorted(each, key=lambda one: one.requires.get("torch_npu") != named) for each in sets if each]
    sets.sort(key=lambda each: named is not None and each[0].requires.get("torch_npu") != named)
    matching = [one for each in sets for one in (each if version else each[:1])]
    rows = [_framework_row(row, args) for row in matching[:SHOWN]]
    others = [_framework_row(one, args) for row in found if row is not None for one in row.sets()] if not rows else []
    chips = [row for row in table.chips if row.package == framework.package]
    answer = {
        "framework": framework.name,
        "version": version or None,
        "given": here,
        "not_named": not_named,
        "as_of": table.as_of,
        "releases": rows,
        "requires": others[:SHOWN] if version else [],
        "other_releases": [row.release for row in (known if found == [None] else () if version else matching[SHOWN:])],
        "chips": {row.family: row.supported and not is_older(version, row.since or "0") for row in chips},
        "chips_since": {row.family: row.since for row in chips if row.since},
    }
    write(json.dumps(answer, ensure_ascii=False, indent=1) + "\n" if args.json else _framework_text(framework, answer))
    return 0 if rows else 1


def _framework_row(row: FrameworkRelease, args: argparse.Namespace) -> dict[str, Any]:
    """A published set, with the drivers of its CANN unless it names its own."""
    cann = _cann_of(row, args.cann if args.cann and _names(row, "cann", {"cann": args.cann}) else None)
    hdk = knowledge.compatibility().hdk(cann) if cann is not None and "driver" not in row.requires else None
    return {
        "release": row.release,
        "sets": sum(len(one.sets()) for one in knowledge.stacks().of(row.framework) if one.release == row.release),
        "requires": dict(row.requires),
        "driver": list(hdk.paired) if hdk else [],
        "driver_also": list(hdk.compatible) if hdk else [],
        "driver_fit": _driver_fit(args.driver, cann) if hdk else None,
        "driver_of": cann if hdk and cann != row.requires.get("cann") else None,
        "note": row.note,
        "sources": list(row.sources),
    }


def _cann_of(row: FrameworkRelease, given: str | None) -> str | None:
    """The CANN by which the driver of a published set is judged: the given one, else the oldest that the set names."""
    found = re.search(r"\d[^\s,]*", row.requires.get("cann", ""))
    return given or (found[0] if found else None)


def _names(row: FrameworkRelease, part: str, here: Mapping[str, str]) -> bool:
    """Whether a published set names this release of a part; one that says nothing of the part does not.

    Where it does not name a driver, that is said by its CANN.
    """
    published = row.requires.get(part)
    if part == "driver" and published is None:
        return _driver_fit(here[part], _cann_of(row, here.get("cann"))) not in (None, _TOO_OLD)
    return published is not None and misfit(part, published, here[part]) is None


def _framework_text(framework: Framework, answer: dict[str, Any]) -> str:
    given = ", ".join(f"{part.replace('_', '-')} {version}" for part, version in answer["given"].items())
    asked = f"{framework.title} {answer['version'] or ''}".rstrip() + (f" with {given}" if given else "")
    lines = [] if answer["releases"] else [f"{asked}: not in the tables"]
    if answer["requires"]:
        lines = [f"{asked}: not published together; {framework.title} {answer['version']} requires:"]
    elif not answer["releases"] and answer["given"] and not answer["version"]:
        lines = [f"{asked}: no release in the tables is published for it"]
    lines += [f"{framework.title}: its releases name no {part.replace('_', '-')}" for part in answer["not_named"]]
    shown = (*answer["releases"], *answer["requires"])
    for row in shown:
        several = len([one for one in shown if one["release"] == row["release"]]) < row["sets"]
        lines += [f"{framework.title} {row['release']}"]
        lines += [f"  {'sets':<17} {row['sets']}; all: --for {framework.name}={row['release']}"] if several else []
        lines += [f"  {part:<17} {version}" for part, version in row["requires"].items()]
        drivers = {_WORDS[key]: row[key] for key in ("driver", "driver_also")}
        lines += [f"  {words:<17} {', '.join(found)}" for words, found in drivers.items() if found]
        lines += [f"  {_WORDS['driver_fit']:<17} {row['driver_fit']}"] if row["driver_fit"] else []
        lines += [f"  {'drivers':<17} those of CANN {row['driver_of']}"] if row["driver_of"] else []
        lines += [f"  {'note':<17} {row['note']}"] if row["note"] else []
        lines += [f"  {'source':<17} {', '.join(row['sources'])}", ""]
    if other := ", ".join(answer["other_releases"]):
        lines += textwrap.wrap(f"other releases (--for {framework.name}=RELEASE): {other}", 110, subsequent_indent="  ")
    for family, supported in answer["chips"].items() if answer["releases"] else ():
        since = answer["chips_since"].get(family)
        words, limit = ("supported on", "since") if supported else ("not supported on", "before")
        lines.append(f"{words} {family}" + (f" {limit} {framework.title} {since}" if since else ""))
    return "\n".join([*lines, f"as of {answer['as_of']}"]) + "\n"
