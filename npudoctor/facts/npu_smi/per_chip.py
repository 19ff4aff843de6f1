"""The pages of npu-smi that are asked of each chip, or of each NPU: one row of `PAGES` is one fact.

A row makes the fact `npu_smi.NAME`, a `PerChip` of its record, and the kind `npu-smi-QUERY` of `npudoctor parse`. An
NPU with one chip is asked by its id alone. A page that could not be had is left out, its reason in `failed`; where
no chip answers, the fact is unavailable for the reason of the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from npudoctor.facts.by_chip import PerChip, collect, graver_reason
from npudoctor.facts.dcmi import pages as library
from npudoctor.facts.dcmi.answer import DCMI, answer_or_none
from npudoctor.facts.node.chips import subject_of
from npudoctor.facts.npu_smi.chip_pages import (
    Common,
    Ecc,
    NpuMemory,
    Usages,
    parse_common,
    parse_ecc,
    parse_memory,
    parse_usages,
)
from npudoctor.facts.npu_smi.health import Health, parse_health
from npudoctor.facts.npu_smi.links import (
    Flash,
    HccsLinks,
    PcieErrors,
    PhyIdRemap,
    ProcessMemory,
    parse_flash,
    parse_hccs,
    parse_pcie_errors,
    parse_phyid_remap,
    parse_process_memory,
)
from npudoctor.facts.npu_smi.pages import Board, parse_board
from npudoctor.facts.npu_smi.probes import TOOL, page_of
from npudoctor.facts.npu_smi.readings import FaultEvents, parse_fault_events
from npudoctor.facts.npu_smi.table import NpuSmiInfo
from npudoctor.records import field, record, replace
from npudoctor.sdk import (
    Because,
    Completed,
    Host,
    NotApplicable,
    Options,
    Probe,
    Unavailable,
    ask_each,
    probe,
)

P = TypeVar("P")
Words = tuple[str, ...]
Places = Mapping[str, Words]
"""How each is asked, by the subject that findings name."""


def chips(info: NpuSmiInfo) -> dict[str, Words]:
    """Each chip; its own number is named only where its NPU has several."""
    found: dict[str, Words] = {}
    for chip in info.npus:
        subject = subject_of(chip, info.npus)
        words = ("-c", str(chip.chip_id)) if "/" in subject else ()
        found[subject] = ("-i", str(chip.npu_id), *words)
    return found


def npus(info: NpuSmiInfo) -> dict[str, Words]:
    """Each NPU as a whole."""
    return {f"npu:{chip.npu_id}": ("-i", str(chip.npu_id)) for chip in info.npus}


def npus_of_950(info: NpuSmiInfo) -> Places:
    """Each NPU of a table without chip numbers."""
    if any(chip.chip_id is not None for chip in info.npus):
        raise NotApplicable("npu-smi lists fault events on Ascend 950 only")
    return npus(info)


def numbered_chips(info: NpuSmiInfo) -> dict[str, Words]:
    """Each chip by its number, even where its NPU has one; 950 numbers none and refuses `-c`."""
    found: dict[str, Words] = {}
    for chip in info.npus:
        words = () if chip.chip_id is None else ("-c", str(chip.chip_id))
        found[subject_of(chip, info.npus)] = ("-i", str(chip.npu_id), *words)
    return found


def physical_chips(info: NpuSmiInfo) -> Places:
    """Each chip by its physical id, of the products whose table shows one."""
    places = {subject_of(chip, info.npus): ("-p", str(chip.phy_id)) for chip in info.npus if chip.phy_id is not None}
    if not places:
        raise NotApplicable("npu-smi lists no physical chip ids on this product")
    return places


class Page(NamedTuple):
    """A row: the name of the fact, what `npu-smi info -t` is asked for, of which chips, and how the answer is read.

    `shared`: where the page of an NPU reports each of its chips, they are not asked one by one.
    """

    name: str
    query: str
    places: Callable[[NpuSmiInfo], Places]
    parse: Callable[[str], Any]
    record: type
    of_the_moment: bool = False
    shared: bool = False

    def probe(self) -> Probe:
        """The probe that asks for this page."""

        def page(host: Host, options: Options, info: NpuSmiInfo) -> PerChip[Any]:
            asked = _ask_shared if self.shared else ask
            return asked(host, options, self.query, self.places(info), self.parse)

        page.__name__ = self.name
        page.__doc__ = f"From `npu-smi info -t {self.query}`."
        return Probe(page, cast(Any, PerChip)[self.record], of_the_moment=self.of_the_moment)


PAGES = (
    Page("boards", "board", npus, parse_board, Board),
    Page("health", "health", numbered_chips, parse_health, Health, of_the_moment=True),
    Page("ecc", "ecc", chips, parse_ecc, Ecc, of_the_moment=True, shared=True),
    Page("usages", "usages", chips, parse_usages, Usages, of_the_moment=True),
    Page("memory", "memory", chips, parse_memory, NpuMemory, of_the_moment=True),
    Page("common", "common", npus, parse_common, Common, of_the_moment=True),
    Page("process_memory", "proc-mem", npus, parse_process_memory, ProcessMemory, of_the_moment=True),
    Page("pcie_errors", "pcie-err", npus, parse_pcie_errors, PcieErrors, of_the_moment=True),
    Page("hccs", "hccs", numbered_chips, parse_hccs, HccsLinks, of_the_moment=True),
    Page("chip_numbers", "phyid-remap", physical_chips, parse_phyid_remap, PhyIdRemap, of_the_moment=True),
    Page("flash", "flash", npus, parse_flash, Flash, of_the_moment=True),
    Page("fault_events", "current-fault-event", npus_of_950, parse_fault_events, FaultEvents, of_the_moment=True),
)
PROBES = {page.name: page.probe() for page in PAGES}


def ask(host: Host, options: Options, query: str, places: Places, parse: Callable[[str], P]) -> PerChip[P]:
    """The page of every subject, from the library where it gives a whole one; Unavailable where none has one."""
    if options.profile == "quick":
        raise NotApplicable("profile quick reads no per-chip pages")
    known, silent = _from_library(host, options, query, places)
    commands = {
        subject: (TOOL, "info", "-t", query, *words)
        for subject, words in places.items()
        if subject not in known and subject not in silent
    }

    def read(subject: str, answer: Completed | P) -> P:
        if not isinstance(answer, Completed):
            return answer
        return page_of(answer, " ".join(commands[subject]), parse)

    told = dict(zip(commands, ask_each(host, list(commands.values()), timeout=options.tool_timeout_s), strict=True))
    answers: Any = [(known | silent | told)[subject] for subject in places]
    return PerChip(*collect(places, answers, read), sources=dict.fromkeys(known, DCMI))


_OF_CHIPS: Mapping[str, Callable[[Any], Any]] = {
    "ecc": library.ecc,
    "memory": library.memory,
    "health": library.health,
    "phyid-remap": library.numbers,
}
_OF_NPUS: Mapping[str, Callable[..., Any]] = {
    "board": library.board,
    "common": library.common,
    "proc-mem": library.process_memory,
}
"""The pages that the driver's library gives as well, by what npu-smi is asked for."""


def _from_library(
    host: Host, options: Options, query: str, places: Places
) -> tuple[dict[str, Any], dict[str, Unavailable]]:
    """The pages that it gives, and why chips that hang are not asked at all."""
    if query not in _OF_CHIPS and query not in _OF_NPUS:
        return {}, {}
    answer = answer_or_none(host, options)
    known: dict[str, Any] = {}
    silent: dict[str, Unavailable] = {}
    for subject in places if answer is not None else ():
        assert answer is not None
        chips = answer.npu(subject.partition("/")[0])
        one = answer.chip(subject)
        mine = chips if query in _OF_NPUS or one is None else (one,)
        if why := next((chip.silent for chip in mine if chip.silent), None):
            silent[subject] = Unavailable(f"{why}; it is not asked again", because=Because.TIMED_OUT)
            continue
        page = None
        if query in _OF_NPUS and chips:
            page = _OF_NPUS[query](chips, answer)
        elif query in _OF_CHIPS and one is not None:
            page = _OF_CHIPS[query](one)
        if page is not None:
            known[subject] = page
        elif options.chips_from == DCMI:
            silent[subject] = Unavailable(
                f"libdcmi.so gives no whole page {query} of {subject}", because=Because.FAILED
            )
    return known, silent


def _ask_shared(host: Host, options: Options, query: str, places: Places, parse: Callable[[str], P]) -> PerChip[P]:
    """The same, once for each NPU where its page reports all its chips."""
    known, _ = _from_library(host, options, query, places) if options.profile != "quick" else ({}, {})
    rest = {subject: words for subject, words in places.items() if subject not in known}
    npus = {subject.partition("/")[0]: words[:2] for subject, words in rest.items()}
    whole: PerChip[P] = ask(host, options, query, npus, parse) if npus or not known else PerChip({})
    found: dict[str, P] = dict(known)
    failed: dict[str, str] = {}
    apart: dict[str, Words] = {}
    why = whole.why
    for subject, words in rest.items():
        npu = subject.partition("/")[0]
        page: Any = whole.by_subject.get(npu)
        if page is None:
            failed[subject] = whole.failed[npu]
        elif subject == npu:
            found[subject] = page
        elif (own := next((one for one in page.chips if str(one.chip_id) == words[-1]), None)) is None:
            apart[subject] = words
        elif own.failure is None:
            found[subject] = own
        else:
            failed[subject] = f"`{' '.join((TOOL, 'info', '-t', query, *words[:2]))}` failed: {own.failure}"
            why = graver_reason(why, Unavailable(failed[subject], because=Because.FAILED))
    if apart:
        try:
            alone = ask(host, options, query, apart, parse)
        except Unavailable as reason:
            alone = PerChip({}, dict.fromkeys(apart, reason.reason), reason)
        found, failed, why = {**found, **alone.by_subject}, {**failed, **alone.failed}, graver_reason(why, alone.why)
    if why is not None and not found:
        raise why
    in_order = {subject: found[subject] for subject in places if subject in found}
    return PerChip(in_order, failed, why, dict.fromkeys(known, DCMI))


@record(frozen=True)
class HealthPages:
    """The health pages of the chips that are not OK, by subject; those that could not be had are missing."""

    by_subject: Mapping[str, Health]
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)


@probe(of_the_moment=True)
def health_pages(host: Host, options: Options, info: NpuSmiInfo) -> HealthPages:
    """From `npu-smi info -t health`, only of chips that npu-smi's table does not show as OK.

    Fault codes are on the page of a chip. Where that one could not be had, the page of its NPU tells a little. On 950
    the codes of the active fault events replace those that the page lacks.
    """
    sick = [subject_of(chip, info.npus) for chip in info.npus if chip.says_ok is False]
    if options.profile == "quick":
        if answer_or_none(host, options) is None:
            raise NotApplicable("profile quick reads no per-chip pages")
        places = {one: numbered_chips(info)[one] for one in sick}
        told: dict[str, Health] = _from_library(host, options, "health", places)[0]
        return HealthPages(told, dict.fromkeys(told, DCMI))
    found: dict[str, Health] = {}
    sources: dict[str, str] = {}
    for places in (numbered_chips(info), chips(info)):
        wanted = {one: places[one] for one in sick if one not in found}
        with contextlib.suppress(Unavailable):
            if wanted:
                pages = ask(host, options, "health", wanted, parse_health)
                found |= pages.by_subject
                sources |= pages.sources
    for one in [one for one in sick if "-c" not in numbered_chips(info)[one]]:
        page = found.get(one) or Health()
        with contextlib.suppress(Unavailable):
            place = {one: numbered_chips(info)[one]} if not page.error_codes else {}
            events = ask(host, options, "current-fault-event", place, parse_fault_events).by_subject.get(one)
            codes = tuple(dict.fromkeys(event.event_id for event in events.events)) if events is not None else ()
            if codes:
                found[one] = replace(page, error_codes=codes)
                sources.pop(one, None)
    return HealthPages({one: found[one] for one in sick if one in found}, sources)


@record(frozen=True)
class BusyClocks:
    """The clocks of the chips at work, in MHz: the rated and the present one; why others are missing in `failed`."""

    by_subject: Mapping[str, tuple[int, int]]
    failed: Mapping[str, str]
    why: Unavailable | None = field(default=None, compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)


@record(frozen=True)
class HotMemories:
    """The temperature in °C of the HBM of chips that are warm; why others are missing in `failed`."""

    by_subject: Mapping[str, int]
    failed: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)


WARM_FROM_CELSIUS = 65
"""HBM is a few degrees warmer than its chip: below this it is far from its limit, and need not be asked for."""


@probe(of_the_moment=True)
def hot_memories(host: Host, options: Options, info: NpuSmiInfo) -> HotMemories:
    """From `npu-smi info -t memory`, only of chips with HBM that are warm by the table."""
    places = chips(info)
    warm = [chip for chip in info.npus if chip.hbm_total_mb and (chip.temp_c or 0) >= WARM_FROM_CELSIUS]
    if not warm:
        raise NotApplicable("no chip is warm enough for hot HBM")
    wanted = {subject: places[subject] for subject in (subject_of(chip, info.npus) for chip in warm)}
    pages = ask(host, options, "memory", wanted, parse_memory)
    found = {subject: page.hbm_temp_c for subject, page in pages.by_subject.items() if page.hbm_temp_c}
    return HotMemories(found, pages.failed, pages.sources)


AT_WORK_FROM_PERCENT = 50
"""From this use of its AI cores on a chip runs at its rated clock; an idle one saves power."""


@probe(of_the_moment=True)
def busy_clocks(host: Host, options: Options, info: NpuSmiInfo) -> BusyClocks:
    """From `npu-smi info -t common`, only of NPUs with a chip at work: the clock of an idle one says nothing."""
    busy = {subject_of(chip, info.npus): chip for chip in info.npus if (chip.aicore_pct or 0) >= AT_WORK_FROM_PERCENT}
    if not busy:
        raise NotApplicable("all chips are idle; clock check applies under load only")
    places = npus(info)
    wanted = {f"npu:{chip.npu_id}": places[f"npu:{chip.npu_id}"] for chip in busy.values()}
    pages = ask(host, options, "common", wanted, parse_common)
    clocks: dict[str, tuple[int, int]] = {}
    for subject, chip in busy.items():
        page = pages.by_subject.get(f"npu:{chip.npu_id}")
        for one in page.chips if page is not None else ():
            mine = one.chip_id == chip.chip_id or "/" not in subject
            if mine and one.aicore_freq_mhz and one.aicore_cur_freq_mhz:
                clocks.setdefault(subject, (one.aicore_freq_mhz, one.aicore_cur_freq_mhz))
    if not clocks:
        raise NotApplicable("npu-smi shows no AI Core clock on this product")
    sources = {one: DCMI for one in clocks if f"npu:{busy[one].npu_id}" in pages.sources}
    return BusyClocks(clocks, pages.failed, pages.why, sources)
