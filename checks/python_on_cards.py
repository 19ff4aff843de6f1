"""The devices that the target Python finds, and a test computation on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips, NodeChip
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.python.devices import FIRST, NEXT, VISIBLE, CardMath, DeviceMath, JobCards
from npudoctor.facts.python.imports import TorchNpuImport, first_line
from npudoctor.knowledge.tables.pitfalls import Pitfall
from npudoctor.sdk import Because, Evidence, Finding, NotApplicable, Unavailable, check

from ._causes import NO_CANN, WRONG_PACKAGES, cause_of
from ._remedies import Remedy, chosen_remedy
from ._reset import Reset, reset_of
from ._together import by_fault, on
from .messages import python as messages

_NO_DEVICE = ("npu.present", "container.devices", "driver.installed", "driver.access", "env.visible-devices")
DEVICE_DOES_NOT_OPEN = "P051"
_NO_IMPORT = (*NO_CANN, *WRONG_PACKAGES, "python.import-torch", "python.import-torch-npu")


@check(
    "python.devices",
    profile="standard",
    after=(*_NO_DEVICE, *_NO_IMPORT),
    requires=(SoftwareStack,),
    explained_by=(
        "npu.count",
        "npu.health",
        "driver.npu-smi",
        "driver.rebooted",
        "driver.firmware",
        "cann.driver",
        "container.driver-files",
    ),
)
def devices_are_found(imported: TorchNpuImport, job: JobCards) -> Iterator[Finding]:
    """Devices found by torch_npu.

    They are those of the node, or those that ASCEND_RT_VISIBLE_DEVICES names. A job with one process per device fails
    with error 107001 if torch_npu finds fewer.
    """
    attempt = imported.attempt
    if not attempt.ok:
        raise Unavailable(messages.IMPORT_FAILS.text(), blocked_by="python.import-torch-npu")
    if attempt.devices_error is not None:
        yield _no_answer(attempt.devices_error)
        return
    if attempt.device_count is None:
        raise Unavailable(messages.COUNT_UNKNOWN.text(), because=Because.NOT_RECORDED)
    if not job.chips or job.source == "PCI":
        raise Unavailable(messages.EXPECTED_UNKNOWN.text())
    seen, there = attempt.device_count, len(job.chips)
    if seen != there:
        variable = [Evidence(source=VISIBLE, actual=job.variable)] if job.variable is not None else []
        yield messages.TOO_FEW.finding(
            subject="python",
            found=seen,
            expected=there,
            commands=("ls -l /dev/davinci*", "npu-smi info -l"),
            evidence=(
                Evidence(source="torch.npu.device_count()", expected=str(there), actual=str(seen)),
                Evidence(source=job.source, actual=messages.CHIPS.text(count=there)),
                *variable,
            ),
            symptom=True,
        )
    elif attempt.available is False:
        yield messages.NOT_AVAILABLE.finding(
            subject="python",
            count=seen,
            evidence=(Evidence(source="torch.npu.is_available()", expected="True", actual="False"),),
            symptom=True,
        )
    else:
        yield from _name_mismatch(attempt.devices, job)


def _no_answer(error: str) -> Finding:
    cause = cause_of(error, "python.devices")
    remedy = _remedy(cause, error)
    return messages.NO_LIST.finding(
        subject="python",
        error=first_line(error),
        detail=_known_cause(cause),
        hint=remedy.hint,
        commands=remedy.commands,
        evidence=(Evidence(source="torch.npu", expected=messages.THE_DEVICES.text(), actual=error[:600]),),
        pitfall=cause.id if cause else None,
        symptom=cause is None or cause.id != "P042",
    )


def _known_cause(cause: Pitfall | None) -> str | None:
    return messages.KNOWN_CAUSE.text(title=cause.title, cause=cause.cause) if cause else None


def _remedy(cause: Pitfall | None, said: str, reset: Reset | None = None) -> Remedy:
    """What to do about a known cause; nothing without one."""
    if cause is None:
        return Remedy(None, ())
    if cause.id == DEVICE_DOES_NOT_OPEN and reset is not None:
        return Remedy(reset.after(messages.TRY_AGAIN_THEN_RESET.text()), reset.commands)
    return chosen_remedy(cause, said)


def _name_mismatch(names: tuple[str, ...], job: JobCards) -> Iterator[Finding]:
    """Reported where the name that the runtime gives a chip is of another family than npu-smi's: one is wrong."""
    hardware = knowledge.hardware()
    for card, name in zip(job.chips, names, strict=False):
        family = hardware.family_by_name(name, hbm_total_mb=card.memory_mb)
        if family is not None and card.family is not None and family.id != card.family:
            yield messages.NAME_MISMATCH.finding(
                subject=card.subject,
                runtime=name,
                npu_smi=card.name or card.family,
                evidence=(Evidence(source="aclrtGetSocName", expected=card.name, actual=name),),
            )
            return


@check(
    "python.device-math",
    profile="full",
    after=(
        *(*_NO_DEVICE, *_NO_IMPORT, "driver.rebooted", "driver.firmware", "cann.driver", "cann.ops"),
        *("python.packages", "python.devices"),
    ),
    requires=(SoftwareStack,),
    thresholds=(FIRST, NEXT),
    explained_by=("npu.count", "npu.health", "npu.temperature", "npu.ecc"),
)
def devices_compute(
    math: DeviceMath, job: JobCards, cards: Chips | None, holders: CardHolders | None
) -> Iterator[Finding]:
    """Test computation on every idle device.

    A small matrix product is compared with that of the CPU. No query shows as much: that the device opens, that its
    operators are installed, and that its results are right. The numbers are small integers, exact in half precision.
    """
    failed = {number: result for number, result in math.cards.items() if result.ok is False}
    tried = [result for result in math.cards.values() if result.ok is not None]
    if math.error is not None:
        result = CardMath(ok=False, error=math.error)
        yield messages.NOT_STARTED.finding(subject="python", error=math.error, **_details(result))
        return
    if not tried:
        raise NotApplicable(messages.ALL_BUSY.text())
    errors = {first_line(result.error or messages.NO_REASON.text()) for result in failed.values()}
    if len(failed) == len(tried) > 1 and len(errors) == 1:
        result = next(iter(failed.values()))
        yield messages.NONE_COMPUTES.finding(subject="python", count=len(tried), error=errors.pop(), **_details(result))
        return
    problems = [
        (_subject(number, job.chips), number, first_line(one.error or messages.NO_REASON.text()), one)
        for number, one in sorted(failed.items())
    ]
    for group in by_fault(problems, len(tried), lambda one: (one[2], bool(one[3].max_abs_error))):
        _, _, error, result = group[0]
        message = messages.WRONG_RESULT if result.max_abs_error else messages.DEVICE_FAILED
        numbers = [number for _, number, _, _ in group]
        yield message.finding(
            **on([subject for subject, *_ in group]),
            count=len(numbers),
            device=numbers[0] if len(numbers) == 1 else ", ".join(map(str, numbers)),
            error=error,
            symptom=True,
            **_details(result, reset_of(group[0][0], cards, holders)),
        )


def _subject(number: int, chips: tuple[NodeChip, ...]) -> str:
    return chips[number].subject if number < len(chips) else f"npu:{number}"


def _details(result: CardMath, reset: Reset | None = None) -> dict[str, Any]:
    """What the findings of a computation have in common."""
    error = result.error or ""
    cause = cause_of(error, "python.device-math")
    remedy = _remedy(cause, error, reset)
    return {
        "detail": _known_cause(cause),
        "hint": remedy.hint,
        "commands": remedy.commands,
        "evidence": (
            Evidence(
                source="a product of two 128 × 128 matrices of small integers",
                expected=messages.RESULT_OF_CPU.text(),
                actual=error[:600] or messages.OFF_BY.text(error=result.max_abs_error),
            ),
        ),
        "pitfall": cause.id if cause else None,
    }
