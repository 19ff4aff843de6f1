"""Requires-Dist lines: which versions of a package a wheel asks for. Local parts (+cpu) never count.

What they mean is decided by `packaging`, as for pip; it is imported when there is such a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from npudoctor.records import record
from npudoctor.sdk import ParseError

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from npudoctor.facts.python.target_python import PythonEnvironment


@record(frozen=True)
class Requirement:
    """One requirement: the normalised name, and the versions that fit."""

    name: str
    specifiers: SpecifierSet

    def __str__(self) -> str:
        return self.name + str(self.specifiers)

    def accepts(self, version: str) -> bool:
        """Whether a version fits; raises ParseError for one that is none."""
        from packaging.specifiers import SpecifierSet
        from packaging.version import InvalidVersion, Version

        try:
            here = Version(version)
        except InvalidVersion:
            raise ParseError(f"{version!r} is no version") from None
        asked = SpecifierSet(re.sub(r"\+[^,\s]*", "", str(self.specifiers)))
        # A torch built from source calls itself 2.1.0a0: its base is what the wheel was built against.
        meant = here.base_version if self.pinned else here.public
        return asked.contains(meant, prereleases=True)

    @property
    def pinned(self) -> str | None:
        """The one version that fits, as for torch==2.5.1+cpu or torch==2.13.0.*; None where several do."""
        exact = [one.version for one in self.specifiers if one.operator in ("==", "===")]
        return exact[0].removesuffix(".*") if len(exact) == 1 else None


def parse_requirement(line: str, python: PythonEnvironment | None = None) -> Requirement | None:
    """Read one line; None where it is for an extra or for another Python or machine, or is no requirement.

    What is not known of the Python is as for npudoctor's own.
    """
    from packaging.markers import UndefinedComparison
    from packaging.requirements import InvalidRequirement
    from packaging.requirements import Requirement as Line
    from packaging.utils import canonicalize_name

    known = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
    if python is not None:
        known |= {"python_full_version": python.version, "python_version": ".".join(map(str, python.release))}
        known |= {"platform_machine": python.machine} if python.machine else {}
    try:
        said = Line(line)
        if said.marker and not said.marker.evaluate(known):
            return None
    except (InvalidRequirement, UndefinedComparison):
        return None
    return Requirement(canonicalize_name(said.name), said.specifier)


def required(lines: Iterable[str], name: str, python: PythonEnvironment | None = None) -> Requirement | None:
    """What these lines ask of one package; None where they do not name it, or name no version that is understood."""
    for line in lines:
        if not re.match(name.replace("-", "[-_.]"), line.lstrip(), re.IGNORECASE):
            continue  # most name another package, and need no reading
        requirement = parse_requirement(line, python)
        if requirement is not None and requirement.name == name and requirement.specifiers:
            return requirement
    return None
