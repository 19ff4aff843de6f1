"""What npu-smi says of each chip by itself: a fact for each query, asked only where somebody wants it.

A card with one chip is asked by its id alone, the chips of others one by one. A page that could not be had is left out,
with the reason in `failed`; where no card answers, the fact is unavailable for the reason of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from npudoctor.facts import npu_smi
from npudoctor.facts.cards import subject_of
from npudoctor.facts.npu import TOOL, answer_of
from npudoctor.facts.npu_smi import Common, Ecc, Health, NpuMemory, NpuSmiInfo, PcieErrors, ProcessMemory, Usages
from npudoctor.records import dataclass
from npudoctor.sdk import Because, Host, NotApplicable, Options, ParseError, Unavailable, probe, run_each

P = TypeVar("P")
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pages(Generic[P]):
    """The pages of one query by the subject that findings name: `npu:3`, `npu:3/chip:1`."""

    by_subject: Mapping[str, P]
    failed: Mapping[str, str]


class ChipHealth(Pages[Health]):
    """Of `-t health`, for every chip."""

    __slots__ = ()


class ChipEcc(Pages[Ecc]):
    """Of `-t ecc`."""

    __slots__ = ()


class ChipUsages(Pages[Usages]):
    """Of `-t usages`."""

    __slots__ = ()


class ChipMemory(Pages[NpuMemory]):
    """Of `-t memory`."""

    __slots__ = ()


class ChipCommon(Pages[Common]):
    """Of `-t common`."""

    __slots__ = ()


class CardProcessMemory(Pages[ProcessMemory]):
    """Of `-t proc-mem`, of cards as a whole."""

    __slots__ = ()


class CardPcieErrors(Pages[PcieErrors]):
    """Of `-t pcie-err`, of cards as a whole."""

    __slots__ = ()


def _chips(info: NpuSmiInfo) -> dict[str, Words]:
    """How to ask for each chip, by its subject; its own number is named only where its card has several."""
    found: dict[str, Words] = {}
    for chip in info.npus:
        subject = subject_of(chip, info.npus)
        words = ("-c", str(chip.chip_id)) if "/" in subject else ()
        found[subject] = ("-i", str(chip.npu_id), *words)
    return found


def _cards(info: NpuSmiInfo) -> dict[str, Words]:
    """How to ask for each card as a whole."""
    return {f"npu:{chip.npu_id}": ("-i", str(chip.npu_id)) for chip in info.npus}


def _ask(
    host: Host, options: Options, query: str, places: Mapping[str, Words], parse: Callable[[str], P]
) -> tuple[dict[str, P], dict[str, str]]:
    """The page of every subject, and why the others have none; Unavailable where none has one."""
    if options.profile == "quick":
        raise NotApplicable("profile quick asks no card by itself")
    commands = [(TOOL, "info", "-t", query, *words) for words in places.values()]
    found: dict[str, P] = {}
    failed: dict[str, str] = {}
    first: Unavailable | None = None
    for subject, command, done in zip(
        places, commands, run_each(host, commands, timeout=options.tool_timeout_s), strict=True
    ):
        try:
            found[subject] = parse(answer_of(done, " ".join(command)))
        except ParseError as problem:
            failed[subject] = f"`{' '.join(command)}` printed what npudoctor does not understand: {problem}"
            first = first or Unavailable(failed[subject], because=Because.FAILED)
        except Unavailable as why:
            failed[subject] = why.reason
            first = first or why
    if first is not None and not found:
        raise first
    return found, failed


@probe
def health(host: Host, options: Options, info: NpuSmiInfo) -> ChipHealth:
    """From `npu-smi info -t health` for every chip, whatever the table says of it."""
    return ChipHealth(*_ask(host, options, "health", _chips(info), npu_smi.parse_health))


@probe
def ecc(host: Host, options: Options, info: NpuSmiInfo) -> ChipEcc:
    """From `npu-smi info -t ecc`."""
    return ChipEcc(*_ask(host, options, "ecc", _chips(info), npu_smi.parse_ecc))


@probe
def usages(host: Host, options: Options, info: NpuSmiInfo) -> ChipUsages:
    """From `npu-smi info -t usages`."""
    return ChipUsages(*_ask(host, options, "usages", _chips(info), npu_smi.parse_usages))


@probe
def memory(host: Host, options: Options, info: NpuSmiInfo) -> ChipMemory:
    """From `npu-smi info -t memory`."""
    return ChipMemory(*_ask(host, options, "memory", _chips(info), npu_smi.parse_memory))


@probe
def common(host: Host, options: Options, info: NpuSmiInfo) -> ChipCommon:
    """From `npu-smi info -t common`."""
    return ChipCommon(*_ask(host, options, "common", _chips(info), npu_smi.parse_common))


@probe
def process_memory(host: Host, options: Options, info: NpuSmiInfo) -> CardProcessMemory:
    """From `npu-smi info -t proc-mem`, once for each card."""
    return CardProcessMemory(*_ask(host, options, "proc-mem", _cards(info), npu_smi.parse_process_memory))


@probe
def pcie_errors(host: Host, options: Options, info: NpuSmiInfo) -> CardPcieErrors:
    """From `npu-smi info -t pcie-err`, once for each card."""
    return CardPcieErrors(*_ask(host, options, "pcie-err", _cards(info), npu_smi.parse_pcie_errors))
