"""What the checks of the NPUs say, whole sentences: by a node that shows the finding, or by the message itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor import plugins

Nodes = Callable[..., Any]
SEVERAL = {"environ": {"MASTER_ADDR": "192.168.10.99"}}
USED = [{"id": 3, "hbm_used_mb": 23880}]

SEEN: list[tuple[str, dict[str, Any], str]] = [
    (
        "npu.present/driver-only",
        {"cann": {"installed": False}, "python": {"torch": "", "torch_npu": ""}},
        "CANN not installed on this node; containers bring their own",
    ),
    ("npu.present/missing", {"product": "none"}, "Ascend NPU not found on this host"),
    (
        "npu.count/node-without-chip",
        {"card": [{"id": 3, "missing": ["npu-smi"]}], "container": {}},
        "chip of /dev/davinci3 missing: 7 chips in npu-smi, 8 in /dev",
    ),
    (
        "npu.count/not-in-npu-smi",
        {"card": [{"id": id, "missing": ["npu-smi"]} for id in (3, 5)]},
        "NPUs in PCI slots 0000:02:00.0, 0000:82:00.0 missing from npu-smi",
    ),
    (
        "npu.temperature/hot-memory",
        {"cards": {"temp_c": 70, "hbm_temp_c": 75}, "card": [{"id": 6, "hbm_temp_c": 96}]},
        "HBM of 910B3 at 96 °C, limit 95 °C",
    ),
    (
        "npu.memory-free/no-process-table",
        {"driver": {"processes": False}, "card": USED},
        "20 GB in use over the idle baseline of 3.3 GB; this npu-smi lists no processes",
    ),
    (
        "npu.affinity/none-allowed",
        {"cards": {"affinity": "192-215"}},
        "CPUs near the NPUs not available to this process",
    ),
    (
        "npu.fabric/fec-mismatch",
        {"card": [{"id": 7, "fec": "base FEC mode"}], **SEVERAL},
        "FEC mode mismatch: `base FEC mode` on this network port, `rs FEC mode` on the others",
    ),
    ("npu.links/down", {"card": [{"id": 7, "link": "DOWN"}]}, "network port is DOWN"),
    ("npu.links/all-down", {"cards": {"link": "DOWN"}}, "network ports of all NPUs are down"),
    ("npu.network/no-address", {"card": [{"id": 6, "address": ""}]}, "network address not set"),
    (
        "npu.network/no-addresses",
        {"cards": {"address": "", "net_health": "Init"}},
        "network address not set on any NPU",
    ),
    (
        "npu.network/no-detect-addresses",
        {"cards": {"net_health": "Init"}},
        "network detect address not set on any NPU",
    ),
    (
        "npu.network/no-detect-address",
        {"card": [{"id": 5, "net_health": "Init"}]},
        "network detect address not set",
    ),
    ("npu.network/unreachable", {"card": [{"id": 5, "net_health": "Fault"}]}, "network health is Fault"),
    ("npu.network/all-unreachable", {"cards": {"net_health": "Fault"}}, "network health is Fault on all NPUs"),
    (
        "npu.network/no-gateway",
        {"card": [{"id": 2, "gateway": ""}], **SEVERAL},
        "gateway not set; other NPUs have one",
    ),
    (
        "npu.tls/off-for-some",
        {"cards": {"tls": 1}, "card": [{"id": 4, "tls": 0}]},
        "TLS mismatch: off for npu:4, on for the others",
    ),
]

RENDERED: list[tuple[str, dict[str, Any], str]] = [
    ("npu.present/missing-in-container", {}, "Ascend NPU not found in this container"),
    ("npu.count/fewer-chips", {"count": 14, "full": 16}, "14 of 16 chips found"),
    (
        "npu.count/device-nodes-mismatch",
        {"chips": 1, "nodes": 3, "source": "npu-smi"},
        "chip count mismatch: 1 chip in npu-smi, 3 in /dev",
    ),
    (
        "npu.health/not-reported",
        {"chip": "910B3", "faults": ["no fault code"]},
        "910B3 reports no health: no fault code",
    ),
    ("npu.uniform/memory", {"total_mb": 32768, "usual_mb": 65536}, "memory size mismatch: 32 GB, others 64 GB"),
    ("npu.uniform/firmware", {"odd": ["npu:6 7.1"], "usual": "7.7"}, "firmware mismatch: npu:6 7.1; others 7.7"),
    (
        "npu.uniform/board",
        {"odd": ["npu:6 1", "npu:7 2"], "usual": "3"},
        "board revision mismatch: npu:6 1, npu:7 2; others 3",
    ),
    ("npu.memory-free/held", {"used_mb": 44401, "count": 2, "pids": [7, 8]}, "43.4 GB in use by processes 7, 8"),
    (
        "npu.processes/in-use-by-host",
        {"process": "4711 (python3, 900 MB)", "count": 1},
        "chip in use by host process 4711 (python3, 900 MB)",
    ),
    (
        "npu.processes/in-use-by-unseen",
        {"process": "4711", "count": 1},
        "chip in use by process 4711; details not visible to this user",
    ),
    (
        "npu.processes/ranks-share-chips",
        {"ranks": 8, "process": "python3 (pid 7)", "chips": 1},
        "8 ranks of python3 (pid 7) share 1 chip",
    ),
    (
        "npu.affinity/crowded",
        {"count": 8, "cpu_count": 24, "cpus": "0-23"},
        "8 NPUs share 24 CPUs (0-23) by affinity",
    ),
]


@pytest.mark.parametrize(("code", "said", "summary"), SEEN, ids=[code for code, _, _ in SEEN])
def test_a_node_is_described_in_these_words(node: Nodes, code: str, said: dict[str, Any], summary: str) -> None:
    found = node(**said).check(code.partition("/")[0]).findings
    assert (code, summary) in {(finding.code, finding.summary) for finding in found}


@pytest.mark.parametrize(("code", "params", "summary"), RENDERED, ids=[code for code, _, _ in RENDERED])
def test_a_message_reads_like_this(code: str, params: dict[str, Any], summary: str) -> None:
    assert plugins.load().messages[code].finding(**params).summary == summary
