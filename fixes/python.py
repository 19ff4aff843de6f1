"""The packages of the Python that trains: the pair of torch and torch_npu, and what CANN's compiler imports."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.records import record
from npudoctor.sdk import Host, Note, Parameters, Refused, Step, fix

from . import messages

PROOF = ("python.pairing", "python.cann-pairing", "python.torch", "python.torch-npu", "python.known-bad")


@record(frozen=True)
class Pair(Parameters):
    """`torch` and `torch_npu` are the releases to have; empty for the smallest change that the tables know.

    `offline` is a folder of wheels to install from, with no index.
    """

    torch: str = ""
    torch_npu: str = ""
    offline: str = ""


@record(frozen=True)
class Packages(Parameters):
    """`packages` are requirements such as numpy<2; empty for what is missing. `offline` is a folder of wheels."""

    packages: tuple[str, ...] = ()
    offline: str = ""


@fix("python.install-pair", resolves=PROOF)
def install_pair(asked: Pair, host: Host, python: PythonEnvironment, cann: Cann | None) -> Iterator[Step | Note]:
    """Install the torch and torch_npu that match this CANN.

    By the smallest change. The plan is resolved first, with the environment's own installer and index; every package
    that would change is listed. The files of replaced packages are kept, so that undoing requires no index.
    """
    from . import _installing, _pairs

    torch, torch_npu = _pairs.choose_pair(asked.torch, asked.torch_npu, python, cann)
    local = "+cpu" if python.machine == "x86_64" and "+" not in torch else ""
    wanted = [f"torch=={torch}{local}", f"torch-npu=={torch_npu}"]
    if _has(python, "torch", f"{torch}{local}") and _has(python, "torch-npu", torch_npu):
        return
    for said in _pairs.frameworks_of_another_pair(torch, torch_npu, python):
        yield Note(said)
    try:
        yield from _installing.steps(host, python, wanted, asked.offline)
    except _installing.NotFoundError as why:
        if local and f"{torch}{local}" in str(why):
            raise Refused(messages.NO_CPU_BUILD.text(version=torch, problem=why)) from why
        raise Refused(str(why)) from why


def _has(python: PythonEnvironment, name: str, version: str) -> bool:
    found = python.distributions.get(name)
    return found is not None and found.version == version


@fix("python.install-packages", resolves=("python.packages", "python.conflicts"))
def install_packages(
    asked: Packages, host: Host, python: PythonEnvironment, cann: Cann | None
) -> Iterator[Step | Note]:
    """Install the packages that CANN's operator compiler imports.

    In versions that it can use.
    """
    from . import _installing, _pairs

    wanted = list(asked.packages) or _pairs.missing_packages(python, cann)
    replaced = [] if asked.packages else _pairs.upstream_triton(python)
    try:
        if replaced:
            yield from _installing.removal(host, python, replaced)
        if "triton-ascend" in replaced:
            yield _installing.anew(host, python, "triton-ascend", asked.offline)
        if wanted:
            yield from _installing.steps(host, python, wanted, asked.offline)
    except _installing.NotFoundError as why:
        raise Refused(str(why)) from why
