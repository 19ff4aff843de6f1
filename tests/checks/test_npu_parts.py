"""The parts of the cards: memory errors, clocks, PCIe links, and the processors near them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status
from npudoctor.testing import run, run_check

Nodes = Callable[..., Any]


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


# npu.ecc


@pytest.mark.parametrize("product", ["atlas-800t-a2-910b3", "atlas-800t-a3", "atlas-300i-duo", "atlas-800-9000"])
def test_memory_without_errors_yields_nothing(node: Nodes, product: str) -> None:
    result = node(product=product).check("npu.ecc")
    assert (result.status, result.findings) == (Status.OK, ())


@pytest.mark.parametrize(
    ("product", "card", "subject"),
    [
        ("atlas-800t-a2-910b3", {"id": 2}, "npu:2"),
        ("atlas-800t-a3", {"id": 3, "chip": 1}, "npu:3/chip:1"),
        ("atlas-300i-duo", {"id": 4, "chip": 1}, "npu:4/chip:1"),
    ],
)
def test_a_double_bit_error_is_an_error_of_its_chip(node: Nodes, product: str, card: Any, subject: str) -> None:
    finding = only(node(product=product, card=[{**card, "ecc_double": 2}]).check("npu.ecc"))
    assert (finding.severity, finding.subject, finding.pitfall) == (Severity.ERROR, subject, "P053")
    assert finding.code == "npu.ecc/uncorrected"
    assert finding.summary == "2 double-bit memory errors"


def test_what_was_corrected_or_is_over_is_told_as_info(node: Nodes) -> None:
    result = node(card=[{"id": 1, "ecc_single": 7, "ecc_double_old": 1, "ecc_isolated_pages": 3}]).check("npu.ecc")
    finding = only(result)
    assert (result.status, finding.severity) == (Status.OK, Severity.INFO)
    assert finding.code == "npu.ecc/corrected"
    assert finding.summary == (
        "memory errors without effect on running jobs: "
        "1 earlier double-bit error, 7 corrected single-bit errors, 3 isolated pages"
    )


def test_a_chip_that_can_isolate_no_more_pages_is_an_error(node: Nodes) -> None:
    worn = node(card=[{"id": 5, "ecc_isolated_pages": 64}])
    finding = only(worn.check("npu.ecc"))
    assert (finding.severity, finding.code) == (Severity.ERROR, "npu.ecc/isolated-pages")
    assert finding.summary == "64 isolated memory pages, limit 64"
    assert only(worn.check("npu.ecc", settings={"isolated_pages_max": 100})).severity is Severity.INFO


def test_quick_asks_no_chip_for_its_errors(node: Nodes) -> None:
    result = node().check("npu.ecc", profile="quick")
    assert (result.skip, result.reason) == (Skip.NOT_APPLICABLE, "profile quick reads no per-chip pages")


def test_a_chip_whose_errors_are_not_shown_leaves_no_verdict(node: Nodes) -> None:
    silent = {"npu-smi info -t ecc -i 6": {"stdout": "dcmi failed. ret is -8012\n", "returncode": 1}}
    result = node(commands=silent).check("npu.ecc")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.FAILED)


# npu.throttled


def test_chips_at_work_at_their_clock_yield_nothing(node: Nodes) -> None:
    result = node(job={"ranks": 8}).check("npu.throttled")
    assert (result.status, result.findings) == (Status.OK, ())


def test_the_clock_of_an_idle_chip_says_nothing(node: Nodes) -> None:
    assert node().check("npu.throttled").skip is Skip.NOT_APPLICABLE


def test_a_chip_that_is_held_back_is_named(node: Nodes) -> None:
    held = node(job={"ranks": 8}, card=[{"id": 3, "busy_mhz": 1000}])
    finding = only(held.check("npu.throttled"))
    assert (finding.severity, finding.subject) == (Severity.WARNING, "npu:3")
    assert finding.code == "npu.throttled/slow-clock"
    assert finding.summary == "clock 1000 MHz under load, rated 1800 MHz"
    assert held.check("npu.throttled", settings={"clock_min_percent": 50}).findings == ()


def test_a_clock_that_is_not_shown_is_no_verdict(node: Nodes) -> None:
    silent = {f"npu-smi info -t common -i {npu}": {"timed_out": True} for npu in range(8)}
    result = node(job={"ranks": 8}, commands=silent).check("npu.throttled")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.TIMED_OUT)


# npu.pcie


def test_whole_links_yield_nothing(node: Nodes) -> None:
    for product in ("atlas-800t-a2-910b3", "atlas-300i-duo"):
        assert node(product=product).check("npu.pcie").status is Status.OK


@pytest.mark.parametrize(
    ("fault", "code", "summary"),
    [
        ({"pcie_width": 8}, "slow-link", "PCIe link in slot {} runs at 16 GT/s x8 instead of 16 GT/s x16"),
        ({"pcie_gts": 8.0}, "slow-link", "PCIe link in slot {} runs at 8 GT/s x16 instead of 16 GT/s x16"),
        ({"pcie_fatal": 4}, "fatal-errors", "4 fatal PCIe errors in slot {}"),
    ],
)
def test_the_odd_card_is_named(node: Nodes, fault: dict[str, Any], code: str, summary: str) -> None:
    finding = only(node(card=[{"id": 2, **fault}]).check("npu.pcie"))
    assert (finding.severity, finding.subject, finding.code) == (Severity.WARNING, "npu:2", f"npu.pcie/{code}")
    assert finding.summary == summary.format(finding.params["slot"])


def test_what_all_cards_have_alike_is_how_the_server_is_built(node: Nodes) -> None:
    finding = only(node(cards={"pcie_width": 8}).check("npu.pcie"))
    assert (finding.severity, finding.subject, finding.code) == (Severity.INFO, "host", "npu.pcie/all-links-slow")
    assert finding.summary == "PCIe links of all NPUs run at 16 GT/s x8 instead of 16 GT/s x16"


def test_a_card_in_a_narrow_slot_runs_as_well_as_it_can() -> None:
    slot, port = "0000:c1:00.0", "0000:c0:00.0"
    folder = f"/sys/bus/pci/devices/{slot}"
    whole = {"max_link_speed": "16.0 GT/s PCIe\n", "max_link_width": "16\n", "current_link_speed": "16.0 GT/s PCIe\n"}
    files = {f"/sys/devices/pci0000:c0/{port}/{slot}/{name}": text for name, text in whole.items()}
    files[f"/sys/devices/pci0000:c0/{port}/{slot}/current_link_width"] = "8\n"
    files[f"/sys/devices/pci0000:c0/{port}/max_link_width"] = "8\n"
    links = {
        folder: f"../../../devices/pci0000:c0/{port}/{slot}",
        f"/sys/bus/pci/devices/{port}": f"../../../devices/pci0000:c0/{port}",
    }
    pci = [{"slot": slot, "vendor": "0x19e5", "device": "0xd802"}]
    narrow = run_check("npu.pcie", files=files, links=links, measures={"pci": pci})
    assert (narrow.status, narrow.findings) == (Status.OK, ())
    wide = {**files, f"/sys/devices/pci0000:c0/{port}/max_link_width": "16\n"}
    finding = only(run_check("npu.pcie", files=wide, links=links, measures={"pci": pci}))
    assert finding.severity is Severity.WARNING


def test_a_kernel_that_shows_no_link_is_no_verdict() -> None:
    pci = [{"slot": "0000:c1:00.0", "vendor": "0x19e5", "device": "0xd802"}]
    result = run_check("npu.pcie", files={"/dev/davinci0": ""}, measures={"pci": pci})
    assert result.skip is Skip.COULD_NOT_LOOK


# npu.affinity


def test_cards_near_processors_yield_nothing(node: Nodes) -> None:
    for product in ("atlas-800t-a2-910b3", "atlas-800-9000"):
        result = node(product=product).check("npu.affinity")
        assert (result.status, result.findings) == (Status.OK, ())


def test_an_a3_shows_no_affinity(node: Nodes) -> None:
    assert node(product="atlas-800t-a3").check("npu.affinity").skip is Skip.NOT_APPLICABLE


def test_a_card_without_processors_is_named(node: Nodes) -> None:
    finding = only(node(card=[{"id": 3, "affinity": ""}]).check("npu.affinity"))
    assert (finding.severity, finding.subject, finding.code) == (Severity.WARNING, "npu:3", "npu.affinity/missing")
    assert finding.summary == "CPU affinity missing; other NPUs have one"


def test_cards_that_all_claim_the_same_processors_are_a_finding(node: Nodes) -> None:
    finding = only(node(cards={"affinity": "0-23"}).check("npu.affinity"))
    assert (finding.severity, finding.subject) == (Severity.WARNING, "host")
    assert finding.code == "npu.affinity/contradicts-bus"
    assert finding.summary == "8 NPUs share 24 CPUs (0-23) by affinity, but are on several NUMA nodes"


def test_processors_that_a_job_may_not_use_are_a_finding(node: Nodes) -> None:
    far = node(card=[{"id": 5, "affinity": "192-215"}])
    finding = only(far.check("npu.affinity"))
    assert (finding.severity, finding.subject) == (Severity.WARNING, "npu:5")
    assert finding.evidence[1].actual == "0-191"
    assert finding.code == "npu.affinity/not-allowed"
    assert finding.summary == "CPUs near this NPU not available to this process"


def test_without_the_matrix_nothing_is_known(node: Nodes) -> None:
    silent = {"npu-smi info -t topo": {"timed_out": True}}
    assert node(commands=silent).check("npu.affinity").because is Because.TIMED_OUT


# npu.temperature, npu.topology: what the table does not say


def test_hot_memory_under_a_warm_chip_is_named(node: Nodes) -> None:
    warm: dict[str, Any] = {"cards": {"temp_c": 70, "hbm_temp_c": 75}}
    assert node(**warm).check("npu.temperature").findings == ()
    finding = only(node(**warm, card=[{"id": 6, "hbm_temp_c": 88}]).check("npu.temperature"))
    assert (finding.severity, finding.subject) == (Severity.WARNING, "npu:6")
    assert finding.summary == "HBM of 910B3 at 88 °C, limit 85 °C"
    worse = node(**warm, card=[{"id": 6, "hbm_temp_c": 96}])
    assert only(worse.check("npu.temperature")).severity is Severity.ERROR
    assert worse.check("npu.temperature", profile="quick").findings == ()


def test_a_chip_that_is_hot_itself_is_told_once(node: Nodes) -> None:
    assert len(node(card=[{"id": 6, "temp_c": 86, "hbm_temp_c": 90}]).check("npu.temperature").findings) == 1


def test_on_a_board_that_nobody_knows_most_cards_set_the_rule_and_the_finding_says_so(node: Nodes) -> None:
    links = {f"{low}-7": "SYS" for low in range(7)}
    host = node(topology={"links": links}).host
    for path in [path for path, _ in host.tree.walk() if path.endswith("/subsystem_device")]:
        host.tree.write(path, "0x9999\n")
    result = next(one for one in run(host, "npu.topology").results if one.check == "npu.topology")
    finding = only(result)
    assert finding.subject == "npu:7"
    assert finding.code == "npu.topology/no-direct-link-unlike-most"
    assert finding.summary == (
        "direct link, as most chips here have, missing between 7 pairs of chips: "
        "NPU0–NPU7, NPU1–NPU7, NPU2–NPU7, NPU3–NPU7, 3 more"
    )
    assert finding.detail is not None and "not in the hardware table (as of" in finding.detail
