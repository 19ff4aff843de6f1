"""What npu-smi says of each chip by itself: a fact for each query, asked only where somebody wants it.

A card with one chip is asked by its id alone, the chips of others one by one. A page that could not be had is left out,
with the reason in `failed`; where no card answers, the fact is unavailable for the reason of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from npudoctor.facts import npu_smi
from npudoctor.facts.cards import subject_of
from npudoctor.facts.npu import TOOL, answer_of
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.records import dataclass
from npudoctor.sdk import Because, Host, NotApplicable, Options, ParseError, Unavailable, ask_each, probe

P = TypeVar("P")
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChipHealth:
    """The pages of `-t health` of every chip, by the subject that findings name: `npu:3`, `npu:3/chip:1`."""

    by_subject: Mapping[str, npu_smi.Health]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChipEcc:
    """Of `-t ecc`."""

    by_subject: Mapping[str, npu_smi.Ecc]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChipUsages:
    """Of `-t usages`."""

    by_subject: Mapping[str, npu_smi.Usages]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChipMemory:
    """Of `-t memory`."""

    by_subject: Mapping[str, npu_smi.NpuMemory]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChipCommon:
    """Of `-t common`."""

    by_subject: Mapping[str, npu_smi.Common]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CardProcessMemory:
    """Of `-t proc-mem`, of cards as a whole."""

    by_subject: Mapping[str, npu_smi.ProcessMemory]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CardPcieErrors:
    """Of `-t pcie-err`, of cards as a whole."""

    by_subject: Mapping[str, npu_smi.PcieErrors]
    failed: Mapping[str, str]


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
    answers = ask_each(host, commands, timeout=options.tool_timeout_s)
    for subject, command, answer in zip(places, commands, answers, strict=True):
        try:
            if isinstance(answer, Unavailable):
                raise answer
            found[subject] = parse(answer_of(answer, " ".join(command)))
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
