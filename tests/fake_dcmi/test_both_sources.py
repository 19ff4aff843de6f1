"""A node says the same through the driver's library as through npu-smi, but for what only one of them can tell."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.sim import machine, scenario
from npudoctor.testing import run
from tests.fake_dcmi import answers, build, nodes
from tests.nodes import labels

pytestmark = pytest.mark.thorough

WITH_CHIPS = [name for name in sorted(sim.scenarios()) if name not in ("bare-host", "container-broken")]

NPU_SMI_ALONE = (
    "npu_smi.boards .*(product_name|serial_number|main_board_id|pcb_id|bom_id)",  # known to the MCU, which is slow
    "npu_smi.common .*(hbm_usage_pct|memory_usage_pct|rated_power_w)",
    r"npu_smi.common by_subject.*chips\[-1\].*",  # the MCU stands among the chips
    "npu_smi.memory .*(ddr_capacity_mb|ddr_clock_mhz|hbm_manufacturer_id)",
    "npu_smi.(npu_smi_info|process_memory) .*processes.*name",  # names are in /proc, and these pids are simulated
    "node.card_holders .*name",
)
LIBRARY_ALONE = (
    "npu_smi.npu_smi_info .*phy_id",
    "npu_smi.common .*aicore_count",  # npu-smi prints it for chips with HBM
    r"npu_smi.(npu_smi_info idle_npus|common .*power_w).*",  # an older npu-smi has no table of processes; 0.0 is none
)
NUMBERS = (  # a page for one chip does not repeat whose it is, and one for a card counts its chips
    "npu_smi.(ecc|health|health_pages|memory) .*(npu_id|chip_id|chip_count)",
)
KNOWN = {re.compile(row): row for row in (*NPU_SMI_ALONE, *LIBRARY_ALONE, *NUMBERS)}
SAYS_WHERE_FROM = re.compile(r".*\b(((gateway_)?source|sources)(\..*)?|command)")
ABOUT_THE_SOURCE = ("dcmi.library", "dcmi.tool_pages", "npu_smi.chip_numbers")
WITHOUT_A_PROCESS_TABLE = {"npu.processes", "node.service", "node.card_holders", "node.launch_variables"}


Both = Callable[[str], Any]


@pytest.fixture(scope="module")
def both(fake_dcmi: build.Library, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """What is known of a node through npu-smi, and through the library."""

    @functools.cache
    def known(name: str) -> Any:
        root = tmp_path_factory.mktemp("node")
        nodes.put(fake_dcmi, root, answers.of(name))
        return nodes.known(sim.simulate(name)), nodes.known(nodes.WithLibrary(sim.simulate(name), root))

    return known


def _comparable(fact: Any) -> dict[str, Any]:
    """The leaves of a fact, the MCU among chips by its own place; a reason why it is unknown counts as one word."""
    if isinstance(fact, Exception):
        return {"": type(fact).__name__}
    found = {}
    rows = dict(nodes.leaves(fact))
    mcus = {path.rpartition(".")[0] for path, value in rows.items() if path.endswith("chip_name") and value == "mcu"}
    for path, value in rows.items():
        place, _, last = path.rpartition(".")
        found[f"{place.rpartition('[')[0]}[-1].{last}" if place in mcus else path] = value
    return found


def _differences(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for fact in sorted((one.keys() | other.keys()) - set(ABOUT_THE_SOURCE)):
        mine, theirs = _comparable(one.get(fact)), _comparable(other.get(fact))
        for path in sorted(mine.keys() | theirs.keys()):
            if not SAYS_WHERE_FROM.fullmatch(path) and mine.get(path) != theirs.get(path):
                yield f"{fact} {path}", mine.get(path), theirs.get(path)


@pytest.mark.parametrize("name", WITH_CHIPS)
def test_every_check_judges_the_same(name: str, both: Both) -> None:
    (tools, _), (library, _) = both(name)
    without = WITHOUT_A_PROCESS_TABLE if name == "seed-910b1" else set()
    mine, theirs = nodes.judgements(tools), nodes.judgements(library)
    assert {check: theirs[check] for check in mine if check not in without} == {
        check: said for check, said in mine.items() if check not in without
    }


@pytest.mark.parametrize("name", WITH_CHIPS)
def test_every_fact_is_the_same_field_by_field(name: str, both: Both) -> None:
    (_, tools), (_, library) = both(name)
    without = WITHOUT_A_PROCESS_TABLE if name == "seed-910b1" else set()
    assert [
        (path, mine, theirs)
        for path, mine, theirs in _differences(tools, library)
        if not any(known.fullmatch(path) for known in KNOWN) and path.split(" ")[0] not in without
    ] == []


@pytest.mark.parametrize("name", WITH_CHIPS)
def test_the_library_told_the_chips(name: str, both: Both) -> None:
    (_, tools), (_, library) = both(name)
    assert (tools["node.chips"].source, library["node.chips"].source) == ("npu-smi", "dcmi")
    assert library["dcmi.library"].problem is None


def test_nothing_is_listed_that_both_tell(both: Both) -> None:
    found = {path for name in WITH_CHIPS for path, _, _ in _differences(both(name)[0][1], both(name)[1][1])}
    assert [row for known, row in KNOWN.items() if not any(known.fullmatch(path) for path in found)] == []


@pytest.mark.parametrize("gateway", ["29.40.8.1", ""])
def test_hccn_tool_is_asked_only_what_the_library_does_not_tell(
    gateway: str, fake_dcmi: build.Library, tmp_path: Path
) -> None:
    said = {"product": "atlas-800t-a2-910b3", "cards": {"gateway": gateway}}
    nodes.put(fake_dcmi, tmp_path, answers.of_scenario(said))
    host = nodes.WithLibrary(machine.build(scenario.parse(said, "test"), "test"), tmp_path)
    report = run(host, profile="standard", tool_timeout_s=nodes.PATIENT_S)
    assert {"npu.network", "npu.tls"} <= {result.check for result in report.results if result.status.value == "ok"}
    vendor = Counter(re.sub(r"-i \d+", "-i N", one) for one in host.asked if one.startswith(("npu-smi", "hccn_tool")))
    assert vendor == {
        "hccn_tool -i N -link -g": 8,
        "hccn_tool -i N -tls -g": 8,
        "npu-smi info": 1,
        "npu-smi info -t topo": 1,
    }


ONE_SOURCE = {
    "npu-smi-is-a-directory": "the library answers where npu-smi is missing",
    "npu-smi-not-installed": "the library answers where npu-smi is missing",
    "npu-smi-not-mounted": "the library answers where npu-smi is missing",
}


def _labelled() -> list[labels.Label]:
    """The labelled nodes that are a scenario alone, with a library and without an answer that was written by hand."""
    return [
        label
        for label in labels.written()
        if not label.needs_a_folder
        and label.name not in ONE_SOURCE
        and not label.said.get("node", {}).get("commands")
        and label.said.get("node", {}).get("container", {}).get("driver_files", True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("label", _labelled(), ids=lambda label: label.name)
def test_every_labelled_node_is_judged_the_same(label: labels.Label, fake_dcmi: build.Library, tmp_path: Path) -> None:
    said = {**labels.USUAL, **label.said.get("node", {})}
    options = {"profile": "full", **label.said.get("options", {})}
    nodes.put(fake_dcmi, tmp_path, answers.of_scenario(said))
    tools = machine.build(scenario.parse(dict(said), label.name), label.name)
    library = nodes.WithLibrary(machine.build(scenario.parse(dict(said), label.name), label.name), tmp_path)
    by_library, by_tools = (nodes.judgements(nodes.known(host, **options)[0]) for host in (library, tools))
    if library.user.uid != 0:  # the library tells the firmware to root alone
        assert by_library.pop("driver.firmware")[0] in ("skipped", by_tools.pop("driver.firmware")[0])
    assert by_library == by_tools


SLICES = (
    "healthy-container-with-a-slice",
    "healthy-container-with-a-slice-of-a-duo",
    "healthy-slices-beside-whole-cards",
)


@pytest.mark.parametrize("name", SLICES)
def test_slices_are_the_same_through_both(name: str, fake_dcmi: build.Library, tmp_path: Path) -> None:
    label = next(one for one in labels.written() if one.name == name)
    said = {**labels.USUAL, **label.said["node"]}
    nodes.put(fake_dcmi, tmp_path, answers.of_scenario(said))
    tools, by_tools = nodes.known(machine.build(scenario.parse(dict(said), name), name), profile="full")
    host = nodes.WithLibrary(machine.build(scenario.parse(dict(said), name), name), tmp_path)
    library, by_library = nodes.known(host, profile="full")
    mine, theirs = by_tools["node.chips"], by_library["node.chips"]
    assert theirs.source == "dcmi"
    if label.said["node"].get("container"):
        assert [(chip.mode, chip.parent, bool(chip.template)) for chip in theirs.chips] == [
            ("vnpu", f"npu:{theirs.chips[0].npu_id}", True)
        ]
    else:
        assert [(one.device, one.parent) for one in theirs.slices] == [(116, "npu:1"), (117, "npu:1"), (196, "npu:6")]
        assert {chip.mode for chip in theirs.chips} == {"whole"}
    assert (mine.chips, mine.slices) == (theirs.chips, theirs.slices)
    assert nodes.judgements(library) == nodes.judgements(tools)
