"""Bit errors in the memory of the cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.npu_smi import Ecc
from npudoctor.sdk import Because, Evidence, Finding, Options, Severity, Threshold, Unavailable, check

from .npu import BEHIND_NPU_SMI

ISOLATED = Threshold(
    "isolated_pages_max",
    64,
    "pages",
    "the driver keeps a record of 64 faulty addresses of a chip and no more (its hbm_ctrl.h)",
)

_COUNTS = ("double", "single", "double_aggregate", "single_aggregate")
_PAGES = ("double_isolated_pages", "single_isolated_pages", "isolated_pages")
_WAITING = ("double_next_isolated_pages", "single_next_isolated_pages", "next_isolated_pages")


@check("npu.ecc", profile="standard", after=BEHIND_NPU_SMI, thresholds=(ISOLATED,))
def memory_has_no_errors(ecc: PerChip[Ecc], options: Options) -> Iterator[Finding]:
    """No chip has an uncorrected memory error, or has run out of pages to isolate.

    A double-bit error destroys data: the job that meets it fails, and what it computed may be wrong. Single-bit errors
    are corrected on the way.
    """
    for subject, page in ecc.by_subject.items():
        doubles, singles, old, _ = (_sum(page, name) for name in _COUNTS)
        pages = sum(_sum(page, name) for name in _PAGES)
        waiting = sum(_sum(page, name) for name in _WAITING)
        if doubles:
            yield _finding(subject, page, Severity.ERROR, f"{_counted(doubles, 'double-bit error')} in the memory")
        elif pages >= ISOLATED.of(options):
            yield _finding(subject, page, Severity.ERROR, f"{pages} pages of the memory are isolated")
        elif old or pages or waiting or singles:
            told = [(old, "earlier double-bit error"), (singles, "corrected single-bit error")]
            told += [(pages, "isolated page"), (waiting, "page to be isolated at the next reset")]
            yield _finding(
                subject, page, Severity.INFO, ", ".join(_counted(count, what) for count, what in told if count)
            )
    if ecc.failed:
        raise Unavailable(next(iter(ecc.failed.values())), because=Because.FAILED)


def _sum(page: Any, name: str) -> int:
    return sum(getattr(page, f"{memory}_{name}", None) or 0 for memory in ("ddr", "hbm"))


def _counted(count: int, what: str) -> str:
    noun, space, rest = what.partition(" to be ")
    return f"{count} {noun}{'' if count == 1 else 's'}{space}{rest}"


def _finding(subject: str, page: Any, severity: Severity, summary: str) -> Finding:
    card, _, chip = subject.removeprefix("npu:").partition("/chip:")
    where = f"-i {card}" + (f" -c {chip}" if chip else "")
    sick = severity is Severity.ERROR
    return Finding(
        subject=subject,
        severity=severity,
        summary=summary,
        detail="Jobs on this chip fail or compute wrong results." if sick else "They harm no job that runs now.",
        hint="Leave the chip out of jobs (ASCEND_RT_VISIBLE_DEVICES), reset it, and have the card replaced if errors "
        "come again."
        if sick
        else "See whether the counts grow.",
        commands=(
            f"npu-smi info -t ecc {where}",
            *(
                (f"npu-smi set -t reset -i {card} -c {chip or 0}  # as root, idle; ends what runs on it",)
                if sick
                else ()
            ),
        ),
        evidence=tuple(
            Evidence(source=f"npu-smi info -t ecc {where}, {name}", expected="0", actual=str(count))
            for name, count in _told(page).items()
        ),
        pitfall="P053",
    )


def _told(page: Any) -> Mapping[str, int]:
    names = [f"{memory}_{name}" for memory in ("hbm", "ddr") for name in (*_COUNTS, *_PAGES, *_WAITING)]
    return {name.replace("_", " "): count for name in names if (count := getattr(page, name, None))}
