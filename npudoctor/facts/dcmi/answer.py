"""The answer of the driver's library: what it reported of each chip, and why of others it told nothing.

The lines are those of npudoctor/host/live/read_dcmi.py and library.py; a recording holds them as they came.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.driver.install import install_record
from npudoctor.records import record
from npudoctor.sdk import Because, Host, NotApplicable, Options, ParseError, Unavailable, probe

DCMI, NPU_SMI = "dcmi", "npu-smi"
LIBRARY = "libdcmi.so"
NOT_SUPPORTED, NOT_PERMITTED, IN_CONTAINER, NO_SYMBOL = -8255, -8002, -8013, -99998
NOT_HERE = (NOT_SUPPORTED, NOT_PERMITTED, IN_CONTAINER, NO_SYMBOL)
"""Codes with which a question does not arise on this chip, for this user, in this place, or in this driver."""
NPU, MCU, CPU = 0, 1, 2
MOST_CHIPS = 16
WRONG_COUNT = -99997
_OWN_CODES = {WRONG_COUNT: "its count does not fit its list", NO_SYMBOL: "this driver's library lacks it"}


@record(frozen=True, kw_only=True)
class LibraryChip:
    """One chip: `told` holds the answers by question, `refused` the return codes, `lost` how others ended.

    `npu_id` and `chip_id` are those of npu-smi; `chip_id` is None on 950. `silent` says in a clause why the chip is not
    asked again in this run.
    """

    npu_id: int
    chip_id: int | None = None
    told: Mapping[str, Any]
    refused: Mapping[str, int]
    lost: Mapping[str, str]
    silent: str | None = None

    def has_answered(self, *questions: str) -> bool:
        """Whether each of these was answered, or does not arise here."""
        return all(one in self.told or self.refused.get(one) in NOT_HERE for one in questions)


@record(frozen=True, kw_only=True)
class LibraryAnswer:
    """What libdcmi.so at `path` told. `lost_npus`: how many have no number because no chip of them answered.

    `problem` says in a clause why it told nothing of further chips.
    """

    path: str | None = None
    api: str | None = None
    driver_version: str | None = None
    chips: tuple[LibraryChip, ...] = ()
    lost_npus: int = 0
    problem: str | None = None

    def chip(self, subject: str) -> LibraryChip | None:
        """The chip with a subject: `npu:3`, `npu:3/chip:1`."""
        npu, _, chip = subject.removeprefix("npu:").partition("/chip:")
        mine = [one for one in self.chips if str(one.npu_id) == npu and (not chip or str(one.chip_id) == chip)]
        return mine[0] if len(mine) == 1 else None

    def npu(self, subject: str) -> tuple[LibraryChip, ...]:
        """The chips of an NPU: `npu:3`."""
        return tuple(one for one in self.chips if f"npu:{one.npu_id}" == subject)


def meaning(code: int) -> str:
    """A return code with its meaning."""
    known = _OWN_CODES.get(code) or knowledge.dcmi().meanings.get(code)
    return f"{code} ({known})" if known else str(code)


@probe(of_the_moment=True)
def library(host: Host, options: Options) -> LibraryAnswer:
    """From libdcmi.so of the driver; unavailable where there is none, or where it cannot be initialised."""
    if options.chips_from == NPU_SMI:
        raise NotApplicable("--chips-from npu-smi: the driver's library is not asked")
    prefix = None
    with contextlib.suppress(Unavailable, ParseError):
        prefix = install_record.function(host).driver_install_path
    driver = f"{(prefix or '/usr/local/Ascend').rstrip('/')}/driver"
    done = host.ask_library(driver, pages=options.profile != "quick", timeout=options.tool_timeout_s)
    found = parse(done.stdout)
    if not found.chips and not found.lost_npus:
        raise Unavailable(found.problem or f"{LIBRARY} lists no chip", because=Because.FAILED)
    return found


def answer_or_none(host: Host, options: Options) -> LibraryAnswer | None:
    """The same; None where it is unavailable."""
    try:
        found: LibraryAnswer = library.function(host, options)
    except Unavailable:
        return None
    return found


@functools.lru_cache(maxsize=4)
def parse(text: str) -> LibraryAnswer:
    """Read the lines; one that is none is passed over."""
    node: dict[str, Any] = {}
    codes: dict[str, int] = {}
    path = api = problem = None
    chips: dict[tuple[int, int | None], dict[str, dict[str, Any]]] = {}
    silent: dict[tuple[int, int | None], str] = {}
    uncounted: dict[int, int] = {}
    for row in _rows(text):
        with contextlib.suppress(KeyError, TypeError, AttributeError, ValueError):
            if "library" in row:
                path = str(row["library"])
                continue
            name = row.get("tells", row.get("lost"))
            place = (row["npu"], row.get("chip")) if "npu" in row else None
            if place is not None and name not in ("chips", "ids"):
                chip = chips.setdefault(place, {"told": {}, "refused": {}, "lost": {}})
            if "lost" in row:
                said = _why_lost(row)
                if place is None or name in ("chips", "ids"):
                    problem = problem or said
                else:
                    chip["lost"][name] = said
                    if row["how"] == "hang":
                        silent[place] = said
            elif place is None:
                codes[name] = int(row["rc"])
                node[name] = row.get("value")
                api = row.get("api", api)
            elif name in ("chips", "ids"):
                count = row.get("value") if name == "chips" else (row.get("value") or [0])[0]
                if row["rc"] == 0 and 0 < count <= MOST_CHIPS:
                    uncounted.pop(row["npu"], None)
                else:
                    uncounted[row["npu"]] = int(row["rc"]) or WRONG_COUNT
            else:
                if row["rc"] == 0:
                    chip["told"][name] = row.get("value")
                else:
                    chip["refused"][name] = int(row["rc"])
    for name, call in (("load", "loading it"), ("init", "dcmi_init"), ("npus", "dcmi_get_card_list")):
        if codes.get(name, 0) != 0:
            why = node[name] if name == "load" else meaning(codes[name])
            problem = f"{LIBRARY}: {call} failed: {why}"
    for npu, code in uncounted.items():
        problem = problem or f"{LIBRARY}: npu:{npu} does not tell its chips: {meaning(code)}"
    for (npu, _), one in chips.items():
        if one["told"].get("unit") not in (NPU, MCU, CPU):
            problem = problem or f"{LIBRARY}: npu:{npu} does not tell which of its units are chips"
    npus = (node.get("npus") or ()) if codes.get("npus") == 0 else ()
    twice = {npu for npu in npus if isinstance(npu, int) and npu >= 0 and npus.count(npu) > 1}
    for npu in sorted(twice):
        problem = problem or f"{LIBRARY} lists npu:{npu} more than once, and cannot be asked for each of its vNPUs"
    return LibraryAnswer(
        path=path,
        api=api,
        driver_version=node.get("driver_version") if codes.get("driver_version") == 0 else None,
        chips=tuple(
            LibraryChip(npu_id=npu, chip_id=chip, silent=silent.get((npu, chip)), **said)
            for (npu, chip), said in chips.items()
            if said["told"].get("unit") not in (MCU, CPU) and npu not in twice
        ),
        lost_npus=sum(1 for npu in npus if isinstance(npu, int) and npu < 0),
        problem=problem,
    )


def _rows(text: str) -> Iterator[Any]:
    """The lines as they were written; one that is none is left out."""
    lines = text.splitlines()
    try:
        yield from json.loads(f"[{','.join(lines)}]")  # as one text: a third of the time
        return
    except (ValueError, RecursionError):
        pass
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            yield json.loads(line)


def _why_lost(row: Mapping[str, Any]) -> str:
    """How a question ended that has no answer, as a clause."""
    what = f"{LIBRARY}: the question {row['lost']}"
    if "npu" in row:
        what += f" to npu:{row['npu']}" + (f"/chip:{row['chip']}" if row.get("chip") else "")
    if row["how"] == "hang":
        return f"{what} was not answered within {row.get('limit_s', 0):g} s"
    return f"{what} ended the process that asked it: {row['how']}"
