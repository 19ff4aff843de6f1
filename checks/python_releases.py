"""Releases of torch_npu with a known defect, and packages that conflict with torch_npu."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.python.imports import TorchNpuImport
from npudoctor.facts.python.requirements import Requirement, find_requirement
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.versions import is_older
from npudoctor.sdk import Evidence, Finding, FixOffer, NotApplicable, ParseError, Severity, Unavailable, check

from ._causes import as_evidence
from ._pairing import cuda_build, torch_needed
from .messages import python as messages

_TRITON_BESIDE_FROM = "3.2.1"
"""From here on triton-ascend depends on triton and takes over at run time."""

_ACCELERATE_FROM = "0.25.0"


@check("python.known-bad", after=("python.torch-npu",), requires=(SoftwareStack,), fix="python.install-pair")
def release_has_no_known_defect(
    python: PythonEnvironment, cann: Cann | None, imported: TorchNpuImport | None
) -> Iterator[Finding]:
    """torch_npu release without known defects.

    A release with a known defect passes every other check and fails in a job. A later post release of the same line
    fixes it.
    """
    torch_npu = python.torch_npu
    if torch_npu is None:
        raise Unavailable(messages.NO_TORCH_NPU.text(), blocked_by="python.torch-npu")
    table = knowledge.compatibility()
    stated = cann.chosen.stated if cann is not None and cann.chosen is not None else None
    attempt = imported.attempt if imported is not None else None
    crashed = attempt is not None and attempt.signal is not None
    for defect in table.known_bad(torch_npu.version, python=python.version, cann=stated):
        fixed_in = defect.fixed_in[torch_npu.base_version]
        row = table.release(fixed_in)
        yield messages.KNOWN_DEFECT.finding(
            subject="python",
            severity=Severity.ERROR if crashed else None,
            torch_npu=torch_npu.version,
            defect=defect.summary,
            fixed_in=fixed_in,
            detail=messages.FIXED_ON.text(fixed_in=fixed_in, date=defect.fixed) if defect.fixed else None,
            hint=messages.INSTALL_OR_OLDER_PYTHON.text(fixed_in=fixed_in) if defect.python_min else None,
            commands=(f'{python.pip} install --no-deps "torch_npu=={fixed_in}"',),
            evidence=(
                Evidence(source=python.executable, expected=fixed_in, actual=f"torch_npu {torch_npu.version}"),
                *as_evidence(attempt),
            ),
            fix=FixOffer(id="python.install-pair", params={"torch": row.torch if row else None, "torch_npu": fixed_in}),
            pitfall=defect.pitfall,
            links=defect.sources,
        )


_WITH_VLLM = frozenset({"vllm-ascend", "vllm-plugin-fl", "vllm-fl", "omni-infer", "sglang", "verl"})
"""What lets vLLM use NPUs: its own plug-in, and those of FlagOS and omniai; another engine, and verl, whose check
(stack.verl) says what is missing."""


_REQUIRED_OF = ("numpy", "transformers")
"""What frameworks import at their start, and what other packages replace by releases that they do not accept."""


@check("python.conflicts", requires=(SoftwareStack,))
def no_package_conflicts(python: PythonEnvironment) -> Iterator[Finding]:
    """No packages that conflict with torch_npu.

    Libraries use such packages if they find them, and fail on the NPU where they would have worked without them.
    """
    if python.torch_npu is None:
        raise NotApplicable(messages.NO_TORCH_NPU.text())
    if cuda_build(python) is not None:
        raise Unavailable(messages.TORCH_IS_CUDA.text(), blocked_by="python.torch")
    yield from _triton(python)
    yield from _for_cuda(python)
    yield from _of_another_torch(python)
    yield from _against_requirements(python)
    vllm = python.distributions.get("vllm")
    if vllm is not None and _WITH_VLLM.isdisjoint(python.distributions):
        yield messages.VLLM_WITHOUT_PLUGIN.finding(
            subject="python",
            version=vllm.version,
            commands=("npudoctor knowledge pair --for vllm-ascend",),
            evidence=(Evidence(source=python.executable, expected="vllm-ascend", actual=f"vllm {vllm.version} alone"),),
        )
    accelerate = python.distributions.get("accelerate")
    if accelerate is not None and is_older(accelerate.version, _ACCELERATE_FROM):
        yield messages.ACCELERATE_TOO_OLD.finding(
            subject="python",
            version=accelerate.version,
            required=_ACCELERATE_FROM,
            commands=(f"{python.pip} install 'accelerate>={_ACCELERATE_FROM}'",),
            evidence=(
                Evidence(source=python.executable, expected=f">= {_ACCELERATE_FROM}", actual=accelerate.version),
            ),
        )


def _for_cuda(python: PythonEnvironment) -> Iterator[Finding]:
    """Packages for CUDA: each that a library imports if it finds it, and in one finding the rest."""
    versions = {name: one.version for name, one in python.distributions.items()}
    unused: dict[str, str] = {}
    for package in knowledge.layout().cuda_packages:
        found = package.find_in(versions)
        if package.harmless:
            unused |= found
            continue
        for name, version in found.items():
            yield messages.CUDA_ONLY.finding(
                subject="python",
                package=name,
                version=version,
                detail=messages.CUDA_ONLY_NOTE.text(note=package.note) if package.note else None,
                commands=(f"{python.pip} uninstall {name}",),
                evidence=(Evidence(source=python.executable, expected="not installed", actual=f"{name} {version}"),),
            )
    if unused:
        yield messages.CUDA_UNUSED.finding(
            subject="python",
            packages=sorted(unused),
            commands=(f"{python.pip} uninstall {' '.join(sorted(unused))}",),
            evidence=(Evidence(source=python.executable, actual=", ".join(map(" ".join, sorted(unused.items())))),),
        )


def _of_another_torch(python: PythonEnvironment) -> Iterator[Finding]:
    """torchvision and torchaudio are each built for one torch; where torch is the wrong one, python.pairing says so."""
    torch, torch_npu = python.torch, python.torch_npu
    if torch is None or torch_npu is None:
        return
    needed = torch_needed(torch_npu, python).version
    for name in ("torchvision", "torchaudio"):
        package = python.distributions.get(name)
        requirement = find_requirement(package.requires, "torch", python) if package is not None else None
        if package is None or requirement is None or requirement.pinned is None or _accepts(requirement, torch.version):
            continue
        built_for = requirement.pinned.partition("+")[0]
        if built_for == needed:
            continue
        fitting = companion_of(name, torch.base_version)
        wanted = f'"{name}=={fitting}"' if fitting else None
        yield messages.OF_ANOTHER_TORCH.finding(
            subject="python",
            package=name,
            version=package.version,
            required=built_for,
            torch=torch.version,
            hint=messages.INSTALL_COMPANION.text(package=name, release=fitting, torch=torch.base_version)
            if fitting
            else None,
            commands=(f"{python.pip} install --no-deps {wanted}",) if wanted else (),
            evidence=(
                Evidence(
                    source=f"{name} {package.version}", expected=str(requirement), actual=f"torch {torch.version}"
                ),
            ),
        )


def _against_requirements(python: PythonEnvironment) -> Iterator[Finding]:
    """A numpy or transformers that an installed framework does not accept: its own metadata says so."""
    frameworks = [one.package for one in knowledge.stacks().frameworks if one.package in python.distributions]
    there = [name for name in _REQUIRED_OF if name in python.distributions]
    for framework in frameworks:
        package = python.distributions[framework]
        for name in there:
            found, requirement = python.distributions[name], find_requirement(package.requires, name, python)
            if requirement is None or _accepts(requirement, found.version):
                continue
            accepted = name + ",".join(sorted(requirement.specifiers.split(","), reverse=True))  # the lower bound first
            yield messages.REQUIREMENT_NOT_MET.finding(
                subject="python",
                framework=framework,
                release=package.version,
                requirement=accepted,
                version=found.version,
                commands=(f"{python.pip} install '{accepted}'",),
                evidence=(
                    Evidence(
                        source=f"{framework} {package.version}",
                        expected=accepted,
                        actual=f"{name} {found.version}",
                    ),
                ),
            )


def companion_of(name: str, torch: str) -> str | None:
    """The torchvision or torchaudio that was released with a torch; None for a torch that is not from 2.1 to 2.9.

    torchaudio has the number of torch, torchvision 0.16 belongs to torch 2.1 and so on
    (https://pytorch.org/get-started/previous-versions).
    """
    numbers = re.fullmatch(r"2\.([1-9])\.(\d+)", torch)
    if numbers is None:
        return None
    return torch if name == "torchaudio" else f"0.{int(numbers[1]) + 15}.{numbers[2]}"


def _accepts(requirement: Requirement, version: str) -> bool:
    with contextlib.suppress(ParseError):
        return requirement.accepts(version)
    return True


def _triton(python: PythonEnvironment) -> Iterator[Finding]:
    """Upstream triton is in the folder of triton-ascend; the later one installed has overwritten the other."""
    triton, ours = python.distributions.get("triton"), python.distributions.get("triton-ascend")
    if triton is None or (ours is not None and not is_older(ours.version, _TRITON_BESIDE_FROM)):
        return
    wanted = f"triton-ascend=={ours.version}" if ours is not None else "triton-ascend"
    commands = (
        f"{python.pip} uninstall -y triton triton-ascend",
        f"{python.pip} install '{wanted}'",
    )
    evidence = (Evidence(source=python.executable, expected="no triton", actual=f"triton {triton.version}"),)
    if ours is None:
        yield messages.TRITON_ALONE.finding(
            subject="python", triton=triton.version, commands=commands, evidence=evidence
        )
        return
    yield messages.TRITON_CONFLICT.finding(
        subject="python",
        triton=triton.version,
        triton_ascend=ours.version,
        commands=commands,
        evidence=evidence,
    )
