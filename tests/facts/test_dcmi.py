"""The chips through the driver's library: the same findings as through npu-smi, and less where it tells less."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npudoctor import engine, knowledge, plugins, sim
from npudoctor.facts.dcmi import answer as answers_of_library
from npudoctor.facts.dcmi import pages
from npudoctor.facts.dcmi.answer import LibraryAnswer, parse
from npudoctor.facts.npu_smi.per_chip import PROBES as PAGES
from npudoctor.facts.npu_smi.probes import npu_smi_answer, npu_smi_info
from npudoctor.facts.parsers import to_json
from npudoctor.findings import Report
from npudoctor.host import Completed, Host, Unavailable
from npudoctor.host.forwarding import ForwardingHost
from npudoctor.host.live import library
from npudoctor.host.live.local import LocalHost
from npudoctor.sdk import Options
from npudoctor.sim import machine, scenario
from npudoctor.testing import FakeHost, run
from tests.fake_dcmi import answers, build, interface

WITH_CHIPS = ("duo-310p", "healthy-910a", "healthy-a3", "in-service", "new-node", "seed-910b1", "sick-cards")
PLACE = "usr/local/Ascend/driver/lib64/driver"

Ask = Callable[..., Completed]


class WithLibrary(ForwardingHost):
    """A node with the answer of a library; it counts what the tools are asked."""

    def __init__(self, host: Host, told: Completed) -> None:
        super().__init__(host)
        self._told = told
        self.commands: list[str] = []

    def ask_library(self, *_: Any, **__: Any) -> Completed:
        return self._told

    def run(self, argv: Any, **more: Any) -> Completed:
        self.commands.append(" ".join(argv))
        return super().run(argv, **more)


@pytest.fixture(scope="module")
def ask(fake_dcmi: build.Library, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """What the product's own reader gets from a library that answers so."""

    def asked(said: answers.Answers, **more: Any) -> Completed:
        root = tmp_path_factory.mktemp("root")
        fake_dcmi.put(root / PLACE, said.text(), **more)
        host = LocalHost(root=str(root))
        try:
            with pytest.MonkeyPatch.context() as patch:  # a busy machine must not make a question seem to hang
                patch.setattr(library, "CALL_S", 60.0)
                patch.setattr(library, "INIT_S", 60.0)
                return host.ask_library(timeout=600.0)
        finally:
            host.close()

    return asked


def _judged(report: Report) -> dict[str, Any]:
    return {
        result.check: (result.status.value, sorted((one.code, one.subject, one.summary) for one in result.findings))
        for result in report.results
    }


@pytest.mark.parametrize("name", WITH_CHIPS)
def test_the_checks_say_the_same_through_the_library(ask: Ask, name: str) -> None:
    host = WithLibrary(sim.simulate(name), ask(answers.of(name)))
    through_npu_smi, through_library = _judged(run(sim.simulate(name))), _judged(run(host))
    if name == "seed-910b1":  # this npu-smi is too old to show processes, the library tells them
        assert through_npu_smi.pop("npu.processes")[0] == "skipped"
        assert through_library.pop("npu.processes")[0] == "ok"
    assert through_library == through_npu_smi
    per_chip = [one for one in host.commands if one.startswith("npu-smi info -t") and "topo" not in one]
    assert not per_chip or name == "healthy-910a"  # the firmware of the first generation is npu-smi's to tell


ONE_SOURCE = {
    "chips.source": "the source",
    "boards": "product_name serial_number pcb_id bom_id main_board_id",
    "ecc": "npu_id chip_id chip_count",
    "health": "npu_id chip_id",
    "health_pages": "npu_id chip_id",
    "memory": "npu_id chip_id chip_count ddr_capacity_mb ddr_clock_mhz hbm_manufacturer_id",
    "common": "memory_usage_pct hbm_usage_pct chip_name",
    "process_memory": "name",
    "npu_smi_info": "phy_id tool_version name",
}
"""What only one of the sources tells, by fact: names of fields."""


def _facts(host: Host) -> dict[str, Any]:
    found = engine.gather(plugins.load(), host, Options())
    return {
        probe.name.partition(".")[2]: to_json(fact)
        for probe, fact in found.items()
        if not isinstance(fact, (Unavailable, engine.Crash))
    }


def _differences(one: Any, other: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys() if field != "sources" else ():
            yield from _differences(one.get(key), other.get(key), str(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from _differences(left, right, field)
    elif one != other and field != "sources":
        yield field, one, other


@pytest.mark.parametrize("name", ["duo-310p", "healthy-910a", "healthy-a3", "sick-cards"])
def test_each_fact_is_the_same_through_the_library_field_by_field(ask: Ask, name: str) -> None:
    theirs, ours = _facts(sim.simulate(name)), _facts(WithLibrary(sim.simulate(name), ask(answers.of(name))))
    assert theirs["chips"]["chips"] == ours["chips"]["chips"]
    for fact, only in ONE_SOURCE.items():
        if "." not in fact and fact in theirs and fact in ours:
            found = [one for one in _differences(theirs[fact], ours[fact]) if one[0] not in only.split()]
            if fact == "common" and found and all(isinstance(one[1], list) for one in found):
                continue  # npu-smi lists the MCU among the chips
            assert found == [], fact


def test_a_fact_names_its_source(ask: Ask) -> None:
    told = ask(answers.of("healthy-a3"))
    facts = _facts(WithLibrary(sim.simulate("healthy-a3"), told))
    assert facts["chips"]["source"] == "dcmi"
    assert set(facts["ecc"]["sources"].values()) == {"dcmi"}
    assert _facts(sim.simulate("healthy-a3"))["chips"]["source"] == "npu-smi"


def test_the_tools_are_used_for_what_the_library_refuses(ask: Ask) -> None:
    told = ask(answers.of("healthy-a3").but("dcmi_get_device_ecc_info 3 1 refuse -8006"))
    host = WithLibrary(sim.simulate("healthy-a3"), told)
    assert _judged(run(host))["npu.ecc"][0] == "ok"
    assert [one for one in host.commands if "-t ecc" in one] == ["npu-smi info -t ecc -i 3"]


def test_only_the_library_is_asked_where_it_is_demanded(ask: Ask) -> None:
    told = ask(answers.of("sick-cards").but("dcmi_get_device_ecc_info 3 0 refuse -8006"))
    host = WithLibrary(sim.simulate("sick-cards"), told)
    report = run(host, "npu.ecc", chips_from="dcmi")
    result = next(one for one in report.results if one.check == "npu.ecc")
    assert result.status.value == "skipped" or result.findings
    assert not [one for one in host.commands if "-t ecc" in one]


def test_a_node_without_the_library_is_undetermined_where_it_is_demanded() -> None:
    report = run(sim.simulate("sick-cards"), "npu.health", chips_from="dcmi")
    assert (report.exit_code, report.verdict.value) == (3, "undetermined")
    assert "--chips-from dcmi" in str(next(one.reason for one in report.results if one.check == "npu.health"))


def test_the_library_is_not_asked_where_the_tools_are_demanded(ask: Ask) -> None:
    host = WithLibrary(sim.simulate("healthy-a3"), ask(answers.of("sick-cards")))
    report = run(host, chips_from="npu-smi")
    assert _judged(report) == _judged(run(sim.simulate("healthy-a3")))


@pytest.mark.parametrize(
    "fault",
    [
        "dcmi_get_device_health 2 1 refuse -8012",
        "dcmi_get_device_health 2 1 silent",
        "dcmi_get_device_hbm_info 2 1 refuse -8005",
        "dcmi_get_device_resource_info 2 1 count 4000",
        "dcmi_get_device_num_in_card 2 * refuse -8001",
        "dcmi_get_device_num_in_card 2 * count 0",
        "dcmi_get_card_list * * count 4000",
        "* 2 1 junk",
        "dcmi_init * * refuse -8005",
    ],
)
def test_a_table_that_is_not_whole_is_none(ask: Ask, fault: str) -> None:
    more = ["dcmi_get_device_id_in_card 2 * refuse -8001"] if "num_in_card" in fault else []
    told = ask(answers.of("healthy-a3").but(fault, *more))
    with pytest.raises(Unavailable):
        pages.table(parse(told.stdout))
    host = WithLibrary(sim.simulate("healthy-a3"), told)
    info = npu_smi_info.function(npu_smi_answer.function(host, Options()), None, parse(told.stdout), Options(), host)
    assert info.source == "npu-smi"


def test_cards_without_a_number_are_counted(ask: Ask) -> None:
    lost = answers.of_scenario({"product": "atlas-800t-a2-910b3", "card": [{"id": 5, "missing": ["npu-smi"]}]})
    found = parse(ask(lost).stdout)
    assert (len(found.chips), found.lost_npus) == (7, 1)


def test_a_card_without_a_number_is_a_finding_where_nothing_else_shows_it(ask: Ask) -> None:
    told = ask(answers.of("healthy-a3"))
    lines = told.stdout.replace('"value": [0, 1, 2, 3, 4, 5, 6, 7]', '"value": [0, 1, 2, 3, 4, 5, 6, 7, -1]')
    assert lines != told.stdout
    report = run(WithLibrary(sim.simulate("healthy-a3"), replace(told, stdout=lines)), "npu.count")
    found = next(one for one in report.results if one.check == "npu.count").findings
    assert [one.code for one in found] == ["npu.count/no-answer-at-start"]


LESS = {"product": "atlas-800t-a2-910b3", "card": [{"id": 5, "missing": ["npu-smi"]}]}
ALL = {"product": "atlas-800t-a2-910b3"}


@pytest.mark.parametrize(
    ("tools", "library_of", "codes"),
    [
        (ALL, LESS, ["npu.count/no-answer-at-start", "npu.count/sources-disagree"]),
        (LESS, ALL, ["npu.count/sources-disagree"]),
        (LESS, LESS, ["npu.count/not-in-npu-smi"]),
    ],
)
def test_a_chip_that_one_source_lists_is_not_called_missing(
    ask: Ask, tools: dict[str, Any], library_of: dict[str, Any], codes: list[str]
) -> None:
    node = machine.build(scenario.parse(dict(tools), "one"), "one")
    report = run(WithLibrary(node, ask(answers.of_scenario(library_of))), "npu.count")
    (result,) = [one for one in report.results if one.check == "npu.count"]
    assert [one.code for one in result.findings] == codes


@pytest.mark.parametrize(
    ("missing", "summary"),
    [
        (["npu-smi"], "NPU in PCI slot 0000:02:00.0 missing from the driver's list"),
        (["pci"], "NPU 5 (0000:02:00.0) is listed by the driver but has dropped off the PCI bus"),
        (["device-node"], "device node /dev/davinci5 missing: 8 chips in the driver's list, 7 in /dev"),
    ],
)
def test_npu_smi_is_not_named_where_the_library_alone_lists_chips(ask: Ask, missing: list[str], summary: str) -> None:
    said = {**ALL, "card": [{"id": 5, "missing": missing}]}
    without = {**said, "remove": ["/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi"]}
    node = machine.build(scenario.parse(dict(without), "one"), "one")
    report = run(WithLibrary(node, ask(answers.of_scenario(said))), "npu.count")
    (result,) = [one for one in report.results if one.check == "npu.count"]
    assert [one.summary for one in result.findings] == [summary]
    assert "npu-smi" not in "".join((*result.findings[0].commands, *map(str, result.findings[0].evidence)))


def test_no_evidence_names_npu_smi_where_the_library_told_it(ask: Ask) -> None:
    sick = [
        {"id": 1, "health": "Alarm", "codes": ["80E01801"], "temp_c": 101},
        {"id": 3, "hbm_used_mb": 20000},
        {"id": 4, "temp_c": 80, "hbm_temp_c": 99},
        {"id": 5, "ecc_double": 3},
        {"id": 6, "aicore_pct": 95, "busy_mhz": 400},
    ]
    said = {**ALL, "firmware": {"fits": False}, "card": sick}
    without = {**said, "remove": ["/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi"]}
    node = machine.build(scenario.parse(dict(without), "one"), "one")
    report = run(WithLibrary(node, ask(answers.of_scenario(said))), "npu", "driver.firmware")
    named = {
        result.check: {evidence.source for finding in result.findings for evidence in finding.evidence}
        for result in report.results
    }
    found = {check for check, sources in named.items() if sources}
    assert {"npu.health", "npu.temperature", "npu.memory-free", "npu.ecc", "npu.throttled", "driver.firmware"} <= found
    assert not [(check, source) for check, sources in named.items() for source in sources if "npu-smi" in source]


def test_an_address_that_differs_from_the_file_names_who_told_it(ask: Ask) -> None:
    node = machine.build(scenario.parse(dict(ALL), "one"), "one")
    told = ask(answers.of_scenario({**ALL, "card": [{"id": 2, "address": "29.40.8.99"}]}))
    report = run(WithLibrary(node, told), "npu.network")
    (result,) = [one for one in report.results if one.check == "npu.network"]
    assert [one.code for one in result.findings] == ["npu.network/not-in-force"]
    assert {one.source for one in result.findings[0].evidence if one.expected} == {"libdcmi.so, npu:2"}


def test_npus_that_are_listed_more_than_once_are_left_to_npu_smi(ask: Ask) -> None:
    """Two vNPUs of one chip have the same numbers, and the library would answer for the first alone."""
    told = ask(answers.of("healthy-a3")).stdout
    found = parse(told.replace('"value": [0, 1, 2, 3, 4, 5, 6, 7]', '"value": [5, 5]'))
    assert {one.npu_id for one in found.chips} == {0, 1, 2, 3, 4, 6, 7}
    assert found.problem is not None and "npu:5 more than once" in found.problem
    with pytest.raises(Unavailable):
        pages.table(found)


@pytest.mark.parametrize("name", WITH_CHIPS)
def test_profile_full_finds_no_difference_between_the_sources_of_one_node(ask: Ask, name: str) -> None:
    report = run(WithLibrary(sim.simulate(name), ask(answers.of(name))), "npu.count", profile="full")
    codes = [one.code for result in report.results for one in result.findings]
    assert "npu.count/sources-disagree" not in codes


def test_profile_full_names_what_the_sources_tell_differently(ask: Ask) -> None:
    told = ask(answers.of("healthy-a3"))
    other = replace(
        told, stdout=told.stdout.replace('"value": "25.5.0"', '"value": "25.5.1"').replace("65536", "32768")
    )
    host = WithLibrary(sim.simulate("healthy-a3"), other)
    (found,) = next(one for one in run(host, "npu.count", profile="full").results if one.check == "npu.count").findings
    assert (found.code, found.severity.value) == ("npu.count/sources-disagree", "info")
    assert ("25.5.0", "25.5.1") in {(one.expected, one.actual) for one in found.evidence}
    assert "driver version" in found.summary and "hbm total mb" in found.summary
    standard = run(host, "npu.count")
    assert not [one.findings for one in standard.results if one.check == "npu.count" and one.findings]


def test_units_that_are_no_chip_are_left_out(ask: Ask) -> None:
    assert len(parse(ask(answers.of("healthy-a3", cpus=True)).stdout).chips) == 16


def test_the_second_family_is_used_where_the_first_one_is_refused(ask: Ask) -> None:
    found = parse(ask(answers.as_950(answers.of("in-service"))).stdout)
    assert found.api == "v2"
    assert found.chips and all(one.chip_id is None for one in found.chips)
    assert all("health" in one.told for one in found.chips)


def test_quick_rests_on_the_library_and_starts_no_tool(ask: Ask) -> None:
    host = WithLibrary(sim.simulate("in-service"), ask(answers.of("in-service")))
    judged = _judged(run(host, profile="quick"))
    assert not [one for one in host.commands if one.startswith("npu-smi")]
    assert judged == _judged(run(sim.simulate("in-service"), profile="quick"))


def test_quick_tells_the_fault_codes_that_the_library_knows(ask: Ask) -> None:
    host = WithLibrary(sim.simulate("sick-cards"), ask(answers.of("sick-cards")))
    quick, standard = _judged(run(host, "npu.health", profile="quick")), _judged(run(host, "npu.health"))
    assert quick["npu.health"] == standard["npu.health"]
    assert not [one for one in host.commands if "-t health" in one]


def test_nothing_is_bound_that_changes_a_card() -> None:
    known = interface.load()
    symbols = knowledge.dcmi().symbols
    assert not set(symbols) & set(known["never_call"])
    assert set(symbols) <= set(known["functions"])
    assert all(re.fullmatch(r"dcmi(v2)?_(init|get_\w+)", one) for one in symbols)
    info = [one for one in knowledge.dcmi().calls.values() if one.v1 == "dcmi_get_device_info"]
    assert [one.parameters[1:3] for one in info] == [(12, 1)]  # other pairs write, or start tests


def test_the_table_has_the_sizes_and_offsets_of_the_interface() -> None:
    known = interface.load()["structs"]
    sizes = {"u8": "unsigned char", "i32": "int", "u32": "unsigned int"}
    for struct in knowledge.dcmi().structs.values():
        theirs = known[struct.of]
        assert struct.size == theirs["size"]
        offsets = {field[3]: field for field in theirs["fields"]}
        for name, kind, offset, _ in struct.fields:
            assert offset in offsets, (struct.of, name)
            if kind in sizes and not offsets[offset][1].startswith(("union", "enum")):
                assert offsets[offset][1] == sizes[kind], (struct.of, name)


def test_a_sites_own_rows_cannot_add_a_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text(
        '{"schema": "npudoctor.knowledge/1", "calls": {"reset": {"v1": "dcmi_reset"}}}', encoding="utf-8"
    )
    monkeypatch.setenv("NPUDOCTOR_KNOWLEDGE", str(tmp_path))
    knowledge.dcmi.cache_clear()
    try:
        assert "reset" not in knowledge.dcmi().calls
    finally:
        knowledge.dcmi.cache_clear()


def test_lines_that_are_none_are_passed_over() -> None:
    found = parse('nonsense\n{"tells": 3}\n[1]\n{"tells": "health", "npu": 1, "chip": 0, "rc": "x"}\n')
    assert isinstance(found, LibraryAnswer)
    assert all(not one.told for one in found.chips)


def test_a_recording_without_the_library_has_no_such_fact() -> None:
    with pytest.raises(Unavailable, match="not in this recording"):
        answers_of_library.library.function(FakeHost(unrecorded="unknown"), Options())
    with pytest.raises(Unavailable, match="is not installed"):
        answers_of_library.library.function(FakeHost(), Options())
    assert PAGES["ecc"] is not None


OTHERWISE: dict[str, tuple[dict[str, Any], str]] = {
    "a count of bit errors": ({"card": [{"id": 2, "ecc_single": 7}]}, "hbm single"),
    "a version of the firmware": ({"firmware": {"version": "7.5.0.1.129"}}, "firmware version"),
    "an address": ({"card": [{"id": 2, "address": "29.40.8.99"}]}, "ipaddr"),
    "a gateway": ({"card": [{"id": 2, "gateway": "29.40.8.99"}]}, "default gateway"),
    "the state of a port": ({"card": [{"id": 2, "net_health": "Fault"}]}, "status"),
    "fault codes": ({"card": [{"id": 2, "health": "Warning", "codes": ["80E01801"]}]}, "health"),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_profile_full_compares_the_pages_of_chips_and_ports(ask: Ask, name: str) -> None:
    other, field = OTHERWISE[name]
    usual = {"product": "atlas-800t-a2-910b3"}
    host = WithLibrary(machine.build(scenario.parse(dict(usual), name), name), ask(answers.of_scenario(usual | other)))
    found = {result.check: result.findings for result in run(host, "npu.count", profile="full").results}["npu.count"]
    assert [(one.code, one.severity.value) for one in found] == [("npu.count/sources-disagree", "info")]
    assert field in found[0].summary
    standard = {result.check: result.findings for result in run(host, "npu.count").results}["npu.count"]
    assert not standard


def test_profile_full_compares_rated_clocks_and_lets_the_present_one_move(ask: Ask) -> None:
    usual = {"product": "atlas-800t-a2-910b3"}
    rated, now = ("dcmi_get_device_frequency", 2, 0, 9), ("dcmi_get_device_frequency", 3, 0, 7)
    said = answers.of_scenario(usual).saying(*rated, frequency=1500).saying(*now, frequency=1700)
    host = WithLibrary(machine.build(scenario.parse(dict(usual), "clocks"), "clocks"), ask(said))
    (found,) = {result.check: result.findings for result in run(host, "npu.count", profile="full").results}["npu.count"]
    assert found.subject == "npu:2"
    assert "aicore freq mhz" in found.summary and "cur freq" not in found.summary
    assert found.evidence[0].actual == "1500"
