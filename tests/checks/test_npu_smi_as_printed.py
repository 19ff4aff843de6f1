"""What checks make of npu-smi as its own source has it: one test for each way to misread it."""

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.facts.npu_smi import parse_info, parse_topology
from npudoctor.findings import Severity, Skip, Status

from .conftest import Node
from .test_npu import only

Nodes = Callable[..., Node]
A3 = "atlas-800t-a3"
DUO = "atlas-300i-duo"
CARDS = ("npu.count", "npu.health", "npu.temperature", "npu.uniform", "npu.topology")
PRO = "atlas-300i-pro"
PRODUCTS = ("atlas-800t-a2-910b3", "atlas-800i-a2-910b4", A3, "atlas-800-9000", DUO, PRO)
PLAIN = {"name": "train", "uid": 1001, "groups": {"train": 1001, "HwHiAiUser": 1000}}


@pytest.mark.parametrize("product", [product for product in PRODUCTS if product not in (DUO, PRO)])
def test_an_installation_that_did_not_finish_is_a_finding_and_the_table_is_whole(node: Nodes, product: str) -> None:
    unfinished = node(product=product, driver={"finished": False})
    assert unfinished.host.run(["npu-smi", "info"]).stdout.splitlines()[-1].startswith("[WARNING]The driver package")
    report = unfinished.report("driver.installed", "driver.npu-smi", *CARDS)
    found = {result.check: result for result in report.results}
    finding = only(found["driver.installed"])
    assert (finding.code, finding.severity) == ("driver.installed/unfinished", Severity.WARNING)
    assert [name for name in ("driver.npu-smi", *CARDS) if found[name].findings] == []
    assert found["npu.health"].status is Status.OK


def test_a_status_other_than_complete_is_the_same_finding(node: Nodes) -> None:
    record = "UserName=HwHiAiUser\nDriver_Install_Path_Param=/usr/local/Ascend\nDriver_Install_Status=installing\n"
    finding = only(node(files={"/etc/ascend_install.info": record}).check("driver.installed"))
    assert finding.code == "driver.installed/unfinished"
    assert finding.evidence[0].actual == "Driver_Install_Status=installing"


def test_an_older_record_without_a_status_says_nothing(node: Nodes) -> None:
    record = "UserName=HwHiAiUser\nDriver_Install_Path_Param=/usr/local/Ascend\n"
    assert node(files={"/etc/ascend_install.info": record}).check("driver.installed").findings == ()


def test_a_container_is_not_told_of_the_installation(node: Nodes) -> None:
    inside = node(driver={"finished": False}, container={})
    assert "[WARNING]" not in inside.host.run(["npu-smi", "info"]).stdout
    assert inside.check("driver.installed").findings == ()


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_code_of_a_sick_chip_is_read_on_every_product(node: Nodes, product: str) -> None:
    card = {DUO: 4, PRO: 5}.get(product, 3)
    sick = node(product=product, card=[{"id": card, "chip": 0, "health": "Alarm", "codes": ["80E01801", "80CD8008"]}])
    finding = only(sick.check("npu.health"))
    assert "80E01801" in finding.summary
    assert finding.evidence[1].source == f"npu-smi info -t health -i {card} -c 0"
    assert finding.evidence[1].actual == "80E01801, 80CD8008"
    page = sick.host.run(["npu-smi", "info", "-t", "health", "-i", str(card)]).stdout
    assert "80E01801" not in page


def test_a_recording_with_the_page_of_the_card_alone_still_tells_the_state(node: Nodes) -> None:
    card = [{"id": 3, "health": "Alarm", "codes": ["80E01801"]}]
    silent = {"npu-smi info -t health -i 3 -c 0": {"timed_out": True}}
    assert only(node(card=card, commands=silent).check("npu.health")).summary == "910B3 reports Alarm: no fault code"


@pytest.mark.parametrize(("product", "subject"), [(A3, "npu:2/chip:1"), (DUO, "npu:4/chip:0")])
def test_the_clocks_of_cards_with_several_chips_are_read(node: Nodes, product: str, subject: str) -> None:
    npu, chip = (int(part.partition(":")[2]) for part in subject.split("/"))
    held = node(product=product, cards={"aicore_pct": 90}, card=[{"id": npu, "chip": chip, "busy_mhz": 500}])
    held.said["card"][0]["aicore_mhz"] = 500
    finding = only(held.check("npu.throttled"))
    assert (finding.subject, finding.code) == (subject, "npu.throttled/slow-clock")
    refused = held.host.run(["npu-smi", "info", "-t", "common", "-i", str(npu), "-c", str(chip)])
    assert refused.returncode == 215
    assert refused.stdout.startswith('Error parameter in querying chip info, type: "common".')


def test_a_board_that_cannot_tell_is_no_refusal(node: Nodes) -> None:
    assert node(firmware={"says": "UNKNOWN"}).check("driver.firmware").status is Status.OK
    assert node(user=PLAIN).check("driver.firmware").status is Status.OK
    assert "NOT SUPPORT" in node(user=PLAIN).host.run(["npu-smi", "info", "-t", "board", "-i", "0"]).stdout


@pytest.mark.parametrize(
    ("said", "reason"), [({"user": PLAIN}, "NOT SUPPORT"), ({"firmware": {"says": "UNKNOWN"}}, "U")]
)
def test_without_a_verdict_and_a_range_the_pair_is_not_judged(node: Nodes, said: dict[str, Any], reason: str) -> None:
    files = {"/usr/local/Ascend/driver/version.info": "Version=25.2.0\n"}
    result = node(files=files, **said).check("driver.firmware")
    assert (result.status, result.skip) == (Status.SKIPPED, Skip.COULD_NOT_LOOK)
    assert result.reason is not None
    assert f"Compatibility: {reason}" in result.reason


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_chip_that_answers_nothing_is_an_error_though_its_row_says_ok(node: Nodes, product: str) -> None:
    card = 5 if product == PRO else 4
    silent = node(product=product, card=[{"id": card, "chip": 0, "silent": True}])
    rows = parse_info(silent.host.run(["npu-smi", "info"]).stdout).npus
    row = next(chip for chip in rows if (chip.npu_id, chip.chip_id) == (card, 0))
    assert (row.health, row.temp_c, row.hbm_total_mb or row.mem_total_mb) == ("OK", 0, 0)
    finding = only(silent.check("npu.health"))
    assert (finding.code, finding.severity) == ("npu.health/no-answer", Severity.ERROR)
    assert finding.subject == (f"npu:{card}" + ("/chip:0" if product in (A3, DUO) else ""))
    assert "0 °C" in (finding.evidence[0].actual or "")


def test_a_node_with_one_silent_chip_alone_is_named(node: Nodes) -> None:
    alone = node(cards={"count": 1, "silent": True})
    assert only(alone.check("npu.health")).subject == "npu:0"


@pytest.mark.parametrize("count", [1, 8])
def test_chips_without_power_and_with_memory_are_well(node: Nodes, count: int) -> None:
    assert node(cards={"count": count, "power_w": 0.0}).check("npu.health").findings == ()


def test_the_good_die_of_a_card_is_read_beside_a_silent_one(node: Nodes) -> None:
    card = [{"id": 5, "chip": 0, "silent": True}, {"id": 5, "chip": 1, "ecc_double": 2}]
    result = node(product=A3, card=card).check("npu.ecc")
    assert [finding.subject for finding in result.findings] == ["npu:5/chip:1"]


def test_an_a3_whose_npu_smi_shows_an_affinity_is_judged_by_it(node: Nodes) -> None:
    near = node(product=A3, machine="x86_64", topology={"affinity": ["0-23", "24-47", "48-71", "72-95"]})
    assert "CPU Affinity" in near.host.run(["npu-smi", "info", "-t", "topo"]).stdout
    assert near.check("npu.affinity").status is Status.OK


@pytest.mark.parametrize("step", range(4, 16))
def test_a_list_of_processors_that_npu_smi_cuts_is_read_up_to_there(node: Nodes, step: int) -> None:
    spans = ",".join(f"{step * place}-{step * place + 3}" for place in range(12))
    shown = node(topology={"affinity": [spans]})
    assert spans not in shown.host.run(["npu-smi", "info", "-t", "topo"]).stdout
    assert shown.check("npu.affinity").skip is None


def test_one_lost_card_hides_the_matrix_of_all(node: Nodes) -> None:
    lost = node(card=[{"id": 4, "missing": ["npu-smi"]}])
    assert lost.host.run(["npu-smi", "info", "-t", "topo"]).returncode == 191
    listing = lost.host.run(["npu-smi", "info", "-l"]).stdout
    assert listing.count("NPU ID                         : -1") == 1
    result = lost.check("npu.topology")
    assert result.skip is Skip.COULD_NOT_LOOK
    assert result.reason is not None
    assert result.reason.endswith("Failed to execute npu-smi info. ret is -8001.")
    assert only(lost.check("npu.count")).subject == "npu:4"
    assert lost.host.run(["npu-smi", "info", "-t", "health", "-i", "4"]).returncode == 215


def test_a_matrix_that_needs_the_bus_in_sys_says_so(node: Nodes) -> None:
    result = node(topology={"form": "unreadable"}).check("npu.topology")
    assert (result.skip, result.reason) == (
        Skip.COULD_NOT_LOOK,
        "`npu-smi info -t topo` failed: it printed only its usage",
    )


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("info -t ip -i 0", 0, "This device does not support querying ip."),
        ("info -t spod-info -i 0 -c 0", 0, "This device does not support querying spod-info."),
        ("info -t sensors -i 0", 215, "Must input parameter of chip id."),
        ("info -t health -i 9", 215, "Invalid card id."),
        ("info -t health -i 0 -c 7", 215, "Invalid chip id."),
        ("infos", 211, "Command or option is not found."),
    ],
)
def test_the_simulator_fails_as_the_tool_does(node: Nodes, words: str, status: int, text: str) -> None:
    done = node().host.run(["npu-smi", *words.split()])
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.splitlines()[0] == text


@pytest.mark.parametrize(("fault", "status"), [("no-device", 187), ("device-used", 172), ("board-type", 211)])
def test_without_a_driver_not_even_the_version_is_told(node: Nodes, fault: str, status: int) -> None:
    done = node(driver={"fault": fault}).host.run(["npu-smi", "-v"])
    assert (done.returncode, "failed" in done.stdout) == (status, True)


@pytest.mark.parametrize(
    ("word", "codes"), [("Detect ip set", 0), ("Unknown", 0), ("Socket fail", 1), ("Time exceeded", 1), ("Success", 0)]
)
def test_a_word_of_net_health_that_is_no_verdict_is_no_finding(node: Nodes, word: str, codes: int) -> None:
    result = node(card=[{"id": 5, "net_health": word}]).check("npu.network")
    assert [finding.subject for finding in result.findings] == ["npu:5"] * codes


def test_a_port_that_corrects_no_errors_is_named_in_the_words_of_950(node: Nodes) -> None:
    finding = only(node(cards={"fec": "128 T4"}, card=[{"id": 1, "fec": "Bypass"}]).check("npu.fabric", profile="full"))
    assert (finding.subject, finding.code) == ("npu:1", "npu.fabric/fec-off")


def test_a_silent_chip_without_an_address_is_not_off_the_bus(node: Nodes) -> None:
    silent = node(card=[{"id": 6, "silent": True}])
    table = silent.host.run(["npu-smi", "info"]).stdout
    bus = parse_info(table).npus[6].bus_id
    assert bus is not None
    said = {"npu-smi info": {"stdout": table.replace(bus, "0000:00:00.0")}}
    odd = node(card=[{"id": 6, "silent": True}], commands=said)
    assert odd.check("npu.count").findings == ()
    assert only(odd.check("npu.health")).subject == "npu:6"


def test_a_count_below_zero_is_no_count(node: Nodes) -> None:
    key = "npu-smi info -t ecc -i 2"
    page = node().host.run(key.split(" ")).stdout
    odd = page.replace("Double Bit Next-Isolated Pages Count : 0", "Double Bit Next-Isolated Pages Count : 4294967295")
    assert odd != page
    assert node(commands={key: {"stdout": odd}}).check("npu.ecc").findings == ()


@pytest.mark.parametrize("product", ["atlas-800t-a2-910b3", A3])
def test_network_cards_in_the_matrix_of_a_newer_tool_change_nothing(node: Nodes, product: str) -> None:
    newer = node(product=product, driver={"version": "26.0.rc1"})
    text = newer.host.run(["npu-smi", "info", "-t", "topo"]).stdout
    assert ("NIC3" in text, "NIC0: " in text) == (True, True)
    older = parse_topology(node(product=product).host.run(["npu-smi", "info", "-t", "topo"]).stdout)
    assert parse_topology(text) == older
    assert newer.check("npu.topology").status is Status.OK
