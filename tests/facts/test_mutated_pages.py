"""Every page of npu-smi and hccn_tool, of every family: messages at any place, widths, values not told.

What the page says stays what it says, nothing is read from another column, and no whole table is called cut.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from npudoctor.facts.npu_smi import parse_info
from npudoctor.facts.npu_smi.truncation import is_cut, lacks_processes
from npudoctor.facts.parsers import KINDS
from npudoctor.sdk import ParseError
from npudoctor.sim import machine, scenario
from npudoctor.sim.products import PRODUCTS
from tests.facts.test_samples import OURS

WARNING = (
    "[WARNING]The driver package may not be completely installed, which may cause function abnormal. "
    "Please reinstall it.\n"
)
UNTOLD = ("NA", "N/A", "-", "UNKNOWN", "NOT SUPPORT")
PRODUCT_NAMES = sorted(PRODUCTS.keys() - {"none"})
MIXED = {"aicore_pct": 41, "ecc_single": 3, "hbm_used_mb": 20123}
_VALUE = re.compile(r"(\s*[A-Za-z][^:|]*?)(\s*:\s*)(\S.*?)\s*")
_NUMBERING = re.compile(r"\s*(NPU ID|Chip ID|Chip Count|Total Count|Card Count|Chip Name|Process id)\b")
each_product = pytest.mark.parametrize("product", PRODUCT_NAMES)


def kind_of(words: list[str]) -> str:
    if words[0] == "hccn_tool":
        return "hccn-" + words[3].removeprefix("-").replace("_", "-")
    plain = {"info": "info", "-l": "list", "-m": "map", "-v": "version"}
    return "npu-smi-" + (plain.get(words[-1]) or words[3])


@functools.cache
def pages(product: str) -> list[tuple[str, str]]:
    """One page of each kind, with and without `-c`, of a node at work."""
    said = {"product": product, "cards": MIXED, "job": {"ranks": 1}}
    host = machine.build(scenario.parse(said, product), product)
    found: dict[tuple[str, bool], str] = {}
    for key in host.commands:
        words = key.split(" ")
        if words[0] in ("npu-smi", "hccn_tool") and (kind := kind_of(words)) in KINDS:
            text = host.commands[key].stdout
            if readable(kind, text):
                found.setdefault((kind, "-c" in words), text)
    return [(kind, text) for (kind, _), text in found.items()]


def readable(kind: str, text: str) -> bool:
    try:
        KINDS[kind](text)
    except ParseError:
        return False
    return True


def leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{where}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, f"{where}[{place}]")
    else:
        yield where, value


@each_product
def test_a_table_that_ends_too_early_is_seen_wherever_it_ends(product: str) -> None:
    text = dict(pages(product))["npu-smi-info"]
    whole, lines = parse_info(text), text.splitlines(keepends=True)
    last = whole.npus[-1].npu_id
    assert not (is_cut(text, whole) or lacks_processes(whole))
    for number in range(5, len(lines)):
        cut = "".join(lines[:number])
        with contextlib.suppress(ParseError):
            found = parse_info(cut)
            told = {*(found.idle_npus or ()), *(one.npu_id for one in found.processes)}
            if found.npus != whole.npus or {chip.npu_id for chip in whole.npus} - told > {last}:
                assert is_cut(cut, found) or lacks_processes(found), f"cut after line {number}"


@each_product
def test_every_product_has_pages_of_many_kinds(product: str) -> None:
    assert len(pages(product)) >= 12


@each_product
def test_a_message_at_any_place_changes_nothing(product: str) -> None:
    for kind, text in pages(product):
        if kind == "hccn-lldp":  # the value of a line there is on the next one, whatever that is
            continue
        whole, lines = KINDS[kind](text), text.splitlines(True)
        for place in range(len(lines) + 1) if len(lines) < 60 else (0, 3, 7, len(lines) // 2, len(lines)):
            told = "".join([*lines[:place], WARNING, *lines[place:]])
            assert KINDS[kind](told) == whole, (kind, place)
            if kind == "npu-smi-info":
                assert not is_cut(told, parse_info(told)), place


@each_product
def test_the_width_of_a_key_and_a_column_means_nothing(product: str) -> None:
    for kind, text in pages(product):
        whole = KINDS[kind](text)
        for width in (1, 4, 60):
            wide = re.sub(r"(?m)^([\t ]*[A-Za-z][^:|\n]*?) *: ", lambda found: f"{found[1]}{' ' * width}: ", text)  # noqa: B023
            if kind.startswith("npu-smi") and kind not in ("npu-smi-info", "npu-smi-topo", "npu-smi-version"):
                assert KINDS[kind](wide) == whole, (kind, width)
        if kind == "npu-smi-info":
            for more in (1, 7):
                table = re.sub(r"(?<=\S) \| ", " " * (more + 1) + "| ", text)
                bordered = re.sub(r"(?m)^\+.*$", lambda found: found[0] + "=" * 4 * more + "+", table)  # noqa: B023
                for one in (table, bordered):
                    assert KINDS[kind](one) == whole
                    assert not is_cut(one, parse_info(one))


@each_product
@pytest.mark.parametrize("word", UNTOLD)
def test_a_value_that_a_page_does_not_tell_leaves_the_others(product: str, word: str) -> None:
    for kind, text in pages(product):
        if not kind.startswith("npu-smi") or kind in ("npu-smi-info", "npu-smi-topo", "npu-smi-map", "npu-smi-version"):
            continue
        whole, lines = dict(leaves(KINDS[kind](text))), text.splitlines()
        for place, line in enumerate(lines):
            found = _VALUE.fullmatch(line)
            if not found or _NUMBERING.match(line):
                continue
            changed = "\n".join([*lines[:place], found[1] + found[2] + word, *lines[place + 1 :], ""])
            now = dict(leaves(KINDS[kind](changed)))
            other = {key: value for key, value in now.items() if value != whole.get(key)}
            other = {key: value for key, value in other.items() if not key.endswith("_count")}  # of lines, counted here
            assert all(value is None or str(value).upper() == word for value in other.values()), (kind, line, other)
            assert len(other) <= 2, (kind, line, other)


@each_product
@pytest.mark.parametrize("word", UNTOLD)
def test_a_cell_that_the_table_does_not_tell_leaves_the_others_and_the_chip(product: str, word: str) -> None:
    texts = dict(pages(product))
    check_cells(texts["npu-smi-info"], word)


TABLES = [sample for sample in OURS if sample.kind == "npu-smi-info"]


@pytest.mark.parametrize("sample", TABLES, ids=lambda sample: sample.name)
@pytest.mark.parametrize("word", UNTOLD)
def test_a_cell_of_a_sample_that_is_not_told_leaves_the_others(sample: Any, word: str) -> None:
    check_cells(sample.text, word)


def check_cells(text: str, word: str) -> None:
    """Each value of the first six rows of chips replaced by a word; the first word of a row is the NPU itself."""
    whole, lines, cut = parse_info(text), text.splitlines(), is_cut(text, parse_info(text))
    first = next(place for place, line in enumerate(lines) if "Bus-Id" in line) + 1
    rows = [
        place for place, line in enumerate(lines) if place > first and line.startswith("|") and "No run" not in line
    ]
    for place in rows[:6]:
        line = lines[place]
        if "Process" in line:
            break
        for number, found in enumerate(re.finditer(r"[^\s|/]+", line)):
            if number == 0:
                continue
            row = line[: found.start()] + word.ljust(len(found[0])) + line[found.end() :]
            changed = "\n".join([*lines[:place], row, *lines[place + 1 :], ""])
            now = parse_info(changed)
            assert is_cut(changed, now) == cut, row
            assert len(now.npus) == len(whole.npus), row
            for one, before in zip(now.npus, whole.npus, strict=True):
                for name, value in vars(one).items():
                    kept = value in (None, getattr(before, name)) or str(value).upper() == word
                    assert kept, (row, name, value)
