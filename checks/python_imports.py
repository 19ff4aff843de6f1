"""The imports of torch and torch_npu in the target Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.imports import IMPORT_TIMEOUT, ImportAttempt, TorchImport, TorchNpuImport, first_line
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.sdk import Evidence, Finding, Unavailable, check

from ._causes import BEHIND_AN_IMPORT, NO_CANN, WRONG_PACKAGES, as_evidence, cause_of
from ._remedies import Remedy, chosen_remedy, is_excluded
from .messages import python as messages


@check(
    "python.import-torch",
    profile="standard",
    requires=(SoftwareStack,),
    thresholds=(IMPORT_TIMEOUT,),
    explained_by=(*NO_CANN, *WRONG_PACKAGES, *BEHIND_AN_IMPORT, "python.import-torch-npu"),
)
def torch_can_be_imported(
    imported: TorchImport, python: PythonEnvironment, environment: JobEnvironment | None
) -> Iterator[Finding]:
    """import torch.

    Since torch 2.5, `import torch` imports torch_npu too, so a fault of torch_npu or CANN looks like one of torch.
    """
    attempt = imported.plain
    if attempt.ok:
        return
    if imported.is_broken_itself:
        yield _failed_finding(imported.alone or attempt, python, environment, subject_of="torch")
        return
    yield messages.THROUGH_TORCH_NPU.finding(
        subject="python",
        error=first_line(attempt.error or attempt.failure),
        commands=("export TORCH_DEVICE_BACKEND_AUTOLOAD=0",),
        evidence=(
            *as_evidence(attempt),
            Evidence(
                source="import torch with TORCH_DEVICE_BACKEND_AUTOLOAD=0",
                actual="works" if imported.alone else "not tried",
            ),
        ),
        symptom=True,
    )


@check(
    "python.import-torch-npu",
    profile="standard",
    after=(*NO_CANN, "python.torch", "python.torch-npu", "python.pairing", "python.cann-pairing"),
    requires=(SoftwareStack,),
    thresholds=(IMPORT_TIMEOUT,),
    explained_by=("python.version", *BEHIND_AN_IMPORT),
)
def torch_npu_can_be_imported(
    imported: TorchNpuImport,
    torch: TorchImport | None,
    python: PythonEnvironment,
    environment: JobEnvironment | None,
) -> Iterator[Finding]:
    """import torch_npu.

    It runs in a new process, so that a crash or a hang is only a finding.
    """
    if imported.attempt.ok:
        yield from _other_version(imported.attempt, python)
        return
    if torch is not None and torch.is_broken_itself:
        raise Unavailable(messages.TORCH_BROKEN.text(), blocked_by="python.import-torch")
    yield _failed_finding(imported.attempt, python, environment, subject_of="torch_npu")


def _other_version(attempt: ImportAttempt, python: PythonEnvironment) -> Iterator[Finding]:
    """The package that is imported is not the one that pip has installed."""
    installed, loaded = python.torch_npu, attempt.version
    if installed is not None and loaded and loaded.partition("+")[0] != installed.version.partition("+")[0]:
        yield messages.OTHER_VERSION.finding(
            subject="python",
            loaded=loaded,
            installed=installed.version,
            commands=(f"{python.command} -c 'import torch_npu; print(torch_npu.__file__)'",),
            evidence=(Evidence(source="torch_npu.__version__", expected=installed.version, actual=loaded),),
        )


def _failed_finding(
    attempt: ImportAttempt, python: PythonEnvironment, environment: JobEnvironment | None, *, subject_of: str
) -> Finding:
    cause = cause_of(attempt.message, f"python.import-{subject_of.replace('_', '-')}")
    if cause is not None and is_excluded(cause, python):
        cause = None
    library_path = (environment.get("LD_LIBRARY_PATH", "") if environment else "").split(":")
    remedy = Remedy(_usual(attempt), _usual_commands(attempt, python, subject_of))
    if cause is not None:
        remedy = chosen_remedy(cause, attempt.message, python, [entry for entry in library_path if entry])
    of_npu = subject_of == "torch_npu"
    said = attempt.error or attempt.last_line
    details: list[str] = []
    if attempt.signal and attempt.crashed_in:
        details.append(messages.CRASHED_IN.text(place=attempt.crashed_in))
    if attempt.signal and attempt.last_line:
        details.append(messages.LAST_LINE.text(line=attempt.last_line))
    if cause:
        details.append(messages.KNOWN_CAUSE.text(title=cause.title, cause=cause.cause))
    rest: dict[str, Any] = {
        "subject": "python",
        "detail": "\n".join(details) or None,
        "hint": remedy.hint,
        "commands": remedy.commands,
        "evidence": (
            Evidence(
                source=f"{attempt.what} in a new process of {python.executable}",
                expected="no error",
                actual=said[:600] if said and not attempt.timed_out else attempt.failure,
            ),
            *([Evidence(source="stderr", actual=attempt.stderr[-600:])] if attempt.stderr and attempt.signal else []),
        ),
        "pitfall": cause.id if cause else None,
        "symptom": of_npu,
    }
    if attempt.timed_out:
        message = messages.TORCH_NPU_TIMED_OUT if of_npu else messages.TORCH_TIMED_OUT
        return message.finding(seconds=attempt.seconds, **rest)
    if attempt.signal:
        message = messages.TORCH_NPU_CRASHED if of_npu else messages.TORCH_CRASHED
        return message.finding(signal=attempt.signal, **rest)
    message = messages.TORCH_NPU_FAILED if of_npu else messages.TORCH_FAILED
    return message.finding(error=first_line(said) if said else messages.NO_REASON.text(), **rest)


def _usual_commands(attempt: ImportAttempt, python: PythonEnvironment, subject_of: str) -> tuple[str, ...]:
    """What shows more of a failure whose cause is not known; for a crash also the installation of the same wheel."""
    look = f"{python.command} -X faulthandler -c 'import {subject_of}'"
    package = python.torch_npu if subject_of == "torch_npu" else python.torch
    if not attempt.signal or package is None:
        return (look,)
    wheel = f'"{subject_of}=={package.version}"'
    return f"{python.pip} install --force-reinstall --no-deps {wheel}", look


def _usual(attempt: ImportAttempt) -> str:
    if attempt.timed_out:
        return messages.FIND_WHERE_IT_WAITS.text()
    return messages.INSTALL_WHEEL.text() if attempt.signal else messages.RUN_THE_COMMAND.text()
