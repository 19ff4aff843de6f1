"""npu.address on simulated nodes: a table of the site by hccn_tool and /etc/hccn.conf together, and back."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixes import npu_address
from npudoctor import plugins
from npudoctor.fixer import handover, plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Event, Outcome
from npudoctor.host import Completed, Refused
from npudoctor.host.live.local import LocalHost
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.records import replace
from npudoctor.sdk import Host, Options, StepFailed
from npudoctor.sim import machine, scenario
from npudoctor.steps.card_addresses import settings, with_settings
from npudoctor.testing import run
from tests.fixes.states import inside, state
from tests.plain_user import ALICE, as_root, give

CATALOG = plugins.load(folder="")
HEAD = "host,device,address,netmask,gateway,netdetect\n"
CONF = "/etc/hccn.conf"


def last(events: Iterator[Event]) -> Ended:
    *_, ended = events
    assert isinstance(ended, Ended)
    return ended


def node(table: str, **said: Any) -> SimulatedHost:
    files = {"/etc/site/npus.csv": table, **said.pop("files", {})}
    what = {"product": "atlas-800t-a2-910b3", "hostname": "rack7-n3", "files": files, **said}
    return machine.build(scenario.parse(what, "test"), "test")


def planned(on: Host, **params: Any) -> FixPlan:
    request = Request("npu.address", {"table": "/etc/site/npus.csv", **params})
    return plan.make(CATALOG, on, request, Options(profile="full"))


def rows(host: str = "rack7-n3", net: str = "10.44.6", devices: range = range(8)) -> str:
    return "".join(f"{host},{one},{net}.{20 + one},255.255.255.0,{net}.254,{net}.253\n" for one in devices)


def found(host: SimulatedHost) -> list[str | None]:
    return [finding.code for result in run(host, "npu.network", profile="full").results for finding in result.findings]


def test_nodes_of_a_rack_get_their_rows_and_undo_the_former_values() -> None:
    host = node(f"# rack 7\n{HEAD}{rows()}{rows('rack7-n4', '10.44.8')}")
    before = state(host)
    made = planned(host)
    assert (made.refused, made.obstacle) == (None, None)
    assert made.preview.count("$ hccn_tool") == 24
    assert "$ hccn_tool -i 3 -ip -s address 10.44.6.23 netmask 255.255.255.0\n" in made.preview
    assert "+address_3=10.44.6.23\n" in made.preview
    ended = last(runner.apply(CATALOG, host, made, Options(profile="full")))
    assert ended.outcome is Outcome.APPLIED, ended
    assert found(host) == []
    assert "address_7=10.44.6.27\n" in host.read(CONF)
    assert planned(host).empty
    assert last(runner.undo(host)).outcome is Outcome.UNDONE
    assert state(host) == before


def test_npus_without_an_address_get_one_and_keep_it_after_undo_until_a_reset() -> None:
    host = node(HEAD + rows(devices=range(2)))
    for chip in inside(host)._node.chips[:2]:
        chip.address = ""
    none = dict.fromkeys(settings("", ["0", "1"]), "")
    host.write_file(CONF, with_settings(host.read(CONF), none).encode())
    old = host.read(CONF)
    assert "no-address" in "".join(code or "" for code in found(host))
    made = planned(host)
    assert any("Devices 0, 1 have no address yet" in note for note in made.notes)
    assert any("Devices 2, 3, 4, 5, 6, 7 are not in the table" in note for note in made.notes)
    assert last(runner.apply(CATALOG, host, made, Options(profile="full"))).outcome is Outcome.APPLIED
    assert "no-address" not in "".join(code or "" for code in found(host))
    assert last(runner.undo(host)).outcome is Outcome.UNDONE
    assert host.read(CONF) == old
    assert inside(host)._node.chips[0].address == "10.44.6.20"


def test_only_lines_of_the_table_change_in_a_file_that_somebody_changed_since() -> None:
    host = node(HEAD + rows(devices=range(1)))
    old = host.read(CONF)
    assert last(runner.apply(CATALOG, host, planned(host), Options())).outcome is Outcome.APPLIED
    host.write_file(CONF, (host.read(CONF) + "dscp_tc_0=25:0\n").encode())
    assert last(runner.undo(host, force=True)).outcome is Outcome.UNDONE
    assert host.read(CONF) == old + "dscp_tc_0=25:0\n"


def test_an_address_that_somebody_set_since_stays() -> None:
    host = node(HEAD + rows(devices=range(1)))
    assert last(runner.apply(CATALOG, host, planned(host), Options())).outcome is Outcome.APPLIED
    host.run_streaming(
        ["hccn_tool", "-i", "0", "-ip", "-s", "address", "10.44.6.77", "netmask", "255.255.255.0"], timeout=1
    )
    ended = last(runner.undo(host))
    assert (ended.outcome, "device 0 has another address by now" in ended.reason) == (Outcome.REFUSED, True)
    assert inside(host)._node.chips[0].address == "10.44.6.77"


def test_a_file_that_was_not_there_is_gone_after_undo() -> None:
    host = node(HEAD + rows(), remove=[CONF])
    assert not host.exists(CONF)
    assert last(runner.apply(CATALOG, host, planned(host), Options())).outcome is Outcome.APPLIED
    assert host.read(CONF).startswith("address_0=10.44.6.20\nnetmask_0=255.255.255.0\ngateway_0=10.44.6.254\n")
    assert last(runner.undo(host)).outcome is Outcome.UNDONE
    assert not host.exists(CONF)


@pytest.mark.parametrize("what", ["-ip", "-gateway", "-netdetect", "write"])
def test_what_the_tool_did_not_set_is_found_and_all_is_put_back(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool ends with 0 and has set nothing; or the file was not written."""
    host = node(HEAD + rows(devices=range(2)))
    before = state(host)
    act: Any = type(inside(host)).act
    write = SimulatedHost.write_file
    lying = [True]

    def silent(self: Any, argv: Any) -> Any:
        if what in argv and "10.44.6" in " ".join(argv) and "-s" in argv:
            return Completed(returncode=0)
        return act(self, argv)

    def unwritten(self: Any, path: str, content: bytes, **how: Any) -> None:
        if what == "write" and path == CONF and lying.pop() if lying else False:
            raise OSError(28, "No space left on device")
        write(self, path, content, **how)

    monkeypatch.setattr(type(inside(host)), "act", silent)
    monkeypatch.setattr(SimulatedHost, "write_file", unwritten)
    ended = last(runner.apply(CATALOG, host, planned(host), Options()))
    assert ended.outcome is Outcome.ROLLED_BACK, ended
    assert state(host) == before


def test_without_the_commands_the_check_is_not_satisfied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutation: the step without its commands leaves the finding, which the read-back says."""
    from npudoctor.steps.card_addresses import CardAddresses

    host = node(HEAD + rows())
    made = planned(host)
    monkeypatch.setattr(CardAddresses, "commands", ())
    step = replace(made.steps[0].step)  # type: ignore[type-var]
    with pytest.raises(StepFailed, match="address of device 0 is not"):
        step.apply(host)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "no table of addresses"),
        ("a,b\n1,2\n", "no table of addresses"),
        ("device,address,netmask,device\n", "no table of addresses"),
        (HEAD, "no row for host 'rack7-n3'"),
        (HEAD + rows("other"), "no row for host 'rack7-n3'"),
        (HEAD + rows() + "n9,0,10.44.6.23,24,,\n", "lines 5 and 10 have 10.44.6.23 twice"),
        (HEAD + rows() + "rack7-n3,3,10.44.6.99,24,,\n", "lines 5 and 10 have device 3 of one host twice"),
        (HEAD + rows() + ",3,10.44.6.99,24,,\n", "both with and without a host"),
        (HEAD + rows(devices=range(7, 9)), "devices 8 of the table are not on this node"),
        (HEAD + "rack7-n3,0,10.44.6.0,24,,\n", "line 2: no address that a port can have"),
        (HEAD + "rack7-n3,0,10.44.6.255,24,,\n", "no address that a port can have"),
        (HEAD + "rack7-n3,0,127.0.0.1,24,,\n", "no address that a port can have"),
        (HEAD + "rack7-n3,0,224.0.0.5,24,,\n", "no address that a port can have"),
        (HEAD + "rack7-n3,0,10.44.6.5,255.0.255.0,,\n", "line 2: "),
        (HEAD + "rack7-n3,0,10.44.6.500,24,,\n", "line 2: "),
        (HEAD + "rack7-n3,0,fe80::1,64,,\n", "line 2: "),
        (HEAD + "rack7-n3,x,10.44.6.5,24,,\n", "not the number of a device: 'x'"),
        (HEAD + "rack7-n3,0,10.44.6.5,24,10.44.7.1,\n", "gateway 10.44.7.1 is not in 10.44.6.0/24"),
        (HEAD + "rack7-n3,0,10.44.6.5,24,10.44.6.5,\n", "gateway 10.44.6.5 is not in"),
        (HEAD + "rack7-n3,0,10.44.6.5,24,,10.99.0.1\n", "netdetect 10.99.0.1 is not in"),
        (HEAD + "rack7-n3,0,10.44.6.5,24\n", "another number of cells"),
        (HEAD + "rack7-n3,0,10.44.6.5,24,,\n", "gateway 29.40.8.1 is not in 10.44.6.0/24"),
    ],
)
def test_a_table_with_a_mistake_is_refused_with_its_line(table: str, said: str) -> None:
    host = node(table)
    before = state(host)
    assert said in str(planned(host).refused)
    assert state(host) == before


def test_an_npu_that_has_its_address_and_what_the_table_does_not_name_stay() -> None:
    host = node("")
    has = [chip.address for chip in inside(host)._node.chips[:2]]
    old = host.read(CONF)
    changed = has[1].rpartition(".")[0] + ".177"
    table = f"device,address,netmask\n0,{has[0]},255.255.255.0\n1,{changed},255.255.255.0\n"
    host.write_file("/etc/site/npus.csv", table.encode())
    made = planned(host)
    assert made.refused is None and made.preview.count("$ hccn_tool") == 1
    assert last(runner.apply(CATALOG, host, made, Options())).outcome is Outcome.APPLIED
    assert host.read(CONF) == old.replace(f"address_1={has[1]}\n", f"address_1={changed}\n")
    assert "gateway_1=" in old and changed not in old


def test_an_address_that_another_npu_of_this_node_keeps_is_refused() -> None:
    host = node("")
    kept = inside(host)._node.chips[5].address
    net = kept.rpartition(".")[0]
    host.write_file("/etc/site/npus.csv", f"{HEAD}rack7-n3,0,{kept},24,{net}.1,\n".encode())
    assert f"device 5, which is not in the table, has {kept} already" in str(planned(host).refused)


@pytest.mark.parametrize(
    ("said", "params", "reason"),
    [
        ({}, {"table": "relative.csv"}, "not an absolute path"),
        ({}, {"table": ""}, "no table"),
        ({}, {"table": "/nowhere.csv"}, "/nowhere.csv"),
        ({}, {"host": "n9"}, "no row for host 'n9'"),
        ({"container": {}}, {}, "on the host"),
        ({"process": [{"pid": 4711, "npu": 2, "memory_mb": 3000}]}, {}, "job"),
        ({"product": "atlas-350-950pr"}, {}, "950"),
    ],
)
def test_where_it_does_not_belong_it_is_refused(said: dict[str, Any], params: dict[str, Any], reason: str) -> None:
    assert reason in str(planned(node(HEAD + rows(), **said), **params).refused)


def test_a_plain_user_is_told_so() -> None:
    made = planned(node(HEAD + rows(), user={"name": "dev", "uid": 1007, "groups": {"dev": 1007}}))
    assert made.refused or (made.obstacle and made.obstacle.root)


@as_root
def test_root_takes_no_table_that_another_user_can_write(open_folder: Path) -> None:
    path = open_folder / "addresses.csv"
    path.write_text(HEAD + rows(), encoding="utf-8")
    assert len(npu_address._table(LocalHost(), str(path))) == 8
    give(path, ALICE)
    with pytest.raises(Refused, match=str(ALICE)):
        npu_address._table(LocalHost(), str(path))


def test_a_table_that_the_node_has_already_changes_nothing() -> None:
    host = node(HEAD + rows())
    assert last(runner.apply(CATALOG, host, planned(host), Options())).outcome is Outcome.APPLIED
    made = planned(host)
    assert (made.steps, made.notes, made.refused) == ((), (), None)


def test_the_owner_gets_the_commands() -> None:
    host = node(HEAD + rows(devices=range(1)))
    text = handover.render(planned(host), host, "shell")
    assert "hccn_tool -i 0 -gateway -s gateway 10.44.6.254\n" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "address_0=a\nnetmask_0=b\n"),
        ("# x\naddress_0 = old\naddress_10=kept", "# x\naddress_0=a\naddress_10=kept\nnetmask_0=b\n"),
        ("netmask_0=b\naddress_0=a\n", "netmask_0=b\naddress_0=a\n"),
    ],
)
def test_lines_keep_their_place(old: str, new: str) -> None:
    wanted = {"address_0": "a", "netmask_0": "b", "gateway_0": ""}
    assert with_settings(old, wanted) == new
    assert with_settings(new, functools.reduce(lambda d, k: {**d, k: ""}, wanted, {})).count("_0=") == 0
