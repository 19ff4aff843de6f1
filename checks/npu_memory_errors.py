"""Bit errors in the memory of the chips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.dcmi.answer import LIBRARY
from npudoctor.facts.node.chips import Chips, subject_of
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.npu_smi import Ecc, NpuSmiInfo
from npudoctor.sdk import Evidence, Finding, Message, Options, Threshold, Unavailable, check

from ._reset import reset_of
from ._silent import silent_chips
from ._unanswered import tell_unanswered
from .messages import npu as messages
from .npu import BEHIND_NPU_SMI

ISOLATED = Threshold(
    "isolated_pages_max",
    64,
    "pages",
    "the driver records at most 64 faulty addresses per chip (its hbm_ctrl.h)",
)

_COUNTS = ("double", "single", "double_aggregate", "single_aggregate")
_PAGES = ("double_isolated_pages", "single_isolated_pages", "isolated_pages")
_WAITING = ("double_next_isolated_pages", "single_next_isolated_pages", "next_isolated_pages")


@check("npu.ecc", profile="standard", after=BEHIND_NPU_SMI, thresholds=(ISOLATED,))
def memory_has_no_errors(
    ecc: PerChip[Ecc] | Unavailable,
    info: NpuSmiInfo | None,
    cards: Chips | None,
    holders: CardHolders | None,
    options: Options,
) -> Iterator[Finding]:
    """Memory errors (ECC) and isolated pages.

    A double-bit error destroys data: the job that reads it fails, and its results may be wrong. Single-bit errors are
    corrected.
    """
    silent = silent_chips(info)
    if isinstance(ecc, Unavailable):
        tell_unanswered(ecc, [subject_of(chip, info.npus) for chip in info.npus] if info is not None else (), silent)
        raise ecc
    for subject, page in ecc.by_subject.items():
        doubles, singles, old, _ = (_sum(page, name) for name in _COUNTS)
        pages = sum(_sum(page, name) for name in _PAGES)
        waiting = sum(_sum(page, name) for name in _WAITING)
        if doubles:
            yield _sick_finding(messages.UNCORRECTED, subject, ecc, cards, holders, count=doubles)
        elif pages >= ISOLATED.of(options):
            yield _sick_finding(
                messages.PAGES_USED_UP, subject, ecc, cards, holders, pages=pages, limit=ISOLATED.of(options)
            )
        elif old or pages or waiting or singles:
            told = (
                (old, messages.EARLIER_DOUBLE_BIT),
                (singles, messages.CORRECTED_SINGLE_BIT),
                (pages, messages.ISOLATED_PAGES),
                (waiting, messages.PAGES_TO_ISOLATE),
            )
            yield messages.CORRECTED.finding(
                subject=subject,
                counts=[sentence.text(count=count) for count, sentence in told if count],
                commands=(f"npu-smi info -t ecc {_where(subject)}",),
                evidence=_evidence(subject, ecc),
            )
    tell_unanswered(ecc.why, ecc.failed, silent)


_NEGATIVE_FROM = 1 << 31
"""npu-smi subtracts counts and prints the result without a sign: 4294967295 is no count."""


def _count(page: Any, name: str) -> int:
    count = getattr(page, name, None) or 0
    return 0 if count >= _NEGATIVE_FROM else count


def _sum(page: Any, name: str) -> int:
    return sum(_count(page, f"{memory}_{name}") for memory in ("ddr", "hbm"))


def _where(subject: str) -> str:
    card, _, chip = subject.removeprefix("npu:").partition("/chip:")
    return f"-i {card}" + (f" -c {chip}" if chip else "")


def _sick_finding(
    message: Message, subject: str, ecc: PerChip[Ecc], cards: Chips | None, holders: CardHolders | None, **params: Any
) -> Finding:
    reset = reset_of(subject, cards, holders)
    return message.finding(
        subject=subject,
        hint=reset.after(messages.EXCLUDE_AND_RESET.text()),
        commands=(f"npu-smi info -t ecc {_where(subject)}", *reset.commands),
        evidence=_evidence(subject, ecc),
        **params,
    )


def _evidence(subject: str, ecc: PerChip[Ecc]) -> tuple[Evidence, ...]:
    source = f"{LIBRARY}, {subject}" if subject in ecc.sources else f"npu-smi info -t ecc {_where(subject)}"
    return tuple(
        Evidence(source=f"{source}, {name}", expected="0", actual=str(count))
        for name, count in _counts_of(ecc.by_subject[subject]).items()
    )


def _counts_of(page: Any) -> Mapping[str, int]:
    names = [f"{memory}_{name}" for memory in ("hbm", "ddr") for name in (*_COUNTS, *_PAGES, *_WAITING)]
    return {name.replace("_", " "): count for name in names if (count := _count(page, name))}
