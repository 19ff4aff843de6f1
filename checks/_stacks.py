"""Whether the releases of a framework go together: what its check and its smallest change are computed from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.python.published_releases import misfit
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.knowledge.pairs import Fit
from npudoctor.knowledge.patterns import wheel
from npudoctor.knowledge.solver import COST, Change, Solution
from npudoctor.knowledge.tables.stacks import Framework, FrameworkRelease, Stacks
from npudoctor.sdk import Options, Severity

from .messages import stack as messages

_PACKAGE_COST = COST["torch"]
_COSTS = {part: COST[part] for part in ("python", "cann")}

_ORDER = ("cann", "python", "vllm", "sglang", "transformers")
"""What is installed first: vllm brings a torch of its own, which the framework's own package then replaces
(vllm-project/vllm-ascend#5710)."""

_FIRST_OF_RANGE = frozenset({"torch", "torch_npu"})
"""The first release of a range is installed: each would come in its newest, and these do not go together."""

_NAMES = {"cann": "CANN", "python": "Python"}

Parts = Mapping[str, str]


def installed_parts(python: PythonEnvironment, cann: Cann | None) -> dict[str, str]:
    """The release of every distribution, of Python and of the CANN in use, by part."""
    parts = {name: one.version for name, one in python.distributions.items()}
    parts["python"] = python.version
    if "torch-npu" in parts:
        parts["torch_npu"] = parts["torch-npu"]
    if cann is not None and cann.chosen is not None and cann.chosen.stated:
        parts["cann"] = cann.chosen.stated
    return parts


def name_of(part: str) -> str:
    """How sentences call a part."""
    return _NAMES.get(part, part)


def misfits(release: FrameworkRelease, parts: Parts) -> dict[str, Severity]:
    """The installed parts that differ from the published set, each with how badly, in the order of installation.

    What is not installed is no difference: the framework names it when it starts, or does without.
    """
    found = {part: misfit(part, version, parts[part]) for part, version in release.requires.items() if part in parts}
    return {part: severity for part, severity in sorted(found.items(), key=_place) if severity is not None}


def published_by_others(framework: Framework, table: Stacks, parts: Parts) -> frozenset[str]:
    """The parts that another installed framework, whose published set names this release, requires as they are.

    verl 0.8.0 publishes vLLM Ascend 0.18.0 with a newer CANN than vLLM Ascend itself does.
    """
    found: set[str] = set()
    for other in table.frameworks:
        row = table.release(other.name, parts[other.package]) if other.package in parts else None
        if row is not None and framework.package in row.requires:
            wrong = misfits(row, parts)
            found |= set() if framework.package in wrong else row.requires.keys() - wrong.keys()
    return frozenset(found)


def _place(item: tuple[str, object]) -> int:
    part = item[0]
    return _ORDER.index(part) if part in _ORDER else len(_ORDER)


def nearest(framework: Framework, table: Stacks, parts: Parts) -> tuple[FrameworkRelease, tuple[str, ...]] | None:
    """The published set that takes the smallest change, and the parts to change; None where none is published.

    The installed release of the framework wins where two are equal, then the newest finished one.
    """
    here = wheel(parts.get(framework.package, ""))
    best: tuple[tuple[int, bool, bool, int], FrameworkRelease, tuple[str, ...]] | None = None
    for place, release in enumerate(table.of(framework.name)):
        wrong = tuple(misfits(release, parts))
        stays = release.speaks_of(here)
        cost = sum(_COSTS.get(part, _PACKAGE_COST) for part in wrong) + (0 if stays else _PACKAGE_COST)
        key = (cost, not stays, "rc" in release.release, place)
        if best is None or key < best[0]:
            best = (key, release, wrong)
    return best[1:] if best else None


def pair_wanted(options: Options, python: PythonEnvironment, cann: Cann | None) -> Solution | None:
    """The torch and torch_npu of the published set that the first framework of --for takes; None where it names none.

    What python.pairing and its like propose then is what the framework's own check asks for.
    """
    table, parts = knowledge.stacks(), installed_parts(python, cann)
    for name in options.frameworks:
        found = nearest(table.framework(name), table, parts)
        if found is None or not {"torch", "torch_npu"} <= set(found[0].requires):
            continue
        pair = {part: exact_release(found[0].requires[part]) for part in ("torch", "torch_npu")}
        row = knowledge.compatibility().release(pair["torch_npu"])
        if row is None or row.torch != pair["torch"] or row.supports_python(python.version) is False:
            continue
        now = {"torch": python.torch, "torch_npu": python.torch_npu}
        installed = {part: one.version.partition("+")[0] if one is not None else None for part, one in now.items()}
        changes = tuple(Change(part, installed[part], then) for part, then in pair.items() if installed[part] != then)
        grounds = messages.PUBLISHED_SET.text(title=table.framework(name).title, release=found[0].release)
        return Solution(changes=changes, **pair, fit=Fit.PAIRED, rests_on=grounds, as_of=table.as_of)
    return None


def commands(
    framework: Framework, release: FrameworkRelease, wrong: tuple[str, ...], python: PythonEnvironment, parts: Parts
) -> Iterator[str]:
    """The commands of a change, in the order in which they have to run."""
    pip = f"{python.executable} -m pip install"
    if "cann" in wrong:
        yield f"./Ascend-cann-toolkit_{exact_release(release.requires['cann'])}_linux-$(arch).run --install"
    if "python" in wrong:
        yield f"conda create -n {framework.name} 'python{release.requires['python'].replace(' ', '')}'"
    packages = [part for part in wrong if part not in ("cann", "python")]
    yield from (f"{pip} {_pin(part, release)}" for part in packages if part in _ORDER)
    last = [part for part in packages if part not in _ORDER]
    stays = release.speaks_of(wheel(parts.get(framework.package, "")))
    again = stays and any(part in _ORDER for part in packages)
    if framework.in_package_index and (again or not stays):
        last.insert(0, framework.package)
    if last:
        why = f"  # {messages.AGAIN.text()}" if framework.package in last and again else ""
        yield f"{pip} {' '.join(_pin(part, release, framework) for part in last)}{why}"


def _pin(part: str, release: FrameworkRelease, framework: Framework | None = None) -> str:
    if framework is not None and part == framework.package:
        return part if release.release == "*" else f"{part}=={release.release}"
    wanted = release.requires[part]
    if part in _FIRST_OF_RANGE:
        return f"{part}=={exact_release(wanted)}"
    return f"'{part}{wanted.replace(' ', '')}'" if re.match(r"[<>=!~]", wanted) else f"{part}=={exact_release(wanted)}"


def exact_release(published: str) -> str:
    """One release of a published version: the last of several, the lower bound of a range."""
    found = re.search(r">=\s*([^\s,]+)", published)
    return found[1] if found else wheel(published.split(" or ")[-1]) if "RC" not in published else published
