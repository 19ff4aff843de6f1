"""Two nodes: two network namespaces with addresses of their own, joined by a cable, each with its own npudoctor."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]


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
            text=True,
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
