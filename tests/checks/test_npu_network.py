"""The cards' network ports, as a user would see the findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status
from npudoctor.host import Completed
from npudoctor.host.recording.canned import FakeHost
from npudoctor.testing import run

Nodes = Callable[..., Any]
SEVERAL = {"environ": {"MASTER_ADDR": "192.168.10.99"}}
PERSON = {"name": "ada", "uid": 1000, "groups": {"ada": 1000, "HwHiAiUser": 1000}}


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


def told(result: Result) -> list[tuple[str, str]]:
    return [(finding.severity.value, finding.subject) for finding in result.findings]


# npu.links


@pytest.mark.parametrize("product", ["atlas-800t-a2-910b3", "atlas-800-9000", "atlas-800t-a3"])
@pytest.mark.parametrize("id", ["npu.links", "npu.network", "npu.tls"])
def test_ports_that_are_well_yield_nothing(node: Nodes, product: str, id: str) -> None:
    for more in ({}, SEVERAL):
        result = node(product=product, **more).check(id)
        assert (result.status, result.findings) == (Status.OK, ())


def test_one_port_that_is_down_is_named(node: Nodes) -> None:
    down = [{"id": 3, "link": "DOWN"}]
    assert told(node(card=down).check("npu.links")) == [("warning", "npu:3")]
    finding = only(node(card=down, **SEVERAL).check("npu.links"))
    assert (finding.severity, finding.subject, finding.pitfall) == (Severity.ERROR, "npu:3", "P026")
    assert finding.commands[0] == "hccn_tool -i 3 -link -g"
    assert finding.evidence[-1].source == "MASTER_ADDR"


def test_ports_that_nobody_cabled_are_no_fault_of_a_node_that_works_alone(node: Nodes) -> None:
    bare: dict[str, Any] = {"cards": {"link": "DOWN"}}
    assert told(node(**bare).check("npu.links")) == [("info", "host")]
    assert told(node(**bare, **SEVERAL).check("npu.links")) == [("error", "host")]


def test_a_superpod_is_judged_by_its_fabric(node: Nodes) -> None:
    pod: dict[str, Any] = {"product": "atlas-800t-a3", "cards": {"link": "DOWN"}}
    assert node(**pod).check("npu.links").findings == ()
    lost = node(**pod, card=[{"id": 2, "chip": 1, "vnic": "DOWN"}]).check("npu.links")
    assert told(lost) == [("warning", "npu:2/chip:1")]
    assert lost.findings[0].commands == ("hccn_tool -i 5 -vnic -g",)
    roce = node(**pod, environ={"HCCL_INTER_HCCS_DISABLE": "true"}).check("npu.links")
    assert told(roce) == [("info", "host")]


def test_cards_without_ports_are_not_asked(node: Nodes) -> None:
    for id in ("npu.links", "npu.network", "npu.tls", "npu.fabric"):
        result = node(product="atlas-300i-duo").check(id)
        assert (result.skip, result.reason) == (
            Skip.NOT_APPLICABLE,
            "NPUs of the family 310P have no network port",
        )


@pytest.mark.parametrize("id", ["npu.links", "npu.network", "npu.tls"])
def test_a_person_is_told_that_root_would_see_it(node: Nodes, id: str) -> None:
    result = node(user=PERSON).check(id)
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.NO_RIGHT)
    assert result.reason is not None and "needs root" in result.reason
    for_all = node(user=PERSON, driver={"hccn_for_all": True}).check(id)
    assert for_all.status is Status.OK


def test_for_lack_of_rights_no_other_card_is_asked(node: Nodes) -> None:
    host = node(user=PERSON).host
    asked: list[str] = []
    run_it = host.run

    def listening(argv: Any, **more: Any) -> Completed:
        asked.append(" ".join(argv))
        answer: Completed = run_it(argv, **more)
        return answer

    host.run = listening
    run(host, "npu.links", "npu.network", "npu.tls")
    assert sorted({one for one in asked if one.startswith("hccn_tool")}) == [
        "hccn_tool -i 0 -link -g",
        "hccn_tool -i 0 -tls -g",
    ]


def test_a_port_that_cannot_be_asked_leaves_no_verdict(node: Nodes) -> None:
    silent = {"hccn_tool -i 4 -link -g": {"stdout": "Cmd execute failed!\n", "returncode": 1}}
    result = node(commands=silent).check("npu.links")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.FAILED)


def test_without_the_tool_nothing_is_known(node: Nodes) -> None:
    gone = {"remove": ["/usr/local/Ascend/driver/tools/hccn_tool"]}
    for id in ("npu.links", "npu.network", "npu.tls"):
        result = node(**gone).check(id)
        assert (result.skip, result.reason) == (Skip.COULD_NOT_LOOK, "hccn_tool is not installed")


# npu.network


def test_a_card_without_an_address_is_named(node: Nodes) -> None:
    none = [{"id": 6, "address": ""}]
    assert told(node(card=none).check("npu.network")) == [("warning", "npu:6")]
    result = node(card=none, **SEVERAL).check("npu.network")
    assert told(result) == [("error", "npu:6")]
    assert result.findings[0].pitfall == "P027"


def test_what_several_npus_need_is_told_for_each(node: Nodes) -> None:
    lost = [{"id": 2, "address": ""}, {"id": 5, "address": ""}]
    first, second = only(node(card=lost, **SEVERAL).check("npu.network")).commands
    assert first.startswith("hccn_tool -i 2 -ip -s address ") and first.endswith("; then -i 5")
    assert second.startswith("hccn_tool -i 2 -gateway -s gateway ") and second.endswith("; then -i 5")


def test_no_address_at_all_is_how_a_node_alone_is_run(node: Nodes) -> None:
    none: dict[str, Any] = {"cards": {"address": "", "net_health": "Init"}}
    found = node(**none).check("npu.network")
    assert found.status is Status.OK
    assert told(found) == [("info", "host")]
    assert ("error", "host") in told(node(**none, **SEVERAL).check("npu.network"))


def test_two_cards_with_one_address_are_named(node: Nodes) -> None:
    finding = only(node(card=[{"id": 1, "address": "29.40.8.11"}]).check("npu.network"))
    assert (finding.code, finding.params["npus"]) == ("npu.network/duplicate-address", ["npu:0"])
    assert finding.summary == "network address 29.40.8.11 is also set on npu:0"
    assert finding.severity is Severity.WARNING


def test_addresses_that_the_file_lacks_are_said_and_matter_for_several_nodes(node: Nodes) -> None:
    gone: dict[str, Any] = {"remove": ["/etc/hccn.conf"]}
    saved = only(node(**gone, **SEVERAL).check("npu.network"))
    assert (saved.code, saved.severity, saved.subject) == ("npu.network/not-saved", Severity.WARNING, "host")
    assert saved.summary == "network addresses not in /etc/hccn.conf (file missing)"
    setting = "hccn_tool -i 3 -ip -s address 29.40.8.14 netmask 255.255.255.0 && hccn_tool -i 3 -gateway -s gateway "
    assert [line for line in saved.commands if line.startswith(setting)], saved.commands
    assert {one.severity for one in node(**gone).check("npu.network").findings} <= {Severity.INFO}
    part = "".join(f"address_{number}=29.40.8.{11 + number}\n" for number in range(7))
    one = only(node(files={"/etc/hccn.conf": part}, **SEVERAL).check("npu.network"))
    assert (one.code, one.subject) == ("npu.network/not-saved", "npu:7")
    inside = node(container={"host_network": True}, **gone, **SEVERAL).check("npu.network")
    assert [finding.code for finding in inside.findings] == []


def test_a_flat_network_needs_no_gateway_but_one_card_alone_without_is_odd(node: Nodes) -> None:
    assert node(cards={"gateway": ""}, **SEVERAL).check("npu.network").findings == ()
    odd = node(card=[{"id": 2, "gateway": ""}], **SEVERAL).check("npu.network")
    assert told(odd) == [("warning", "npu:2")]


def test_a_card_that_does_not_reach_its_network_is_named(node: Nodes) -> None:
    finding = only(node(card=[{"id": 5, "net_health": "Fault"}]).check("npu.network"))
    assert (finding.severity, finding.subject, finding.pitfall) == (Severity.WARNING, "npu:5", "P028")
    everywhere = node(cards={"net_health": "Init"})
    assert told(everywhere.check("npu.network")) == [("info", "host")]
    assert told(node(cards={"net_health": "Init"}, **SEVERAL).check("npu.network")) == [("warning", "host")]


def test_the_network_of_a_card_whose_link_is_down_is_not_judged_again(node: Nodes) -> None:
    assert node(card=[{"id": 3, "link": "DOWN"}]).check("npu.network").findings == ()


# npu.tls


def test_a_card_with_another_switch_is_named(node: Nodes) -> None:
    odd = [{"id": 4, "tls": 1}]
    finding = only(node(card=odd).check("npu.tls"))
    assert (finding.severity, finding.subject, finding.pitfall) == (Severity.WARNING, "npu:4", "P025")
    assert finding.code == "npu.tls/on-for-some"
    assert finding.summary == "TLS mismatch: on for npu:4, off for the others"
    assert finding.commands == ("hccn_tool -i 4 -tls -s enable 0  # as root",)
    assert told(node(card=odd, **SEVERAL).check("npu.tls")) == [("error", "npu:4")]


def test_half_and_half_is_a_matter_of_the_node(node: Nodes) -> None:
    assert told(node(cards={"tls": [0, 1]}).check("npu.tls")) == [("warning", "host")]


def test_root_is_shown_nothing_where_tls_is_off(node: Nodes) -> None:
    empty: dict[str, Any] = {f"hccn_tool -i {device} -tls -g": {} for device in range(8)}
    assert node(commands=empty).check("npu.tls").status is Status.OK


# npu.fabric


def test_ports_that_work_alike_yield_nothing(node: Nodes) -> None:
    assert node(**SEVERAL).check("npu.fabric").findings == ()
    assert node().check("npu.fabric", profile="full").status is Status.OK
    assert node(cards={"link_falls": 30}, **SEVERAL).check("npu.fabric").findings == ()


def test_one_node_alone_is_not_asked_so_much(node: Nodes) -> None:
    result = node().check("npu.fabric")
    assert result.skip is Skip.NOT_APPLICABLE
    assert result.reason is not None and result.reason.startswith("a single node does not use the NPU network")


def test_ports_that_correct_errors_are_not_odd_beside_most_that_do_not(node: Nodes) -> None:
    off = [{"id": number, "fec": "no FEC mode"} for number in range(6)]
    finding = only(node(card=off).check("npu.fabric", profile="full"))
    assert (finding.code, len(finding.subjects)) == ("npu.fabric/fec-off", 6)
    assert {one.expected for one in finding.evidence} == {"rs FEC mode"}
    base = [*off[:2], *({"id": number, "fec": "base FEC mode"} for number in range(2, 7))]
    found = node(card=base).check("npu.fabric", profile="full").findings
    assert {(one.code, one.subject) for one in found} == {
        ("npu.fabric/fec-off", "host"),
        ("npu.fabric/fec-mismatch", "npu:7"),
    }
    assert not any("encoding rs" in command for one in found for command in one.commands)


@pytest.mark.parametrize(
    ("fault", "pitfall", "code", "summary"),
    [
        ({"fec": "no FEC mode"}, "P076", "fec-off", "FEC off on the network port"),
        (
            {"link_falls": 17},
            *("P049", "flapping"),
            "network port flapping: went down 17 times, the others 0 times",
        ),
        (
            {"roce_errors": 48213},
            *("P049", "bad-packets"),
            "48213 bad packets on the network port, about 0 on the others",
        ),
    ],
)
def test_the_odd_port_is_named(node: Nodes, fault: dict[str, Any], pitfall: str, code: str, summary: str) -> None:
    finding = only(node(card=[{"id": 7, **fault}]).check("npu.fabric", profile="full"))
    assert (finding.severity, finding.subject, finding.pitfall) == (Severity.WARNING, "npu:7", pitfall)
    assert (finding.code, finding.summary) == (f"npu.fabric/{code}", summary)


def test_a_site_may_bear_more(node: Nodes) -> None:
    shaky = node(card=[{"id": 7, "link_falls": 17}])
    assert shaky.check("npu.fabric", profile="full", settings={"link_flaps_max": 20}).findings == ()


def test_two_nodes_that_are_cabled_back_to_back_are_told_so(node: Nodes) -> None:
    peer = "Chassis ID TLV\n\tMAC: 2c:97\nSystem Description TLV\n\tAscendNPU\nEnd of LLDPDU TLV\n"
    cabled = {f"hccn_tool -i {device} -lldp -g": {"stdout": peer} for device in range(8)}
    finding = only(node(commands=cabled, **SEVERAL).check("npu.fabric"))
    assert (finding.subject, finding.pitfall, finding.code) == ("host", "P077", "npu.fabric/back-to-back")
    assert finding.summary == "8 network ports cabled to another NPU instead of a switch"


def test_where_no_counter_can_be_had_there_is_no_verdict(node: Nodes) -> None:
    broken = {
        f"hccn_tool -i {device} -{what} -g": {"stdout": "Cmd execute failed!\n", "returncode": 1}
        for device in range(8)
        for what in ("fec", "link_stat", "stat")
    }
    result = node(commands=broken).check("npu.fabric", profile="full")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.FAILED)


def test_a_machine_without_cards_is_not_asked() -> None:
    report = run(FakeHost(measures={"pci": []}), "npu.links", "npu.network", "npu.tls", "npu.fabric")
    assert {result.blocked_by for result in report.results} == {"npu.present"}


def test_ports_that_are_asked_by_die_are_no_failure(node: Nodes) -> None:
    new: dict[str, Any] = {"product": "atlas-350-950pr", **SEVERAL}
    fabric = node(**new).check("npu.fabric", profile="full")
    assert (fabric.status, fabric.skip) == (Status.SKIPPED, Skip.NOT_APPLICABLE)
    assert told(node(**new, card=[{"id": 3, "link": "DOWN"}]).check("npu.links")) == [("error", "npu:3")]
