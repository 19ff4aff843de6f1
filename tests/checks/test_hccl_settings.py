"""HCCL's times, buffers, whitelist, rank table and host name, as a user would see the findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status
from npudoctor.host.simulated.tree import Overlay
from npudoctor.testing import run_check

Nodes = Callable[..., Any]
ETH = {"name": "eth0", "up": True, "addresses": ["10.0.0.7/24"]}
LO = {"name": "lo", "up": True, "addresses": ["127.0.0.1/8"]}
CARDS = {
    f"/dev/{name}": "" for name in ("davinci_manager", "devmm_svm", "hisi_hdc", *(f"davinci{n}" for n in range(8)))
}
CHECKS = ("hccl.timeouts", "hccl.buffers", "hccl.whitelist", "hccl.hostname", "hccl.rank-table")


def run(id: str, environ: dict[str, str], files: dict[str, str] | None = None, **more: Any) -> Result:
    more.setdefault("measures", {"interfaces": [LO, ETH]})
    return run_check(id, options={"role": "full"}, files={**CARDS, **(files or {})}, environ=environ, **more)


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


@pytest.mark.parametrize("id", CHECKS)
def test_what_is_not_set_is_no_finding(node: Nodes, id: str) -> None:
    result = node().check(id)
    assert (result.status, result.findings) == (Status.OK, ())


@pytest.mark.parametrize("id", CHECKS)
def test_without_a_job_environment_nothing_is_judged(id: str) -> None:
    from npudoctor.sdk import Unavailable

    result = run(id, Unavailable("cron has none", because=Because.ABSENT), {"/etc/hosts": ""})  # type: ignore[arg-type]
    assert result.status is Status.SKIPPED
    assert result.reason == "cron has none"


# hccl.timeouts


@pytest.mark.parametrize(
    "environ",
    [
        {"HCCL_CONNECT_TIMEOUT": "1800"},
        {"HCCL_EXEC_TIMEOUT": "1800"},
        {"HCCL_EXEC_TIMEOUT": "3600", "HCCL_EVENT_TIMEOUT": "3700"},
        {"HCCL_EXEC_TIMEOUT": "3600", "HCCL_EVENT_TIMEOUT": "0"},
        {"HCCL_EVENT_TIMEOUT": "1900"},
    ],
)
def test_times_that_fit_pass(node: Nodes, environ: dict[str, str]) -> None:
    assert node(environ=environ).check("hccl.timeouts").findings == ()


@pytest.mark.parametrize("value", ["60", "7201", "2m"])
def test_a_connect_timeout_out_of_range_is_a_warning(node: Nodes, value: str) -> None:
    finding = only(node(environ={"HCCL_CONNECT_TIMEOUT": value}).check("hccl.timeouts"))
    assert (finding.severity, finding.commands) == (Severity.WARNING, ("unset HCCL_CONNECT_TIMEOUT",))
    assert finding.code == "hccl.timeouts/invalid"
    assert finding.summary == f"HCCL_CONNECT_TIMEOUT invalid: {finding.params['problem']}"


@pytest.mark.parametrize(
    ("environ", "longer", "limit"),
    [
        ({"HCCL_EXEC_TIMEOUT": "3600", "HCCL_EVENT_TIMEOUT": "3600"}, "3632", "3600 s"),
        ({"HCCL_EVENT_TIMEOUT": "1800"}, "1868", "1836 s"),
        ({"HCCL_EXEC_TIMEOUT": "0", "HCCL_EVENT_TIMEOUT": "1868"}, "0", "no limit"),
    ],
)
def test_an_event_timeout_that_is_up_first_is_a_warning(
    node: Nodes, environ: dict[str, str], longer: str, limit: str
) -> None:
    finding = only(node(environ=environ).check("hccl.timeouts"))
    assert (finding.severity, finding.pitfall) == (Severity.WARNING, "P082")
    assert finding.commands[0] == f"export HCCL_EVENT_TIMEOUT={longer}"
    value = environ["HCCL_EVENT_TIMEOUT"]
    assert finding.summary == f"HCCL_EVENT_TIMEOUT={value} is not longer than HCCL_EXEC_TIMEOUT ({limit})"


def test_an_execution_timeout_beyond_the_documented_event_timeout_is_info(node: Nodes) -> None:
    finding = only(node(environ={"HCCL_EXEC_TIMEOUT": "7200"}).check("hccl.timeouts"))
    assert finding.severity is Severity.INFO
    assert finding.summary == (
        "HCCL_EXEC_TIMEOUT=7200 is longer than the documented default of HCCL_EVENT_TIMEOUT, 1868 s"
    )


def test_the_family_decides_how_long_an_execution_may_wait(node: Nodes) -> None:
    environ = {"HCCL_EXEC_TIMEOUT": "20000", "HCCL_EVENT_TIMEOUT": "20040"}
    assert node(environ=environ).check("hccl.timeouts").findings == ()
    old = node(product="atlas-800-9010", environ=environ).check("hccl.timeouts")
    assert old.findings[0].params["name"] == "HCCL_EXEC_TIMEOUT"


# hccl.buffers


@pytest.mark.parametrize("value", ["1", "200", "2048"])
def test_buffers_that_leave_room_pass(node: Nodes, value: str) -> None:
    assert node(environ={"HCCL_BUFFSIZE": value}).check("hccl.buffers").findings == ()


def test_a_buffer_that_takes_the_card_is_a_warning(node: Nodes) -> None:
    finding = only(node(environ={"HCCL_BUFFSIZE": "8192"}).check("hccl.buffers"))
    assert (finding.severity, finding.pitfall) == (Severity.WARNING, "P083")
    assert finding.summary == "HCCL buffers use 16 GB of 64 GB on one chip per communicator: HCCL_BUFFSIZE=8192"


def test_how_much_is_too_much_is_the_site_s_to_say(node: Nodes) -> None:
    said = {"settings": {"hccl_buffers_percent": 1}}
    assert only(node(environ={"HCCL_BUFFSIZE": "400"}).check("hccl.buffers", **said)).severity is Severity.WARNING


def test_a_buffer_of_no_size_is_a_warning(node: Nodes) -> None:
    finding = only(node(environ={"HCCL_BUFFSIZE": "0"}).check("hccl.buffers"))
    assert finding.severity is Severity.WARNING
    assert finding.summary == "HCCL_BUFFSIZE invalid: 0 is too small; it must be at least 1"


# hccl.whitelist

ON = {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": "/etc/hccl.json"}


def test_a_whitelist_with_this_host_passes() -> None:
    listed = json.dumps({"host_ip": ["10.0.0.8", "10.0.0.7"], "device_ip": []})
    assert run("hccl.whitelist", ON, {"/etc/hccl.json": listed}).findings == ()
    assert run("hccl.whitelist", {"HCCL_WHITELIST_DISABLE": "1"}).status is Status.OK


@pytest.mark.parametrize(
    ("environ", "text", "code", "words"),
    [
        ({"HCCL_WHITELIST_DISABLE": "0"}, None, "unusable", "no file is named"),
        (ON, None, "unusable", "does not exist"),
        (ON, "", "unusable", "not JSON"),
        (ON, '{"host": []}', "unusable", "no list host_ip"),
        (ON, '{"host_ip": ["node-1"]}', "unusable", "no address"),
        (
            ON,
            '{"host_ip": ["10.0.0.8"]}',
            "host-missing",
            "HCCL whitelist /etc/hccl.json does not list this host (10.0.0.7)",
        ),
        ({"HCCL_WHITELIST_DISABLE": "no"}, None, "invalid", "HCCL_WHITELIST_DISABLE invalid: 'no' is none of 0, 1"),
    ],
)
def test_a_whitelist_that_keeps_this_host_out_is_an_error(
    environ: dict[str, str], text: str | None, code: str, words: str
) -> None:
    finding = only(run("hccl.whitelist", environ, {"/etc/hccl.json": text} if text is not None else {}))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P074")
    assert finding.code == f"hccl.whitelist/{code}"
    if code == "unusable":
        named = "HCCL whitelist enabled, but HCCL_WHITELIST_FILE is not usable"
        assert words in finding.params["problem"]
        assert finding.summary == f"{named}: {finding.params['problem']}"
    else:
        assert finding.summary == words


def test_a_whitelist_that_was_not_recorded_is_no_verdict() -> None:
    result = run("hccl.whitelist", ON, unrecorded="unknown")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.NOT_RECORDED)


# hccl.hostname

ELSEWHERE = {"MASTER_ADDR": "10.0.0.99"}


@pytest.mark.parametrize(
    ("environ", "hosts", "found"),
    [
        (ELSEWHERE, "127.0.0.1 localhost\n127.0.1.1 fake\n", True),
        (ELSEWHERE, "127.0.0.1 localhost fake.example.com fake\n10.0.0.7 fake\n", True),
        (ELSEWHERE, "127.0.0.1 localhost\n10.0.0.7 fake\n127.0.1.1 fake\n", False),
        (ELSEWHERE, "127.0.0.1 localhost\n# 127.0.1.1 fake\n", False),
        ({}, "127.0.1.1 fake\n", False),
    ],
)
def test_a_name_that_leads_to_the_loopback_matters_with_several_nodes(
    environ: dict[str, str], hosts: str, found: bool
) -> None:
    result = run("hccl.hostname", environ, {"/etc/hosts": hosts})
    assert [(one.severity, one.pitfall) for one in result.findings] == ([(Severity.WARNING, "P050")] if found else [])
    if found:
        address = result.findings[0].params["address"]
        assert address in hosts
        assert result.findings[0].summary == f"Host name fake resolves to {address}, but the job has several nodes"
        assert "10.0.0.7" in result.findings[0].commands[0]
        assert result.findings[0].hint == "Map the name to an address that the other nodes reach."


def test_a_job_without_a_master_is_offered_one() -> None:
    result = run("hccl.hostname", {"SLURM_NNODES": "2"}, {"/etc/hosts": "127.0.1.1 fake\n"})
    assert "set MASTER_ADDR" in (result.findings[0].hint or "")


@pytest.mark.parametrize(
    ("environ", "severity"),
    [
        ({"MASTER_ADDR": "127.0.0.1", "SLURM_NNODES": "2"}, Severity.WARNING),
        ({"MASTER_ADDR": "localhost", "SLURM_NNODES": "2", "NODE_RANK": "1"}, Severity.ERROR),
        ({"MASTER_ADDR": "::1", "MA_NUM_HOSTS": "2", "NODE_RANK": "0"}, None),
        ({"MASTER_ADDR": "127.0.0.1", "SLURM_NNODES": "1"}, None),
        ({"MASTER_ADDR": "10.0.0.7", "SLURM_NNODES": "2"}, None),
    ],
)
def test_a_master_on_the_loopback_is_met_by_the_first_node_alone(
    environ: dict[str, str], severity: Severity | None
) -> None:
    result = run("hccl.hostname", environ, {"/etc/hosts": "10.0.0.7 fake\n"})
    assert [(one.severity, one.pitfall) for one in result.findings] == ([(severity, "P050")] if severity else [])
    named = environ["MASTER_ADDR"]
    assert [one.summary for one in result.findings] == (
        [f"MASTER_ADDR={named} is this node itself, but the job has several nodes"] if severity else []
    )


def test_without_a_hosts_file_the_name_is_not_judged() -> None:
    result = run("hccl.hostname", ELSEWHERE)
    assert (result.status, result.reason) == (Status.SKIPPED, "/etc/hosts does not exist")


# hccl.rank-table

NAMED = {"RANK_TABLE_FILE": "/job/hccl.json"}
CONF = "".join(f"address_{n}=29.40.8.{11 + n}\nnetmask_{n}=255.255.255.0\n" for n in range(8))


def table(**changes: Any) -> dict[str, Any]:
    devices = [{"device_id": str(n), "device_ip": f"29.40.8.{11 + n}", "rank_id": str(n)} for n in range(8)]
    server = {"server_id": "10.0.0.7", "device": devices, **changes.pop("server", {})}
    return {"version": "1.0", "server_count": "1", "server_list": [server], "status": "completed", **changes}


def judged(said: Any, environ: dict[str, str] | None = None, **more: Any) -> Result:
    text = said if isinstance(said, str) else json.dumps(said)
    files = {"/job/hccl.json": text, "/etc/hccn.conf": CONF, "/etc/hosts": "10.0.0.7 fake\n"}
    return run("hccl.rank-table", {**NAMED, **(environ or {})}, files, **more)


@pytest.mark.parametrize(
    "said",
    [
        table(),
        table(server={"server_id": "node-x", "host_ip": "10.0.0.7"}),
        table(server={"server_id": "fake"}),
        {"status": "completed", "group_count": "1", "group_list": [{"instance_list": [
            {"server_id": "10.0.0.7", "devices": [{"device_id": "0", "device_ip": "29.40.8.11"}]}]}]},
    ],
)  # fmt: skip
def test_a_rank_table_that_fits_passes(said: Any) -> None:
    assert judged(said, {"WORLD_SIZE": str(8 if "server_list" in said else 1)}).findings == ()


def devices(**changes: Any) -> list[dict[str, Any]]:
    rows = [{"device_id": "0", "device_ip": "29.40.8.11", "rank_id": "0"}, {"device_id": "1", "rank_id": "1"}]
    rows[1].update(changes)
    return rows


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("{", "unusable", "not JSON"),
        ("{}", "unusable", "no list group_list"),
        (table(server_list=[]), "unusable", "names no server"),
        (table(server={"device": devices(device_ip="29.40")}), "unusable", "no address of a device"),
        (table(status="broken"), "status", "not complete: its status is broken"),
        (table(status="initializing"), "unfinished", "not complete: its writer has not finished (status initializing)"),
        (table(server_count="2"), "server-count", "inconsistent: it states 2 servers but lists 1"),
        (table(server={"device": devices(rank_id="3")}), "rank-missing", "inconsistent: rank 1 is missing"),
        (table(server={"device": devices(rank_id="0")}), "rank-twice", "inconsistent: rank 0 is listed twice"),
        (
            table(server={"device": devices(device_ip="29.40.8.11")}),
            "address-twice",
            "inconsistent: two devices have the address 29.40.8.11",
        ),
        (table(server={"server_id": "10.0.0.8", "device": []}), "host-missing", "does not list this host"),
        (
            table(server={"device": devices(device_id="9")}),
            "device-missing",
            "lists device 9 for this host: not present here",
        ),
        (
            table(server={"device": devices(device_ip="29.40.8.99")}),
            "device-address",
            "gives device 1 the address 29.40.8.99; this host has 29.40.8.12",
        ),
    ],
)
def test_a_rank_table_that_does_not_fit_is_an_error(said: Any, code: str, words: str) -> None:
    finding = only(judged(said))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P047")
    assert finding.code == f"hccl.rank-table/{code}"
    if code == "unusable":
        assert finding.summary == f"RANK_TABLE_FILE not usable: {finding.params['problem']}"
        assert words in finding.params["problem"]
    else:
        assert finding.summary == f"Rank table /job/hccl.json {words}"


def test_another_number_of_ranks_than_the_job_has_is_an_error() -> None:
    summary = only(judged(table(), {"WORLD_SIZE": "16"})).summary
    assert summary == "Rank table /job/hccl.json has 8 ranks, but WORLD_SIZE is 16"


def test_a_rank_table_has_to_be_a_file_of_its_own() -> None:
    gone = only(run("hccl.rank-table", NAMED))
    assert "does not exist" in gone.summary
    assert "absolute" in only(run("hccl.rank-table", {"RANK_TABLE_FILE": "hccl.json"})).summary
    linked = only(judged(table(), {"RANK_TABLE_FILE": "/job/link.json"}, links={"/job/link.json": "hccl.json"}))
    assert "link" in linked.summary
    folder = run("hccl.rank-table", NAMED, stats={"/job/hccl.json": Overlay(kind="dir")})
    assert "no regular file" in only(folder).summary


def test_a_rank_table_that_was_not_recorded_is_no_verdict() -> None:
    result = run("hccl.rank-table", NAMED, unrecorded="unknown")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.NOT_RECORDED)
