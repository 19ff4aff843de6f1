"""The Python that trains: its version, torch and torch_npu, and how these pair with each other and with CANN."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.python.imports import TorchNpuImport
from npudoctor.facts.python.requirements import required
from npudoctor.facts.python.target_python import OLDEST, PythonEnvironment, TargetPython, TorchPair
from npudoctor.facts.versions import CannVersion, TorchVersion
from npudoctor.knowledge.pairs import Fit, TorchNpuRelease
from npudoctor.knowledge.solver import Solution
from npudoctor.knowledge.tables.compatibility import Compatibility
from npudoctor.sdk import Evidence, Finding, FixOffer, ParseError, Severity, Unavailable, check

from ._causes import as_evidence
from ._pairing import Needed, commands, cuda_build, fitting, offer, smallest_change, torch_needed


def _cann(cann: Cann | None) -> str | None:
    return cann.chosen.stated if cann is not None and cann.chosen is not None else None


@check("python.version", requires=(SoftwareStack,))
def python_is_supported(python: PythonEnvironment, target: TargetPython, cann: Cann | None) -> Iterator[Finding]:
    """The Python is one for which this torch_npu has wheels and which this CANN supports.

    Wheels are built for each minor version; the operator compiler starts the same Python and refuses others.
    """
    if python.release < OLDEST:
        yield _wrong_python(python, target, "3.7 or newer, as every torch_npu needs", "every torch_npu", "P095")
        return
    table = knowledge.compatibility()
    row = table.release(python.torch_npu.version) if python.torch_npu else None
    if row is not None and row.supports_python(python.version) is False and not _named(row, python):
        expected = ", ".join(row.pythons) or " to ".join(row.python_range or ())
        yield _wrong_python(python, target, expected, f"torch_npu {row.version} (as of {table.as_of})", "P039")
        return
    installed = _cann(cann)
    support = table.python(installed) if installed else None
    if support is not None and not support.supports(python.version):
        expected = f"{support.oldest} to {support.newest}"
        yield _wrong_python(python, target, expected, f"CANN {installed} (as of {table.as_of})", "P039")


def _named(row: TorchNpuRelease, python: PythonEnvironment) -> bool:
    """Whether the project names this Python although no wheel for it is known."""
    minor = f"{python.release[0]}.{python.release[1]}"
    oldest, newest = row.python_range or ("", "")
    with contextlib.suppress(ValueError):
        numbers = [tuple(map(int, text.split(".")[:2])) for text in (oldest, minor, newest)]
        return numbers[0] <= numbers[1] <= numbers[2]
    return False


def _wrong_python(python: PythonEnvironment, target: TargetPython, expected: str, who: str, pitfall: str) -> Finding:
    return Finding(
        subject="python",
        summary=f"Python {python.version} is not supported by {who}",
        detail=f"Supported: {expected}. A wheel of another Python does not install, and a forced one crashes.",
        hint="Make an environment with a supported Python (3.11 is accepted by most releases), or name another with "
        "--python.",
        commands=("conda create -n npu python=3.11",),
        evidence=(Evidence(source=f"{python.executable} ({target.why})", expected=expected, actual=python.version),),
        pitfall=pitfall,
    )


@check("python.torch", requires=(SoftwareStack,), fix="python.install-pair")
def torch_is_installed_for_the_cpu(
    python: PythonEnvironment, target: TargetPython, cann: Cann | None
) -> Iterator[Finding]:
    """torch is installed, and is not a CUDA build beside torch_npu.

    torch_npu extends the CPU build. A CUDA build refuses to share a process with it where a GPU is seen, and pulls
    gigabytes of libraries that nothing here can use.
    """
    torch = python.torch
    if torch is None:
        both = python.torch_npu is None
        change = smallest_change(python, _cann(cann))
        yield Finding(
            subject="python",
            summary=f"{'neither torch nor torch_npu is' if both else 'torch is not'} installed in {python.executable}",
            detail=f"This Python was examined because {target.why}.",
            hint="If another environment trains, name it with --python. Else install torch and the torch_npu that "
            "pairs with it" + (f": {change.text}." if change else "."),
            commands=(*(commands(change, python) if change else ()), "npudoctor check --python /path/to/python"),
            evidence=(Evidence(source=python.executable, expected="torch", actual="not installed"),),
            fix=offer(change),
        )
    elif python.torch_npu is not None and (why := cuda_build(python)):
        wanted = torch_needed(python.torch_npu, python).version
        cpu = "+cpu" if python.machine == "x86_64" else ""
        yield Finding(
            subject="python",
            summary=f"torch {torch.version} is a CUDA build beside torch_npu",
            detail="torch_npu needs the CPU build: where a GPU is seen it stops with `Two accelerators cannot be used "
            "at the same time`, and the wheel's own requirement is violated.",
            hint=f"Replace it by the CPU build of torch {wanted}, from the PyTorch CPU wheel index or its mirror.",
            commands=(f'{python.executable} -m pip install --force-reinstall --no-deps "torch=={wanted}{cpu}"',),
            evidence=(Evidence(source=why[0], expected="a CPU build", actual=why[1]),),
            fix=FixOffer(id="python.install-pair", params={"torch": wanted, "torch_npu": python.torch_npu.version}),
            pitfall="P020",
        )


@check("python.torch-npu", requires=(SoftwareStack,), fix="python.install-pair")
def torch_npu_is_installed(python: PythonEnvironment, target: TargetPython, cann: Cann | None) -> Iterator[Finding]:
    """torch_npu is installed, and no source tree hides it.

    It is the package that teaches torch the NPU.
    """
    if python.torch_npu is None:
        if python.torch is None:
            raise Unavailable("neither torch nor torch_npu is installed there", blocked_by="python.torch")
        yield _no_torch_npu(python, target, _cann(cann))
    elif hidden := python.shadows.get("torch_npu"):
        yield Finding(
            subject="python",
            summary=f"the folder {hidden} hides the installed torch_npu",
            detail="Python finds the source tree first, and it has no compiled part: `No module named torch_npu._C`.",
            hint="Start jobs from another folder, or take it off PYTHONPATH.",
            commands=("cd ~",),
            evidence=(Evidence(source=hidden, expected="_C*.so", actual="no compiled part"),),
            pitfall="P070",
        )


def _beside(release: TorchNpuRelease | None, change: Solution | None) -> FixOffer:
    """The fix that installs this torch_npu beside the torch that is there, or else the change."""
    if release is None:
        return offer(change)
    return FixOffer(id="python.install-pair", params={"torch": release.torch, "torch_npu": release.version})


def _no_torch_npu(python: PythonEnvironment, target: TargetPython, cann: str | None) -> Finding:
    release = fitting(python, cann)
    change = smallest_change(python, cann) if release is None else None
    torch = python.torch.version if python.torch else None
    mend = list(commands(change, python)) if change else []
    hint = f"To fit CANN {cann}, {change.text}." if change else "Install the torch_npu that pairs with torch and CANN."
    if release is not None:
        hint = f"Install torch_npu {release.version}, which pairs with torch {torch} and CANN {cann}."
        mend = [f'{python.executable} -m pip install --no-deps "torch_npu=={release.version}"']
    return Finding(
        subject="python",
        summary=f"torch_npu is not installed in {python.executable}",
        detail=f"torch {torch} is there, but knows no NPU. This Python was examined because {target.why}.",
        hint=hint,
        commands=(*mend, "npudoctor check --python /path/to/python  # if another environment trains"),
        evidence=(Evidence(source=python.executable, expected="torch_npu", actual="not installed"),),
        fix=_beside(release, change),
    )


@check("python.pairing", requires=(SoftwareStack,), fix="python.install-pair")
def torch_and_torch_npu_fit(
    pair: TorchPair, python: PythonEnvironment, cann: Cann | None, imported: TorchNpuImport | None
) -> Iterator[Finding]:
    """torch and torch_npu fit each other.

    torch_npu is compiled against one exact release of torch; with any other its import fails with an undefined symbol,
    or crashes.
    """
    requirement = required(pair.torch_npu.requires, "torch", python)
    needed = torch_needed(pair.torch_npu, python)
    try:
        if requirement is not None:
            fits = requirement.accepts(pair.torch.version)
        else:
            fits = TorchVersion.parse(pair.torch.version).base == TorchVersion.parse(needed.version).base
    except ParseError as problem:
        raise Unavailable(f"the version of torch is not understood: {problem}") from problem
    if not fits:
        yield _not_a_pair(pair, python, needed, _cann(cann), imported)


def _not_a_pair(
    pair: TorchPair, python: PythonEnvironment, needed: Needed, cann: str | None, imported: TorchNpuImport | None
) -> Finding:
    change = smallest_change(python, cann)
    return Finding(
        subject="python",
        summary=f"torch_npu {pair.torch_npu.version} needs torch {needed.version}, and torch {pair.torch.version} is "
        "installed",
        detail=f"So says {needed.source}. `import torch_npu` ends with an undefined symbol or a crash.",
        hint=f"The smallest change: {change.text} ({change.rests_on})."
        if change
        else f"Install torch {needed.version}.",
        commands=tuple(commands(change, python)) if change else (),
        evidence=(
            Evidence(source="torch_npu", expected=f"torch {needed.version}", actual=f"torch {pair.torch.version}"),
            *((Evidence(source="CANN", actual=cann),) if cann else ()),
            *as_evidence(imported.attempt if imported is not None else None),
        ),
        fix=offer(change),
        pitfall="P002",
    )


@check("python.cann-pairing", after=("cann.installed",), requires=(SoftwareStack,), fix="python.install-pair")
def torch_npu_and_cann_fit(python: PythonEnvironment, cann: Cann, imported: TorchNpuImport | None) -> Iterator[Finding]:
    """torch_npu and CANN fit each other.

    Each torch_npu is built and tested for one CANN and declares which others it runs on; outside of that symbols are
    missing at import, or operators at run time.
    """
    installed = cann.chosen
    if python.torch_npu is None:
        blocker = "python.torch" if python.torch is None else "python.torch-npu"
        raise Unavailable("torch_npu is not installed there", blocked_by=blocker)
    if installed is None or installed.stated is None:
        raise Unavailable("the version of the CANN in use is not known")
    table = knowledge.compatibility()
    row = table.release(python.torch_npu.version)
    fit = table.fit(row, installed.stated) if row is not None else Fit.UNKNOWN
    if fit in (Fit.PAIRED, Fit.SEEN):
        return
    if fit is Fit.OUTSIDE or (row is not None and fit is Fit.UNPAIRED and _far_apart(row, installed.version)):
        assert row is not None
        yield _wrong_cann(python, row, installed.stated, table, imported)
    else:
        yield _perhaps(python.torch_npu.version, row, installed.stated, fit, table)


def _far_apart(row: TorchNpuRelease, cann: CannVersion | None) -> bool:
    """Without a published window: a CANN older than the paired one, or of another major release, cannot be expected."""
    pairs = []
    for text in row.cann:
        with contextlib.suppress(ParseError):
            pairs.append(CannVersion.parse(text))
    if cann is None or not pairs:
        return False
    return cann < min(pairs) or cann.release[0] != max(pairs).release[0]


def _wrong_cann(
    python: PythonEnvironment, row: TorchNpuRelease, cann: str, table: Compatibility, imported: TorchNpuImport | None
) -> Finding:
    window = table.window(row.pta_release) if row.pta_release else None
    allowed = ", ".join(dict.fromkeys([*row.cann, *(window.cann_ok if window else ())]))
    paired = ", ".join(row.cann) or allowed
    source = row.sources[0] if row.sources else "published"
    change = smallest_change(python, cann)
    return Finding(
        subject="python",
        summary=f"torch_npu {row.version} is made for CANN {paired}, and CANN {cann} is in use",
        detail=f"By the table as of {table.as_of} ({source}), it runs on {allowed}. Elsewhere symbols are missing at "
        "import, or operators when they are called.",
        hint=(
            f"The smallest change: {change.text} ({change.rests_on}); or install CANN "
            f"{row.cann[0] if row.cann else allowed}."
            if change
            else f"Install one of CANN {allowed}."
        ),
        commands=tuple(commands(change, python)) if change else (),
        evidence=(
            Evidence(source=python.executable, actual=f"torch_npu {row.version}"),
            Evidence(source="CANN in use", expected=allowed, actual=cann),
            *as_evidence(imported.attempt if imported is not None else None),
        ),
        fix=offer(change),
        pitfall="P012",
    )


def _perhaps(version: str, row: TorchNpuRelease | None, cann: str, fit: Fit, table: Compatibility) -> Finding:
    if fit is Fit.COMPATIBLE and row is not None:
        summary = f"torch_npu {version} runs on CANN {cann}; it is paired with {', '.join(row.cann)}"
    elif fit is Fit.UNPAIRED and row is not None:
        summary = f"torch_npu {version} is paired with CANN {', '.join(row.cann)}; nothing is published of {cann}"
    else:
        summary = f"whether torch_npu {version} fits CANN {cann} is not in the tables as of {table.as_of}"
    return Finding(
        subject="python",
        severity=Severity.INFO,
        summary=summary,
        evidence=(Evidence(source=f"compatibility table as of {table.as_of}", actual=fit.value),),
    )
