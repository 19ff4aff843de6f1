"""The Python of the jobs: its version, torch and torch_npu, and whether these match each other and CANN."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.driver.install import DriverInstall
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.python.imports import TorchImport, TorchNpuImport
from npudoctor.facts.python.requirements import find_requirement
from npudoctor.facts.python.target_python import OLDEST, PythonEnvironment, TargetPython, TorchPair
from npudoctor.facts.versions import CannVersion, TorchVersion
from npudoctor.knowledge.pairs import Fit, TorchNpuRelease
from npudoctor.knowledge.solver import Solution
from npudoctor.knowledge.tables.compatibility import Compatibility
from npudoctor.sdk import Evidence, Finding, FixOffer, Options, ParseError, Unavailable, check

from ._causes import as_evidence
from ._packages import install_cann_commands
from ._pairing import (
    Needed,
    commands,
    cuda_build,
    is_of_the_system,
    matching_release,
    new_environment,
    offer,
    refuse_without_torch,
    smallest_change,
    torch_needed,
)
from ._stacks import is_published_pair, pair_wanted
from .messages import python as messages


def _cann(cann: Cann | None) -> str | None:
    return cann.chosen.stated if cann is not None and cann.chosen is not None else None


@check("python.version", requires=(SoftwareStack,))
def python_is_supported(python: PythonEnvironment, target: TargetPython, cann: Cann | None) -> Iterator[Finding]:
    """Python version supported by torch_npu and CANN.

    Wheels are built for each minor version. The operator compiler starts the same Python and does not accept others.
    """
    if python.release < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield messages.TOO_OLD.finding(
            python=python.version,
            required=oldest,
            **_unsupported_params(python, target, messages.OR_NEWER.text(oldest=oldest)),
        )
        return
    table = knowledge.compatibility()
    row = table.release(python.torch_npu.version) if python.torch_npu else None
    if row is not None and row.supports_python(python.version) is False and not _is_listed(row, python):
        oldest, newest = row.python_range or ("", "")
        supported = ", ".join(row.pythons) or messages.RANGE.text(oldest=oldest, newest=newest)
        yield messages.NOT_FOR_TORCH_NPU.finding(
            python=python.version,
            torch_npu=row.version,
            as_of=table.as_of,
            supported=supported,
            **_unsupported_params(python, target, supported),
        )
        return
    installed = _cann(cann)
    support = table.python(installed) if installed else None
    if support is not None and not support.supports(python.version):
        supported = messages.RANGE.text(oldest=support.oldest, newest=support.newest)
        yield messages.NOT_FOR_CANN.finding(
            python=python.version,
            cann=installed,
            as_of=table.as_of,
            supported=supported,
            **_unsupported_params(python, target, supported),
        )


def _is_listed(row: TorchNpuRelease, python: PythonEnvironment) -> bool:
    """Whether the project lists this Python although no wheel for it is known."""
    minor = f"{python.release[0]}.{python.release[1]}"
    oldest, newest = row.python_range or ("", "")
    with contextlib.suppress(ValueError):
        numbers = [tuple(map(int, text.split(".")[:2])) for text in (oldest, minor, newest)]
        return numbers[0] <= numbers[1] <= numbers[2]
    return False


def _unsupported_params(python: PythonEnvironment, target: TargetPython, supported: str) -> dict[str, Any]:
    """What the findings about an unsupported Python have in common."""
    source = f"{python.executable} ({target.why})"
    return {
        "subject": "python",
        "commands": new_environment("npu", "3.11"),
        "evidence": (Evidence(source=source, expected=supported, actual=python.version),),
    }


@check("python.torch", requires=(SoftwareStack,), fix="python.install-pair")
def torch_is_installed_for_the_cpu(
    python: PythonEnvironment,
    target: TargetPython,
    cann: Cann | None,
    imported: TorchImport | None,
    driver: DriverInstall | None,
    options: Options,
) -> Iterator[Finding]:
    """torch installed as a CPU build.

    torch_npu extends the CPU build. A CUDA build does not run in one process with it if a GPU is found, and installs
    gigabytes of libraries that this node cannot use.
    """
    refuse_without_torch(python, options)
    torch = python.torch
    if torch is None:
        change = pair_wanted(options, python, cann, driver) or smallest_change(python, _cann(cann))
        missing = messages.BOTH_MISSING if python.torch_npu is None else messages.TORCH_MISSING
        of_the_system = python.torch_npu is None and is_of_the_system(python)
        how = ("npudoctor fix python.create",) if of_the_system else tuple(commands(change, python) if change else ())
        yield missing.finding(
            subject="python",
            python=python.executable,
            why=target.why,
            hint=messages.NEW_ENVIRONMENT.text()
            if of_the_system
            else messages.INSTALL_PAIR.text(change=change.text)
            if change
            else None,
            commands=(*how, "npudoctor check --python /path/to/python"),
            evidence=(Evidence(source=python.executable, expected="torch", actual="not installed"),),
            fix=FixOffer(id="python.create") if of_the_system else offer(change),
        )
    elif python.torch_npu is not None and (why := cuda_build(python, imported)):
        wanted = torch_needed(python.torch_npu, python).version
        cpu = "+cpu" if python.machine == "x86_64" else ""
        yield messages.CUDA_BUILD.finding(
            subject="python",
            torch=torch.version,
            required=wanted,
            commands=(f'{python.pip} install --force-reinstall --no-deps "torch=={wanted}{cpu}"',),
            evidence=(Evidence(source=why[0], expected=messages.CPU_BUILD.text(), actual=why[1]),),
            fix=FixOffer(id="python.install-pair", params={"torch": wanted, "torch_npu": python.torch_npu.version})
            if cuda_build(python) is not None  # else the fix sees the right version, and has nothing to do
            else None,
        )


@check("python.torch-npu", requires=(SoftwareStack,), fix="python.install-pair")
def torch_npu_is_installed(
    python: PythonEnvironment, target: TargetPython, cann: Cann | None, driver: DriverInstall | None, options: Options
) -> Iterator[Finding]:
    """torch_npu installed and not hidden by a source tree.

    It is the package that adds the NPU to torch.
    """
    refuse_without_torch(python, options)
    if python.torch_npu is None:
        if python.torch is None:
            raise Unavailable(messages.NEITHER_INSTALLED.text(), blocked_by="python.torch")
        yield _no_torch_npu(python, target, _cann(cann), pair_wanted(options, python, cann, driver))
    elif hidden := python.shadows.get("torch_npu"):
        yield messages.HIDDEN.finding(
            subject="python",
            path=hidden,
            commands=("cd ~",),
            evidence=(Evidence(source=hidden, expected="_C*.so", actual=messages.NOT_COMPILED.text()),),
        )
    else:
        for name, copies in python.copies.items():
            first, *others = (messages.COPY.text(version=version, folder=folder) for version, folder in copies)
            yield messages.COPIES.finding(
                subject="python",
                package=name.replace("-", "_"),
                first=first,
                others=others,
                commands=(f"{python.pip} show {name}",),
            )


def _offer_of(release: TorchNpuRelease | None, change: Solution | None) -> FixOffer:
    """The fix that installs this torch_npu with the torch that is installed, or else the change."""
    if release is None:
        return offer(change)
    return FixOffer(id="python.install-pair", params={"torch": release.torch, "torch_npu": release.version})


def _no_torch_npu(
    python: PythonEnvironment, target: TargetPython, cann: str | None, wanted: Solution | None
) -> Finding:
    release = matching_release(python, cann) if wanted is None else None
    change = wanted or (smallest_change(python, cann) if release is None else None)
    torch = python.torch.version if python.torch else None
    install = list(commands(change, python)) if change else []
    hint = messages.CHANGE_FOR_CANN.text(cann=cann, change=change.text) if change else None
    if release is not None:
        hint = messages.INSTALL_RELEASE.text(release=release.version, torch=torch, cann=cann)
        install = [f'{python.pip} install --no-deps "torch_npu=={release.version}"']
    return messages.TORCH_NPU_MISSING.finding(
        subject="python",
        python=python.executable,
        torch=torch,
        why=target.why,
        hint=hint,
        commands=(*install, "npudoctor check --python /path/to/python  # if another environment is used"),
        evidence=(Evidence(source=python.executable, expected="torch_npu", actual="not installed"),),
        fix=_offer_of(release, change),
    )


@check("python.pairing", requires=(SoftwareStack,), fix="python.install-pair")
def torch_and_torch_npu_match(
    pair: TorchPair,
    python: PythonEnvironment,
    cann: Cann | None,
    imported: TorchNpuImport | None,
    driver: DriverInstall | None,
    options: Options,
) -> Iterator[Finding]:
    """torch and torch_npu versions match.

    torch_npu is compiled against one exact release of torch. With any other its import fails with an undefined symbol
    or crashes.
    """
    requirement = find_requirement(pair.torch_npu.requires, "torch", python)
    needed = torch_needed(pair.torch_npu, python)
    try:
        if requirement is not None:
            fits = requirement.accepts(pair.torch.version)
        else:
            fits = TorchVersion.parse(pair.torch.version).base == TorchVersion.parse(needed.version).base
    except ParseError as problem:
        raise Unavailable(messages.TORCH_VERSION_UNKNOWN.text(problem=problem)) from problem
    if not fits:
        wanted = pair_wanted(options, python, cann, driver)
        yield _not_a_pair(pair, python, needed, _cann(cann), imported, wanted)


def _not_a_pair(
    pair: TorchPair,
    python: PythonEnvironment,
    needed: Needed,
    cann: str | None,
    imported: TorchNpuImport | None,
    wanted: Solution | None,
) -> Finding:
    hidden = _matching_copy(pair, python, needed)
    change = (wanted or smallest_change(python, cann)) if hidden is None else None
    hint = messages.SMALLEST_CHANGE.text(change=change.text, grounds=change.rests_on) if change else None
    return messages.PAIR_MISMATCH.finding(
        subject="python",
        torch_npu=pair.torch_npu.version,
        required=needed.version,
        torch=pair.torch.version,
        reason=needed.reason,
        hint=hidden[0] if hidden else hint,
        commands=(hidden[1],) if hidden else tuple(commands(change, python)) if change else (),
        evidence=(
            Evidence(source="torch_npu", expected=f"torch {needed.version}", actual=f"torch {pair.torch.version}"),
            *((Evidence(source="CANN", actual=cann),) if cann else ()),
            *as_evidence(imported.attempt if imported is not None else None, "python.pairing"),
        ),
        fix=offer(change) if hidden is None else None,  # pip leaves the copy that is found first as it is
    )


def _matching_copy(pair: TorchPair, python: PythonEnvironment, needed: Needed) -> tuple[str, str] | None:
    """What to do, and the command, where a copy that another hides would match."""
    wanted = {"torch": needed.version, "torch-npu": pair.torch.base_version}
    for name, copies in python.copies.items():
        first = copies[0][1]
        for version, folder in copies[1:]:
            if version.partition("+")[0] == wanted[name] or version.startswith(f"{wanted[name]}.post"):
                hint = messages.HIDDEN_COPY.text(
                    package=name.replace("-", "_"), version=version, folder=folder, first=first
                )
                note = messages.REMOVES_COPY.text(folder=first)
                return hint, f"{python.pip} uninstall -y {name}  # {note}"
    return None


@check("python.cann-pairing", after=("cann.installed",), requires=(SoftwareStack,), fix="python.install-pair")
def torch_npu_and_cann_match(
    python: PythonEnvironment,
    cann: Cann,
    imported: TorchNpuImport | None,
    driver: DriverInstall | None,
    options: Options,
) -> Iterator[Finding]:
    """torch_npu and CANN versions match.

    Each torch_npu is built and tested for one CANN and declares which others it supports. With any other, symbols are
    missing at import, or operators at run time.
    """
    installed = cann.chosen
    if python.torch_npu is None:
        blocker = "python.torch" if python.torch is None else "python.torch-npu"
        raise Unavailable(messages.NO_TORCH_NPU.text(), blocked_by=blocker)
    if installed is None or installed.stated is None:
        raise Unavailable(messages.CANN_VERSION_UNKNOWN.text())
    table = knowledge.compatibility()
    row = table.release(python.torch_npu.version)
    fit = table.judge(row, installed.stated) if row is not None else Fit.UNKNOWN
    if fit in (Fit.PAIRED, Fit.SEEN):
        return
    if row is not None and fit is Fit.OUTSIDE and is_published_pair(python, cann, driver):
        fit = Fit.UNPAIRED
    elif fit is Fit.OUTSIDE or (row is not None and fit is Fit.UNPAIRED and _far_apart(row, installed.version)):
        assert row is not None
        wanted = pair_wanted(options, python, cann, driver)
        yield _wrong_cann(python, row, installed.stated, table, imported, wanted)
        return
    yield _not_proven(python.torch_npu.version, row, installed.stated, fit, table)


def _far_apart(row: TorchNpuRelease, cann: CannVersion | None) -> bool:
    """Without a published range: whether the CANN is older than the paired one or of another major release."""
    pairs = []
    for text in row.cann:
        with contextlib.suppress(ParseError):
            pairs.append(CannVersion.parse(text))
    if cann is None or not pairs:
        return False
    return cann < min(pairs) or cann.release[0] != max(pairs).release[0]


def _wrong_cann(
    python: PythonEnvironment,
    row: TorchNpuRelease,
    cann: str,
    table: Compatibility,
    imported: TorchNpuImport | None,
    wanted: Solution | None,
) -> Finding:
    window = table.window(row.pta_release) if row.pta_release else None
    supported = list(dict.fromkeys([*row.cann, *(window.cann_ok if window else ())]))
    stays = wanted is not None and not wanted.changes and bool(row.cann)
    change = wanted if wanted is not None else smallest_change(python, cann)
    hint: str | None = None
    do: tuple[str, ...] = ()
    if change and stays:
        hint = messages.KEEP_PAIR_OF_FRAMEWORK.text(grounds=change.rests_on, cann=row.cann[:1])
        do = tuple(install_cann_commands(row.cann[0], None))
    elif change:
        hint = messages.SMALLEST_CHANGE_OR_CANN.text(
            change=change.text, grounds=change.rests_on, cann=row.cann[:1] or supported
        )
        do = tuple(commands(change, python))
    return messages.CANN_MISMATCH.finding(
        subject="python",
        torch_npu=row.version,
        required=_range_of(supported, cann) or row.cann or supported,
        cann=cann,
        as_of=table.as_of,
        source=row.sources[0] if row.sources else "published",
        supported=supported,
        hint=hint,
        commands=do,
        evidence=(
            Evidence(source=python.executable, actual=f"torch_npu {row.version}"),
            Evidence(source="CANN in use", expected=", ".join(supported), actual=cann),
            *_stated_cann(imported),
            *as_evidence(imported.attempt if imported is not None else None, "python.cann-pairing"),
        ),
        fix=None if stays else offer(change),
    )


def _range_of(supported: Sequence[str], cann: str) -> list[str]:
    """The supported releases from oldest to newest, where this one is older or newer than all; else nothing."""
    try:
        by_age = sorted(supported, key=lambda one: CannVersion.parse(one.replace(".X", ".99")))
        outside = CannVersion.parse(cann) < CannVersion.parse(by_age[0]) or CannVersion.parse(
            by_age[-1].replace(".X", ".99")
        ) < CannVersion.parse(cann)
    except ParseError:
        return []
    return [messages.FROM_TO.text(oldest=by_age[0], newest=by_age[-1])] if outside and len(by_age) > 1 else []


def _stated_cann(imported: TorchNpuImport | None) -> Iterator[Evidence]:
    """The CANN that torch_npu itself names, where its import works."""
    attempt = imported.attempt if imported is not None else None
    if attempt is not None and attempt.cann:
        yield Evidence(source="torch_npu.version.cann", actual=attempt.cann)


def _not_proven(version: str, row: TorchNpuRelease | None, cann: str, fit: Fit, table: Compatibility) -> Finding:
    evidence = (Evidence(source=f"compatibility table as of {table.as_of}", actual=fit.value),)
    if row is not None and fit in (Fit.COMPATIBLE, Fit.UNPAIRED):
        message = messages.COMPATIBLE if fit is Fit.COMPATIBLE else messages.UNPAIRED
        return message.finding(subject="python", torch_npu=version, cann=cann, paired=row.cann, evidence=evidence)
    return messages.NOT_LISTED.finding(
        subject="python", torch_npu=version, cann=cann, as_of=table.as_of, evidence=evidence
    )
