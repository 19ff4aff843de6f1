"""Memory, limits and processors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.system import cpu, limits, memory
from npudoctor.facts.system.limits import Limit
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import ParseError, Unavailable

SIZES = {"memory": {"total": 1 << 40, "available": 1 << 39}}


@pytest.mark.parametrize(
    ("files", "usable"),
    [
        ({}, 1 << 40),
        ({"/sys/fs/cgroup/memory.max": "max\n"}, 1 << 40),
        ({"/sys/fs/cgroup/memory.max": f"{1 << 34}\n"}, 1 << 34),
        ({"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1 << 40),
        ({"/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{1 << 35}\n"}, 1 << 35),
    ],
)
def test_a_job_can_use_what_the_control_group_grants(files: dict[str, str], usable: int) -> None:
    assert memory.memory(FakeHost(measures=SIZES, files=files)).usable_bytes == usable


@pytest.mark.parametrize("probe", [memory.memory, limits.limits, cpu.cpu])
def test_without_the_measurement_nothing_is_known(probe: object) -> None:
    with pytest.raises(Unavailable):
        probe(FakeHost())  # type: ignore[operator]


def test_limits_are_pairs_and_minus_one_is_unlimited() -> None:
    measures = {"limits": {"nofile": [1024, 65536], "memlock": [-1, -1], "nproc": [4096, 4096]}}
    found = limits.limits(FakeHost(measures=measures, files={"/sys/fs/cgroup/pids.max": "1000\n"}))
    assert (found.nofile, found.memlock, found.core, found.pids_max) == (Limit(1024, 65536), Limit(-1, -1), None, 1000)


def test_a_soft_limit_may_be_raised_to_the_hard_one() -> None:
    assert Limit(1024, 65536).allows(65535)
    assert not Limit(1024, 4096).allows(65535)
    assert Limit(1024, -1).allows(1 << 60)


def test_a_limit_that_is_no_pair_is_not_understood() -> None:
    with pytest.raises(ParseError, match="nofile"):
        limits.parse({"nofile": [1]})


def test_processors_are_sets_of_numbers() -> None:
    found = cpu.cpu(
        FakeHost(measures={"cpu": {"logical": 8, "numa_nodes": {"0": "0-3", "1": "4,6-7"}, "allowed": "0"}})
    )
    assert found.numa_nodes == {0: frozenset({0, 1, 2, 3}), 1: frozenset({4, 6, 7})}
    assert (found.node_of(6), found.node_of(5), found.allowed, found.physical) == (1, None, frozenset({0}), None)


@given(st.frozensets(st.integers(0, 300)))
def test_a_list_of_processors_reads_back(numbers: frozenset[int]) -> None:
    assert cpu.parse_cpus(",".join(map(str, numbers))) == numbers


@pytest.mark.parametrize("text", ["a", "3-1", "1,,2", "0-99999999999"])
def test_what_is_no_list_of_processors_is_not_understood(text: str) -> None:
    with pytest.raises(ParseError):
        cpu.parse_cpus(text)
