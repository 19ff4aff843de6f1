"""What simulated tools draw: the published listing, our own golden copies, and real tables from their labels."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.facts import npu_smi as facts
from npudoctor.sim import npu_smi
from npudoctor.sim.node import Chip, Node, Running
from npudoctor.sim.scenario import parse

SHARED = Path(__file__).resolve().parents[2] / "../shared"
GOLDEN = Path(__file__).parent / "golden"
SEED = SHARED / "seeds/003_4529de8473b1b7fc.txt"

GOLDEN_COMMANDS = {
    "seed-910b1": ["npu-smi info", "npu-smi info -t topo", "npu-smi info -l", "npu-smi info -m"],
    "healthy-a3": ["npu-smi info", "npu-smi info -t topo", "npu-smi info -m", "npu-smi info -t common -i 3"],
    "healthy-910a": ["npu-smi info", "npu-smi info -t topo", "npu-smi info -t board -i 0"],
    "duo-310p": ["npu-smi info", "npu-smi info -t memory -i 4", "npu-smi info -t topo"],
    "in-service": ["npu-smi info", "npu-smi info -t proc-mem -i 2", "lsmod", "hccn_tool -i 3 -link_stat -g"],
    "sick-cards": [
        "npu-smi info",
        "npu-smi info -t health -i 2",
        "npu-smi info -t health -i 2 -c 0",
        "npu-smi info -t ecc -i 5 -c 0",
    ],
    "container-broken": ["npu-smi info"],
}


@pytest.mark.parametrize(
    ("scenario", "command"), [(name, one) for name, all_ in GOLDEN_COMMANDS.items() for one in all_]
)
def test_renderings_are_as_they_were_reviewed(scenario: str, command: str) -> None:
    printed = sim.simulate(scenario).run(command.split(" ")).stdout
    golden = GOLDEN / f"{scenario}.{command.replace(' ', '_')}.txt"
    if os.environ.get("NPUDOCTOR_REWRITE_GOLDEN"):
        golden.write_text(printed, newline="", encoding="utf-8")
    assert printed == golden.read_bytes().decode()


@pytest.mark.skipif(not SEED.is_file(), reason="the published listing is not beside this repository")
@pytest.mark.parametrize("command", ["npu-smi info", "npu-smi info -t topo"])
def test_the_published_listing_is_drawn_character_for_character(command: str) -> None:
    blocks = re.findall(r"^```[a-z-]*\n(.*?)^```", SEED.read_text(encoding="utf-8"), re.M | re.S)
    (listing,) = (text for prompt, _, text in (block.partition("\n") for block in blocks) if prompt.strip() == command)
    assert sim.simulate("seed-910b1").run(command.split(" ")).stdout == listing


# Real tables, drawn from their labels

REAL_TABLES = {
    "910B3x8-v24.1.rc1.b030": "atlas-800t-a2-910b3",
    "910B3x8-containerpid-v26.1.0": "atlas-800t-a2-910b3",
    "910B3-subset-v25.5.1": "atlas-800t-a2-910b3",
    "910B3-single-id4-v23.0.1": "atlas-800t-a2-910b3",
    "910B4-1x2-proc-v25.2.2": "atlas-800i-a2-910b4",
    "910Ax8-v22.0.3.1": "atlas-800-9010",
    "910A-named-910B-v24.1.0": "atlas-800-9010",
    "910ProB-single-proc-v23.0.rc1": "atlas-800-9010",
    "A3-Ascend910-v25.2.0": "atlas-800t-a3",
    "A3-subset-v26.0.rc1": "atlas-800t-a3",
    "310P3x2-host-v25.5.1": "atlas-300i-duo",
}


def node_of(labels: dict[str, Any], product: str) -> Node:
    """A node whose chips are those of a labelled table."""
    driver = {"version": labels["driver_version"], "tool": labels["tool_version"]}
    node = Node(parse({"product": product, "driver": driver}, "labels"), "labels")
    rows = labels["npus"]
    used, total = rows[0]["hugepages_used"], rows[0]["hugepages_total"]
    node.product = dataclasses.replace(node.product, chip=rows[0]["name"], hugepages=(used, total))
    node.chips = [_chip(row) for row in rows]
    node.processes = {}
    for row in labels.get("processes", ()):
        held = [(row["npu_id"], row["chip_id"] or 0, row["memory_mb"])]
        node.processes[row["pid"]] = Running(pid=row["pid"], ppid=1, name=row["name"], user="x", cmdline=(), holds=held)
        chip = next(chip for chip in node.chips if (chip.npu, chip.chip) == held[0][:2])
        chip.hbm_own_mb -= row["memory_mb"]
    return node


def _chip(row: dict[str, Any]) -> Chip:
    return Chip(
        npu=row["npu_id"],
        chip=row["chip_id"],
        phy_id=row.get("phy_id") or row.get("device_id") or 0,
        bus_id=row["bus_id"],
        numa_node=0,
        affinity=None,
        hbm_total_mb=row.get("hbm_total_mb") or 0,
        mem_total_mb=row["mem_total_mb"],
        mem_used_mb=row["mem_used_mb"],
        hbm_own_mb=row.get("hbm_used_mb") or 0,
        temp_c=row["temp_c"],
        hbm_temp_c=0,
        aicore_mhz=0,
        address="",
        power_w=row["power_w"],
        health=row["health"],
        aicore_pct=row["aicore_pct"],
    )


@pytest.mark.skipif(not (SHARED / "captures").is_dir(), reason="the captured tables are not beside this repository")
@pytest.mark.parametrize(("capture", "product"), REAL_TABLES.items())
def test_a_real_table_is_drawn_from_its_labels(capture: str, product: str) -> None:
    index = json.loads((SHARED / "captures/index.json").read_text(encoding="utf-8"))
    (labels,) = (entry["expect"] for entry in index if entry["path"] == f"npu-smi-info/{capture}.txt")
    real = (SHARED / f"captures/npu-smi-info/{capture}.txt").read_text(encoding="utf-8").splitlines()
    first_table, _, processes = "\n".join(real).partition("Process id")
    drawn = npu_smi.info(node_of(labels, product)).partition("Process id")
    assert _rows(drawn[0]) == _rows(first_table)
    if processes:
        assert set(_rows(processes)) <= set(_rows(drawn[2]))


def _rows(text: str) -> list[str]:
    """The lines with something in them: borders differ from printer to printer even in one capture."""
    found = [line.rstrip() for line in text.splitlines() if line.startswith("| ") and set(line) - set("| ")]
    return [line for line in found if not re.match(r"\| NPU +Chip +\|", line)]


# What is drawn can be read


@pytest.mark.parametrize("name", [name for name in sim.scenarios() if name not in ("bare-host", "container-broken")])
def test_what_is_drawn_reads_back_as_what_was_meant(name: str) -> None:
    host = sim.simulate(name)
    read = facts.parse_info(host.run(["npu-smi", "info"]).stdout)
    pci = {row["slot"] for row in host.measure("pci")}
    assert {chip.bus_id.lower() for chip in read.npus if chip.bus_id} >= pci
    assert all(chip.health for chip in read.npus)
    mapped = facts.parse_map(host.run(["npu-smi", "info", "-m"]).stdout)
    listed = facts.parse_list(host.run(["npu-smi", "info", "-l"]).stdout)
    assert listed.total == len({chip.npu_id for chip in read.npus})
    assert [(row.npu_id, row.chip_id) for row in mapped.rows if row.logic_id is not None] == [
        (chip.npu_id, chip.chip_id) for chip in read.npus
    ]
    for chip in read.npus:
        which = ["-i", str(chip.npu_id), "-c", str(chip.chip_id)]
        fields = facts.parse_fields(host.run(["npu-smi", "info", "-t", "health", *which]).stdout)
        assert fields["Health Status"] == chip.health
        board = facts.parse_board(host.run(["npu-smi", "info", "-t", "board", *which]).stdout)
        assert board.pcie_bus == chip.bus_id
        assert (board.npu_id, board.chip_id) == (chip.npu_id, chip.chip_id)


@pytest.mark.parametrize(("name", "size"), [("seed-910b1", 8), ("healthy-a3", 16), ("healthy-910a", 8)])
def test_the_drawn_topology_is_symmetric(name: str, size: int) -> None:
    topology = facts.parse_topology(sim.simulate(name).run(["npu-smi", "info", "-t", "topo"]).stdout)
    assert len(topology.devices) == size
    assert [list(row) for row in zip(*topology.matrix, strict=True)] == [list(row) for row in topology.matrix]


def test_a_duo_has_no_topology_to_show() -> None:
    failure = facts.parse_failure(sim.simulate("duo-310p").run(["npu-smi", "info", "-t", "topo"]).stdout)
    assert failure is not None


@pytest.mark.parametrize(("fault", "ret"), [("no-device", -8005), ("device-used", -8020), ("board-type", -9005)])
def test_a_failing_npu_smi_says_why_in_its_own_words(tmp_path: Path, fault: str, ret: int) -> None:
    path = tmp_path / "node.toml"
    path.write_text(f'product = "atlas-800t-a2-910b3"\ndriver = {{ fault = "{fault}" }}\n', encoding="utf-8")
    done = sim.simulate(str(path)).run(["npu-smi", "info"])
    assert done.returncode == ret % 256
    failure = facts.parse_failure(done.stdout)
    assert failure is not None
    assert failure.ret == ret


def test_without_a_right_to_the_manager_node_npu_smi_finds_no_device(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        'product = "atlas-800t-a2-910b3"\nuser = { name = "guest", uid = 1007, groups = { guest = 1007 } }\n',
        encoding="utf-8",
    )
    host = sim.simulate(str(path))
    assert "ret is -8005" in host.run(["npu-smi", "info"]).stdout
    assert host.stat("/dev/davinci0").access == ""
    path.write_text(
        path.read_text(encoding="utf-8").replace("guest = 1007 }", "guest = 1007, HwHiAiUser = 1000 }"),
        encoding="utf-8",
    )
    assert "910B3" in sim.simulate(str(path)).run(["npu-smi", "info"]).stdout
