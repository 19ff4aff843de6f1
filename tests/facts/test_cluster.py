"""Whether a job spans several nodes."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from npudoctor.facts.network.interfaces import parse
from npudoctor.facts.node.cluster import cluster, parse_hosts, servers_of
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.host.recording.canned import FakeHost

HERE = parse([{"name": "eth0", "up": True, "addresses": ["10.0.0.7/24"]}])
HOSTS = "127.0.0.1 localhost\n10.0.0.7 fake node7 # here\n10.0.0.8 node8\n"


@pytest.mark.parametrize(
    ("variables", "several", "master"),
    [
        ({}, False, None),
        ({"MASTER_ADDR": "127.0.0.1"}, False, None),
        ({"MASTER_ADDR": "localhost"}, False, None),
        ({"MASTER_ADDR": "10.0.0.7"}, False, "10.0.0.7"),
        ({"MASTER_ADDR": "FAKE"}, False, None),
        ({"MASTER_ADDR": "node7"}, False, "10.0.0.7"),
        ({"MASTER_ADDR": "node8"}, True, "10.0.0.8"),
        ({"MASTER_ADDR": "10.0.0.9"}, True, "10.0.0.9"),
        ({"MASTER_ADDR": "job-master-0.svc"}, True, None),
        ({"MASTER_ADDR": "10.0.0.7", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, True, "10.0.0.7"),
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, False, None),
        ({"SLURM_NNODES": "2"}, True, None),
        ({"SLURM_NNODES": "1"}, False, None),
        ({"MA_NUM_HOSTS": "two"}, False, None),
        ({"RANK_TABLE_FILE": "/two.json"}, True, None),
        ({"RANK_TABLE_FILE": "/gone.json"}, False, None),
    ],
)
def test_several_nodes_are_told_by_the_variables_of_a_job(
    variables: dict[str, str], several: bool, master: str | None
) -> None:
    host = FakeHost(files={"/etc/hosts": HOSTS, "/two.json": '{"server_count": "2"}'})
    found = cluster(host, JobEnvironment(variables), HERE)
    assert (found.several, found.master) == (several, master and ip_address(master))
    assert (found.evidence is not None) is several


@pytest.mark.parametrize(
    ("text", "count"),
    [('{"server_count": "1"}', 1), ('{"server_list": [{}, {}]}', 2), ("{}", None), ("[]", None), ("{", None)],
)
def test_a_rank_table_counts_its_servers(text: str, count: int | None) -> None:
    assert servers_of(text) == count


@pytest.mark.parametrize(
    "text", ['{"server_list": 5}', "[" * 200_000, f'{{"server_count": {"9" * 5000}}}'], ids=range(3)
)
def test_a_rank_table_that_is_none_counts_none(text: str) -> None:
    assert servers_of(text) is None


def test_the_first_line_of_a_name_counts() -> None:
    assert parse_hosts("1.1.1.1 a b\n2.2.2.2 b\n#3.3.3.3 c\n") == {"a": "1.1.1.1", "b": "1.1.1.1"}
