"""Names of nodes: expanded as people type them, read from files, folded for display."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.fleet import targets


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[0001-0003,7]", ["n0001", "n0002", "n0003", "n7"]),
        ("a,b a", ["a", "b"]),
        ("r[1-2]n[01-02]-ib", ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"]),
        ("10.0.0.[8-9]", ["10.0.0.8", "10.0.0.9"]),
        ("user@node.example", ["user@node.example"]),
    ],
)
def test_ranges_are_expanded_in_order(text: str, names: list[str]) -> None:
    assert sorted(targets.expand(text)) == sorted(names)
    assert targets.expand(text)[0] == names[0]


@pytest.mark.parametrize("text", ["", "n[1-", "n[a-b]", "-oProxyCommand=x", "a;b", "n[1-999999]"])
def test_what_names_no_host_is_refused(text: str) -> None:
    with pytest.raises(targets.BadTargets):
        targets.expand(text)


def test_a_hostfile_of_mpi_keeps_its_order(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# ranks\nn2 slots=8\nn1:8\n\nn[4-5] # more\n", encoding="utf-8")
    assert targets.of_file("hostfile", str(file)) == ["n2", "n1", "n4", "n5"]


@pytest.mark.parametrize(
    "text",
    [
        "[train]\nn1 ansible_host=10.0.0.1\nn[2:3]\n[train:vars]\nuser=x\n[all:children]\ntrain\n",
        "all:\n  children:\n    train:\n      hosts:\n        n1: {ansible_host: 10.0.0.1}\n        n2:\n        n3:\n",
        json.dumps({"all": {"hosts": ["n1", "n2", "n3"]}, "_meta": {"hostvars": {}}}),
    ],
)
def test_an_inventory_of_ansible_is_read(text: str, tmp_path: Path) -> None:
    file = tmp_path / "inventory"
    file.write_text(text, encoding="utf-8")
    assert targets.of_file("inventory", str(file)) == ["n1", "n2", "n3"]


def test_the_servers_of_a_rank_table_are_targets(tmp_path: Path) -> None:
    file = tmp_path / "ranks.json"
    file.write_text(
        json.dumps({"version": "1.0", "server_list": [{"server_id": "10.0.0.1", "device": []}]}), encoding="utf-8"
    )
    assert targets.of_file("rank-table", str(file)) == ["10.0.0.1"]


@pytest.mark.parametrize("kind", ["hostfile", "rank-table", "inventory"])
def test_a_file_that_is_missing_or_names_nothing_is_refused(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    for _ in range(2):
        with pytest.raises(targets.BadTargets, match="empty"):
            targets.of_file(kind, str(file))
        file.write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["n0001", "n0002", "n0004"], "n[0001-0002,0004]"),
        (["n17"], "n17"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["r01n01.site.example", "r01n02.site.example"], "r01n[01-02].site.example"),
        (["login", "10.0.0.1", "10.0.0.2"], "login,10.0.0.[1-2]"),
        (["n01", "m01", "n02"], "n[01-02],m01"),
        ([], ""),
    ],
)
def test_a_list_is_folded_on_the_last_number(names: list[str], folded: str) -> None:
    assert targets.fold(names) == folded


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,5}(-[a-z])?", fullmatch=True), min_size=1, max_size=30))
def test_a_folded_list_expands_to_the_same_names(names: list[str]) -> None:
    assert set(targets.expand(targets.fold(names))) == set(names)


def test_irregular_names_are_folded_in_no_time() -> None:
    names = [f"host{number * 7919 % 100_003}x{number}" for number in range(1000)]
    began = time.process_time()
    targets.fold(names)
    assert time.process_time() - began < 2  # 4 ms where nothing else runs; ClusterShell takes 8 s
