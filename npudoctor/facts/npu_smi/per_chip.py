"""What npu-smi says of each chip by itself: a fact for each query, asked only where somebody wants it.

A card with one chip is asked by its id alone, the chips of others one by one; for bit errors the whole card is asked,
and its chips by themselves only where its page does not tell of each. A page that could not be had is left out, with
the reason in `failed`; where no card answers, the fact is unavailable for the reason of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from npudoctor.facts import npu_smi
from npudoctor.facts.node.chips import subject_of
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.npu_smi.probes import TOOL, answer_of
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


@dataclass(frozen=True, slots=True)
class ChipHccs:
    """Of `-t hccs`."""

    by_subject: Mapping[str, npu_smi.HccsLinks]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ChipNumbers:
    """Of `-t phyid-remap`: what else a chip is called, of the chips whose physical number is known."""

    by_subject: Mapping[str, npu_smi.PhyIdRemap]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CardFlash:
    """Of `-t flash`, of cards as a whole."""

    by_subject: Mapping[str, npu_smi.Flash]
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
    """From `npu-smi info -t ecc`, once for each card where its page tells of all its chips."""
    pages, failed = _ask(host, options, "ecc", _cards(info), npu_smi.parse_ecc)
    found: dict[str, npu_smi.Ecc] = {}
    apart: dict[str, Words] = {}
    places = _chips(info)
    for chip in info.npus:
        subject, card = subject_of(chip, info.npus), f"npu:{chip.npu_id}"
        if (page := pages.get(card)) is None:
            failed.setdefault(subject, failed[card])
        elif subject == card:
            found[subject] = page
        elif own := next((one for one in page.chips if one.chip_id == chip.chip_id), None):
            found[subject] = own
        else:
            apart[subject] = places[subject]
    if apart:
        more, why = _ask(host, options, "ecc", apart, npu_smi.parse_ecc)
        found, failed = {**found, **more}, {**failed, **why}
    return ChipEcc(found, {subject: reason for subject, reason in failed.items() if subject in places})


@dataclass(frozen=True, slots=True)
class BusyClocks:
    """The clocks of the chips at work, in MHz: the rated and the present one; why others are missing in `failed`."""

    by_subject: Mapping[str, tuple[int, int]]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HotMemories:
    """The temperature in °C of the HBM of chips that are warm; why others are missing in `failed`."""

    by_subject: Mapping[str, int]
    failed: Mapping[str, str]


WARM_FROM_CELSIUS = 65
"""HBM is a few degrees warmer than its chip: below this it is far from its limit, and need not be asked for."""


@probe
def hot_memories(host: Host, options: Options, info: NpuSmiInfo) -> HotMemories:
    """From `npu-smi info -t memory`, only of chips with HBM that are warm by the table."""
    places = _chips(info)
    warm = [chip for chip in info.npus if chip.hbm_total_mb and (chip.temp_c or 0) >= WARM_FROM_CELSIUS]
    if not warm:
        raise NotApplicable("no chip is warm enough for its memory to be hot")
    wanted = {subject: places[subject] for subject in (subject_of(chip, info.npus) for chip in warm)}
    pages, failed = _ask(host, options, "memory", wanted, npu_smi.parse_memory)
    found = {subject: page.hbm_temp_c for subject, page in pages.items() if page.hbm_temp_c}
    return HotMemories(found, failed)


AT_WORK_FROM_PERCENT = 50
"""From this use of its AI cores on a chip runs at its rated clock; an idle one saves power."""


@probe
def busy_clocks(host: Host, options: Options, info: NpuSmiInfo) -> BusyClocks:
    """From `npu-smi info -t common`, only of chips at work: the clock of an idle one says nothing."""
    places = _chips(info)
    busy = [chip for chip in info.npus if (chip.aicore_pct or 0) >= AT_WORK_FROM_PERCENT]
    if not busy:
        raise NotApplicable("no chip is at work: the clock of an idle one says nothing")
    wanted = {subject: places[subject] for subject in (subject_of(chip, info.npus) for chip in busy)}
    pages, failed = _ask(host, options, "common", wanted, npu_smi.parse_common)
    clocks: dict[str, tuple[int, int]] = {}
    for subject, page in pages.items():
        for chip in page.chips:
            if chip.aicore_freq_mhz and chip.aicore_cur_freq_mhz:
                clocks.setdefault(subject, (chip.aicore_freq_mhz, chip.aicore_cur_freq_mhz))
    if not clocks:
        raise NotApplicable("npu-smi shows no clock of the AI cores of this product")
    return BusyClocks(clocks, failed)


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


@probe
def hccs(host: Host, options: Options, info: NpuSmiInfo) -> ChipHccs:
    """From `npu-smi info -t hccs`, which wants the chip's number of every card."""
    places = {subject_of(chip, info.npus): ("-i", str(chip.npu_id), "-c", str(chip.chip_id or 0)) for chip in info.npus}
    return ChipHccs(*_ask(host, options, "hccs", places, npu_smi.parse_hccs))


@probe
def chip_numbers(host: Host, options: Options, info: NpuSmiInfo) -> ChipNumbers:
    """From `npu-smi info -t phyid-remap -p N`, for the products whose table shows physical numbers."""
    places = {subject_of(chip, info.npus): ("-p", str(chip.phy_id)) for chip in info.npus if chip.phy_id is not None}
    if not places:
        raise NotApplicable("npu-smi shows no physical numbers of chips here")
    return ChipNumbers(*_ask(host, options, "phyid-remap", places, npu_smi.parse_phyid_remap))


@probe
def flash(host: Host, options: Options, info: NpuSmiInfo) -> CardFlash:
    """From `npu-smi info -t flash`, once for each card."""
    return CardFlash(*_ask(host, options, "flash", _cards(info), npu_smi.parse_flash))
