"""Whether torch and torch_npu can be imported in the target Python, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.python.imports import IMPORT_TIMEOUT, ImportAttempt, TorchImport, TorchNpuImport
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.sdk import Evidence, Finding, Unavailable, check

from ._causes import BEHIND_AN_IMPORT, NO_CANN, WRONG_PACKAGES, as_evidence, cause_of


@check(
    "python.import-torch",
    profile="standard",
    requires=(SoftwareStack,),
    thresholds=(IMPORT_TIMEOUT,),
    explained_by=(*NO_CANN, *WRONG_PACKAGES, *BEHIND_AN_IMPORT, "python.import-torch-npu"),
)
def torch_can_be_imported(imported: TorchImport, python: PythonEnvironment) -> Iterator[Finding]:
    """torch can be imported.

    Since torch 2.5, `import torch` imports torch_npu too, so a fault of that one, or of CANN, looks like one of torch.
    """
    attempt = imported.plain
    if attempt.ok:
        return
    if imported.is_broken_itself:
        yield _failed(imported.alone or attempt, python, subject_of="torch")
        return
    yield Finding(
        subject="python",
        summary=f"import torch {attempt.failure}, through torch_npu, which it loads by itself",
        detail="torch alone is whole: with TORCH_DEVICE_BACKEND_AUTOLOAD=0 the same import works.",
        hint="Mend torch_npu. Until then torch can be used without it.",
        commands=("export TORCH_DEVICE_BACKEND_AUTOLOAD=0",),
        evidence=(
            *as_evidence(attempt),
            Evidence(
                source="import torch with TORCH_DEVICE_BACKEND_AUTOLOAD=0",
                actual="works" if imported.alone else "not tried",
            ),
        ),
        pitfall="P064",
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
    imported: TorchNpuImport, torch: TorchImport | None, python: PythonEnvironment
) -> Iterator[Finding]:
    """torch_npu can be imported.

    It is tried in a process of its own, so that a crash or a hang of it is a finding and nothing worse.
    """
    if imported.attempt.ok:
        return
    if torch is not None and torch.is_broken_itself:
        raise Unavailable("torch itself cannot be imported", blocked_by="python.import-torch")
    yield _failed(imported.attempt, python, subject_of="torch_npu")


def _failed(attempt: ImportAttempt, python: PythonEnvironment, *, subject_of: str) -> Finding:
    cause = cause_of(attempt.message, f"python.import-{subject_of.replace('_', '-')}")
    said = attempt.error or attempt.last_line
    detail = f"Known cause: {cause.title}. {_sentence(cause.cause)}" if cause else None
    if attempt.signal and attempt.last_line:
        detail = f"The last line that it wrote: {attempt.last_line}" + (f" {detail}" if detail else "")
    return Finding(
        subject="python",
        summary=f"import {subject_of} {attempt.failure}",
        detail=detail,
        hint=_sentence(cause.fix[0]) if cause and cause.fix else _usual(attempt),
        commands=(f"{python.executable} -X faulthandler -c 'import {subject_of}'",),
        evidence=(
            Evidence(
                source=f"{attempt.what} in a fresh process of {python.executable}",
                expected="no error",
                actual=said[:600] if said and not attempt.timed_out else attempt.failure,
            ),
            *([Evidence(source="stderr", actual=attempt.stderr[-600:])] if attempt.stderr and attempt.signal else []),
        ),
        pitfall=cause.id if cause else None,
        symptom=subject_of == "torch_npu",
    )


def _usual(attempt: ImportAttempt) -> str:
    if attempt.timed_out:
        return (
            "See where it waits (py-spy dump, or the stack in /proc/PID/stack): a driver that does not answer, or a "
            "file system."
        )
    if attempt.signal:
        return "Install the published wheel anew; one that was built here may have been built with another GCC."
    return "Run the command below to see the whole message."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
