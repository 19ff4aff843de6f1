"""`npudoctor packages`: exit codes, text, JSON, and names that want to be more than names."""

import os
import shlex
from pathlib import Path

import pytest

from tests.packages import build

from .conftest import Command


def test_a_whole_release_fits_the_node_that_it_is_for(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    ran = npudoctor("packages", str(tmp_path), "--simulate", "new-node")
    assert (ran.code, ran.err) == (0, "")
    assert "matching set:\n  driver 25.5.2, firmware 7.8.0.7.220, CANN 8.5.0" in ran.out
    assert "missing" not in ran.out
    end = f"the plan, with all commands: npudoctor setup --packages {tmp_path} --simulate new-node --dry-run\n"
    assert ran.out.endswith(end)
    assert npudoctor(*shlex.split(end)[6:]).code == 0


def test_another_node_needs_other_packages(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    ran = npudoctor("packages", str(tmp_path), "--simulate", "healthy-a3", "--json")
    assert ran.code == 1
    assert [row["published"] for row in ran.json["missing"]] == ["Ascend-cann-A3-ops_8.5.0_linux-aarch64.run"]
    assert {row["component"] for row in ran.json["packages"] if row["fits"] is False} == {"driver", "firmware", "ops"}


def test_hostile_names_stay_in_their_line(npudoctor: Command, tmp_path: Path) -> None:
    name = "Ascend-hdk-910b-npu-driver_1.0.0\n\x1b[2Jmatching set: all\r_linux-aarch64.run"
    (tmp_path / name).write_bytes(b"x")
    (tmp_path / os.fsdecode("\u202erun.x".encode())).write_bytes(b"x")
    (tmp_path / os.fsdecode(b"\xff\xfe.run")).write_bytes(b"x")
    ran = npudoctor("packages", str(tmp_path), "--simulate", "new-node")
    assert ran.code == 1
    assert not any(line.startswith("matching set") for line in ran.out.splitlines())
    assert not {"\x1b", "\r", "\u202e"} & set(ran.out)
    assert npudoctor("packages", str(tmp_path), "--simulate", "new-node", "--json").json["sets"] == []


def test_an_empty_folder_and_one_that_is_not_there(npudoctor: Command, tmp_path: Path) -> None:
    ran = npudoctor("packages", str(tmp_path), "--simulate", "bare-host")
    assert ran.code == 1
    assert "no packages that fit this node" in ran.out
    ran = npudoctor("packages", str(tmp_path / "nowhere"))
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1


def test_a_cann_that_is_not_there_is_said(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    words = ("packages", str(tmp_path), "--simulate", "new-node", "--cann")
    ran = npudoctor(*words, "8.5.1")
    assert ran.code == 1
    assert ran.out.endswith("no CANN 8.5.1 that fits this node is in these folders\n")
    assert npudoctor(*words, "8.5.1", "--json").json["absent"]
    assert npudoctor(*words, "8.5.0").code == 0


@pytest.mark.parametrize("scenario", ["bare-host", "duo-310p", "healthy-910a", "container-broken"])
def test_packages_of_an_a2_are_never_for_another_node(npudoctor: Command, tmp_path: Path, scenario: str) -> None:
    build.a2_release(tmp_path)
    ran = npudoctor("packages", str(tmp_path), "--simulate", scenario, "--json")
    if ran.json["node"]["families"] not in ([], ["A2"]) or ran.json["node"]["in_container"]:
        fitting = {row["component"] for row in ran.json["packages"] if row["fits"] is not False}
        assert not fitting & {"driver", "firmware"}
