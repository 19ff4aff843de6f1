"""Planted faults are named, each on its nodes; what is healthy is not."""

from collections.abc import Sequence
from typing import Any

import pytest

from npudoctor.findings import Severity
from npudoctor.fleet import fixplan, gather, sim
from npudoctor.fleet.digest import Digest
from npudoctor.fleet.merge import Fleet, Reader
from npudoctor.fleet.outcomes import Outcome
from npudoctor.fleet.verdict import FleetReport, judge_fleet
from npudoctor.records import replace
from npudoctor.selection import Selection

CODES = {
    "drift": "fleet.versions/differs",
    "cann": "fleet.versions/differs",
    "torch": "fleet.versions/differs",
    "kernel": "fleet.system/differs",
    "bond": "fleet.system/differs",
    "storage": "fleet.system/differs",
    "slow": "fleet.outliers/value",
    "hot": "fleet.outliers/value",
    "sick": "npu.health/alarm",
    "tls": "fleet.tls/differs",
    "dup-ip": "fleet.card-addresses/conflict",
    "swap": "fleet.rails/other-switch",
    "fec": "fleet.link-settings/differs",
    "variable": "fleet.environment/foreign-address",
    "twin": "fleet.answered/same-host",
    "timezone": "fleet.clocks/timezone",
    "rank-table": "fleet.rank-table/ranks",
    "switch": "fleet.link-settings/down",
    "dead": "fleet.answered/missing",
}
"""Which finding names the nodes of each fault of the simulation."""


def fleet_of(digests: dict[str, Digest], names: Sequence[str] = (), times: tuple[float, float] | None = None) -> Fleet:
    reader = Reader()
    started, received = times or (None, None)
    outcomes = {
        name: Outcome(node=name, kind="answered" if name in digests else "route", started=started, received=received)
        for name in names or digests
    }
    return Fleet(
        names=tuple(outcomes),
        outcomes=outcomes,
        members=tuple(reader.member(name, digest, outcomes[name]) for name, digest in digests.items()),
    )


def report_of(fleet: Fleet, **selection: Any) -> FleetReport:
    return judge_fleet(fleet, Selection(**selection))


def nodes_by_code(report: FleetReport, least: Severity = Severity.WARNING) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for result in report.report.results:
        assert result.status.value != "crashed", result.reason
        for finding in result.findings:
            if finding.severity >= least:
                found.setdefault(finding.code or "", set()).update(finding.params["nodes"])
    return found


def changed(digest: Digest, **identity: Any) -> Digest:
    return replace(digest, identity=replace(digest.identity, **identity))


def test_every_fault_of_the_simulation_has_its_finding() -> None:
    assert set(CODES) == set(sim.FAULTS)


@pytest.mark.parametrize("fault", CODES)
def test_a_planted_fault_is_found_on_its_nodes_and_nothing_else(fault: str) -> None:
    count = 2 if fault in ("dup-ip", "twin", "rank-table") else 1
    names, digests, planted = sim.fleet(40, {fault: count}, seed=3)
    found = nodes_by_code(report_of(fleet_of(digests, names)))
    assert found.pop(CODES[fault]) == set(planted[fault])
    also = {"rank-table": {"fleet.rank-table/address", "fleet.rank-table/tie"}}
    assert set(found) <= also.get(fault, set())


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_fleet_has_no_finding(seed: int) -> None:
    names, digests, _ = sim.fleet(48, {}, seed=seed)
    report = report_of(fleet_of(digests, names))
    assert nodes_by_code(report, Severity.INFO) == {}
    assert (report.verdict.value, report.exit_code) == ("ok", 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_many_faults_at_once_are_all_named_and_nothing_else(seed: int) -> None:
    faults = {"drift": 2, "torch": 1, "kernel": 1, "hot": 1, "sick": 1, "tls": 1, "dup-ip": 2, "swap": 1, "fec": 1}
    names, digests, planted = sim.fleet(300, {**faults, "variable": 1, "timezone": 1, "dead": 1}, seed=100 + seed)
    found = nodes_by_code(report_of(fleet_of(digests, names)))
    expected: dict[str, set[str]] = {}
    for fault, where in planted.items():
        expected.setdefault(CODES[fault], set()).update(where)
    assert found == expected


def test_two_products_are_two_norms_and_no_drift() -> None:
    _, many, _ = sim.fleet(40, {}, seed=1)
    names, few, _ = sim.fleet(12, {}, seed=2, scenario="healthy-a3")
    renamed = {f"a{name}": changed(few[name], boot_id=f"a{name}", machine_id=f"a{name}") for name in names}
    for place, (name, digest) in enumerate(renamed.items()):
        npus = {
            device: replace(npu, sdid=place * 100 + device, switch=f"a3-{npu.switch}")
            for device, npu in digest.identity.npus.items()
        }
        renamed[name] = changed(digest, npus=npus, super_pod={"super_pod_id": 0, "server_index": place})
    report = report_of(fleet_of({**many, **renamed}))
    assert nodes_by_code(report) == {}
    assert [group.nodes for group in report.groups] == [40, 12]


def test_a_tie_is_said_and_blames_no_node() -> None:
    names, digests, _ = sim.fleet(8, {"cann": 4})
    report = report_of(fleet_of(digests, names))
    (result,) = (one for one in report.report.results if one.check == "fleet.versions")
    (finding,) = result.findings
    assert finding.code == "fleet.versions/tie"
    assert "8.0.RC2" in finding.summary and "7.0.0" in finding.summary
    assert not any(row.unlike for row in report.nodes)


def test_a_golden_node_decides_a_tie() -> None:
    names, digests, planted = sim.fleet(8, {"cann": 4})
    fleet = fleet_of(digests, names)
    golden = gather.golden_of(fleet, planted["cann"][0])
    found = nodes_by_code(report_of(replace(fleet, golden=golden)))
    assert found["fleet.versions/differs"] == set(names) - set(planted["cann"])


def test_a_rolling_upgrade_is_one_line_and_its_half_done_nodes_are_named() -> None:
    names, digests, planted = sim.fleet(20, {"drift": 6, "cann": 1})
    wanted = {"driver version": ("24.1.rc1", "24.1.0"), "driver package": ("24.1.rc1", "24.1.0")}
    half = next(name for name in names if name not in planted["drift"] + planted["cann"])
    old = digests[half]
    features = tuple((s, t, ("24.1.0",) if t == "driver version" else v) for s, t, v in old.features)
    digests[half] = replace(old, features=features)
    odd = next(name for name in reversed(names) if name not in [*planted["drift"], *planted["cann"], half])
    features = tuple((s, t, ("9.9",) if t.startswith("driver ") else v) for s, t, v in digests[odd].features)
    digests[odd] = replace(digests[odd], features=features)
    report = report_of(replace(fleet_of(digests, names), baseline={"": wanted}))
    found = nodes_by_code(report)
    assert found["fleet.versions/half-upgraded"] == {half}
    assert found["fleet.versions/not-in-baseline"] == {odd}
    assert found["fleet.versions/differs"] == set(planted["cann"])
    assert nodes_by_code(report, Severity.INFO)["fleet.versions/upgrade"] == set(planted["drift"])


def test_an_upgrade_of_the_driver_takes_its_package_along_and_only_in_its_group() -> None:
    names, digests, planted = sim.fleet(20, {"drift": 6})
    others, more, also = sim.fleet(12, {"drift": 2}, seed=1, scenario="healthy-a3")
    digests |= {f"a{name}": changed(more[name], boot_id=f"a{name}", machine_id=f"a{name}") for name in others}
    fleet = fleet_of(digests, [*names, *(f"a{name}" for name in others)])
    group = next(one for one in fleet.groups if one.startswith("910B1"))
    wanted = {group.rpartition(" (")[0]: {"driver version": ("24.1.rc1", "24.1.0")}}
    report = report_of(replace(fleet, baseline=wanted))
    assert nodes_by_code(report)["fleet.versions/differs"] == {f"a{name}" for name in also["drift"]}
    assert nodes_by_code(report, Severity.INFO)["fleet.versions/upgrade"] == set(planted["drift"])
    half = planted["drift"][0]
    features = tuple((s, t, ("24.1.rc1",) if t == "driver package" else v) for s, t, v in digests[half].features)
    digests[half] = replace(digests[half], features=features)
    report = report_of(replace(fleet_of(digests, fleet.names), baseline=wanted))
    assert nodes_by_code(report)["fleet.versions/half-upgraded"] == {half}


def test_the_bmc_the_mcu_and_flow_control_are_compared_where_they_are_known() -> None:
    names, digests, _ = sim.fleet(9, {})
    for place, name in enumerate(names[1:]):  # the first node says nothing of them
        one = digests[name]
        mcu = ("8 × 23.3.13",) if place != 1 else ("7 × 23.3.13", "1 × 23.2.4")
        rows = (("host.profile", "BMC version", ("3.1" if place else "3.0",)), ("host.profile", "MCU version", mcu))
        npus = {device: replace(npu, pfc="4" if place != 2 else "off") for device, npu in one.identity.npus.items()}
        digests[name] = changed(replace(one, features=(*one.features, *rows)), npus=npus)
    report = report_of(fleet_of(digests, names))
    assert nodes_by_code(report) == {
        "fleet.system/differs": {names[1], names[2]},
        "fleet.link-settings/differs": {names[3]},
    }


@pytest.mark.parametrize("number", [1, 4])
def test_a_tls_switch_that_differs_offers_its_fix_for_the_whole_group(number: int) -> None:
    names, digests, _ = sim.fleet(8, {"tls": number})
    (row,) = fixplan.plan(report_of(fleet_of(digests, names)), "npu.tls-off")
    assert (row.nodes, row.reason) == (tuple(names), "links need the same TLS switch at both ends")


def test_a_switch_is_named_as_the_cause_across_nodes() -> None:
    names, digests, _ = sim.fleet(64, {"switch": 1})
    report = report_of(fleet_of(digests, names))
    assert report.causes and report.causes[0].startswith("Switch leaf-1-0 is shared by 32 of the 32 nodes")


def test_a_rack_without_an_answer_is_named_as_the_cause() -> None:
    names, digests, _ = sim.fleet(64, {})
    dead = [name for name in names if name.startswith("r02")]
    report = report_of(fleet_of({name: one for name, one in digests.items() if name not in dead}, names))
    assert report.causes[0].startswith("The prefix r02 is shared by 16 of the 16 nodes")


def test_nodes_without_an_answer_end_with_3_unless_they_are_allowed() -> None:
    names, digests, _ = sim.fleet(12, {"dead": 2})
    fleet = fleet_of(digests, names)
    assert report_of(fleet).exit_code == 3
    assert report_of(replace(fleet, allow_missing=1)).exit_code == 3
    assert report_of(replace(fleet, allow_missing=2)).exit_code == 0


def test_a_node_that_the_scheduler_has_taken_out_is_not_missing() -> None:
    names, digests, _ = sim.fleet(12, {"dead": 1})
    fleet = fleet_of(digests, names)
    out = {
        name: one if one.answered else Outcome(node=name, kind="scheduler", detail="drained: fan (by ops)")
        for name, one in fleet.outcomes.items()
    }
    report = report_of(replace(fleet, outcomes=out))
    assert report.exit_code == 0
    assert "drained: fan" in report.report.results[0].findings[0].summary


def test_hidden_npus_are_not_lost_ones() -> None:
    names, digests, _ = sim.fleet(10, {})
    digests[names[0]] = changed(digests[names[0]], visible={"pci": 8, "nodes": 2, "npu_smi": 2})
    report = report_of(fleet_of(digests, names))
    assert nodes_by_code(report) == {}
    assert nodes_by_code(report, Severity.INFO) == {"fleet.answered/hidden": {names[0]}}


@pytest.mark.parametrize(("offset", "code"), [(45, "offset"), (5, "spread"), (0.2, None)])
def test_a_clock_that_is_off_is_found_within_the_bounds_of_the_question(offset: float, code: str | None) -> None:
    names, digests, _ = sim.fleet(6, {})
    for place, name in enumerate(names):
        wall = 1000.0 + (offset if place == 2 else 0)
        clock = replace(digests[name].clock, readings=((wall + 1, 1.0), (wall + 3, 3.0)))
        digests[name] = replace(digests[name], clock=clock)
    found = nodes_by_code(report_of(fleet_of(digests, names, times=(1000.5, 1003.5))))
    assert {one.partition("/")[2] for one in found} == ({code} if code else set())
    assert not code or names[2] in found[f"fleet.clocks/{code}"]


def test_nodes_asked_by_the_quick_profile_are_not_unlike_the_others() -> None:
    names, digests, _ = sim.fleet(10, {})
    one = digests[names[0]]
    few = tuple(row for row in one.features if not row[0].startswith(("npu_smi.", "driver.")))
    report = replace(one.report, profile="quick")
    digests[names[0]] = replace(one, features=few, report=report)
    assert nodes_by_code(report_of(fleet_of(digests, names))) == {}


def test_one_error_on_many_nodes_is_one_finding() -> None:
    from npudoctor.fleet.digest import Event

    names, digests, _ = sim.fleet(10, {})
    for name in names[:4]:
        event = Event(text="devdrv: hccs link N error", time="Nov 21 01:00:00")
        digests[name] = replace(digests[name], events=(event,))
    found = nodes_by_code(report_of(fleet_of(digests, names)))
    assert found == {"fleet.errors-together/same-error": set(names[:4])}


def test_findings_are_alike_by_their_parameters_and_not_by_their_sentence() -> None:
    names, digests, planted = sim.fleet(10, {"sick": 2}, seed=3)
    fleet = fleet_of(digests, names)
    [one, other] = [member for member in fleet.members if member.name in planted["sick"]]
    worded = tuple((check, title, replace(found, summary="worded later")) for check, title, found in other.findings)
    members = [replace(other, findings=worded) if member is other else member for member in fleet.members]
    results = report_of(replace(fleet, members=tuple(members))).report.results
    [finding] = [found for result in results for found in result.findings if found.code == "npu.health/alarm"]
    assert set(finding.params["nodes"]) == {one.name, other.name}


def test_an_address_is_given_once_in_a_super_pod() -> None:
    names, digests, planted = sim.fleet(8, {"dup-ip": 2}, scenario="healthy-a3")
    assert nodes_by_code(report_of(fleet_of(digests, names))) == {
        "fleet.card-addresses/conflict": set(planted["dup-ip"])
    }
    other = digests[planted["dup-ip"][0]]
    pod = {**other.identity.super_pod, "super_pod_id": 7}
    digests[other.name] = changed(other, super_pod=pod)
    assert "fleet.card-addresses/conflict" not in nodes_by_code(report_of(fleet_of(digests, names)))


def test_sdids_and_server_indices_are_unique_in_a_super_pod() -> None:
    names, digests, _ = sim.fleet(4, {}, scenario="healthy-a3")
    for place, name in enumerate(names):
        npus = {
            device: replace(npu, sdid=7 if place < 2 and device == 0 else place * 100 + device + 10)
            for device, npu in digests[name].identity.npus.items()
        }
        digests[name] = changed(digests[name], npus=npus, super_pod={"super_pod_id": 1, "server_index": place // 2 * 2})
    found = nodes_by_code(report_of(fleet_of(digests, names)))
    assert found["fleet.super-pod/sdid"] == set(names[:2])
    assert found["fleet.super-pod/server-index"] == set(names)


def test_a_small_connection_queue_is_a_finding_on_the_master_alone() -> None:
    names, digests, _ = sim.fleet(20, {})
    for place, name in enumerate(names):
        row = ("host.profile", "somaxconn", ("128",))
        one = replace(digests[name], features=(*digests[name].features, row))
        digests[name] = changed(one, variables={"MASTER_ADDR": digests[names[5]].identity.addresses[0]})
        assert place < 20
    found = nodes_by_code(report_of(fleet_of(digests, names)))
    assert found == {"fleet.master-sysctls/low": {names[5]}}


def test_an_unknown_id_to_skip_is_refused() -> None:
    from npudoctor.selection import UnknownName

    names, digests, _ = sim.fleet(2, {})
    with pytest.raises(UnknownName):
        report_of(fleet_of(digests, names), skip=("fleet.nothing",))


def test_a_plug_in_adds_a_check_across_nodes(tmp_path: Any) -> None:
    file = tmp_path / "site.py"
    file.write_text(
        "from npudoctor.fleet.merge import Fleet\n"
        "from npudoctor.sdk import Finding, check\n\n\n"
        "@check('site.size')\n"
        "def size(fleet: Fleet):\n"
        '    """Number of nodes"""\n'
        "    if len(fleet.members) != 4:\n"
        "        yield Finding(summary=f'{len(fleet.members)} nodes, expected 4')\n",
        encoding="utf-8",
    )
    file.chmod(0o600)
    names, digests, _ = sim.fleet(3, {})
    report = judge_fleet(fleet_of(digests, names), Selection(), [str(file)])
    (result,) = (one for one in report.report.results if one.check == "site.size")
    assert result.findings[0].summary == "3 nodes, expected 4"
