"""The commands after which a published set of a framework is installed, in the order in which they have to run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.platform import Platform
from npudoctor.knowledge.patterns import wheel
from npudoctor.knowledge.tables.stacks import Framework, FrameworkRelease
from npudoctor.records import record

from ._packages import install_cann_commands, package_tag, upgrade_commands
from ._pairing import install_command, new_environment
from ._stacks import FIRST, SOLVED, Installed, Smallest, exact_release, is_of_installed, requirements
from .cann_driver import NEEDING_ATB
from .messages import stack as messages


@record(frozen=True, kw_only=True)
class Node:
    """Where commands run: the Python, the chips, the system, and the container around them."""

    python: PythonEnvironment
    cards: Chips | None = None
    platform: Platform | None = None
    container: Container | None = None


def commands(framework: Framework, change: Smallest, here: Installed, node: Node) -> Iterator[str]:
    """Driver, CANN, Python, torch and torch_npu, what is below the framework, its plug-in, then the rest."""
    if "driver" in change.changes and node.container is None:
        yield from upgrade_commands(node.cards, node.platform, change.changes["driver"])
    if (cann := change.changes.get("cann")) is not None:
        yield from _cann(cann, framework, change.release, here, node)
    executable, wanted = node.python.executable, dict(change.changes)
    stays = is_of_installed(change.release, framework, here)
    if "python" in wanted:
        executable, stays = "python", False
        yield from new_environment(framework.name, wanted["python"])
        wanted |= _whole_set(framework, change, here)
    for part in ("torch", "torch_npu"):
        if part in wanted:
            yield install_command(executable, part, wanted[part], node.python)
    yield from _packages(executable, framework, change.release, wanted, here, stays=stays)


def _whole_set(framework: Framework, change: Smallest, here: Installed) -> dict[str, str]:
    """What a new environment needs: torch and torch_npu as they are then, and each package of the set.

    An optional package only where it is in the old one too, or has to be installed in any case.
    """
    asked = requirements(change.release, here)
    pair = {"torch": change.solution.torch, "torch_npu": wheel(change.solution.torch_npu)}
    needed = {part: version for part, version in asked.items() if part not in SOLVED}
    if any(name in here.parts for name in framework.instead):
        needed = {part: version for part, version in needed.items() if part not in framework.optional}
    return {part: version for part, version in {**pair, **needed}.items() if version}


def _cann(version: str, framework: Framework, release: FrameworkRelease, here: Installed, node: Node) -> Iterator[str]:
    """Toolkit and operators of a CANN, and NNAL where the framework or what it requires uses ATB."""
    needs_atb = bool({framework.package, *release.requires, *here.parts} & set(NEEDING_ATB))
    yield from install_cann_commands(version, package_tag(node.cards), *(["Ascend-cann-nnal"] if needs_atb else []))


def _packages(
    executable: str,
    framework: Framework,
    release: FrameworkRelease,
    wanted: dict[str, str],
    here: Installed,
    *,
    stays: bool,
) -> Iterator[str]:
    pip = f"{quote(executable)} -m pip install"
    packages = [part for part in wanted if part not in SOLVED]
    first = [part for part in packages if part in FIRST]
    yield from (f"{pip} {_pin(part, release)}" for part in first)
    own = framework.package
    plug_ins = [one.package for one in knowledge.stacks().frameworks if one.package in release.requires]
    replaced = plug_ins or [own]
    index = _index_for(release)
    for part in plug_ins:
        if part in packages:
            yield f"{pip} {index}{_pin(part, release)}"
        elif first and part in here.parts:
            yield f"{pip} {index}{_pin(part, release)}  # {messages.AGAIN.text()}"
    last = [_pin(part, release) for part in packages if part not in (*FIRST, *plug_ins)]
    again = bool(first) and stays and own in replaced
    in_index = framework.has_in_package_index(release.release)
    if in_index and (again or not stays):
        last.insert(0, _pin_of(framework, release))
    if last:
        yield f"{pip} {index}{' '.join(last)}{f'  # {messages.AGAIN.text()}' if again else ''}"
    if not in_index and not stays:
        source = next(iter((*release.sources, *framework.sources)), "")
        note = messages.PUBLISHED_ELSEWHERE.text(title=framework.title, release=release.release, source=source)
        yield f"npudoctor knowledge pair --for {quote(f'{framework.name}={release.release}')}  # {note}"


def _pin_of(framework: Framework, release: FrameworkRelease) -> str:
    """The requirement for the release of a row: of a train, without the releases that have rows of their own."""
    if release.release == "*":
        return framework.package
    others = [
        f",!={one.release}"
        for one in knowledge.stacks().of(framework.name)
        if one.release != release.release and release.release.endswith(".*") and release.speaks_of(one.release)
    ]
    return quote(f"{framework.package}=={release.release}{''.join(others)}")


_HUAWEI = "--extra-index-url https://mirrors.huaweicloud.com/ascend/repos/pypi "
"""Where triton-ascend after 3.2.0 is published; 3.2.0 is the last release on pypi.org/project/triton-ascend."""


def _index_for(release: FrameworkRelease) -> str:
    """The option that names Huawei's index, where a published set requires what is on it only."""
    version = release.requires.get("triton-ascend", "")
    return _HUAWEI if re.match(r"\d", version) and version.partition("rc")[0] != "3.2.0" else ""


def _pin(part: str, release: FrameworkRelease) -> str:
    wanted = release.requires[part]
    if re.match(r"[<>=!~]", wanted):
        return quote(f"{part}{wanted.replace(' ', '')}")
    return quote(f"{part}=={exact_release(wanted)}")
