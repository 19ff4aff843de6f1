"""Requires-Dist lines: which versions of a package a wheel asks for. Local parts (+cpu) never count."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from npudoctor.facts.versions import TorchVersion
from npudoctor.records import record
from npudoctor.sdk import ParseError

# Texts and not patterns: what a healthy node never needs is not compiled each time a check starts.
_LINE = (
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<specifiers>[^;()]*)\)?\s*(?:;(?P<marker>.*))?"
)
_SPECIFIER = r"(===|==|~=|!=|<=|>=|<|>)\s{0,16}([^\s,]+)"
_MACHINE = r"platform_machine\s*(==|!=)\s*[\"']([^\"']+)[\"']"


@record(frozen=True)
class Requirement:
    """One requirement: the normalised name, and pairs of operator and version, all of which must hold."""

    name: str
    specifiers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.name + ",".join("".join(specifier) for specifier in self.specifiers)

    def accepts(self, version: str) -> bool:
        """Whether a version fits; raises ParseError for one that is none."""
        here = TorchVersion.parse(version.partition("+")[0])
        return all(_holds(here, operator, wanted) for operator, wanted in self.specifiers)

    @property
    def pinned(self) -> str | None:
        """The one version that fits, as for torch==2.5.1+cpu or torch==2.13.0.*; None where several do."""
        exact = [wanted for operator, wanted in self.specifiers if operator in ("==", "===")]
        return exact[0].removesuffix(".*") if len(exact) == 1 else None


def _holds(here: TorchVersion, operator: str, wanted: str) -> bool:
    bare = wanted.partition("+")[0]
    if bare.endswith(".*"):
        inside = here.matches(bare)
        return inside if operator == "==" else not inside
    there = TorchVersion.parse(bare)
    if operator in ("==", "==="):
        # A torch built from source calls itself 2.1.0a0: its base is what the wheel was built against.
        return here.base == there.base if there.base == there.text else here == there
    if operator == "~=":
        return here >= there and here.release[: len(there.release) - 1] == there.release[:-1]
    compared = {"!=": here != there, "<=": here <= there, ">=": here >= there, "<": here < there, ">": here > there}
    return compared[operator]


def parse_requirement(line: str, machine: str | None = None) -> Requirement | None:
    """Read one line; None where it is for an extra, for another machine, or is no requirement."""
    found = re.fullmatch(_LINE, line)
    if not found:
        return None
    marker = found["marker"] or ""
    on = re.search(_MACHINE, marker)
    if "extra" in marker or (on and machine and (on[2] == machine) is (on[1] == "!=")):
        return None
    specifiers = tuple((each[1], each[2]) for each in re.finditer(_SPECIFIER, found["specifiers"]))
    return Requirement(re.sub(r"[-_.]+", "-", found["name"]).lower(), specifiers)


def required(lines: Iterable[str], name: str, machine: str | None = None) -> Requirement | None:
    """What these lines ask of one package; None where they do not name it, or name no version that is understood."""
    for line in lines:
        requirement = parse_requirement(line, machine)
        if requirement is not None and requirement.name == name and requirement.specifiers:
            with contextlib.suppress(ParseError):
                requirement.accepts("1.0")
                return requirement
    return None
