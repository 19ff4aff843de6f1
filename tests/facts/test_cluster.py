"""Whether a job spans several nodes."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from npudoctor.facts.hccn.card_view import network_plan
from npudoctor.facts.network.interfaces import parse
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.cluster import cluster, parse_hosts, servers_of
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.processes import parse as parse_processes
from npudoctor.host.recording.canned import FakeHost

HERE = parse([{"name": "eth0", "up": True, "addresses": ["10.0.0.7/24"]}])
IN_DOCKER = Container(runtime="docker")
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
        ({"NNODES": "2"}, True, None),
        ({"NNODES": "1", "PET_NNODES": "1:4"}, False, None),
        ({"PET_NNODES": "2:4"}, True, None),
        ({"RANK_TABLE_FILE": "/two.json"}, True, None),
        ({"RANK_TABLE_FILE": "/gone.json"}, False, None),
    ],
)
def test_several_nodes_are_told_by_the_variables_of_a_job(
    variables: dict[str, str], several: bool, master: str | None
) -> None:
    host = FakeHost(files={"/etc/hosts": HOSTS, "/two.json": '{"server_count": "2"}'})
    function: Any = cluster.function
    found = function(host, JobEnvironment(variables), HERE, None, None)
    assert (found.several, found.master) == (several, master and ip_address(master))
    assert (found.evidence is not None) is several


def of_processes(*lines: str, whose: str = "process", container: Container | None = IN_DOCKER) -> Any:
    rows = [{"pid": 70 + number, "ppid": 1, "cmdline": line.split()} for number, line in enumerate(lines)]
    function: Any = cluster.function
    return function(FakeHost(), JobEnvironment({}, whose), HERE, container, parse_processes(rows))


@pytest.mark.parametrize(
    ("line", "master"),
    [
        ("torchrun --nnodes 2 --node_rank 0 --master_addr 10.0.0.7 train.py", "10.0.0.7"),
        ("python3 -m torch.distributed.run --nnodes=2:4 --rdzv-endpoint=10.0.0.9:29500 train.py", "10.0.0.9"),
        ("torchrun --nproc_per_node 8 --master_addr 10.0.0.9 train.py", "10.0.0.9"),
        ("python3 /usr/local/bin/torchrun --nnodes 2 train.py", None),
        ("python3 /usr/local/bin/vllm serve Q --data-parallel-address 10.0.0.9", "10.0.0.9"),
        (
            "vllm serve Q --data-parallel-size 4 --data-parallel-size-local 2 --data-parallel-address 10.0.0.7",
            "10.0.0.7",
        ),
        ("vllm serve Q --nnodes 2 --node-rank 1 --headless", None),
        ("python3 -m sglang.launch_server --dist-init-addr 10.0.0.9:5000", "10.0.0.9"),
        ("python3 -m sglang.launch_server --nnodes 2 --node-rank 0 --dist-init-addr=10.0.0.7:5000", "10.0.0.7"),
        ("msrun --worker_num=16 --local_worker_num=8 --master_addr=10.0.0.7 train.py", "10.0.0.7"),
        ("accelerate launch --num_machines 2 --main_process_ip 10.0.0.9 train.py", "10.0.0.9"),
        ("deepspeed --num_nodes=2 train.py", None),
    ],
)
def test_several_nodes_are_told_by_the_options_of_processes(line: str, master: str | None) -> None:
    found = of_processes("bash", line)
    assert (found.several, found.master) == (True, master and ip_address(master))
    assert found.evidence[0] == "process 71"
    assert found.evidence[1].startswith("--")
    assert of_processes("bash", line, whose="pid:71", container=None).several


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --nnodes 1 --master_addr 10.0.0.9 train.py",
        "torchrun --nnodes=1:4 --nproc_per_node 8 train.py",
        "torchrun --standalone --nproc_per_node 8 train.py",
        "torchrun --master_addr localhost --nproc_per_node 8 train.py",
        "python3 train_graph.py --nnodes 10000 --num-nodes 10000 --master-addr 10.0.0.9",
        "vllm serve Q --data-parallel-size 4",
        "vllm serve Q --data-parallel-size 4 --data-parallel-size-local 4 --data-parallel-address 10.0.0.9",
        "vllm serve Q --data-parallel-size 2 --data-parallel-size-local 1 --data-parallel-address 127.0.0.1",
        "vllm serve Q --data-parallel-address 10.0.0.7",
        "vllm serve Q --host 10.0.0.9",
        "msrun --worker_num=8 --local_worker_num=8 train.py",
        "python3 -m sglang.launch_server --dist-init-addr 127.0.0.1:5000 --nnodes 1",
        "torchrun --nnodes two --master_addr node8 train.py",
    ],
)
def test_options_of_one_node_tell_of_no_other(line: str) -> None:
    assert not of_processes(line).several


def test_processes_of_a_host_are_anybody_s() -> None:
    line = "torchrun --nnodes 2 train.py"
    assert not of_processes(line, container=None).several
    assert not of_processes("bash", line, whose="pid:70", container=None).several


@pytest.mark.parametrize(
    ("variables", "line", "needed"),
    [
        ({"HCCL_INTRA_ROCE_ENABLE": "1"}, "bash", "HCCL_INTRA_ROCE_ENABLE"),
        ({"HCCL_INTRA_ROCE_ENABLE": "0", "VLLM_HOST_IP": "10.0.0.7"}, "bash", None),
        ({}, 'vllm serve Q --kv-transfer-config {"kv_connector":"MooncakeConnectorV1","kv_port":"1"}', "process 70"),
        ({}, 'vllm serve Q --kv-transfer-config={"a":1,"kv_connector":"LLMDataDistCMgrConnector"}', "process 70"),
        ({}, 'vllm serve Q --kv-transfer-config {"kv_connector":"LMCacheAscendConnector"}', None),
        ({}, "vllm serve Q --kv-transfer-config /a/b.json", None),
    ],
)
def test_a_job_on_one_node_that_uses_the_ports_of_the_npus(
    variables: dict[str, str], line: str, needed: str | None
) -> None:
    function: Any = network_plan.function
    rows = [{"pid": 70, "ppid": 1, "cmdline": line.split()}]
    plan = function(Chips(chips=(), source="test"), None, JobEnvironment(variables), IN_DOCKER, parse_processes(rows))
    assert (plan.several, plan.needed) == (False, needed is not None)
    assert (plan.evidence and plan.evidence[0]) == needed


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
