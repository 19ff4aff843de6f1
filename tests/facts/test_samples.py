"""Every output that we know, read by its parser: our own samples, the real captures, and both of them damaged.

`data/KIND/NAME.txt` is an output and `data/KIND/NAME.json` what it says, written by hand: absent is what it does not.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.control_characters import visible_lines
from npudoctor.facts.parsers import KINDS
from npudoctor.host import ParseError

DATA = Path(__file__).parent / "data"
CAPTURES = Path(__file__).resolve().parents[2] / "../shared/captures"
PROMPT = "[root@node ~]# npu-smi info\n"
VERSIONS = ("tool_version", "driver_version")
WARNING = "[WARNING]The driver package may not be completely installed. Please reinstall it.\n[root@node ~]#\n"


class Sample(NamedTuple):
    kind: str
    name: str
    text: str
    expected: dict[str, Any]


def ours() -> list[Sample]:
    files = sorted(DATA.glob("*/*.txt"))
    return [
        Sample(
            file.parent.name,
            file.stem,
            file.read_text(encoding="utf-8"),
            json.loads(file.with_suffix(".json").read_text(encoding="utf-8")),
        )
        for file in files
    ]


def captured() -> list[Sample]:
    if not CAPTURES.is_dir():
        return []
    entries = json.loads((CAPTURES / "index.json").read_text(encoding="utf-8"))
    return [
        Sample(
            entry["kind"],
            Path(entry["path"]).stem,
            (CAPTURES / entry["path"]).read_text(encoding="utf-8"),
            entry["expect"],
        )
        for entry in entries
        if entry["kind"] in KINDS
    ]


OURS = ours()
CAPTURED = captured()
TABLES = [sample for sample in OURS if sample.kind == "npu-smi-info"]
each_of_ours = pytest.mark.parametrize("sample", OURS, ids=lambda sample: f"{sample.kind}-{sample.name}")
each_table = pytest.mark.parametrize("sample", TABLES, ids=lambda sample: sample.name)
absent = pytest.param(None, marks=pytest.mark.skip("the folder ../shared with the captures is not there"))
each_capture = pytest.mark.parametrize(
    "sample",
    list[Any](CAPTURED) or [absent],
    ids=lambda sample: f"{sample.kind}-{sample.name}" if sample else "none",
)


def said(value: Any) -> Any:
    """A value without what it does not say."""
    if isinstance(value, dict):
        return {key: said(item) for key, item in value.items() if item is not None}
    return [said(item) for item in value] if isinstance(value, list) else value


def differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """Where what was found contradicts what is expected; keys that nobody expects may be there."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            yield from differences(value, found.get(key, "no such key"), f"{where}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for place, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{where}[{place}]")
    elif expected != found:
        yield f"{where}: {found!r}, not {expected!r}"


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    elif value is not None:
        yield repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def invented(kind: str, found: dict[str, Any], text: str) -> list[str]:
    """What a parser reports that its text does not say; only causes and the name of the MCU are not in the text."""
    text = text.replace("There is no NPU card", "0")
    there = re.sub(r"[\s\\]", "", f"{text}{visible_lines(text)}")
    told = {key: item for key, item in found.items() if (kind, key) not in INFERRED}
    return [leaf for leaf in leaves(told) if re.sub(r"[\s\\]", "", leaf) not in there]


INFERRED = {
    ("npu-smi-error", "cause"),
    ("npu-smi-version", "component"),
    ("npu-smi-health", "error_codes"),  # in capitals
    ("npu-smi-health", "error_info"),  # several lines as one, without their colons
    ("npu-smi-health", "error_info_count"),
    ("npu-smi-health", "chips"),
    ("hccn-error", "cause"),
    ("hccn-net-health", "healthy"),
    ("hccn-optical", "present"),
    ("hccn-route", "routes"),
    ("hccn-status", "link_detected"),
    ("hccn-speed", "speed_mbps"),  # of 950, which prints Gbit/s
    ("hccn-speed", "speeds_mbps"),
    ("hccn-speed", "ports"),
    ("hccn-link-stat", "records"),  # of 950, which prints LINK_UP
    ("hccn-link-stat", "last_state"),
    ("hccn-conf", "cards"),  # a setting that comes twice is joined
}


@each_of_ours
def test_our_sample_is_read_as_it_was_written(sample: Sample) -> None:
    assert said(KINDS[sample.kind](sample.text)) == sample.expected


@each_capture
def test_a_capture_is_read_as_it_is_labelled(sample: Sample) -> None:
    found: Any = KINDS[sample.kind](sample.text)
    assert list(differences(sample.expected, found)) == []
    assert invented(sample.kind, found, sample.text) == []


FAMILIES = {
    "310-80": (80, "Device", "310, drivers 20.x to 21.0.3: no huge pages"),
    "310-102": (102, "Device", "310, driver 21.0.4: ragged"),
    "910A-86": (86, "HBM", "910A, tools 1.8 to 21.0.3: no huge pages"),
    "910A-93": (93, "HBM", "910A, 22.0 to 23.0.2"),
    "910B-98": (98, "HBM", "910A from 23.0.5 on, 910B up to 25.x"),
    "A3-98": (98, "Phy-ID", "A3 up to 25.x"),
    "310P-94": (94, "Device", "310P, 22.0.2"),
    "310P-98": (98, "Device", "310P, 22.0.4"),
    "310B-106": (106, "Device", "310, 310P, 310B from 23.0 on"),
    "910B-116": (116, "HBM", "910B, 26.x"),
    "A3-116": (116, "Phy-ID", "A3, 26.x"),
    "950-99": (99, "NPU Util(%)", "950, 25.6"),
    "950-116": (116, "NPU Util(%)", "950, with the pids of containers"),
}


def test_every_family_of_tables_has_a_sample() -> None:
    assert {sample.name for sample in TABLES} == set(FAMILIES)
    for sample in TABLES:
        width, title, _ = FAMILIES[sample.name]
        assert (len(sample.text.splitlines()[0]), title in sample.text) == (width, True), sample.name


def test_every_kind_of_output_has_a_sample() -> None:
    assert {sample.kind for sample in OURS} == {kind for kind in KINDS if "mangled" not in kind}


def bordered(line: str) -> bool:
    return line.startswith("+")


PASTED: dict[str, Callable[[str], str]] = {
    "with carriage returns": lambda text: text.replace("\n", "\r\n"),
    "with a byte order mark": lambda text: "\ufeff" + text,
    "with trailing blanks": lambda text: text.replace("\n", "  \n"),
    "with blank lines": lambda text: text.replace("\n", "\n\n"),
    "without a last newline": str.rstrip,
    "in colour": lambda text: "\x1b[32m" + text + "\x1b[0m\n",
}
AROUND: dict[str, Callable[[str], str]] = {
    "between prompts": lambda text: PROMPT + text + WARNING,
    "with a message of the driver": lambda text: "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n" + text,
}
TABULAR: dict[str, Callable[[str], str]] = {
    "without borders": lambda text: "".join(line for line in text.splitlines(True) if not bordered(line)),
    "with tabs": lambda text: re.sub("  +", "\t", text),
    "with single blanks": lambda text: re.sub("  +", " ", text),
    "quoted": lambda text: re.sub("(?m)^", "> ", text),
    "indented": lambda text: re.sub("(?m)^", "    ", text),
    "with escaped bars": lambda text: text.replace("|", "\\|"),
    "with other bars": lambda text: text.replace("|", "│"),
    "twice": lambda text: text + text,
    "without its version": lambda text: "\n".join(text.splitlines()[2:]),
}


@each_of_ours
@pytest.mark.parametrize("how", PASTED)
def test_how_a_text_was_pasted_changes_nothing(sample: Sample, how: str) -> None:
    assert KINDS[sample.kind](PASTED[how](sample.text)) == KINDS[sample.kind](sample.text)


@pytest.mark.parametrize("how", AROUND)
def test_what_stands_around_an_output_changes_nothing(how: str) -> None:
    for sample in OURS:
        if sample.kind.startswith("npu-smi"):
            assert KINDS[sample.kind](AROUND[how](sample.text)) == KINDS[sample.kind](sample.text), sample.name


@each_table
@pytest.mark.parametrize("how", TABULAR)
def test_borders_and_blanks_of_a_table_mean_nothing(sample: Sample, how: str) -> None:
    lost = VERSIONS if how == "without its version" else ()
    expected = {key: value for key, value in sample.expected.items() if key not in lost}
    assert said(KINDS["npu-smi-info"](TABULAR[how](sample.text))) == expected


def contradictions(whole: dict[str, Any], part: dict[str, Any]) -> list[Any]:
    """What a damaged table says otherwise than the table did; what it leaves out is no matter."""
    rows = [
        row
        for key in ("npus", "processes")
        for row in said(part[key])
        if not any(row.items() <= original.items() for original in whole[key])
    ]
    idle = set(part["idle_npus"] or ()) - set(whole.get("idle_npus", ()))
    return rows + [*idle] + [part[key] for key in VERSIONS if part[key] not in (None, whole[key])]


def survivors(sample: Sample, texts: Iterator[str]) -> Iterator[tuple[str, Any]]:
    for text in texts:
        with contextlib.suppress(ParseError):
            yield text, KINDS[sample.kind](text)


@each_table
def test_a_table_that_lost_a_line_mixes_no_two_rows(sample: Sample) -> None:
    lines = sample.text.splitlines(True)
    texts = ("".join(lines[:place] + lines[place + 1 :]) for place in range(len(lines)))
    for text, found in survivors(sample, texts):
        assert contradictions(sample.expected, found) == [], text


@pytest.mark.thorough
@each_table
def test_a_table_that_is_cut_says_less_and_nothing_else(sample: Sample) -> None:
    texts = (sample.text[:length] for length in range(len(sample.text)))
    for text, found in survivors(sample, texts):
        assert contradictions(sample.expected, found) == [], text


LIKE_EACH_OTHER = (
    {"version-driver", "version-firmware", "cann-install-info", "npu-smi-version", "npu-smi-list"},
    {"npu-smi-error", "hccn-error"},
)


@each_of_ours
def test_an_output_of_another_kind_is_refused(sample: Sample) -> None:
    for kind, parse in KINDS.items():
        if kind.split("-mangled")[0] == sample.kind or any({kind, sample.kind} <= alike for alike in LIKE_EACH_OTHER):
            continue
        if kind == "hccn-error" and "because no" in sample.text:
            continue
        if sample.name.endswith("-fails") and kind == "npu-smi-error":  # good values, and a failure beside them
            continue
        if sample.name == "no-card" and kind in ("npu-smi-list", "npu-smi-map", "npu-smi-error"):
            continue
        with pytest.raises(ParseError) as refused:
            parse(sample.text)
        assert kind in ("npu-smi-error", "hccn-error") or refused.value.line in sample.text.splitlines(), kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", "\n", "hello\n", "\x00\xff", "|", "+--+\n|  |\n+--+", "bash: oops", "|" * 5000])
def test_a_text_of_no_kind_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ParseError):
        KINDS[kind](text)


def test_a_flood_is_refused_at_once() -> None:
    with pytest.raises(ParseError, match="too long"):
        KINDS["npu-smi-info"]("| y |\n" * 1_000_000)


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> str:
    """A text of this kind after some lines, cells and characters were lost, doubled, moved or replaced."""
    text = draw(st.sampled_from([sample.text for sample in OURS + CAPTURED if sample.kind.startswith(kind)]))
    for how in draw(st.lists(st.sampled_from(HARM), min_size=1, max_size=4)):
        text = how(text, draw(st.integers(0, 10_000)), draw(st.integers(0, 10_000)), draw(PIECE))
    return text


def _lines(change: Callable[[list[str], int, int], None]) -> Callable[[str, int, int, str], str]:
    def harm(text: str, one: int, other: int, _: str) -> str:
        lines = text.split("\n")
        change(lines, one % len(lines), other % len(lines))
        return "\n".join(lines)

    return harm


def _cells(text: str, one: int, other: int, piece: str) -> str:
    cells = re.split(r"([|:=]|\s{2,})", text)
    cells[one % len(cells)] = (cells[other % len(cells)], piece, "NA", "-", "")[other % 5]
    return "".join(cells)


def _characters(text: str, one: int, other: int, piece: str) -> str:
    place = one % (len(text) + 1)
    return text[:place] + piece + text[place + other % 3 :]


PIECE = st.one_of(
    st.text(max_size=3), st.sampled_from(["|", "/", "0", "99", ":", " ", "\n", "\r", "NPU", "...", "X", "﻿"])
)
HARM: list[Callable[[str, int, int, str], str]] = [
    _lines(lambda lines, one, _: lines.__delitem__(one)),
    _lines(lambda lines, one, other: lines.insert(one, lines[other])),
    _lines(lambda lines, one, other: lines.__setitem__(one, lines[other])),
    lambda text, one, _, __: text[: one % (len(text) + 1)],
    lambda text, one, _, __: text[one % (len(text) + 1) :],
    _cells,
    _characters,
]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "mangled" not in kind])
@given(data=st.data())
def test_a_damaged_text_is_refused_or_read_without_inventing(kind: str, data: st.DataObject) -> None:
    text = data.draw(damaged(kind))
    try:
        found: Any = KINDS[kind](text)
    except ParseError:
        return
    assert invented(kind, found, text) == []


def pages_of_cards() -> list[Sample]:
    """The pages whose chips stand one after the other, and answered."""
    return [sample for sample in OURS if len(sample.expected.get("chips", ())) > 1 and "fail" not in sample.name]


@pytest.mark.parametrize("sample", pages_of_cards(), ids=lambda sample: f"{sample.kind}-{sample.name}")
@pytest.mark.parametrize("blank", ["\n", ""])
def test_a_chip_that_fails_leaves_the_others_as_they_were(sample: Sample, blank: str) -> None:
    head, *blocks = re.split(r"\n[ \t]*\n", sample.text.rstrip("\n"))
    chips = sample.expected["chips"]
    numbers = [chip["chip_id"] for chip in chips if chip.get("chip_id") is not None]
    assert len(blocks) == len(chips)
    for place, number in enumerate(numbers if len(numbers) > 1 else ()):
        failing = f"\tChip ID                        : {number}\nFailed to query npu chip: {number} info."
        others = [failing if one == place else block for one, block in enumerate(blocks)]
        text = ("\n" + blank).join([head, *others, f'Failed to query "{sample.kind[8:]}" info.']) + "\n"
        found: Any = said(KINDS[sample.kind](text))
        assert found["failure"] == f'Failed to query "{sample.kind[8:]}" info.'
        assert [one for one in found["chips"] if one.get("chip_id") != number] == [
            one for one in chips if one.get("chip_id") != number
        ]
        (silent,) = (one for one in found["chips"] if one.get("chip_id") == number)
        assert silent["failure"] == f"Failed to query npu chip: {number} info."
        assert not {"hbm_double", "ddr_usage_pct", "health", "temp_c", "power_w"} & silent.keys()
