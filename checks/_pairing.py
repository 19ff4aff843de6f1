"""The smallest change after which torch, torch_npu, CANN and Python match."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from npudoctor import knowledge
from npudoctor.facts.python.imports import TorchImport
from npudoctor.facts.python.requirements import find_requirement
from npudoctor.facts.python.target_python import Distribution, PythonEnvironment
from npudoctor.knowledge.pairs import TorchNpuRelease
from npudoctor.knowledge.solver import Solution, Stack, solve
from npudoctor.records import record
from npudoctor.sdk import FixOffer, NotApplicable, Options, ParseError

from .messages import python as messages

_CUDA = r"(?i)cu\d|cuda"
_WITHOUT_TORCH = {
    **dict.fromkeys(("mindspore", "mindspore-ascend"), "MindSpore"),
    "paddle-custom-npu": "PaddlePaddle",
    "onnxruntime-cann": "ONNX Runtime",
}
"""Packages that use NPUs through CANN itself; until 1.10 MindSpore's own was mindspore-ascend."""


@record(frozen=True, kw_only=True)
class Needed:
    """The torch that a torch_npu requires: `version` without a local part, and `reason`, a sentence that says why."""

    version: str
    reason: str
    by_wheel: bool


def torch_needed(torch_npu: Distribution, python: PythonEnvironment) -> Needed:
    """The torch that a torch_npu requires: by its wheel, else by the table, else by its version number."""
    requirement = find_requirement(torch_npu.requires, "torch", python)
    if requirement is not None and requirement.pinned is not None:
        version = requirement.pinned.partition("+")[0]
        reason = messages.REQUIRED_BY_WHEEL.text(requirement=requirement)
        return Needed(version=version, reason=reason, by_wheel=True)
    table = knowledge.compatibility()
    if row := table.release(torch_npu.version):
        reason = messages.REQUIRED_BY_TABLE.text(as_of=table.as_of)
        return Needed(version=row.torch, reason=reason, by_wheel=False)
    base = ".".join(torch_npu.base_version.split(".")[:3])
    return Needed(version=base, reason=messages.REQUIRED_BY_RULE.text(), by_wheel=False)


def stack_of(python: PythonEnvironment, cann: str | None, driver: str | None = None) -> Stack:
    """What is installed, as the solver takes it; a torch built for CUDA counts as none."""
    torch, torch_npu = python.torch, python.torch_npu
    needed = torch_needed(torch_npu, python) if torch_npu is not None else None
    return Stack(
        torch=torch.base_version if torch is not None and cuda_build(python) is None else None,
        torch_npu=torch_npu.version if torch_npu is not None else None,
        cann=cann,
        driver=driver,
        python=python.version,
        needs_torch=needed.version if needed is not None and needed.by_wheel else None,
        accepts_torch=_accepts(python),
    )


def smallest_change(python: PythonEnvironment, cann: str | None) -> Solution | None:
    """What has to be installed; None where no table helps, or nothing has to change."""
    if python.torch_npu is None and cann is None:
        return None
    found = solve(stack_of(python, cann), knowledge.compatibility())
    return found if found is not None and found.changes else None


def _accepts(python: PythonEnvironment) -> bool | None:
    """Whether the wheel's requirement accepts the installed torch; None where it has none."""
    if python.torch is None or python.torch_npu is None:
        return None
    requirement = find_requirement(python.torch_npu.requires, "torch", python)
    try:
        return requirement.accepts(python.torch.version) if requirement is not None else None
    except ParseError:
        return None


def new_environment(name: str, python: str) -> tuple[str, str]:
    """The commands after which `python` is that of a new environment."""
    return f"conda create -n {name} python={python}", f"conda activate {name}"


def commands(change: Solution, python: PythonEnvironment) -> Iterator[str]:
    """The commands that make a change, as far as commands do."""
    executable = python.executable
    if (release := change.of("python")) is not None:
        yield from new_environment("npu", release)
        executable = "python"
    for part in ("torch", "torch_npu", "numpy"):
        version = change.of(part)
        if part in ("torch", "torch_npu") and change.of("python") is not None:
            version = getattr(change, part)
        if version is not None:
            yield install_command(executable, part, version, python)


def install_command(executable: str, part: str, version: str, python: PythonEnvironment) -> str:
    """The command that installs torch, torch_npu or numpy; on x86_64 the CPU build of torch, which has an index."""
    cpu = part == "torch" and python.machine == "x86_64"
    keep = note = ""
    if cpu:
        note = "  # from the PyTorch CPU wheel index or its mirror"
    elif part == "torch_npu":
        keep, note = "--no-deps ", knowledge.compatibility().note_of_wheel(version)
    return f'{quote(executable)} -m pip install {keep}"{part}=={version}{"+cpu" if cpu else ""}"{note}'


def offer(change: Solution | None) -> FixOffer:
    """The fix that installs the pair, with the versions that torch and torch_npu are then to have."""
    if change is None or change.of("python") or change.of("cann") or change.of("driver"):
        return FixOffer(id="python.install-pair")
    return FixOffer(id="python.install-pair", params={"torch": change.torch, "torch_npu": change.torch_npu})


def is_of_the_system(python: PythonEnvironment) -> bool:
    """Whether packages do not belong into this Python: the operating system's own programs use it."""
    return python.prefix == python.base_prefix == "/usr"


def matching_release(python: PythonEnvironment, cann: str | None) -> TorchNpuRelease | None:
    """The torch_npu that matches the installed torch, CANN and Python; None where there is none."""
    if python.torch is None or cann is None:
        return None
    releases = knowledge.compatibility().releases_for_cann(cann, python=python.version)
    return next((release for release in releases if release.torch == python.torch.base_version), None)


def cuda_build(python: PythonEnvironment, imported: TorchImport | None = None) -> tuple[str, str] | None:
    """The place that shows that torch is a CUDA build, and its text; None for a CPU build."""
    torch = python.torch
    if torch is None:
        return None
    local = torch.version.partition("+")[2]
    if re.match(_CUDA, local):
        return "version of torch", torch.version
    if python.torch_build is not None:
        cuda = python.torch_build.get("cuda")
        return ("torch/version.py", f"cuda = {cuda}") if cuda else None
    if local == "cpu":
        return None
    for attempt in (imported.plain, imported.alone) if imported is not None else ():
        if attempt is not None and attempt.ok:
            return ("torch.version.cuda", attempt.cuda) if attempt.cuda else None
    wanted = [name for name in python.distributions if name.startswith(("nvidia-cuda", "nvidia-cublas"))]
    asked = [name for name in wanted if any(line.lower().startswith(name) for line in torch.requires)]
    return ("packages that torch requires", ", ".join(asked)) if asked else None


def refuse_without_torch(python: PythonEnvironment, options: Options) -> None:
    """Raise NotApplicable where a framework of its own uses the NPUs, and nothing that is built on torch_npu."""
    packages = {one.name: one.package for one in knowledge.stacks().frameworks}
    wanted = {packages[name] for name in options.frameworks} or python.distributions.keys()
    own = next((title for package, title in _WITHOUT_TORCH.items() if package in wanted), None)
    on_torch = set(packages.values()) - _WITHOUT_TORCH.keys()
    if own is not None and python.torch_npu is None and on_torch.isdisjoint(wanted):
        raise NotApplicable(messages.NO_TORCH_REQUIRED.text(framework=own))
