"""The CANN libraries that the dynamic linker would load for a job."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from npudoctor.facts.cann.libraries import OF_THE_DRIVER, CannLibraries, Library, roots
from npudoctor.facts.cann.settings import CannSettings
from npudoctor.facts.cann.toolkits import Cann, CannInstall
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.imports import TorchNpuImport
from npudoctor.records import replace
from npudoctor.sdk import Evidence, Finding, FixOffer, check

from ._causes import as_evidence
from ._packages import explain_command
from .messages import cann as messages

_SHOWN = 4


@check("cann.libraries", profile="standard", after=("cann.installed", "cann.environment"), requires=(SoftwareStack,))
def libraries_can_be_loaded(
    cann: Cann,
    libraries: CannLibraries,
    settings: CannSettings | None,
    environment: JobEnvironment,
    imported: TorchNpuImport | None,
) -> Iterator[Finding]:
    """CANN libraries loadable and of one CANN.

    torch_npu is linked against them. Its import fails with a missing or damaged library, or with symbols that a library
    of another release lacks.
    """
    failure = tuple(as_evidence(imported.attempt if imported is not None else None))
    for finding in _problems(cann, libraries, settings, environment):
        yield replace(finding, evidence=(*finding.evidence, *failure))


def _problems(
    cann: Cann, libraries: CannLibraries, settings: CannSettings | None, environment: JobEnvironment
) -> Iterator[Finding]:
    install = cann.chosen
    script = settings.script if settings is not None else None
    if libraries.stubs:
        yield _stubs(libraries.stubs, environment)
    damaged = [one for one in libraries.libraries if one.problem is not None]
    if damaged:
        yield _damaged_finding(damaged, cann.holding(damaged[0].path or "") or install, install)
    missing = [one for one in libraries.libraries if one.path is None]
    of_driver = [one for one in missing if one.name == OF_THE_DRIVER and not one.passed_over]
    foreign = [one for one in missing if one.passed_over]
    absent = [one for one in missing if one not in of_driver and one not in foreign]
    if foreign:
        yield _wrong_machine(foreign)
    if absent:
        yield _missing_finding(absent, environment, script, install.stated if install is not None else None)
    if of_driver:
        yield _driver_not_on_path(environment)
    if not (libraries.stubs or damaged or missing):
        yield from _mixed_findings(cann, libraries)


def _names(libraries: list[Library]) -> list[str]:
    """The names of the first libraries, and an ellipsis where there are more."""
    return [*(one.name for one in libraries[:_SHOWN]), *(["…"] if len(libraries) > _SHOWN else [])]


def _path(environment: JobEnvironment) -> Evidence:
    text = environment.get("LD_LIBRARY_PATH") or "not set"
    return Evidence(source="LD_LIBRARY_PATH", actual=text if len(text) <= 160 else text[:157] + "…")


def _install_again(version: str | None) -> str:
    return explain_command(f"./Ascend-cann-toolkit_{version or '<version>'}_linux-$(arch).run --install")


def _stubs(stubs: tuple[str, ...], environment: JobEnvironment) -> Finding:
    expected = messages.DEVLIB_LAST.text()
    return messages.STUBS_FIRST.finding(
        directory=stubs[0],
        commands=("echo $LD_LIBRARY_PATH | tr : '\\n' | grep -n devlib",),
        evidence=(
            *(Evidence(source="LD_LIBRARY_PATH", expected=expected, actual=one) for one in stubs),
            _path(environment),
        ),
    )


def _damaged_finding(damaged: list[Library], owner: CannInstall | None, install: CannInstall | None) -> Finding:
    """What to reinstall; of a CANN that the job does not use, the folder on the search path is what is wrong."""
    first = damaged[0]
    folder = posixpath.dirname(first.path or "")
    if owner is None or owner is install:
        hint, command = None, _install_again(owner.stated if owner is not None else None)
    else:
        hint = messages.FOLDER_OF_ANOTHER_CANN.text(folder=folder, version=owner.stated or owner.root)
        command = f"echo $LD_LIBRARY_PATH | tr : '\\n' | grep -nx {folder}"
    return messages.LIBRARY_DAMAGED.finding(
        libraries=_names(damaged),
        count=len(damaged),
        problem=first.problem,
        hint=hint,
        commands=(f"ls -lL {first.path}", command),
        evidence=tuple(
            Evidence(source=one.path or one.name, expected=messages.WHOLE_LIBRARY.text(), actual=one.problem)
            for one in damaged[:_SHOWN]
        ),
    )


def _wrong_machine(foreign: list[Library]) -> Finding:
    return messages.WRONG_MACHINE.finding(
        libraries=_names(foreign),
        count=len(foreign),
        commands=(f"file -L {foreign[0].passed_over[0].partition(' ')[0]}", _install_again(None)),
        evidence=tuple(
            Evidence(source=one.name, expected=messages.THIS_MACHINE.text(), actual=", ".join(one.passed_over))
            for one in foreign[:_SHOWN]
        ),
    )


def _missing_finding(
    absent: list[Library], environment: JobEnvironment, script: str | None, version: str | None
) -> Finding:
    asked_by, expected = absent[0].asked_by, messages.ON_THE_PATH.text()
    return messages.LIBRARY_MISSING.finding(
        libraries=_names(absent),
        count=len(absent),
        detail=messages.LIBRARY_MISSING_FOR.text(library=asked_by) if asked_by is not None else None,
        commands=(
            f"find / -name '{absent[0].name}*' 2>/dev/null",
            *((f"source {script}",) if script else ()),
            _install_again(version),
        ),
        evidence=(
            *(Evidence(source=one.name, expected=expected, actual="not found") for one in absent[:_SHOWN]),
            _path(environment),
        ),
    )


def _driver_not_on_path(environment: JobEnvironment) -> Finding:
    folders = ":".join(f"/usr/local/Ascend/driver/lib64{below}" for below in ("", "/common", "/driver"))
    fix = FixOffer(id="env.profile", params={"append": {"LD_LIBRARY_PATH": folders}})
    return messages.DRIVER_LIBRARY_MISSING.finding(
        library=OF_THE_DRIVER,
        commands=(f"export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{folders}",),
        evidence=(
            Evidence(source=OF_THE_DRIVER, expected=messages.ON_THE_PATH.text(), actual="not found"),
            _path(environment),
        ),
        fix=fix,
    )


def _mixed_findings(cann: Cann, libraries: CannLibraries) -> Iterator[Finding]:
    found = list(roots(cann, libraries))
    if len({root for _, root in found}) > 1:
        expected = messages.ONE_CANN.text()
        yield messages.MIXED_LIBRARIES.finding(
            libraries=[f"{one.name} ({root})" for one, root in found],
            commands=("echo $LD_LIBRARY_PATH | tr : '\\n'",),
            evidence=tuple(Evidence(source=one.name, expected=expected, actual=one.path) for one, _ in found),
        )
