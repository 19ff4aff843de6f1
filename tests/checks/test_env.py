"""The variables of a job, as a user would see the findings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.findings import Because, Result, Severity, Skip, Status
from npudoctor.host import Completed
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sdk import Unavailable
from npudoctor.testing import run_check

NODES = ("davinci_manager", "devmm_svm", "hisi_hdc", *(f"davinci{number}" for number in range(8)))
CARDS = {f"/dev/{name}": "" for name in NODES}
PCI_A2 = [{"slot": f"0000:{place:02x}:00.0", "vendor": "0x19e5", "device": "0xd802"} for place in range(1, 9)]
PCI_910 = [{**row, "device": "0xd801"} for row in PCI_A2]


def run(id: str, environ: dict[str, str] | None = None, **more: Any) -> Result:
    files = {**CARDS, **more.pop("files", {})}
    measures = {"sockets": [], "processes": [], "pci": PCI_A2, **more.pop("measures", {})}
    return run_check(id, options={"role": "full"}, files=files, environ=environ or {}, measures=measures, **more)


def severities(result: Result) -> list[Severity]:
    return [finding.severity for finding in result.findings]


ALL = ("env.values", "env.misspelled", "env.visible-devices", "env.debug-leftovers", "env.master-port")


@pytest.mark.parametrize("id", ALL)
def test_an_empty_environment_passes(id: str) -> None:
    assert (run(id).status, run(id).findings) == (Status.OK, ())


@pytest.mark.parametrize("id", ALL)
def test_without_a_job_environment_nothing_is_judged(id: str) -> None:
    reason = "no job environment: started by cron"
    result = run_check(id, options={"role": "full"}, files=CARDS, environ=Unavailable(reason))
    assert (result.status, result.reason) == (Status.SKIPPED, reason)


@pytest.mark.parametrize("id", ALL)
def test_on_a_bare_host_it_stands_behind_the_missing_card(id: str) -> None:
    result = run_check(id, environ={"HCCL_BUFFSIZE": "x"})
    assert (result.skip, result.blocked_by) == (Skip.BLOCKED, "npu.present")


@pytest.mark.parametrize("id", ALL)
def test_on_a_node_that_only_lends_its_cards_it_does_not_apply(id: str) -> None:
    result = run_check(id, files=CARDS, measures={"pci": PCI_A2})
    assert result.skip is Skip.NOT_APPLICABLE


# env.values


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HCCL_INTRA_ROCE_ENABLE": "1"}, []),
        ({"HCCL_INTRA_ROCE_ENABLE": "yes"}, [Severity.ERROR]),
        ({"HCCL_RDMA_TC": "133"}, [Severity.WARNING]),
        ({"HCCL_RDMA_TIMEOUT": "22"}, [Severity.WARNING]),
        ({"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "1"}, [Severity.ERROR]),
        ({"INF_NAN_MODE_ENABLE": "0"}, [Severity.ERROR]),
        ({"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}, []),
        ({"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:64"}, [Severity.ERROR]),
        ({"STREAMS_PER_DEVICE": "16"}, [Severity.INFO]),
        ({"ASCEND_GLOBAL_LOG_LEVEL": " 3 "}, []),
    ],
)
def test_values_are_judged_with_the_severity_of_their_variable(
    environ: dict[str, str], expected: list[Severity]
) -> None:
    assert severities(run("env.values", environ)) == expected


def test_variables_that_exclude_each_other_are_named_together() -> None:
    finding = run("env.values", {"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "1"}).findings[0]
    assert finding.code == "env.values/conflict"
    assert finding.summary == f"HCCL_INTRA_PCIE_ENABLE=1, HCCL_INTRA_ROCE_ENABLE=1: {finding.params['problem']}"


def test_the_family_decides_where_products_differ() -> None:
    environ = {"INF_NAN_MODE_ENABLE": "0", "HCCL_RDMA_TIMEOUT": "22"}
    assert severities(run("env.values", environ, measures={"pci": PCI_910})) == []


@pytest.mark.parametrize(
    "name", ["ASCEND_RT_VISIBLE_DEVICES", "HCCL_IF_BASE_PORT", "HCCL_IF_IP", "MASTER_PORT", "RANK"]
)
def test_a_variable_with_a_check_of_its_own_is_left_to_it(name: str) -> None:
    assert run("env.values", {name: "nonsense"}).findings == ()


def test_a_finding_says_what_was_seen_what_is_legal_and_what_to_do() -> None:
    finding = run("env.values", {"HCCL_INTRA_ROCE_ENABLE": "yes"}).findings[0]
    assert finding.code == "env.values/invalid"
    assert finding.summary == "HCCL_INTRA_ROCE_ENABLE invalid: 'yes' is none of 0, 1"
    assert (finding.evidence[0].source, finding.evidence[0].actual) == ("HCCL_INTRA_ROCE_ENABLE", "yes")
    assert finding.commands == ("unset HCCL_INTRA_ROCE_ENABLE",)
    assert finding.pitfall == "P048" and all(link.startswith("https://") for link in finding.links)


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"TORCH_ACL_INIT_CONFIG_PATH": "/gone.json"}, "/gone.json does not exist"),
        ({"TORCH_ACL_INIT_CONFIG_PATH": "/folder"}, "/folder is not a regular file"),
        ({"ASCEND_PROCESS_LOG_PATH": "/closed"}, "/closed is not writable by this user"),
        ({"ASCEND_PROCESS_LOG_PATH": "/init.json"}, "/init.json is not a directory"),
        ({"ASCEND_CUSTOM_OPP_PATH": "/folder:/gone"}, "/gone does not exist"),
    ],
)
def test_a_path_that_does_not_serve_is_named(environ: dict[str, str], problem: str) -> None:
    result = run(
        "env.values",
        environ,
        files={"/folder/x": "", "/closed/x": "", "/init.json": "{}"},
        stats={"/closed": Overlay(kind="dir", access="rx")},
    )
    assert result.findings[0].params == {"name": next(iter(environ)), "problem": problem}


@pytest.mark.parametrize(
    "environ",
    [
        {"TORCH_ACL_INIT_CONFIG_PATH": "/init.json"},
        {"ASCEND_PROCESS_LOG_PATH": "/not/yet/there"},
        {"ASCEND_PROCESS_LOG_PATH": "relative"},
        {"ASCEND_CUSTOM_OPP_PATH": "/folder"},
    ],
)
def test_a_path_that_serves_passes(environ: dict[str, str]) -> None:
    assert run("env.values", environ, files={"/folder/x": "", "/init.json": "{}"}).findings == ()


# env.misspelled


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HCCL_SOCKET_IFNAMES", "HCCL_SOCKET_IFNAME"),
        ("HCCL_BUFSIZE", "HCCL_BUFFSIZE"),
        ("ASCEND_RT_VISIBLE_DEVICE", "ASCEND_RT_VISIBLE_DEVICES"),
        ("HCLC_IF_IP", "HCCL_IF_IP"),
        ("PYTORCH_NPU_ALOC_CONF", "PYTORCH_NPU_ALLOC_CONF"),
    ],
)
def test_a_slip_of_the_fingers_is_a_warning_that_names_what_was_meant(name: str, meant: str) -> None:
    result = run("env.misspelled", {name: "5"})
    assert severities(result) == [Severity.WARNING]
    assert result.findings[0].commands == (f"unset {name}", f"export {meant}=5")
    assert result.findings[0].summary == f"{name} is not read by anything; did you mean {meant}?"


def test_the_right_name_beside_the_wrong_one_is_not_overwritten() -> None:
    result = run("env.misspelled", {"HCCL_BUFSIZE": "5", "HCCL_BUFFSIZE": "200"})
    assert result.findings[0].commands == ("unset HCCL_BUFSIZE",)


@pytest.mark.parametrize("name", ["ASCEND_LOG_PRINT_TO_STDOUT", "HCCL_NEW_SETTING", "ASCEND_X", "PATHS", "RANKS"])
def test_other_names_are_left_alone(name: str) -> None:
    assert run("env.misspelled", {name: "1"}).findings == ()


# env.visible-devices


@pytest.mark.parametrize("value", ["0", "0,1,2,3,4,5,6,7", "3,7", ""])
def test_cards_that_are_here_in_rising_order_pass(value: str) -> None:
    assert run("env.visible-devices", {"ASCEND_RT_VISIBLE_DEVICES": value}).findings == ()


@pytest.mark.parametrize(
    ("value", "text", "right", "used"),
    [
        ("0, 1", "is not a list of numbers separated by commas only", "0,1", "uses 0 and"),
        ("1,0", "is not in ascending order", "0,1", "uses 1 and"),
        ("0,0,1", "lists a chip twice", "0,1", "uses 0 and"),
        ("6,7,8", "lists chip 8; this node has 8 chips, numbered from 0", "6,7", "uses 6,7 and"),
        ("npu0", "is not a list of numbers separated by commas only", "0", "finds no device"),
        ("8,9", "lists chip 8; this node has 8 chips, numbered from 0", None, "finds no device"),
    ],
)
def test_a_list_that_cann_reads_otherwise_is_an_error(value: str, text: str, right: str | None, used: str) -> None:
    result = run("env.visible-devices", {"ASCEND_RT_VISIBLE_DEVICES": value})
    assert severities(result) == [Severity.ERROR]
    finding = result.findings[0]
    assert finding.summary == f"ASCEND_RT_VISIBLE_DEVICES={value} {text}"
    assert used in str(finding.detail)
    export = (f"export ASCEND_RT_VISIBLE_DEVICES={right}",) if right else ()
    assert finding.commands == (*export, "unset ASCEND_RT_VISIBLE_DEVICES")


def test_a_card_that_only_the_pci_bus_still_shows_is_another_checks_finding() -> None:
    seven = {path: "" for path in CARDS if path != "/dev/davinci7"}
    result = run_check(
        "env.visible-devices",
        options={"role": "full"},
        files=seven,
        environ={"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"},
        measures={"pci": PCI_A2},
    )
    assert result.findings == ()


@pytest.mark.thorough
@given(st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_a_list_passes_exactly_when_it_rises_and_its_cards_are_here(numbers: list[int]) -> None:
    result = run("env.visible-devices", {"ASCEND_RT_VISIBLE_DEVICES": ",".join(map(str, numbers))})
    right = numbers == sorted(set(numbers)) and max(numbers) < 8
    assert (result.status is Status.OK) is right


# env.debug-leftovers


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("ASCEND_LAUNCH_BLOCKING", "1", [Severity.WARNING]),
        ("ASCEND_LAUNCH_BLOCKING", "0", []),
        ("ASCEND_GLOBAL_LOG_LEVEL", "0", [Severity.WARNING]),
        ("ASCEND_GLOBAL_LOG_LEVEL", "1", [Severity.WARNING]),
        ("ASCEND_GLOBAL_LOG_LEVEL", "3", []),
        ("ASCEND_MODULE_LOG_LEVEL", "HCCL=1:GE=3", [Severity.WARNING]),
        ("ASCEND_MODULE_LOG_LEVEL", "HCCL=3", []),
        ("ASCEND_SLOG_PRINT_TO_STDOUT", "1", [Severity.WARNING]),
        ("ASCEND_LOG_PRINT_TO_STDOUT", "1", [Severity.WARNING]),
        ("HCCL_ENTRY_LOG_ENABLE", "1", [Severity.INFO]),
    ],
)
def test_leftovers_of_debugging_are_told(name: str, value: str, expected: list[Severity]) -> None:
    result = run("env.debug-leftovers", {name: value})
    assert severities(result) == expected
    for finding in result.findings:
        assert finding.commands == (f"unset {name}",)
        assert finding.summary == f"{name}={value} slows jobs down"
        assert finding.detail is not None
        assert finding.detail.startswith(f"{name} ")
        assert finding.detail.endswith(".") and ".." not in finding.detail


# env.master-port

IDLE = {
    "npu-smi info": """
| npu-smi 24.1.0                   Version: 24.1.0                                              |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     910B3               | OK            | 95.7        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3300 / 65536         |
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
"""
}
KERNEL = {
    "/proc/sys/net/ipv4/ip_local_port_range": "32768 60999\n",
    "/proc/sys/net/ipv4/ip_local_reserved_ports": "60000-60031\n",
    "/usr/local/Ascend/driver/version.info": "Version=25.2.0\n",
}
LAUNCHER = {"pid": 60211, "ppid": 1, "name": "python3", "username": "root", "cmdline": ["python3", "torchrun", "x.py"]}


def listening(port: int, pid: int | None = 60211) -> dict[str, Any]:
    row = {"family": "inet", "type": "tcp", "laddr": f"0.0.0.0:{port}", "status": "LISTEN"}
    return {"sockets": [row | ({"pid": pid} if pid else {})], "processes": [LAUNCHER]}


def test_a_taken_default_port_is_an_error_that_names_the_owner() -> None:
    result = run("env.master-port", measures=listening(29500), commands=IDLE)
    assert severities(result) == [Severity.ERROR]
    finding = result.findings[0]
    assert finding.summary == "Port 29500 (default of MASTER_PORT) in use by python3 (pid 60211, root)"
    assert finding.commands[-1].startswith("export MASTER_PORT=29501")
    assert finding.pitfall == "P018"


def test_only_the_port_of_this_job_matters() -> None:
    assert run("env.master-port", {"MASTER_PORT": "29600"}, measures=listening(29500)).findings == ()
    found = run("env.master-port", {"MASTER_PORT": "29600"}, measures=listening(29600), commands=IDLE).findings
    summary = "MASTER_PORT 29600 in use by python3 (pid 60211, root)"
    assert [(one.severity, one.summary) for one in found] == [(Severity.ERROR, summary)]


def test_a_port_on_another_node_is_not_looked_for_here() -> None:
    interfaces = [{"name": "eth0", "up": True, "addresses": ["10.0.0.7/24"]}]
    measures = {**listening(29500), "interfaces": interfaces}
    assert run("env.master-port", {"MASTER_ADDR": "10.0.0.9"}, measures=measures).findings == ()
    assert severities(run("env.master-port", {"MASTER_ADDR": "10.0.0.7"}, measures=measures, commands=IDLE)) == [
        Severity.ERROR
    ]


@pytest.mark.parametrize(
    ("environ", "severity", "text"),
    [
        ({"MASTER_PORT": "60003"}, Severity.ERROR, "is one of HCCL's ports 60000-60031"),
        ({"MASTER_PORT": "60020"}, Severity.INFO, "is one of HCCL's ports 60000-60031"),
        (
            {"MASTER_PORT": "29500", "HCCL_IF_BASE_PORT": "29490"},
            Severity.ERROR,
            "is one of HCCL's ports 29490-29521",
        ),
        ({"MASTER_PORT": "0"}, Severity.ERROR, "is not a port number"),
        ({"MASTER_PORT": "70000"}, Severity.ERROR, "is not a port number"),
        ({"MASTER_PORT": "http"}, Severity.ERROR, "is not a port number"),
        ({"MASTER_PORT": "80"}, Severity.WARNING, "requires root: ports below 1024 belong to the system"),
        ({"MASTER_PORT": "29501"}, None, ""),
    ],
)
def test_a_master_port_that_cannot_work_is_told(environ: dict[str, str], severity: Severity | None, text: str) -> None:
    found = run("env.master-port", environ).findings
    expected = [(severity, f"MASTER_PORT={environ['MASTER_PORT']} {text}")] if severity else []
    assert [(one.severity, one.summary) for one in found] == expected


def test_without_any_view_of_sockets_the_master_port_is_not_judged() -> None:
    result = run_check("env.master-port", options={"role": "full"}, files=CARDS)
    assert (result.status, result.because) == (Status.SKIPPED, Because.NOT_RECORDED)


@pytest.mark.parametrize("id", ["env.master-port", "hccl.ports-free"])
def test_what_may_be_a_job_is_not_accused_while_npu_smi_does_not_tell(id: str) -> None:
    hangs = {"npu-smi info": Completed(returncode=None, timed_out=True, seconds=10.0)}
    port = 29500 if id == "env.master-port" else 60000
    node: dict[str, Any] = {"commands": hangs, "files": KERNEL, "measures": listening(port)}
    result = run(id, **node)
    assert (result.status, result.skip, result.findings) == (Status.SKIPPED, Skip.COULD_NOT_LOOK, ())
    held = f"port {port} is held by python3 (pid 60211, root), which may belong to a running job: "
    assert str(result.reason).startswith(held)
    assert "`npu-smi info` did not answer within 10 s" in str(result.reason)
    stranger = {**LAUNCHER, "name": "cupsd", "cmdline": ["/usr/sbin/cupsd"]}
    node["measures"] = {**listening(port), "processes": [stranger]}
    assert severities(run(id, **node)) == [Severity.ERROR]


@pytest.mark.thorough
@given(
    st.dictionaries(st.sampled_from(["MASTER_PORT", "ASCEND_RT_VISIBLE_DEVICES", "HCCL_BUFFSIZE"]), st.text(max_size=9))
)
def test_any_environment_is_judged_without_a_crash(environ: dict[str, str]) -> None:
    for id in ALL:
        assert run(id, environ).status is not Status.CRASHED
