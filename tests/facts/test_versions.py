"""Versions: every grammar in use, in order; and that the order is one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.versions import (
    CannVersion,
    DriverVersion,
    FirmwareVersion,
    TorchNpuVersion,
    TorchVersion,
    Version,
)
from npudoctor.host import ParseError

ASCENDING: dict[type[Version], str] = {
    CannVersion: """5.0.2 5.1.RC1 5.1.RC2 6.3.RC3 6.3.RC3.1 7.0.T10 7.0.RC1 7.0.0 7.0.1 8.0.T6 8.0.RC1 8.0.RC2.alpha001
        8.0.RC2.alpha003 8.0.RC2 8.0.RC3 8.0.RC3.20 8.0.0.alpha002 8.0.0 8.1.RC1 8.2.RC2 8.3.RC1.alpha001 8.3.RC1 8.5.0
        9.1.T6 9.1.0-alpha 9.1.0-beta.1 9.1.0-beta.3 9.1.0-rc 9.1.0 9.1.1""",
    DriverVersion: """1.0.RC1 20.2.2 20.2.2.spc001 21.0.rc1 21.0.4 21.0.4.B030 22.0.3 22.0.3.1 23.0.rc3 23.0.rc3.3
        23.0.0 23.0.7 24.1.rc1 24.1.rc1.b030 24.1.RC2 24.1.rc4.b999 24.1.0 24.1.0.3 25.0.rc1 25.0.rc1.1 25.0.0 25.2.0
        25.3.RC1 25.5.0 25.6.rc1.b169 25.7.rc1.7 26.0.RC1 26.0.rc3 26.1.0""",
    FirmwareVersion: "6.4.0.5.220 7.0.0 7.1.0.7.220 7.1.0.11.220 7.3.T9.0.B057 7.3.0.1.231 9.0.0.0.205",
    TorchNpuVersion: """1.11.0rc1 1.11.0 1.11.0.post8 1.11.0.post14 2.5.1rc1 2.5.1 2.5.1.post1.dev20250528
        2.5.1.post1.dev20250619 2.5.1.post1 2.7.1.dev20250724 2.7.1rc1 2.7.1 2.7.1.post1 2.7.1.post4 2.7.1.post10
        2.9.0.post1+git4c901a4 2.10.0rc2 2.10.0""",
    TorchVersion: "1.8.1 2.1.0.dev20230301 2.1.0a0+gitabc 2.1.0b2 2.1.0rc1 2.1.0+cpu 2.1.1 2.10.0+cu128",
}
every_grammar = pytest.mark.parametrize("kind", ASCENDING, ids=lambda kind: kind.__name__)


@every_grammar
def test_versions_of_every_grammar_are_in_order(kind: type[Version]) -> None:
    versions = [kind.parse(text) for text in ASCENDING[kind].split()]
    assert versions == sorted(versions)
    assert len(set(versions)) == len(versions)


@every_grammar
def test_case_does_not_matter(kind: type[Version]) -> None:
    for text in ASCENDING[kind].split():
        assert kind.parse(text.upper()) == kind.parse(text.lower()) == kind.parse(f" {text}\n")
        assert hash(kind.parse(text.upper())) == hash(kind.parse(text.lower()))


def test_the_usual_spelling_is_the_vendors() -> None:
    assert str(CannVersion.parse("8.3.rc1.ALPHA001")) == "8.3.RC1.alpha001"
    assert str(CannVersion.parse("9.1.0-BETA.3")) == "9.1.0-beta.3"
    assert str(CannVersion.parse("7.0.t10")) == "7.0.T10"
    assert str(DriverVersion.parse("24.1.RC4.B999")) == "24.1.rc4.b999"
    assert str(TorchNpuVersion.parse("v2.7.1-RC.1")) == "2.7.1rc1"
    assert repr(TorchVersion.parse("2.8.0+CPU")) == "TorchVersion('2.8.0+cpu')"


def test_the_community_name_of_a_release_is_that_release() -> None:
    assert CannVersion.parse("8.0.0.beta1") == CannVersion.parse("8.0.0")
    assert CannVersion.parse("8.0.RC2.beta1") == CannVersion.parse("8.0.RC2")
    assert CannVersion.parse("9.1.0-beta.1") < CannVersion.parse("9.1.0")


def test_the_branch_of_a_firmware_does_not_count() -> None:
    assert FirmwareVersion.parse("7.1.0.7.220") == FirmwareVersion.parse("7.1.0.7.231")
    assert FirmwareVersion.parse("7.1.0.7.231") < FirmwareVersion.parse("7.1.0.11.220")


def test_the_local_part_is_kept_and_not_compared() -> None:
    built = TorchNpuVersion.parse("2.9.0.post1+git4c901a4")
    assert built == TorchNpuVersion.parse("2.9.0.post1")
    assert (built.public, built.local, built.base, built.release) == ("2.9.0.post1", "git4c901a4", "2.9.0", (2, 9, 0))
    assert TorchVersion.parse("2.8.0").local is None


@pytest.mark.parametrize(
    ("version", "pattern", "expected"),
    [
        (CannVersion.parse("8.5.2"), "8.5.X", True),
        (CannVersion.parse("9.1.0-beta.3"), "9.1.x", True),
        (CannVersion.parse("8.3.RC1"), "8.5.X", False),
        (CannVersion.parse("8.3.rc1"), "8.3.RC1", True),
        (DriverVersion.parse("25.0.rc1.1"), "25.0.X", True),
        (DriverVersion.parse("25.2.10"), "25.2.1", False),
        (DriverVersion.parse("6.0.RC1"), "6.0.rc1", True),
        (DriverVersion.parse("26.0.0"), "2.X", False),
        (TorchVersion.parse("2.14.0+cpu"), "2.14.0.*", True),
    ],
)
def test_a_row_with_a_wildcard_means_every_patch(version: Version, pattern: str, expected: bool) -> None:
    assert version.matches(pattern) is expected


def test_versions_of_two_products_do_not_compare() -> None:
    cann: Any
    driver: Any
    cann, driver = (kind.parse("8.0.0") for kind in (CannVersion, DriverVersion))
    assert cann != driver
    with pytest.raises(TypeError):
        _ = cann < driver


@every_grammar
@pytest.mark.parametrize("text", ["", "x.x.x", "8.0.", "8..0", "8.0.QQ1", "8.0.0 or newer", "٨.٠.٠", "8.0.0\x00"])
def test_what_is_no_version_is_refused(kind: type[Version], text: str) -> None:
    with pytest.raises(ParseError):
        kind.parse(text)


def test_a_candidate_of_a_train_has_a_number() -> None:
    with pytest.raises(ParseError):
        CannVersion.parse("8.0.RC")


number = st.integers(0, 30).map(str)
word = st.sampled_from(["rc", "RC", "t", "T", "alpha", "beta", "b", "spc", "tr"])
step = st.one_of(number, st.builds("{}{}".format, word, number))
train = st.builds("{}.{}.{}".format, number, number, st.lists(step, min_size=1, max_size=3).map(".".join))
wheel = st.builds(
    "{}{}{}{}{}".format,
    st.lists(number, min_size=1, max_size=4).map(".".join),
    st.one_of(st.just(""), st.builds("{}{}".format, st.sampled_from(["a", "b", "rc"]), number)),
    st.one_of(st.just(""), number.map(".post{}".format)),
    st.one_of(st.just(""), number.map(".dev{}".format)),
    st.sampled_from(["", "+cpu", "+cu121", "+git4c901a4"]),
)
versions = st.one_of(
    *(
        st.lists(train.map(kind.parse), min_size=3, max_size=3)
        for kind in (CannVersion, DriverVersion, FirmwareVersion)
    ),
    *(st.lists(wheel.map(kind.parse), min_size=3, max_size=3) for kind in (TorchVersion, TorchNpuVersion)),
)


@given(versions)
def test_the_order_is_total_and_spelling_goes_round(three: list[Any]) -> None:
    a, b, c = three
    assert (a < b) + (a == b) + (a > b) == 1
    assert not (a <= b <= c) or a <= c
    assert (a == b) <= (hash(a) == hash(b))
    assert type(a).parse(str(a)) == a
    assert str(type(a).parse(str(a))) == str(a)


@given(st.one_of(st.text(max_size=20), st.text("0123456789.-+rcRCTbetalphpostdev", max_size=20)))
def test_any_text_is_a_version_or_a_parse_error(text: str) -> None:
    for kind in ASCENDING:
        try:
            version = kind.parse(text)
        except ParseError:
            continue
        assert kind.parse(str(version)) == version


def test_every_version_of_the_compatibility_table_is_understood(shared: Path) -> None:
    table = json.loads((shared / "knowledge/compatibility.json").read_text(encoding="utf-8"))
    unknown: list[str] = []

    def understood(kind: type[Version], texts: list[str | None]) -> None:
        for text in (text for text in texts if text and re.search(r"\d", text)):
            try:
                kind.parse(text.replace(".X", ".0").replace(".x", ".0"))
            except ParseError:
                unknown.append(text)

    for row in table["torch_npu"]:
        understood(TorchNpuVersion, [row["torch_npu"]])
        understood(TorchVersion, [row["torch"]])
        understood(CannVersion, row["cann"])
    for row in table["cann_vs_hdk"]:
        understood(CannVersion, [row["cann"]])
        hdk = [*row.get("paired_hdk", []), *row.get("compatible_hdk", []), *row.get("incompatible_hdk", [])]
        understood(DriverVersion, [text.split(" ")[0] for text in hdk])
    for row in table["pta_release_vs_cann_backward_compat"]:
        understood(CannVersion, row["cann_ok"])
    for row in table["driver_vs_firmware_examples"]:
        understood(DriverVersion, [row["driver"]])
        understood(CannVersion, [row.get("cann")])
        understood(FirmwareVersion, [row["firmware"]] if row["firmware"][0].isdigit() else [])
    for row in table["vllm_ascend_matrix"]["rows"]:
        understood(CannVersion, [row.get("cann")])
        understood(TorchNpuVersion, [row.get("torch_npu")])
        understood(TorchVersion, [row.get("torch")])
    assert unknown == []
