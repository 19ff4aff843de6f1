"""`check --cards`: what is wrong with other cards decides nothing; what is wrong with the node does."""

import argparse
from pathlib import Path

import pytest

from npudoctor.cli import cards

from .conftest import Command

HEALTH = ("check", "health", "npu.processes", "--json")


@pytest.mark.parametrize(
    ("chosen", "code", "kept"),
    [
        ("0-1,3-4,6-7", 0, {}),
        ("2", 1, {"npu.health": ["npu:2"]}),
        ("2,5", 1, {"npu.count": ["npu:5"], "npu.health": ["npu:2"]}),
    ],
)
def test_only_these_cards_count(npudoctor: Command, chosen: str, code: int, kept: dict[str, list[str]]) -> None:
    ran = npudoctor(*HEALTH, "--simulate", "sick-cards", "--cards", chosen)
    report = ran.json
    found = {row["check"]: [one["subject"] for one in row["findings"]] for row in report["results"] if row["findings"]}
    assert (ran.code, report["exit_code"], found) == (code, code, kept)
    assert report["summary"]["error"] == len(kept)


def test_what_is_wrong_with_the_node_stays(npudoctor: Command) -> None:
    whole = npudoctor("check", "hccl", "--simulate", "new-node", "--json")
    some = npudoctor("check", "hccl", "--simulate", "new-node", "--json", "--cards", "0")
    assert some.code == whole.code == 0
    assert some.json["verdict"] == "warning"
    host = npudoctor("check", "npu.present", "--simulate", "bare-host", "--cards", "0", "--json")
    assert host.code == npudoctor("check", "npu.present", "--simulate", "bare-host", "--json").code != 0


def test_a_chip_is_known_by_its_device_node(npudoctor: Command, tmp_path: Path) -> None:
    (tmp_path / "a3.toml").write_text(
        'about = "one chip of sixteen is ill"\nproduct = "atlas-800t-a3"\nhostname = "a3"\n'
        '[[card]]\nid = 1\nchip = 1\nhealth = "Alarm"\n',
        encoding="utf-8",
    )
    sick = ("check", "npu.health", "--simulate", str(tmp_path / "a3.toml"), "--json", "--cards")
    [row] = npudoctor(*sick, "3").json["results"]
    assert [one["subject"] for one in row["findings"]] == ["npu:1/chip:1"]
    assert npudoctor(*sick, "0-2,4-15").code == 0


def test_a_device_that_is_not_on_the_node_is_no_healthy_one(npudoctor: Command) -> None:
    ran = npudoctor(*HEALTH, "--simulate", "sick-cards", "--cards", "0,8,11")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "--cards 8,11" in ran.err and "0, 1, 2, 3, 4, 5, 6, 7" in ran.err
    for node in ("healthy-910a", "sick-cards", "new-node"):
        for chosen in ("2,8", "99"):
            ran = npudoctor("check", "--simulate", node, "--cards", chosen)
            assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), (node, chosen)


def test_nothing_else_is_a_list_of_cards(npudoctor: Command) -> None:
    for wrong in ("", "a", "3-1", "-1", "0,,1"):
        ran = npudoctor("check", f"--cards={wrong}")
        assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert npudoctor("check", "--cards", "0", "--format", "jsonl").code == 2
    assert cards.numbers("0,2-3") == {0, 2, 3}
    with pytest.raises(argparse.ArgumentTypeError):
        cards.numbers("x")
