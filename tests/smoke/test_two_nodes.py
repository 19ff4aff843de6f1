"""Two nodes: two npudoctors on this machine, or in network namespaces of their own, joined by a cable."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor.models import adapter
from npudoctor.smoke.events import SmokeReport

pytestmark = pytest.mark.torch


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def nodes() -> Iterator[tuple[str, str]]:
    """The names of the two namespaces; 10.99.7.1 and 10.99.7.2 are theirs."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces want root and iproute2")
    names = (f"npud-a{os.getpid()}", f"npud-b{os.getpid()}")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "cable0", "netns", names[0], "type", "veth", "peer", "name", "cable0", "netns", names[1])
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"10.99.7.{number}/24", "dev", "cable0")
            for device in ("cable0", "lo"):
                ip("-n", name, "link", "set", device, "up")
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"no network namespaces here: {problem.stderr.decode()[:100]}")
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.slow
def test_two_nodes_train_together_and_each_reports(torch_python: Path, nodes: tuple[str, str]) -> None:
    shape = ["--nnodes", "2", "--rdzv-endpoint", "10.99.7.1:29400", "--launcher", "torchrun", "--ranks", "1"]
    common = ["smoke", "--device", "cpu", "--json", "--bandwidth-time", "0.3", "--steps", "6", *shape]
    started = [
        subprocess.Popen(
            [
                *("ip", "netns", "exec", name, sys.executable, "-m", "npudoctor", *common),
                *("--node-rank", str(number), "--python", str(torch_python)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "GLOO_SOCKET_IFNAME": "cable0"},
        )
        for number, name in enumerate(nodes)
    ]
    reports = []
    for process in started:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        reports.append(json.loads(out))
    assert [report["plan"]["world_size"] for report in reports] == [2, 2]
    assert [[rank["rank"] for rank in report["ranks"]] for report in reports] == [[0], [1]]
    assert reports[0]["loss"] == reports[1]["loss"]
    parity = [
        result["status"] for report in reports for result in report["results"] if result["check"] == "smoke.parity"
    ]
    assert sorted(parity) == ["ok", "skipped"]


def both(python: Path, fault: str, ranks: int, *deadlines: str) -> list[SmokeReport]:
    """The reports of two nodes on the loopback interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "npudoctor", "smoke", "--device", "cpu", "--json", "--python", str(python)]
    command += ["--bandwidth-time", "0.1", "--steps", "4", "--launcher", "torchrun", "--ranks", str(ranks)]
    command += ["--nnodes", "2", "--rdzv-endpoint", endpoint, *(f"--deadline={one}" for one in deadlines)]
    nodes = [
        subprocess.Popen(
            [*command, "--node-rank", str(number)],
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "NPUDOCTOR_SMOKE_FAULT": fault},
        )
        for number in (0, 1)
    ]
    return [adapter(SmokeReport).validate_json(node.communicate(timeout=300)[0]) for node in nodes]


WAITS = ("in-sync=60", "parity=60", "scaling=60")


@pytest.mark.parametrize(
    ("fault", "ranks", "blamed", "finding", "deadlines"),
    [
        ("rank:1,kind:kill,stage:training", 1, (1, "signal"), "peer-lost", ()),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                ("rank:0,kind:kill,stage:collectives", 1, (0, "signal"), "peer-lost", ()),
                ("rank:0,kind:raise,stage:rendezvous", 1, (0, "exception"), "peer-lost", ()),
                ("rank:2,kind:exit,stage:collectives", 2, (2, "exit"), "peer-lost", ()),
                ("rank:1,kind:segv,stage:in-sync", 2, (1, "signal"), "peer-lost", ()),
                ("rank:1,kind:raise,stage:in-sync", 1, (1, "exception"), "peer-lost", ()),
                ("rank:0,kind:hang-in,stage:collectives", 1, (0, "hang"), "waited-for-node", ("collectives=6", *WAITS)),
                ("rank:3,kind:hang,stage:training", 2, (3, "hang"), "waited-for-node", ("training=9", *WAITS)),
                ("rank:1,kind:stop,stage:collectives", 1, (1, "hang"), "waited-for-node", ("collectives=6", *WAITS)),
            )
        ),
    ],
)
def test_one_rank_of_two_nodes_is_blamed_and_by_its_own_node(
    torch_python: Path,
    fault: str,
    ranks: int,
    blamed: tuple[int, str],
    finding: str,
    deadlines: tuple[str, ...],
) -> None:
    """The other node says that it waited, or lost its peer, and where to read on; neither finds a cause in CANN."""
    reports = both(torch_python, fault, ranks, *deadlines)
    assert [report.exit_code for report in reports] == [1, 1]
    firsts = [
        (node, one.rank, one.cause.value) for node, report in enumerate(reports) for one in report.failures if one.first
    ]
    assert firsts == [(blamed[0] // ranks, *blamed)]
    other = reports[1 - blamed[0] // ranks]
    errors = [found for result in other.results for found in result.findings if found.severity.value == "error"]
    assert [(found.code or "").partition("/")[2] for found in errors] == [finding]
    assert all(found.pitfall is None for report in reports for result in report.results for found in result.findings)


@pytest.mark.slow
def test_a_node_whose_peer_never_comes_blames_no_rank(torch_python: Path) -> None:
    command = [sys.executable, "-m", "npudoctor", "smoke", "--device", "cpu", "--json", "--python", str(torch_python)]
    shape = ["--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", "127.0.0.1:29517", "--launcher", "torchrun"]
    done = subprocess.run(
        [*command, *shape, "--ranks", "2", "--deadline", "launch=8"], stdout=subprocess.PIPE, check=False
    )
    report = adapter(SmokeReport).validate_json(done.stdout)
    assert not any(one.first for one in report.failures)
    assert [found.code for result in report.results for found in result.findings] == ["smoke.launch/nodes-not-met"]
