"""`npudoctor knowledge`: tables, pairs, and what a site adds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npudoctor.knowledge.site import KEYS
from tests.cli.conftest import Command


def test_the_overview_names_every_table(npudoctor: Command) -> None:
    said = npudoctor("knowledge").out
    assert all(name in said for name in KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_every_table_is_printed_with_its_sources(npudoctor: Command, name: str) -> None:
    data = json.loads(npudoctor("knowledge", name, "--json").out)
    assert data["as_of"]
    assert "as of" in npudoctor("knowledge", name).out


def test_one_row_is_found_by_a_word(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "compatibility", "releases", "2.7.1.post4", "--json")
    assert [row["version"] for row in json.loads(ran.out)] == ["2.7.1.post4"]
    assert npudoctor("knowledge", "compatibility", "releases", "no such word").code == 1


def test_a_cann_and_a_python_name_what_to_install(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--cann", "8.3.RC1", "--python", "3.11", "--json")
    answer = json.loads(ran.out)
    assert set(answer["install"]) == {"torch", "torch_npu"}
    assert "8.3.RC1" in answer["releases"][0]["cann"]
    assert "3.11" in answer["releases"][0]["python"]
    assert answer["as_of"] in answer["rests_on"]


def test_a_torch_npu_names_its_cann(npudoctor: Command) -> None:
    said = npudoctor("knowledge", "pair", "--torch-npu", "2.7.1").out
    assert "CANN, paired      8.3.RC1" in said
    assert "source" in said


def test_what_does_not_fit_gets_the_smallest_change(npudoctor: Command) -> None:
    words = ("--torch-npu", "2.6.0", "--torch", "2.5.1", "--cann", "8.2.RC1")
    assert "install torch 2.6.0 and keep torch_npu as it is" in npudoctor("knowledge", "pair", *words).out


def test_what_no_table_knows_is_said_with_its_date(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--cann", "7.7.7")
    assert (ran.code, "not in the tables as of" in ran.out) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("nothing",),
        ("compatibility", "nothing"),
        ("--cann", "8.3.RC1"),
        ("pair",),
        ("pair", "--cann", "x"),
        ("pair", "8.3.RC1"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_line(npudoctor: Command, words: tuple[str, ...]) -> None:
    ran = npudoctor("knowledge", *words)
    assert ran.code == 2
    assert len(ran.err.strip().splitlines()) == 1


def test_a_bad_file_of_a_site_ends_the_npudoctor(
    npudoctor: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.json").write_text("{", encoding="utf-8")
    monkeypatch.setenv("NPUDOCTOR_KNOWLEDGE", str(tmp_path))
    ran = npudoctor("knowledge", "pair", "--cann", "8.3.RC1")
    assert ran.code == 2
    assert "site.json" in ran.err


def test_an_unknown_release_of_a_framework_is_supported_on_nothing(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--vllm-ascend", "99.9")
    assert (ran.code, "not in the tables" in ran.out, "supported on" in ran.out) == (1, True, False)


@pytest.mark.parametrize(
    ("release", "is_supported"),
    [("0.11.0", False), ("0.22.1rc1", False), ("0.23.0rc1", True), ("0.23.0", True), ("", True)],
)
def test_a_release_before_the_first_for_a_chip_is_not_supported_there(
    npudoctor: Command, release: str, *, is_supported: bool
) -> None:
    asked = ("knowledge", "pair", "--for", f"vllm-ascend={release}" if release else "vllm-ascend")
    words = "supported on 950 since" if is_supported else "not supported on 950 before"
    assert f"\n{words} vLLM Ascend 0.23.0rc1\n" in npudoctor(*asked).out
    assert json.loads(npudoctor(*asked, "--json").out)["chips"]["950"] is is_supported


def test_where_no_pair_fits_both_each_is_told_what_fits_it_and_the_smallest_change(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--cann", "8.5.0", "--torch", "2.3.1")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "cann 8.5.0, torch 2.3.1: no published pair has both"
    assert [line.partition(":")[0].strip() for line in lines if line.startswith("  ") and line[2] != " "] == [
        "CANN 8.5.0",
        "torch 2.3.1",
    ]
    assert [line.split()[0] for line in lines if line.startswith("    ")] == ["pip"] * 6
    assert lines[1].startswith("smallest change: install torch ")
    alone = npudoctor("knowledge", "pair", "--cann", "99.0", "--torch", "2.3.1")
    assert (alone.code, "CANN 99.0: not in the tables" in alone.out) == (1, True)


def test_the_releases_of_a_framework_stand_newest_first_and_verl_is_known_from_0_5_on(npudoctor: Command) -> None:
    shown = npudoctor("knowledge", "pair", "--for", "verl", "--json")
    releases = [row["release"] for row in json.loads(shown.out)["releases"]]
    assert releases == ["0.9.1", "0.9.0", "0.8.0", "0.7.1", "0.7.0", "0.6.1"]
    assert f"  {'sets':<17} 3; all: --for verl=0.7.0\n" in npudoctor("knowledge", "pair", "--for", "verl").out
    said = npudoctor("knowledge", "pair", "--for", "verl=0.7.0").out
    assert (said.count("verl 0.7.0\n"), "; all: " in said) == (3, False)
    assert all(f"{part:<17} {version}" in said for part, version in (("cann", "8.3.RC1"), ("vllm-ascend", "0.11.0rc1")))


def test_a_fixed_release_of_the_same_torch_is_advised_with_its_command(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--cann", "9.0.0", "--torch-npu", "2.7.1")
    assert ran.out.splitlines()[0].startswith("cann 9.0.0, torch-npu 2.7.1: install torch_npu 2.7.1.post4 and keep ")
    assert ran.out.splitlines()[1].startswith('  pip install --no-deps "torch_npu==2.7.1.post4"')


def test_the_drivers_of_a_set_are_those_of_its_own_cann(npudoctor: Command) -> None:
    other = npudoctor("knowledge", "pair", "--for", "vllm-ascend=0.13.0", "--cann", "8.3.RC1", "--json").json
    assert other["requires"][0]["driver"] == ["25.5.0"]
    of_range = npudoctor("knowledge", "pair", "--for", "mindspore=2.10.0", "--driver", "24.1.0")
    assert f"  {'drivers':<17} those of CANN 8.2.RC1\n" in of_range.out


@pytest.mark.parametrize(("cann", "torch"), [("8.5.2", "2.9.0"), ("9.0.2", "2.10.0"), ("8.3.RC3", "2.8.0")])
def test_a_patch_of_cann_in_no_table_gets_the_pair_of_its_neighbour(npudoctor: Command, cann: str, torch: str) -> None:
    assert npudoctor("knowledge", "pair", "--cann", cann, "--json").json["install"]["torch"] == torch


def test_final_releases_come_before_candidates_and_what_is_not_shown_is_named(npudoctor: Command) -> None:
    asked = ("knowledge", "pair", "--for", "vllm-ascend")
    shown = npudoctor(*asked, "--cann", "9.1.0", "--json").json
    releases = [row["release"] for row in shown["releases"]]
    assert releases[:3] == ["0.23.0.post1", "0.23.0", "0.30.0rc1"]
    every = npudoctor(*asked, "--json").json
    assert not any("rc" in row["release"] for row in every["releases"])
    assert {"0.29.0rc1", "0.7.3"} < set(every["other_releases"])
    assert "0.29.0rc1, 0.28.0rc1" in npudoctor("knowledge", "pair", "--vllm-ascend", "0.28.1").out
    assert npudoctor("knowledge", "pair", "--vllm-ascend", "0.29.0rc1", "--json").json["other_releases"] == []


def test_what_a_framework_does_not_name_is_said_and_not_compared(npudoctor: Command) -> None:
    for asked, part in ((("lmdeploy", "--cann", "8.5.0"), "cann"), (("mindspore=2.9.0", "--torch", "2.8.0"), "torch")):
        ran = npudoctor("knowledge", "pair", "--for", *asked)
        assert (ran.code, f": its releases name no {part}\n" in ran.out) == (0, True)
    assert npudoctor("knowledge", "pair", "--for", "vllm-ascend=0.13.0", "--cann", "8.0.0").code == 1


def test_the_pythons_of_a_torch_are_named_where_this_one_is_none_of_them(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--torch", "2.10.0", "--python", "3.9")
    assert (ran.code, "this release supports Python 3.10 to 3.1" in ran.out) == (1, True)


def test_the_set_with_just_this_torch_npu_comes_first(npudoctor: Command) -> None:
    asked = ("knowledge", "pair", "--for", "vllm-ascend", "--json", "--torch-npu")
    for build, release in (("2.9.0.post2", "0.18.0"), ("2.10.0.post4", "0.23.0.post1"), ("2.9.0", "0.18.0")):
        first = npudoctor(*asked, build).json["releases"][0]
        assert (first["release"], first["requires"]["torch_npu"]) == (release, build)


def test_the_other_releases_of_cann_are_sorted_and_do_not_repeat_the_paired_ones(npudoctor: Command) -> None:
    from npudoctor import knowledge
    from npudoctor.facts.versions import CannVersion

    some = False
    for torch in {release.torch for release in knowledge.compatibility().releases}:
        for row in npudoctor("knowledge", "pair", "--torch", torch, "--json").json["releases"]:
            also = [CannVersion.parse(one.replace(".X", ".0")) for one in row["cann_also"]]
            assert also == sorted(also, reverse=True), row
            assert not set(row["cann"]) & set(row["cann_also"]), row
            some = some or len(also) > 1
    assert some


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (
            ("--for", "vllm-ascend=0.11.0", "--driver", "1.0.0"),
            1,
            "vLLM Ascend 0.11.0 with driver 1.0.0: not published together; vLLM Ascend 0.11.0 requires:",
        ),
        (("--for", "vllm-ascend=0.11.0", "--driver", "25.3.RC1"), 0, "with this driver  paired"),
        (("--for", "ms-swift", "--driver", "23.0.3"), 1, "ms-swift with driver 23.0.3: no release in the tables"),
        (
            ("--cann", "8.3.RC1", "--driver", "23.0.3"),
            1,
            "the driver is too old for this CANN; published with it: 25.3.RC1",
        ),
        (("--torch-npu", "2.7.1", "--driver", "25.3.RC1"), 0, "with this driver  paired"),
    ],
)
def test_a_driver_that_is_given_is_judged(npudoctor: Command, words: tuple[str, ...], code: int, said: str) -> None:
    ran = npudoctor("knowledge", "pair", *words)
    assert (ran.code, said in ran.out) == (code, True), ran.out


def test_a_driver_alone_names_the_cann_that_it_serves(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--driver", "24.1.0")
    assert ran.code == 0 and "\n  paired      8.0.0\n" in ran.out
    assert ran.out.splitlines()[-1].endswith("npudoctor knowledge pair --cann 8.0.0 --driver 24.1.0")
    assert "8.1.RC1" in npudoctor("knowledge", "pair", "--driver", "24.1.0", "--json").json["cann"]["compatible"]
    unknown = npudoctor("knowledge", "pair", "--driver", "1.2.3")
    assert (unknown.code, "not in the tables" in unknown.out) == (1, True)


def test_the_beginning_of_a_release_gets_the_whole_ones(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--cann", "8.3")
    assert ran.code == 1 and "did you mean 8.3.RC1 or 8.3.RC2?" in ran.out


def test_releases_that_are_not_listed_are_counted(npudoctor: Command) -> None:
    assert (
        "more: npudoctor knowledge compatibility releases 2.7.1"
        in npudoctor("knowledge", "pair", "--torch", "2.7.1").out
    )


def test_a_python_that_the_torch_npu_does_not_support_is_said(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--torch-npu", "2.5.1.post1", "--python", "3.12")
    assert ran.code == 1 and "this release supports Python 3.9 to 3.11" in ran.out


def test_a_wheel_that_is_not_in_the_package_index_is_proposed_with_its_place(npudoctor: Command) -> None:
    ran = npudoctor("knowledge", "pair", "--cann", "8.0.RC2", "--python", "3.12")
    assert "  # not in the package index: its wheel is on https://" in ran.out
    ran = npudoctor("knowledge", "pair", "--cann", "8.3.RC2", "--python", "3.12")
    assert ran.code == 0 and "not in the package index" not in ran.out


def test_a_python_that_the_cann_does_not_support_gets_no_torch(npudoctor: Command) -> None:
    asked = ("knowledge", "pair", "--cann", "8.2.RC1", "--python", "3.12")
    ran = npudoctor(*asked)
    assert (ran.code, "this CANN supports Python 3.7 to 3.11" in ran.out) == (1, True)
    assert npudoctor(*asked, "--json").json["releases"] == []


def test_the_sets_that_a_driver_serves_are_listed(npudoctor: Command) -> None:
    rows = npudoctor("knowledge", "pair", "--for", "mindspore", "--driver", "24.1.0", "--json").json["releases"]
    assert [row["release"] for row in rows[:4]] == ["2.10.0", "2.9.0", "2.8.0", "2.7.1.post1"]
    assert all(row["driver"] for row in rows)
