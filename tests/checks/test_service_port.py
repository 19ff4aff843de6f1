"""The ports of a service: where it listens, by its options, by default or by its file, and who else is there."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.network.interfaces import parse as parse_interfaces
from npudoctor.facts.network.ports import PortRanges, Socket, Sockets
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.service_port import service_port
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.host.recording.canned import FakeHost
from npudoctor.privacy.command_lines import reduce_line
from npudoctor.sdk import NotApplicable, Unavailable

service_port_is_free: Any = plugins.load().checks["stack.service-port"]

HERE = parse_interfaces(
    [
        {"name": "lo", "up": True, "addresses": ["127.0.0.1/8"]},
        {"name": "eth0", "up": True, "addresses": ["10.0.0.5/24"]},
    ]
)


def service(*cmdline: str, listens: tuple[Socket, ...] = (), files: dict[str, str] | None = None) -> Any:
    known = Processes(
        {
            100: Process(pid=100, ppid=1, name="python3", cmdline=reduce_line(cmdline)),
            101: Process(pid=101, ppid=100, name="python3"),
            200: Process(pid=200, ppid=1, name="nginx"),
        }
    )
    function: Any = service_port.function
    host = FakeHost(files=files or {}, links={"/proc/100/cwd": "/opt/mindie"})
    return function(host, JobEnvironment({}, "pid:100"), None, known, Sockets(listens), HERE), known


def listening(port: int, pid: int | None, address: str = "0.0.0.0") -> Socket:
    return Socket(protocol="tcp", address=address, port=port, status="LISTEN", pid=pid)


TAKEN = "stack.service-port/taken"
VLLM = ("/usr/bin/python3", "/usr/local/bin/vllm", "serve", "Qwen/Qwen3-8B")
ON_8001 = (*VLLM, "--port", "8001")
MINDIE = "/usr/local/Ascend/mindie/latest/mindie-service/conf/config.json"


@pytest.mark.parametrize(
    ("cmdline", "listens", "codes"),
    [
        (ON_8001, (listening(8001, 200),), [TAKEN]),
        (ON_8001, (listening(8001, 101),), []),
        (ON_8001, (listening(8000, 200),), []),
        (("python3", "-m", "sglang.launch_server", "--port=60003"), (), ["stack.service-port/of-hccl"]),
        (("lmdeploy", "serve", "api_server", "m", "--server-port", "8001"), (listening(8001, 200),), [TAKEN]),
        (("lmdeploy", "serve", "api_server", "m", "--port", "8001"), (listening(8001, 200),), []),
    ],
)
def test_the_port_of_a_service_is_judged(
    cmdline: tuple[str, ...], listens: tuple[Socket, ...], codes: list[str]
) -> None:
    found, known = service(*cmdline, listens=listens)
    hccl = PortRanges.of((60000, 60015))
    ports = HcclPorts(certain=hccl, possible=hccl, source="test")
    assert [finding.code for finding in service_port_is_free(found, known, ports)] == codes


@pytest.mark.parametrize(
    ("line", "port"),
    [
        ("python3 /usr/local/bin/vllm serve Q", 8000),
        ("vllm serve Q --served-model-name q", 8000),
        ("python3 -m vllm.entrypoints.openai.api_server --model Q", 8000),
        ("python3 -m vllm.entrypoints.api_server --port 8000", 8000),
        ("python3 -m sglang.launch_server --model-path Q", 30000),
        ("sglang serve --model-path Q", 30000),
        ("lmdeploy serve api_server Q", 23333),
        ("lmdeploy serve proxy", 8000),
        ("swift deploy --model Q", 8000),
        ("./bin/mindieservice_daemon", 1025),
        ("/usr/local/Ascend/mindie/latest/mindie-service/bin/mindieservice_daemon", 1025),
        ("vllm serve Q --port 8100 --data-parallel-rpc-port 13389 --data-parallel-address 10.0.0.5", 13389),
        ("vllm serve Q --port 8100 --data_parallel_rpc_port=13389", 13389),
        ("python3 -m sglang.launch_server --port 8100 --disaggregation-bootstrap-port 8998", 8998),
    ],
)
def test_a_service_without_an_option_listens_on_its_default_port(line: str, port: int) -> None:
    found, _ = service(*line.split(), listens=(listening(port, 200), listening(9, 1)))
    assert (found.port, found.listens, [one.pid for one in found.others]) == (port, False, [200])
    assert service(*line.split(), listens=(listening(port, 101),))[0].listens in (True, False)
    assert service(*line.split(), listens=(listening(port, 101),))[0].others == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [("", "default port 8000"), ("--port 8000", "--port 8000"), ("--port=8000 --host localhost", "--port 8000")],
)
def test_the_evidence_says_where_the_port_comes_from(options: str, said: str) -> None:
    found, known = service(*VLLM, *options.split(), listens=(listening(8000, 200),))
    [finding] = service_port_is_free(found, known, None)
    assert [(one.source, one.actual) for one in finding.evidence] == [("process 100", said)]


@pytest.mark.parametrize(
    ("options", "address", "taken"),
    [
        ("--host 127.0.0.1", "10.0.0.5", False),
        ("--host 127.0.0.1", "127.0.0.1", True),
        ("--host=127.0.0.1", "::ffff:127.0.0.1", True),
        ("--host localhost", "::1", True),
        ("--host 127.0.0.1", "0.0.0.0", True),
        ("--host 127.0.0.1", "::", True),
        ("--host 0.0.0.0", "10.0.0.5", True),
        ("--host ::", "10.0.0.5", True),
        ("--host 10.0.0.5", "127.0.0.1", False),
        ("", "10.0.0.5", True),
        ("--host node-7.example.com", "10.0.0.5", False),
        ("--host=node-7.example.com", "0.0.0.0", True),
    ],
)
def test_two_programs_share_a_port_at_different_addresses(options: str, address: str, taken: bool) -> None:
    found, _ = service(*VLLM, "--port", "8000", *options.split(), listens=(listening(8000, 200, address),))
    assert bool(found.others) is taken


def test_sglang_listens_on_the_loopback_by_default() -> None:
    words = ("python3", "-m", "sglang.launch_server", "--model-path", "Q")
    assert service(*words, listens=(listening(30000, 200, "10.0.0.5"),))[0].others == ()
    assert service(*words, listens=(listening(30000, 200, "127.0.0.1"),))[0].others != ()


@pytest.mark.parametrize(
    ("path", "said", "taken"),
    [
        (MINDIE, {"port": 2025, "ipAddress": "10.0.0.5"}, 2025),
        ("/opt/mindie/conf/config.json", {"port": 1025, "managementPort": 2026}, 2026),
        ("/opt/mindie/conf/config.json", {"metricsPort": "1027", "managementIpAddress": "10.0.0.5"}, 1027),
    ],
)
def test_mindie_listens_where_its_file_says(path: str, said: dict[str, Any], taken: int) -> None:
    files = {path: json.dumps({"ServerConfig": said, "BackendConfig": {}})}
    found, _ = service("./bin/mindieservice_daemon", listens=(listening(taken, 200),), files=files)
    assert (found.port, len(found.others)) == (taken, 1)
    assert found.source is not None
    assert found.source.startswith(path)


@pytest.mark.parametrize("text", ["{", "[1]", '{"ServerConfig": 5}', "[" * 200_000])
def test_a_file_of_mindie_that_is_damaged_gives_no_wrong_port(text: str) -> None:
    with contextlib.suppress(Unavailable):
        assert service("./mindieservice_daemon", files={MINDIE: text})[0].port == 1025


@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/python3 /usr/local/bin/vllm bench serve --port 8001",
        "/usr/bin/python3 /usr/local/bin/vllm serve Q --headless --data-parallel-rpc-port 8001",
        "vllm serve --config /etc/vllm.yaml",
        "vllm serve Q --uds=/run/vllm.sock",
        "lmdeploy serve api_client http://10.0.0.9:8001",
        "/usr/bin/python3 train.py --port 8001",
    ],
)
def test_a_client_and_a_service_with_an_unknown_port_are_not_judged(line: str) -> None:
    with pytest.raises(NotApplicable):
        service(*line.split(), listens=(listening(8001, 200), listening(8000, 200), listening(23333, 200)))


def test_a_port_at_the_address_of_another_node_is_not_listened_on() -> None:
    words = (*VLLM, "--port", "8100", "--data-parallel-rpc-port", "13389", "--data-parallel-address", "10.0.0.9")
    found, _ = service(*words, listens=(listening(13389, 200),))
    assert (found.port, found.others) == (8100, ())


def test_the_second_of_two_services_of_a_pod_finds_the_port_taken() -> None:
    started = {
        pid: Process(pid=pid, ppid=1, name="vllm", cmdline=reduce_line(("vllm", "serve", "Q"))) for pid in (20, 30)
    }
    known = Processes({1: Process(pid=1, name="bash"), **started})
    pod = Container(runtime="containerd", orchestrator="Kubernetes")
    function: Any = service_port.function
    found = function(FakeHost(), None, pod, known, Sockets((listening(8000, 20),)), None)
    assert (found.pid, [one.pid for one in found.others]) == (30, [20])


def test_sockets_without_owners_accuse_nobody() -> None:
    with pytest.raises(Unavailable):
        service(*ON_8001, listens=(listening(8001, None),))
