"""The smallest change that makes torch, torch_npu, CANN and Python fit each other."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.requirements import required
from npudoctor.facts.target_python import Distribution, PythonEnvironment
from npudoctor.knowledge.pairs import TorchNpuRelease
from npudoctor.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """The torch that a torch_npu needs: `version` without a local part, and who says so."""

    version: str
    source: str
    by_wheel: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to install: a version, or None for what may stay as it is."""

    torch: str | None = None
    torch_npu: str | None = None

    @property
    def text(self) -> str:
        """The change in words."""
        parts = [f"{name} {version}" for name, version in self._parts]
        stays = [name for name, version in (("torch", self.torch), ("torch_npu", self.torch_npu)) if version is None]
        return f"install {' and '.join(parts)}" + (f" and keep {stays[0]} as it is" if stays else "")

    @property
    def _parts(self) -> list[tuple[str, str]]:
        pairs = (("torch", self.torch), ("torch_npu", self.torch_npu))
        return [(name, version) for name, version in pairs if version is not None]

    def commands(self, python: PythonEnvironment) -> Iterator[str]:
        """The commands that make it."""
        for name, version in self._parts:
            cpu = name == "torch" and python.machine == "x86_64"
            wanted = f'"{name}=={version}{"+cpu" if cpu else ""}"'
            note = "  # from the PyTorch CPU wheel index or its mirror" if cpu else ""
            keep = "--no-deps " if name == "torch_npu" else ""
            yield f"{python.executable} -m pip install {keep}{wanted}{note}"


def torch_needed(torch_npu: Distribution, machine: str | None) -> Needed:
    """The torch that goes with a torch_npu: by its own wheel, else by the table, else by the rule of its numbers."""
    requirement = required(torch_npu.requires, "torch", machine)
    if requirement is not None and requirement.pinned is not None:
        version = requirement.pinned.partition("+")[0]
        return Needed(version=version, source=f"the wheel's own metadata ({requirement})", by_wheel=True)
    table = knowledge.compatibility()
    if row := table.release(torch_npu.version):
        return Needed(version=row.torch, source=f"the table of torch_npu as of {table.as_of}", by_wheel=False)
    base = ".".join(torch_npu.base_version.split(".")[:3])
    return Needed(version=base, source="the rule that torch_npu X.Y.Z needs torch X.Y.Z", by_wheel=False)


def smallest_change(python: PythonEnvironment, cann: str | None) -> Change | None:
    """One package rather than two; torch rather than a torch_npu that fits the CANN; None where no table helps."""
    table = knowledge.compatibility()
    torch, torch_npu = python.torch, python.torch_npu
    installed = table.release(torch_npu.version) if torch_npu else None
    good = cann is None or installed is None or table.fit(installed, cann).is_good
    if torch_npu is not None and good:
        return Change(torch=torch_needed(torch_npu, python.machine).version)
    candidates = table.releases_for_cann(cann, python=python.version) if cann is not None else ()
    base = torch.base_version if torch is not None else None
    for release in candidates:
        if release.torch == base:
            return Change(torch_npu=release.version)
    best = next(iter(candidates), None)
    return Change(torch=best.torch, torch_npu=best.version) if best else None


def fitting(python: PythonEnvironment, cann: str | None) -> TorchNpuRelease | None:
    """The torch_npu to install beside the torch that is there, for this CANN and Python; None where there is none."""
    if python.torch is None or cann is None:
        return None
    releases = knowledge.compatibility().releases_for_cann(cann, python=python.version)
    return next((release for release in releases if release.torch == python.torch.base_version), None)
