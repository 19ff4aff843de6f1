"""Whether the target Python sees the cards, and whether they compute."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.node.chips import NodeChip, subject_of
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.python.devices import FIRST, NEXT, VISIBLE, CardMath, DeviceMath, JobCards
from npudoctor.facts.python.imports import TorchNpuImport, first_line
from npudoctor.sdk import Because, Evidence, Finding, NotApplicable, Severity, Unavailable, check

from ._causes import NO_CANN, WRONG_PACKAGES, cause_of

_NO_CARD = ("npu.present", "container.devices", "driver.installed", "driver.access", "env.visible-devices")
_NO_IMPORT = (*NO_CANN, *WRONG_PACKAGES, "python.import-torch", "python.import-torch-npu")


@check(
    "python.devices",
    profile="standard",
    after=(*_NO_CARD, *_NO_IMPORT),
    requires=(SoftwareStack,),
    yields_to=("npu.count", "npu.health", "driver.npu-smi", "driver.rebooted", "cann.driver", "container.driver-files"),
)
def all_cards_are_seen(imported: TorchNpuImport, job: JobCards) -> Iterator[Finding]:
    """torch_npu sees the cards that this node has, as far as ASCEND_RT_VISIBLE_DEVICES leaves them.

    A job started with one process per card stops with error 107001 where fewer are seen.
    """
    attempt = imported.attempt
    if not attempt.ok:
        raise Unavailable("torch_npu does not import there", blocked_by="python.import-torch-npu")
    if attempt.devices_error is not None:
        yield _no_answer(attempt.devices_error)
        return
    if attempt.device_count is None:
        raise Unavailable("torch_npu did not say how many devices it sees", because=Because.NOT_RECORDED)
    if not job.chips or job.source == "PCI":
        raise Unavailable("neither npu-smi nor /dev says how many cards a job should see")
    seen, there = attempt.device_count, len(job.chips)
    left = f" that {VISIBLE}={job.variable} leaves" if job.variable is not None else ""
    if seen != there:
        yield Finding(
            subject="python",
            summary=f"torch_npu sees {seen or 'no'} device{'s' if seen != 1 else ''} of the {there}{left}",
            detail="The runtime counts what the driver gives to this process; npu-smi and /dev show more or fewer.",
            hint="Compare the device nodes that this user or container has with those of the node; look into "
            "~/ascend/log for the reason that the runtime gives.",
            commands=("ls -l /dev/davinci*", "npu-smi info -l"),
            evidence=(
                Evidence(source="torch.npu.device_count()", expected=str(there), actual=str(seen)),
                Evidence(source=job.source, actual=f"{there} chips"),
            ),
            symptom=True,
        )
    elif attempt.available is False:
        yield Finding(
            subject="python",
            summary=f"torch.npu.is_available() says no, with {seen} devices",
            hint="Look into ~/ascend/log for the reason that the runtime gives.",
            evidence=(Evidence(source="torch.npu.is_available()", expected="True", actual="False"),),
            symptom=True,
        )
    else:
        yield from _named_otherwise(attempt.devices, job)


def _no_answer(error: str) -> Finding:
    cause = cause_of(error, "python.devices")
    return Finding(
        subject="python",
        summary=f"torch_npu cannot name its devices: {first_line(error)}",
        detail=f"Known cause: {cause.title}: {cause.cause}." if cause else None,
        hint=f"Mend: {cause.fix[0]}." if cause and cause.fix else "Look into ~/ascend/log for the reason.",
        evidence=(Evidence(source="torch.npu", expected="the devices", actual=error[:600]),),
        pitfall=cause.id if cause else None,
        symptom=cause is None or cause.id != "P042",
    )


def _named_otherwise(names: tuple[str, ...], job: JobCards) -> Iterator[Finding]:
    """What the runtime calls a chip is told where the family is another than npu-smi's: one of them is mistaken."""
    hardware = knowledge.hardware()
    for card, name in zip(job.chips, names, strict=False):
        family = hardware.family_by_name(name, hbm_total_mb=card.memory_mb)
        if family is not None and card.family is not None and family.id != card.family:
            yield Finding(
                subject=card.subject,
                severity=Severity.INFO,
                summary=f"the runtime calls this chip {name}, npu-smi {card.name or card.family}",
                evidence=(Evidence(source="aclrtGetSocName", expected=card.name, actual=name),),
            )
            return


@check(
    "python.device-math",
    profile="full",
    after=(*_NO_CARD, *_NO_IMPORT, "python.packages", "python.devices", "cann.ops", "cann.libraries", "cann.driver"),
    requires=(SoftwareStack,),
    thresholds=(FIRST, NEXT),
    yields_to=("npu.health", "npu.ecc"),
)
def cards_compute(math: DeviceMath, job: JobCards, info: NpuSmiInfo | None) -> Iterator[Finding]:
    """A small matrix product on every idle card equals the CPU's.

    It shows what no query does: that a card opens, that its operators are there, and that its numbers are right. The
    numbers are small integers, whose sums are exact in half precision too.
    """
    failed = {number: result for number, result in math.cards.items() if result.ok is False}
    tried = [result for result in math.cards.values() if result.ok is not None]
    if math.error is not None:
        yield _math_finding("python", math.error, CardMath(ok=False, error=math.error), symptom=False)
        return
    if not tried:
        raise NotApplicable("every card is at work: nothing was computed")
    messages = {first_line(result.error or "") for result in failed.values()}
    if len(failed) == len(tried) > 1 and len(messages) == 1:
        result = next(iter(failed.values()))
        summary = f"none of {len(tried)} cards computes: {messages.pop()}"
        yield _math_finding("python", summary, result, symptom=False)
        return
    unhealthy = _unhealthy(info)
    for number, result in sorted(failed.items()):
        subject = _subject(number, job.chips)
        what = "computes wrongly" if result.max_abs_error else "does not compute"
        summary = f"card {number} {what}: {first_line(result.error or 'it does not say why')}"
        yield _math_finding(subject, summary, result, symptom=subject in unhealthy)


def _subject(number: int, chips: tuple[NodeChip, ...]) -> str:
    return chips[number].subject if number < len(chips) else f"npu:{number}"


def _unhealthy(info: NpuSmiInfo | None) -> set[str]:
    """The chips whose health explains that they do not compute."""
    return {subject_of(chip, info.npus) for chip in info.npus if chip.says_ok is False} if info is not None else set()


def _math_finding(subject: str, summary: str, result: CardMath, *, symptom: bool) -> Finding:
    error = result.error or ""
    cause = cause_of(error, "python.device-math")
    return Finding(
        subject=subject,
        summary=summary,
        detail=f"Known cause: {cause.title}: {cause.cause}." if cause else None,
        hint=f"Mend: {cause.fix[0]}."
        if cause and cause.fix
        else "Run it again; if it stays, take the card out of service and collect its logs with msnpureport.",
        evidence=(
            Evidence(
                source="a product of two 128 × 128 matrices of small integers",
                expected="the CPU's result",
                actual=error[:600] or f"off by {result.max_abs_error}",
            ),
        ),
        pitfall=cause.id if cause else None,
        symptom=symptom,
    )
