"""The cards: there, complete, healthy, cool, alike; their jobs and their links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor import knowledge
from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status
from npudoctor.testing import run, run_check

Nodes = Callable[..., Any]


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


def worst(result: Result) -> list[Finding]:
    return [finding for finding in result.findings if finding.severity > Severity.INFO]


def only_worst(result: Result) -> Finding:
    found = worst(result)
    assert len(found) == 1, [finding.summary for finding in found]
    return found[0]


# npu.present


def test_a_node_with_cards_has_a_card(node: Nodes) -> None:
    assert (node().check("npu.present").status, node().check("npu.present").findings) == (Status.OK, ())


def test_a_bare_host_has_one_error_with_all_that_was_looked_at(node: Nodes) -> None:
    finding = only(node(product="none").check("npu.present"))
    assert (finding.severity, finding.subject) == (Severity.ERROR, "host")
    assert [evidence.actual for evidence in finding.evidence] == ["none", "none", "no answer"]


def test_huawei_s_network_cards_and_engines_are_no_cards() -> None:
    pci = [{"slot": f"0000:0{n}:00.0", "vendor": "0x19e5", "device": id} for n, id in enumerate(("0x0222", "0xa250"))]
    result = run_check("npu.present", files={"/dev/null": ""}, measures={"pci": pci})
    assert only(result).evidence[0].actual == "none"


def test_a_card_on_the_bus_is_enough() -> None:
    pci = [{"slot": "0000:c1:00.0", "vendor": "0x19e5", "device": "0xd802"}]
    assert run_check("npu.present", measures={"pci": pci}).status is Status.OK


def test_a_recording_without_any_source_is_no_verdict() -> None:
    result = run_check("npu.present", unrecorded="unknown")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.NOT_RECORDED)


def test_a_host_that_lends_its_cards_is_told_so_as_info(node: Nodes) -> None:
    lender = node(cann={"installed": False}, python={"torch": "", "torch_npu": ""})
    report = lender.report()
    assert (report.role, report.exit_code) == ("driver-only", 0)
    present = next(result for result in report.results if result.check == "npu.present")
    assert only(present).severity is Severity.INFO
    python = next(result for result in report.results if result.check == "python.version")
    assert (python.skip, python.reason) == (
        Skip.NOT_APPLICABLE,
        "containers bring their own CANN: this node is driver-only (see --role)",
    )
    assert lender.report(role="full").exit_code == 1


# npu.count


def test_eight_cards_everywhere_agree(node: Nodes) -> None:
    assert node().check("npu.count").findings == ()


@pytest.mark.parametrize("product", ["atlas-800t-a3", "atlas-300i-duo", "atlas-800-9000"])
def test_several_chips_behind_one_address_are_counted_right(node: Nodes, product: str) -> None:
    assert node(product=product).check("npu.count").findings == ()


@pytest.mark.parametrize(
    ("missing", "severity", "code", "summary"),
    [
        (
            ["npu-smi"],
            *(Severity.ERROR, "npu.count/not-in-npu-smi", "NPU in PCI slot 0000:82:00.0 missing from npu-smi"),
        ),
        (
            ["npu-smi", "device-node"],
            *(Severity.ERROR, "npu.count/not-in-npu-smi", "NPU in PCI slot 0000:82:00.0 missing from npu-smi"),
        ),
        (
            ["pci"],
            *(Severity.ERROR, "npu.count/off-the-bus"),
            "NPU 3 (0000:82:00.0) is listed by npu-smi but has dropped off the PCI bus",
        ),
        (
            ["device-node"],
            *(Severity.ERROR, "npu.count/no-device-node"),
            "device node /dev/davinci3 missing: 8 chips in npu-smi, 7 in /dev",
        ),
        (
            ["pci", "npu-smi", "device-node"],
            *(Severity.WARNING, "npu.count/missing-npu", "NPU 3 missing: 7 of 8 chips found"),
        ),
    ],
)
def test_a_missing_card_is_named_once(
    node: Nodes, missing: list[str], severity: Severity, code: str, summary: str
) -> None:
    finding = only(node(card=[{"id": 3, "missing": missing}]).check("npu.count"))
    assert (finding.subject, finding.severity, finding.code) == ("npu:3", severity, code)
    assert finding.summary == summary


def test_two_missing_cards_are_two_findings(node: Nodes) -> None:
    cards = [{"id": id, "missing": ["npu-smi"]} for id in (2, 6)]
    assert [finding.subject for finding in node(card=cards).check("npu.count").findings] == ["npu:2", "npu:6"]


@pytest.mark.parametrize("missing", ["pci", "device-node"])
def test_one_of_two_chips_of_a_card_is_named_as_npu_smi_would(node: Nodes, missing: str) -> None:
    card = [{"id": 6, "chip": 1, "missing": [missing]}]
    finding = only(node(product="atlas-800t-a3", card=card).check("npu.count"))
    assert finding.subject == "npu:6/chip:1"


def test_an_a3_that_lost_one_die_shows_neither(node: Nodes) -> None:
    card = [{"id": 6, "chip": 1, "missing": ["npu-smi"]}]
    finding = only(node(product="atlas-800t-a3", card=card).check("npu.count"))
    assert finding.chips == ("npu:6/chip:0", "npu:6/chip:1")


@pytest.mark.parametrize("missing", ["pci", "device-node"])
def test_both_chips_of_a_card_are_one_card(node: Nodes, missing: str) -> None:
    card = [{"id": 4, "missing": [missing]}]
    finding = only(node(product="atlas-300i-duo", card=card).check("npu.count"))
    assert [chip.partition("/")[0] for chip in finding.chips] == ["npu:4"] * len(finding.chips)
    assert finding.is_about("npu:4/chip:0") and finding.is_about("npu:4/chip:1")


def test_what_takes_three_npus_away_is_one_cause(node: Nodes) -> None:
    cards = [{"id": id, "missing": ["pci"]} for id in (1, 2, 5)]
    finding = only(node(card=cards).check("npu.count"))
    assert (finding.subject, finding.subjects) == ("host", ("npu:1", "npu:2", "npu:5"))


def test_a_container_is_not_compared_with_its_host_s_bus(node: Nodes) -> None:
    some = node(container={"devices": [0, 5]})
    assert some.check("npu.count").findings == ()


# npu.health


def test_healthy_chips_yield_nothing(node: Nodes) -> None:
    assert node().check("npu.health").findings == ()


@pytest.mark.parametrize(
    ("health", "codes", "severity", "code", "summary"),
    [
        (
            "Alarm",
            ["80E01801"],
            Severity.ERROR,
            "alarm",
            "910B3 reports Alarm: multi-bit error in on-chip memory (80E01801)",
        ),
        (
            "Warning",
            ["80E00209"],
            Severity.WARNING,
            "warning",
            "910B3 reports Warning: HBM temperature alarm (over 95 °C) (80E00209)",
        ),
        (
            "Alarm",
            ["81078603"],
            Severity.INFO,
            "alarm",
            "910B3 reports Alarm: the NPU's network port is down (81078603)",
        ),
        ("Critical", ["DEADBEE0"], Severity.ERROR, "critical", "910B3 reports Critical: unknown fault code DEADBEE0"),
        ("UNKNOWN", [], Severity.ERROR, "other", "910B3 reports UNKNOWN: no fault code"),
        ("Warning", [], Severity.WARNING, "warning", "910B3 reports Warning: no fault code"),
    ],
)
def test_a_sick_chip_is_judged_by_its_code(
    node: Nodes, health: str, codes: list[str], severity: Severity, code: str, summary: str
) -> None:
    finding = only(node(card=[{"id": 2, "health": health, "codes": codes}]).check("npu.health"))
    assert (finding.subject, finding.severity, finding.code) == ("npu:2", severity, f"npu.health/{code}")
    assert finding.summary == summary


def test_quick_judges_by_the_word_and_asks_no_card(node: Nodes) -> None:
    sick = node(card=[{"id": 2, "health": "Alarm", "codes": ["81078603"]}])
    assert only(sick.check("npu.health", profile="quick")).severity is Severity.ERROR


def test_on_an_a3_the_chip_of_the_card_is_named(node: Nodes) -> None:
    sick = node(product="atlas-800t-a3", card=[{"id": 4, "chip": 1, "health": "Warning", "codes": ["80E00209"]}])
    assert only(sick.check("npu.health")).subject == "npu:4/chip:1"


def test_with_a_failing_npu_smi_health_is_blocked_by_the_cause(node: Nodes) -> None:
    result = node(driver={"fault": "no-device"}).check("npu.health")
    assert (result.status, result.blocked_by) == (Status.SKIPPED, "driver.npu-smi")


# npu.temperature


def test_cool_chips_yield_nothing_busy_or_idle(node: Nodes) -> None:
    assert node().check("npu.temperature").findings == ()
    assert node(job={"ranks": 4}).check("npu.temperature").findings == ()


@pytest.mark.parametrize(
    ("celsius", "severity", "code", "summary"),
    [
        (79, Severity.WARNING, "above-peers", "910B3 at 79 °C, 38 °C above its peers"),
        (84, Severity.WARNING, "warm", "910B3 at 84 °C, limit 80 °C"),
        (96, Severity.ERROR, "hot", "910B3 at 96 °C, limit 95 °C"),
    ],
)
def test_a_hot_chip_is_named(node: Nodes, celsius: int, severity: Severity, code: str, summary: str) -> None:
    finding = only(node(card=[{"id": 6, "temp_c": celsius}]).check("npu.temperature"))
    assert (finding.subject, finding.severity, finding.code) == ("npu:6", severity, f"npu.temperature/{code}")
    assert finding.summary == summary


def test_a_site_may_set_its_own_limits(node: Nodes) -> None:
    hot = node(cards={"temp_c": 84})
    assert hot.check("npu.temperature", settings={"temperature_warn_celsius": 90}).findings == ()


def test_a_temperature_of_zero_was_not_measured(node: Nodes) -> None:
    result = node(cards={"temp_c": 0}).check("npu.temperature")
    assert (result.status, result.reason) == (Status.SKIPPED, "npu-smi does not show the temperature of any chip")


# npu.memory-free and npu.processes


def test_an_idle_node_has_free_memory_and_no_processes(node: Nodes) -> None:
    assert node().check("npu.memory-free").findings == ()
    assert node().check("npu.processes").findings == ()


def test_memory_without_an_owner_is_told_over_the_idle_baseline(node: Nodes) -> None:
    finding = only(node(card=[{"id": 3, "hbm_used_mb": 23880}]).check("npu.memory-free"))
    assert (finding.subject, finding.severity) == ("npu:3", Severity.WARNING)
    assert (finding.code, finding.params["unexplained_mb"]) == ("npu.memory-free/unexplained", 20479)
    assert finding.summary == "20 GB in use over the idle baseline of 3.3 GB, but npu-smi lists no process for it"


def test_in_a_container_the_owner_may_be_elsewhere(node: Nodes) -> None:
    boxed = node(container={}, card=[{"id": 3, "hbm_used_mb": 23880}])
    finding = only(boxed.check("npu.memory-free"))
    assert (finding.severity, finding.code) == (Severity.INFO, "npu.memory-free/held-outside-container")
    assert finding.summary.endswith("over the idle baseline of 3.3 GB; its processes are not visible in this container")


def test_a_live_job_is_info_and_an_error_where_the_node_should_be_idle(node: Nodes) -> None:
    busy = node(job={"ranks": 8})
    result = busy.check("npu.processes")
    assert (result.status, {finding.severity for finding in result.findings}) == (Status.OK, {Severity.INFO})
    assert result.findings[0].code == "npu.processes/in-use"
    assert result.findings[0].summary.startswith("chips in use by python3 (pid 211412, user train, since 20")
    assert only(result).subjects == tuple(f"npu:{npu}" for npu in range(8))
    assert busy.check("npu.memory-free").findings == ()
    assert busy.check("npu.processes", expect_idle=True).status is Status.ERROR
    held = busy.check("npu.memory-free", expect_idle=True)
    assert (held.status, held.blocked_by) == (Status.SKIPPED, "npu.processes")


def test_a_dead_process_is_an_error_whoever_works_beside_it(node: Nodes) -> None:
    dead = {"pid": 4711, "npu": 7, "memory_mb": 900, "dead": True}
    finding = only(node(process=[dead]).check("npu.processes"))
    assert (finding.subject, finding.severity, finding.pitfall) == ("npu:7", Severity.ERROR, "P004")
    assert finding.code == "npu.processes/dead"
    assert finding.summary == "process 4711 (python3, 900 MB) no longer exists but still holds this chip"
    assert "If it is still listed, reset the NPU, or reboot." in (finding.hint or "")
    both = only(node(process=[dead, {**dead, "pid": 4712, "npu": 6}]).check("npu.processes"))
    assert "If they are still listed, reset the NPUs, or reboot." in (both.hint or "")
    beside = worst(node(job={"ranks": 4}, process=[dead]).check("npu.processes"))
    assert [finding.subject for finding in beside] == ["npu:7"]


def test_in_a_container_no_process_is_called_dead(node: Nodes) -> None:
    dead = {"pid": 4711, "npu": 7, "memory_mb": 900, "dead": True}
    assert worst(node(container={}, process=[dead]).check("npu.processes")) == []


@pytest.mark.parametrize(
    ("ppid", "command", "warned"),
    [
        (1, "python3 -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)", True),
        (1, "python3 train.py --local-rank=3", True),
        (99999, "python3 train.py --local_rank 3", True),
        (1, "python3 train.py", False),
        (1, "nohup python3 serve.py", False),
    ],
)
def test_only_a_worker_without_its_launcher_is_stale(node: Nodes, ppid: int, command: str, warned: bool) -> None:
    process = {"pid": 5000, "ppid": ppid, "npu": 3, "memory_mb": 1000, "command": command}
    result = node(process=[process]).check("npu.processes")
    assert result.status is (Status.WARNING if warned else Status.OK)


def workers(*commands: str, environ: str | None = None, ages: tuple[float, ...] = (), **more: Any) -> dict[str, Any]:
    """Processes of init on the first cards, each with its command."""
    rows = [
        {"pid": 5000 + npu, "npu": npu, "memory_mb": 1024, "command": command, "age_s": (ages or (900.0,) * 9)[npu]}
        for npu, command in enumerate(commands)
    ]
    files = {f"/proc/{row['pid']}/environ": environ.replace("=N", "=" + str(row["npu"])) for row in rows if environ}
    return {"process": [{**row, **more} for row in rows], "files": files}


LAUNCHED = "SECRET=1\0TORCHELASTIC_RUN_ID=none\0LOCAL_RANK=N\0LOCAL_WORLD_SIZE=8\0"


@pytest.mark.parametrize(
    ("said", "warned"),
    [
        (workers("python3 -u train.py", environ=LAUNCHED), 1),
        (workers("python3 pretrain.py", "python3 pretrain.py", environ=LAUNCHED), 2),
        (workers(*["/opt/python3 -u train.py"] * 4), 4),
        (workers(*["/opt/python3 -u serve.py"] * 4, environ="ASCEND_RT_VISIBLE_DEVICES=N\0"), 0),
        (workers(*["/opt/python3 -u serve.py"] * 2, ages=(900.0, 8000.0)), 0),
        (workers(*["/opt/python3 serve.py"] * 4), 0),
        (workers("python3 -u serve.py --port 1", "python3 -u serve.py --port 2"), 0),
        (workers(*["python3 -u train.py"] * 4, ppid=917003), 0),
        ({**workers(*["python3 -u train.py"] * 4, environ=LAUNCHED), "container": {}}, 0),
    ],
)
def test_workers_without_their_launcher_are_told_from_what_was_started_by_itself(
    node: Nodes, said: dict[str, Any], warned: int
) -> None:
    found = worst(node(**said).check("npu.processes"))
    assert [len(finding.chips) for finding in found] == ([warned] if warned else [])
    assert {finding.code for finding in found} <= {"npu.processes/orphan"}
    ending = (
        "holds this chip, but its launcher has ended" if warned == 1 else "hold chips, but their launcher has ended"
    )
    assert all(finding.summary.endswith(f" GB) {ending}") for finding in found)


def test_workers_of_a_launcher_that_was_killed_are_seen(node: Nodes) -> None:
    host = node(job={"ranks": 8}).host
    host.signal(211400, 9)
    result = next(one for one in run(host, "npu.processes").results if one.check == "npu.processes")
    (finding,) = worst(result)
    assert finding.subjects == tuple(f"npu:{npu}" for npu in range(8))
    assert finding.commands[1] == "kill " + " ".join(str(211412 + rank) for rank in range(8))


def test_a_job_with_more_ranks_than_cards_is_a_warning(node: Nodes) -> None:
    healthy = node(job={"ranks": 8}).host
    assert worst(run(healthy, "npu.processes").results[-1]) == []
    healthy.signal(211400 + 12 + 7, 9)
    finding = only_worst(run(healthy, "npu.processes").results[-1])
    assert (finding.severity, finding.subject) == (Severity.WARNING, "host")
    assert (finding.code, finding.params["ranks"], finding.params["chips"]) == (
        *("npu.processes/ranks-without-chips", 8),
        7,
    )
    assert finding.summary.startswith("8 ranks of python3 (pid 2114")
    assert finding.summary.endswith(") hold only 7 chips")


def test_without_a_process_table_there_is_nothing_to_say(node: Nodes) -> None:
    result = node(driver={"processes": False}).check("npu.processes")
    assert (result.skip, result.reason) == (Skip.NOT_APPLICABLE, "this npu-smi shows no table of processes")


# npu.uniform


def test_cards_of_one_kind_are_uniform(node: Nodes) -> None:
    for product in ("atlas-800t-a2-910b3", "atlas-300i-duo", "atlas-800t-a3"):
        assert node(product=product).check("npu.uniform").findings == ()


def test_the_odd_card_is_named(node: Nodes) -> None:
    healthy = node().host
    other = healthy.commands["npu-smi info"].stdout.replace("| 5     910B3 ", "| 5     910B1 ")
    finding = only(node(commands={"npu-smi info": {"stdout": other}}).check("npu.uniform", profile="quick"))
    assert (finding.subject, finding.severity) == ("npu:5", Severity.WARNING)
    assert (finding.code, finding.params["odd"]) == ("npu.uniform/model", ["npu:5 910B1"])
    assert finding.summary == "NPU model mismatch: npu:5 910B1; others 910B3"


def test_a_card_with_other_firmware_is_named_in_standard_only(node: Nodes) -> None:
    key = "npu-smi info -t board -i 6"
    page = node().host.commands[key].stdout
    version = next(line for line in page.splitlines() if "Firmware Version" in line).split(":")[1].strip()
    odd = node(commands={key: {"stdout": page.replace(version, "7.1.0.3.220")}})
    assert only(odd.check("npu.uniform")).subject == "npu:6"
    assert odd.check("npu.uniform", profile="quick").findings == ()


# npu.topology


@pytest.mark.parametrize("product", ["atlas-800t-a2-910b1", "atlas-800t-a3", "atlas-800-9000", "atlas-800-9010"])
def test_the_links_of_a_healthy_product_are_right(node: Nodes, product: str) -> None:
    assert node(product=product).check("npu.topology").findings == ()


def test_a_pair_over_pcie_is_listed(node: Nodes) -> None:
    finding = only(node(topology={"links": {"2-5": "PHB"}}).check("npu.topology"))
    assert (finding.subject, finding.severity) == ("host", Severity.WARNING)
    assert finding.code == "npu.topology/no-direct-link"
    assert finding.summary == "direct link missing between 1 pair of chips: NPU2–NPU5"


def test_a_card_with_all_its_links_slow_is_named_itself(node: Nodes) -> None:
    links = {f"{min(3, other)}-{max(3, other)}": "SYS" for other in range(8) if other != 3}
    assert only(node(topology={"links": links}).check("npu.topology")).subject == "npu:3"


def test_an_uneven_matrix_is_told(node: Nodes) -> None:
    key = "npu-smi info -t topo"
    lines = node().host.commands[key].stdout.splitlines(keepends=True)
    row = next(place for place, line in enumerate(lines) if line.startswith("NPU4"))
    lines[row] = lines[row].replace("HCCS", "PIX ", 1)
    finding = only(node(commands={key: {"stdout": "".join(lines)}}).check("npu.topology"))
    assert finding.code == "npu.topology/asymmetric"
    assert finding.summary == "link differs by direction between 1 pair of chips: NPU0–NPU4"


def test_half_a_page_of_links_is_no_verdict(node: Nodes) -> None:
    key = "npu-smi info -t topo"
    lines = node().host.commands[key].stdout.splitlines(keepends=True)
    result = node(commands={key: {"stdout": "".join(lines[:5])}}).check("npu.topology")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.FAILED)


def test_an_unknown_board_is_judged_by_the_majority(node: Nodes) -> None:
    unknown = {"container": {"devices": list(range(7))}, "remove": ["/sys/bus/pci"]}
    assert knowledge.hardware().link_plan("A2", 7, None) is None
    assert node(**unknown).check("npu.topology").findings == ()
    finding = only(node(**unknown, topology={"links": {"2-5": "PHB"}}).check("npu.topology"))
    assert (finding.code, finding.params["pairs"]) == ("npu.topology/no-direct-link-unlike-most", ["NPU2–NPU5"])
    mixed = {f"{one}-{other}": "PHB" for one in range(3) for other in range(3, 7)}
    assert node(**unknown, topology={"links": mixed}).check("npu.topology").findings == ()


def test_a_product_without_topology_is_not_judged(node: Nodes) -> None:
    result = node(product="atlas-300i-duo").check("npu.topology")
    assert result.skip is Skip.NOT_APPLICABLE
