"""Releases with a known defect, and packages that do not go beside torch_npu."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.python.imports import TorchNpuImport
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.versions import TorchVersion
from npudoctor.sdk import Evidence, Finding, FixOffer, NotApplicable, ParseError, Severity, Unavailable, check

from ._causes import as_evidence
from ._pairing import cuda_build

_CUDA_ONLY = {
    "bitsandbytes": "its kernels are CUDA's",
    "xformers": "its kernels are CUDA's, and it pins a torch of its own",
    "flash-attn": "its kernels are CUDA's; CANN has flash attention of its own",
}
_TRITON_BESIDE_FROM = "3.2.1"
"""From here on triton-ascend depends on triton and takes over at run time."""

_ACCELERATE_FROM = "0.25.0"


@check("python.known-bad", after=("python.torch-npu",), requires=(SoftwareStack,), fix="python.install-pair")
def release_has_no_known_defect(
    python: PythonEnvironment, cann: Cann | None, imported: TorchNpuImport | None
) -> Iterator[Finding]:
    """torch_npu is not one of the releases with a known defect.

    These pass every other check and fail at work; a later post release of the same line mends them.
    """
    torch_npu = python.torch_npu
    if torch_npu is None:
        raise Unavailable("torch_npu is not installed there", blocked_by="python.torch-npu")
    table = knowledge.compatibility()
    stated = cann.chosen.stated if cann is not None and cann.chosen is not None else None
    attempt = imported.attempt if imported is not None else None
    crashed = attempt is not None and attempt.signal is not None
    for defect in table.known_bad(torch_npu.version, python=python.version, cann=stated):
        mended = defect.fixed_in[torch_npu.base_version]
        row = table.release(mended)
        yield Finding(
            subject="python",
            severity=Severity.ERROR if crashed else Severity.WARNING,
            summary=f"torch_npu {torch_npu.version} {defect.summary}",
            detail=f"Mended in {mended}" + (f" of {defect.fixed}." if defect.fixed else "."),
            hint=f"Install torch_npu {mended}" + (", or use Python 3.11." if defect.python_min else "."),
            commands=(f'{python.executable} -m pip install --no-deps "torch_npu=={mended}"',),
            evidence=(
                Evidence(source=python.executable, expected=mended, actual=f"torch_npu {torch_npu.version}"),
                *as_evidence(attempt),
            ),
            fix=FixOffer(id="python.install-pair", params={"torch": row.torch if row else None, "torch_npu": mended}),
            pitfall=defect.pitfall,
            links=defect.sources,
        )


@check("python.conflicts", requires=(SoftwareStack,))
def nothing_disturbs_torch_npu(python: PythonEnvironment) -> Iterator[Finding]:
    """No package that expects CUDA, or hides one for the NPU, is beside torch_npu.

    Such packages are found by the libraries that look for them, and fail where these would have managed without.
    """
    if python.torch_npu is None:
        raise NotApplicable("torch_npu is not installed there")
    if cuda_build(python) is not None:
        raise Unavailable("torch is a CUDA build, and brings what it needs", blocked_by="python.torch")
    yield from _triton(python)
    for name, why in _CUDA_ONLY.items():
        if name in python.distributions:
            version = python.distributions[name].version
            yield Finding(
                subject="python",
                severity=Severity.WARNING,
                summary=f"{name} {version} is installed beside torch_npu: {why}",
                hint="Uninstall it, unless a program here needs it and chooses another way on the NPU.",
                commands=(f"{python.executable} -m pip uninstall {name}",),
                evidence=(Evidence(source=python.executable, expected="not installed", actual=f"{name} {version}"),),
            )
    accelerate = python.distributions.get("accelerate")
    if accelerate is not None and _older(accelerate.version, _ACCELERATE_FROM):
        yield Finding(
            subject="python",
            severity=Severity.WARNING,
            summary=f"accelerate {accelerate.version} knows no NPU; {_ACCELERATE_FROM} does",
            hint="Install a newer one.",
            commands=(f"{python.executable} -m pip install 'accelerate>={_ACCELERATE_FROM}'",),
            evidence=(
                Evidence(source=python.executable, expected=f">= {_ACCELERATE_FROM}", actual=accelerate.version),
            ),
        )


def _triton(python: PythonEnvironment) -> Iterator[Finding]:
    """Upstream triton lies in the folder of triton-ascend; the later one installed has overwritten the other."""
    triton, ours = python.distributions.get("triton"), python.distributions.get("triton-ascend")
    if triton is None or (ours is not None and not _older(ours.version, _TRITON_BESIDE_FROM)):
        return
    wanted = f"triton-ascend=={ours.version}" if ours is not None else "triton-ascend"
    beside = f"triton-ascend {ours.version}" if ours is not None else "torch_npu, without triton-ascend"
    yield Finding(
        subject="python",
        severity=Severity.WARNING,
        summary=f"upstream triton {triton.version} is installed beside {beside}",
        detail="Both install the package `triton`; the upstream one finds no driver for the NPU: `0 active drivers`.",
        hint="Uninstall both, then install triton-ascend alone, if anything here needs triton at all.",
        commands=(
            f"{python.executable} -m pip uninstall -y triton triton-ascend",
            f"{python.executable} -m pip install '{wanted}'",
        ),
        evidence=(Evidence(source=python.executable, expected="no triton", actual=f"triton {triton.version}"),),
        pitfall="P041",
    )


def _older(version: str, than: str) -> bool:
    """Whether a version comes before another; one that is not understood does not."""
    with contextlib.suppress(ParseError):
        return TorchVersion.parse(version) < TorchVersion.parse(than)
    return False
