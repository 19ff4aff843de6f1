"""Requires-Dist lines: which versions of a package a wheel asks for. Local parts (+cpu) never count.

What they mean is decided by `packaging`, as for pip. It costs a quick check a fifteenth of its time, so a line that
names one version and nothing else, as the wheels of torch_npu do, is compared as text first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from npudoctor.records import record
from npudoctor.sdk import ParseError

if TYPE_CHECKING:
    from npudoctor.facts.python.target_python import PythonEnvironment


@record(frozen=True)
class Requirement:
    """One requirement: the normalised name, and which versions fit, as in `>=2.1,<2.6`."""

    name: str
    specifiers: str

    def __str__(self) -> str:
        return self.name + self.specifiers

    def accepts(self, version: str) -> bool:
        """Whether a version fits; raises ParseError for one that is none."""
        asked = re.sub(r"\+[^,\s]*", "", self.specifiers)
        if asked == f"=={version.partition('+')[0]}":
            return True
        from packaging.specifiers import SpecifierSet
        from packaging.version import InvalidVersion, Version

        try:
            here = Version(version)
        except InvalidVersion:
            raise ParseError(f"{version!r} is no version") from None
        # A torch built from source calls itself 2.1.0a0: its base is what the wheel was built against.
        meant = here.base_version if self.pinned else here.public
        return SpecifierSet(asked).contains(meant, prereleases=True)

    @property
    def pinned(self) -> str | None:
        """The one version that fits, as for torch==2.5.1+cpu or torch==2.13.0.*; None where several do."""
        exact = re.findall(r"===?\s*([^,\s]+)", self.specifiers)
        return exact[0].removesuffix(".*") if len(exact) == 1 else None


def parse_requirement(line: str, python: PythonEnvironment | None = None) -> Requirement | None:
    """Read one line; None where it is for an extra or for another Python or machine, or is no requirement.

    What is not known of the Python is as for npudoctor's own.
    """
    if exact := re.fullmatch(r"([A-Za-z0-9]+)(==\d+(?:\.\d+)*(?:\+\w+)?)", line):
        return Requirement(exact[1].lower(), exact[2])
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
    return Requirement(canonicalize_name(said.name), str(said.specifier))


def find_requirement(lines: Iterable[str], name: str, python: PythonEnvironment | None = None) -> Requirement | None:
    """What these lines ask of one package; None where they do not name it, or name no version that is understood."""
    for line in lines:
        if not re.match(name.replace("-", "[-_.]"), line.lstrip(), re.IGNORECASE):
            continue  # most name another package, and need no reading
        requirement = parse_requirement(line, python)
        if requirement is not None and requirement.name == name and requirement.specifiers:
            return requirement
    return None
