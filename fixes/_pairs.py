"""Which releases a Python should have, by the tables and by what the checks find missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.python.published_releases import misfit
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.versions import CannVersion
from npudoctor.knowledge.tables.compatibility import WHEELS
from npudoctor.sdk import Refused

from . import messages

_VERSION = r"[0-9][0-9A-Za-z.+!_-]{0,60}"


def choose_pair(torch: str, torch_npu: str, python: PythonEnvironment, cann: Cann | None) -> tuple[str, str]:
    """The releases of torch and torch_npu to install, by the smallest change; raises Refused if no table has them."""
    for version in filter(None, (torch, torch_npu)):
        if not re.fullmatch(_VERSION, version):
            raise Refused(messages.NOT_A_VERSION.text(version=version))
    if torch and torch_npu:
        return torch, torch_npu
    stated = cann.chosen.stated if cann is not None and cann.chosen is not None else None
    table = knowledge.compatibility()
    support = table.python(stated) if stated else None
    if support is not None and not support.supports(python.version):
        said = messages.OTHER_PYTHON_FIRST.text(
            cann=stated, python=python.version, supported=f"{support.oldest} to {support.newest}"
        )
        raise Refused(said, instead="npudoctor fix python.create")
    rows = table.releases_for_cann(stated, python=python.version) if stated else ()
    fitting = [row for row in rows if torch in ("", row.torch) and torch_npu in ("", row.version)]
    if fitting:
        row = min(
            fitting,
            key=lambda row: (
                not row.on_pypi,
                _differs(python, "torch", row.torch) + _differs(python, "torch-npu", row.version),
            ),
        )
        if not (row.on_pypi or torch or torch_npu):
            raise Refused(
                messages.NOT_IN_THE_INDEX.text(release=row.version, where=WHEELS),
                instead=f"--set torch={row.torch} torch_npu={row.version}",
            )
        return row.torch, row.version
    raise Refused(messages.NO_PAIR_KNOWN.text(), instead="--set torch=2.5.1 torch_npu=2.5.1")


def _differs(python: PythonEnvironment, name: str, version: str) -> bool:
    """Whether another release is installed, or none."""
    found = python.distributions.get(name)
    return found is None or found.version.partition("+")[0] != version


def missing_packages(python: PythonEnvironment, cann: Cann | None) -> list[str]:
    """The packages that CANN's compiler imports and that are not there, and numpy where it is too new."""
    if cann is None or cann.chosen is None:
        return []
    layout = knowledge.layout()
    version = cann.chosen.version
    before = version is not None and version < CannVersion.parse(layout.more["numpy_2_from_cann"])
    names = [one.distribution for one in layout.compiler_packages if one.essential]
    found = ["numpy<2" if name == "numpy" and before else name for name in names if name not in python.distributions]
    numpy = python.distributions.get("numpy")
    if before and numpy is not None and int((re.match(r"\d+", numpy.version) or ["0"])[0]) >= 2:
        found.append("numpy<2")
    return found


def upstream_triton(python: PythonEnvironment) -> list[str]:
    """Upstream's triton, and triton-ascend, where both are in one folder."""
    names = [name for name in ("triton", "triton-ascend") if name in python.distributions]
    return names if "triton" in names else []


def frameworks_of_another_pair(torch: str, torch_npu: str, python: PythonEnvironment) -> Iterator[str]:
    """A sentence for each installed framework that is published with the pair that is here, and not with this one."""
    now = {"torch": python.torch, "torch_npu": python.torch_npu}
    here = {part: one.version for part, one in now.items() if one is not None}
    table = knowledge.stacks()
    for framework in table.frameworks:
        package = python.distributions.get(framework.package)
        row = table.release(framework.name, package.version) if package is not None else None
        if row is None or package is None:
            continue
        sets = [one.requires for one in row.sets()]
        then = {"torch": torch, "torch_npu": torch_npu}
        if any(_suits(one, here) for one in sets) and not any(_suits(one, then) for one in sets):
            yield messages.OF_ANOTHER_PAIR.text(
                title=framework.title,
                release=package.version,
                torch=torch,
                torch_npu=torch_npu,
                command=f"npudoctor knowledge pair --for {framework.name}={package.version}",
            )


def _suits(published: Mapping[str, str], pair: Mapping[str, str]) -> bool:
    return all(misfit(part, published[part], one) is None for part, one in pair.items() if part in published)
