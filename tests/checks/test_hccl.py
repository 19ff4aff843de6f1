"""HCCL's ports and interface, as a user would see the findings."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.network.hccl import host_ports
from npudoctor.facts.network.ports import KernelPorts, PortRanges
from npudoctor.facts.node.chips import Chips, NodeChip
from npudoctor.facts.node.container import Container
from npudoctor.findings import Because, Result, Severity, Skip, Status
from npudoctor.sdk import FixOffer, Unavailable
from npudoctor.testing import run_check

RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
EPHEMERAL = "/proc/sys/net/ipv4/ip_local_port_range"
KEY = "net.ipv4.ip_local_reserved_ports"
CARDS = {
    f"/dev/{name}": "" for name in ("davinci_manager", "devmm_svm", "hisi_hdc", *(f"davinci{n}" for n in range(8)))
}

LO = {"name": "lo", "up": True, "addresses": ["127.0.0.1/8", "::1/128"]}
ETH = {"name": "eth0", "up": True, "addresses": ["10.0.0.7/24"]}
BOND = {"name": "bond0", "up": True, "addresses": ["192.168.1.7/24"]}
DOWN = {"name": "enp9s0", "up": False, "addresses": ["10.9.0.7/24"]}
DOCKER = {"name": "docker0", "up": True, "addresses": ["172.17.0.1/16"]}

PROCESSES = [
    {"pid": 1, "ppid": 0, "name": "systemd", "username": "root"},
    {"pid": 4700, "ppid": 1, "name": "torchrun", "username": "dev", "cmdline": ["torchrun", "train.py"]},
    {"pid": 4711, "ppid": 4700, "name": "python3", "username": "dev", "cmdline": ["python3", "train.py"]},
    {"pid": 900, "ppid": 1, "name": "redis-server", "username": "redis", "cmdline": ["redis-server", "*:60003"]},
    {"pid": 901, "ppid": 1, "name": "python3", "username": "dev", "cmdline": ["python3", "old.py"]},
]


def cann(version: str) -> dict[str, str]:
    info = f"package_name=Ascend-cann-toolkit\nversion={version}\narch=aarch64\nos=linux\n"
    root = f"/usr/local/Ascend/ascend-toolkit/{version}"
    return {f"{root}/aarch64-linux/ascend_toolkit_install.info": info}


def listener(port: int, pid: int | None = None, status: str = "LISTEN", address: str = "0.0.0.0") -> dict[str, Any]:
    row: dict[str, Any] = {"family": "inet", "type": "tcp", "laddr": f"{address}:{port}", "status": status}
    return row | ({"pid": pid} if pid else {})


def run(
    id: str,
    *,
    reserved: str = "",
    ephemeral: str = "32768 60999",
    files: dict[str, str] | None = None,
    version: str | None = "8.2.RC1",
    options: dict[str, Any] | None = None,
    commands: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
    **measures: Any,
) -> Result:
    kernel = {RESERVED: reserved + "\n", EPHEMERAL: ephemeral + "\n"}
    return run_check(
        id,
        options={"role": "full", **(options or {})},
        files={**CARDS, **kernel, **(cann(version) if version else {}), **(files or {})},
        environ=environ or {},
        commands=commands or {},
        measures={"processes": PROCESSES, "sockets": [], "interfaces": [LO, ETH], **measures},
    )


def severities(result: Result) -> list[Severity]:
    return [finding.severity for finding in result.findings]


def summaries(result: Result) -> list[str]:
    return [finding.summary for finding in result.findings]


# hccl.base-port


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"HCCL_IF_BASE_PORT": "50000"},
        {"HCCL_IF_BASE_PORT": ""},
        {"HCCL_HOST_SOCKET_PORT_RANGE": "60000-60050, 60060", "HCCL_NPU_SOCKET_PORT_RANGE": "auto"},
    ],
)
def test_legal_port_variables_pass(environ: dict[str, str]) -> None:
    result = run("hccl.base-port", environ=environ)
    assert (result.status, result.findings) == (Status.OK, ())


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("HCCL_IF_BASE_PORT", "sixty", "not a number"),
        ("HCCL_IF_BASE_PORT", "1000", "not between 1024 and 65520"),
        ("HCCL_HOST_SOCKET_PORT_RANGE", "60000-50000", "ends before it starts"),
        ("HCCL_HOST_SOCKET_PORT_RANGE", "60000-60010,60005", "overlaps"),
        ("HCCL_NPU_SOCKET_PORT_RANGE", "16666;16667", "neither a port"),
    ],
)
def test_a_port_variable_that_hccl_refuses_is_an_error(name: str, value: str, problem: str) -> None:
    result = run("hccl.base-port", environ={name: value})
    assert severities(result) == [Severity.ERROR]
    finding = result.findings[0]
    assert (finding.code, finding.params["name"]) == ("hccl.base-port/invalid", name)
    assert finding.summary == f"{name} invalid: {finding.params['problem']}" and problem in finding.summary
    assert finding.commands == (f"unset {name}",)
    assert finding.fix is None or finding.fix.id == "env.profile"


@pytest.mark.parametrize(
    ("version", "expected", "summary"),
    [
        ("8.2.RC1", Severity.INFO, "HCCL_IF_BASE_PORT=65510 leaves no room for the 32 ports of CANN 8.3.RC1 and later"),
        (
            "8.3.RC1",
            Severity.ERROR,
            "HCCL_IF_BASE_PORT invalid: the 32 ports that this CANN release uses run past 65535",
        ),
    ],
)
def test_a_range_that_runs_past_the_last_port_is_judged_by_the_release(
    version: str, expected: Severity, summary: str
) -> None:
    result = run("hccl.base-port", version=version, environ={"HCCL_IF_BASE_PORT": "65510"})
    assert (severities(result), summaries(result)) == ([expected], [summary])


def test_ports_of_the_system_are_a_warning_and_an_overruled_base_is_info() -> None:
    auto = {"HCCL_NPU_SOCKET_PORT_RANGE": "auto"}
    low = {"HCCL_HOST_SOCKET_PORT_RANGE": "1000-1100", **auto}
    warned = run("hccl.base-port", environ=low)
    assert severities(warned) == [Severity.WARNING]
    assert summaries(warned) == ["HCCL_HOST_SOCKET_PORT_RANGE includes ports below 1024: 1000-1023"]
    both = {"HCCL_HOST_SOCKET_PORT_RANGE": "60000", "HCCL_IF_BASE_PORT": "50000", **auto}
    told = run("hccl.base-port", environ=both)
    assert severities(told) == [Severity.INFO]
    assert summaries(told) == ["HCCL_IF_BASE_PORT=50000 has no effect: HCCL_HOST_SOCKET_PORT_RANGE takes precedence"]


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        (
            "HCCL_HOST_SOCKET_PORT_RANGE",
            "HCCL_HOST_SOCKET_PORT_RANGE is set but HCCL_NPU_SOCKET_PORT_RANGE is not: every process uses port "
            "16666 on the NPU network",
        ),
        (
            "HCCL_NPU_SOCKET_PORT_RANGE",
            "HCCL_NPU_SOCKET_PORT_RANGE is set but HCCL_HOST_SOCKET_PORT_RANGE is not: every process uses HCCL's "
            "default ports on the host",
        ),
    ],
)
def test_a_range_on_one_side_alone_is_info(name: str, summary: str) -> None:
    result = run("hccl.base-port", environ={name: "61000-61010"})
    assert (severities(result), summaries(result)) == ([Severity.INFO], [summary])


# hccl.ports-reserved


@pytest.mark.parametrize(
    ("version", "reserved", "expected"),
    [
        ("8.2.RC1", "60000-60031", []),
        ("8.2.RC1", "60000-60015", [Severity.INFO]),
        ("8.2.RC1", "60001-60031", [Severity.WARNING]),
        ("8.2.RC1", "", [Severity.WARNING]),
        ("8.3.RC1", "60000-60031,30000", []),
        ("8.3.RC1", "60000-60015", [Severity.WARNING]),
        (None, "60000-60015", [Severity.INFO]),
        (None, "60000-60014", [Severity.WARNING]),
    ],
)
def test_the_reservation_is_judged_by_what_the_release_takes(
    version: str | None, reserved: str, expected: list[Severity]
) -> None:
    assert severities(run("hccl.ports-reserved", version=version, reserved=reserved)) == expected


def test_the_commands_unite_the_reservation_with_what_is_there() -> None:
    finding = run("hccl.ports-reserved", reserved="30000-30010").findings[0]
    assert finding.summary == "HCCL ports not reserved: 60000-60015"
    assert finding.commands == (
        f"sudo sysctl -w {KEY}=30000-30010,60000-60031",
        f"echo '{KEY} = 30000-30010,60000-60031' | sudo tee /etc/sysctl.d/99-npudoctor-hccl.conf",
    )
    assert finding.evidence[0].source == RESERVED and finding.evidence[0].actual == "30000-30010"
    assert finding.pitfall == "P003"


def test_a_file_that_has_the_last_word_is_the_one_to_edit() -> None:
    finding = run("hccl.ports-reserved", files={"/etc/sysctl.conf": f"a = 1\n{KEY}=30000\n"}).findings[0]
    assert finding.commands[1] == f"sudo sed -i '2s/.*/{KEY} = 60000-60031/' /etc/sysctl.conf"


def test_ports_outside_the_ephemeral_range_need_no_reservation() -> None:
    result = run("hccl.ports-reserved", environ={"HCCL_IF_BASE_PORT": "61000"})
    assert severities(result) == [Severity.INFO]
    assert summaries(result) == ["HCCL ports 61000-61031 need no reservation: outgoing connections use 32768-60999"]


@pytest.mark.parametrize(
    ("interfaces", "expected"), [([LO, ETH], Severity.INFO), ([LO, {"name": "enp1s0"}], Severity.WARNING)]
)
def test_a_container_is_judged_by_whose_network_it_has(interfaces: list[Any], expected: Severity) -> None:
    inside = {"runtime": "docker", "cgroup": "v2"}
    result = run("hccl.ports-reserved", container=inside, interfaces=interfaces)
    assert severities(result) == [expected]
    own = expected is Severity.INFO
    assert ("--sysctl" in result.findings[0].commands[0]) is own
    assert result.findings[0].fix is None


def test_one_chip_needs_no_ports_and_none_is_another_checks_finding() -> None:
    alone = {path: None for path in CARDS if path[-1] in "1234567"}
    files = {path: "" for path in CARDS if path not in alone} | {RESERVED: "\n", EPHEMERAL: "32768 60999\n"}
    result = run_check("hccl.ports-reserved", files=files)
    assert (result.skip, result.reason) == (Skip.NOT_APPLICABLE, "one chip needs no host ports for HCCL")
    bare = run_check("hccl.ports-reserved")
    assert (bare.skip, bare.blocked_by) == (Skip.BLOCKED, "npu.present")


def test_ports_that_the_kernel_chooses_need_no_reservation() -> None:
    result = run("hccl.ports-reserved", environ={"HCCL_HOST_SOCKET_PORT_RANGE": "auto"})
    assert result.skip is Skip.NOT_APPLICABLE


def test_without_the_kernels_settings_the_reservation_is_not_judged() -> None:
    result = run_check("hccl.ports-reserved", files=dict(CARDS))
    assert (result.status, result.because) == (Status.SKIPPED, Because.ABSENT)
    assert result.reason == f"{EPHEMERAL} does not exist"


def test_a_bad_base_port_blocks_what_depends_on_it() -> None:
    for id in ("hccl.ports-reserved", "hccl.ports-persistent", "hccl.ports-free"):
        assert run(id, environ={"HCCL_IF_BASE_PORT": "x"}).blocked_by == "hccl.base-port"


def test_without_a_job_environment_the_default_range_is_judged() -> None:
    files = {**CARDS, RESERVED: "\n", EPHEMERAL: "32768 60999\n"}
    result = run_check("hccl.ports-reserved", files=files, environ=Unavailable("no job environment"))
    assert result.findings[0].summary == "HCCL ports not reserved: 60000-60015"


# hccl.ports-persistent


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/etc/sysctl.d/97-hccl.conf": f"{KEY} = 60000-60031"}, []),
        ({"/etc/sysctl.conf": f"{KEY}=60000-60015"}, []),
        ({}, [Severity.WARNING]),
        ({"/etc/sysctl.d/97-hccl.conf": f"{KEY} = 60000-60031", "/etc/sysctl.conf": f"{KEY}=1"}, [Severity.WARNING]),
        ({"/etc/sysctl.d/97-hccl.conf": f"{KEY} = 60000-60031 # HCCL"}, [Severity.WARNING]),
    ],
)
def test_the_reservation_must_survive_a_reboot(files: dict[str, str], expected: list[Severity]) -> None:
    result = run("hccl.ports-persistent", reserved="60000-60031", files=files)
    assert severities(result) == expected


def test_the_file_that_undoes_the_reservation_is_named() -> None:
    files = {"/etc/sysctl.d/97-hccl.conf": f"{KEY} = 60000-60031", "/etc/sysctl.conf": f"{KEY}=1"}
    finding = run("hccl.ports-persistent", reserved="60000-60031", files=files).findings[0]
    assert finding.summary == "HCCL port reservation lost at reboot: 60000-60015"
    assert (
        finding.detail == "Line 1 of /etc/sysctl.conf is applied last at boot and overrides /etc/sysctl.d/97-hccl.conf."
    )
    assert finding.commands == (f"sudo sed -i '1s/.*/{KEY} = 1,60000-60031/' /etc/sysctl.conf",)


def test_what_is_not_reserved_now_is_not_asked_after_a_reboot() -> None:
    result = run("hccl.ports-persistent")
    assert (result.skip, result.blocked_by) == (Skip.BLOCKED, "hccl.ports-reserved")


def test_a_containers_sysctl_files_say_nothing() -> None:
    result = run("hccl.ports-persistent", reserved="60000-60031", container={"runtime": "docker", "cgroup": "v2"})
    assert result.skip is Skip.NOT_APPLICABLE


# hccl.ports-free


def test_free_ports_pass() -> None:
    sockets = [listener(22, 1), listener(59999, 900), listener(60032, 900), listener(60003, 900, "TIME_WAIT")]
    assert run("hccl.ports-free", sockets=sockets).findings == ()


def test_a_stranger_in_the_range_is_an_error_that_names_him() -> None:
    result = run("hccl.ports-free", sockets=[listener(60003, 900), listener(60004, 900)])
    assert severities(result) == [Severity.ERROR]
    finding = result.findings[0]
    assert finding.code == "hccl.ports-free/taken"
    assert finding.params["ports"] == "60003-60004"
    assert finding.evidence[1].actual == "redis-server *:60003"
    assert finding.evidence[0].expected is not None and "60000-60015" in finding.evidence[0].expected
    assert "<= :60015" in finding.commands[0]
    assert "export HCCL_IF_BASE_PORT=61000" in finding.commands[-1]


def test_an_outgoing_connection_in_the_range_is_an_error() -> None:
    sockets = [listener(60003, 900, "ESTABLISHED", "10.0.0.7")]
    finding = run("hccl.ports-free", sockets=sockets).findings[0]
    assert finding.severity is Severity.ERROR
    assert finding.summary == "HCCL port 60003 in use by an outgoing connection of redis-server (pid 900, redis)"


@pytest.mark.parametrize(("version", "expected"), [("8.2.RC1", Severity.INFO), ("8.3.RC1", Severity.ERROR)])
def test_the_upper_half_of_the_range_counts_from_83_on(version: str, expected: Severity) -> None:
    assert severities(run("hccl.ports-free", version=version, sockets=[listener(60020, 900)])) == [expected]


def test_without_any_view_of_sockets_it_is_skipped() -> None:
    files = {**CARDS, RESERVED: "\n", EPHEMERAL: "32768 60999\n"}
    result = run_check("hccl.ports-free", files=files)
    assert (result.status, result.reason) == (Status.SKIPPED, "the bundle holds no sockets")


def in_service(pid: int) -> dict[str, str]:
    """An `npu-smi info` of two chips whose first is held by a process."""
    return {
        "npu-smi info": f"""
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B2               | OK            | 95.7        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          33000/ 65536         |
+===========================+===============+====================================================+
| 1     910B2               | OK            | 92.7        37                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3349 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | {pid:<7}       | python3                  | 30000                   |
+===========================+===============+====================================================+
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""
    }


@pytest.mark.parametrize("owner", [4711, 4700, None])
def test_a_job_that_holds_a_card_explains_its_ports(owner: int | None) -> None:
    commands = in_service(4711)
    sockets = [listener(60000, owner)]
    assert severities(run("hccl.ports-free", commands=commands, sockets=sockets)) == [Severity.INFO]
    idle = run("hccl.ports-free", commands=commands, sockets=sockets, options={"expect_idle": True})
    assert severities(idle) == [Severity.ERROR]


@pytest.mark.parametrize("owner", [900, 901])
def test_a_stranger_beside_a_job_is_still_an_error(owner: int) -> None:
    result = run("hccl.ports-free", commands=in_service(4711), sockets=[listener(60000, owner)])
    assert severities(result) == [Severity.ERROR]


# hccl.interface


def interface(environ: dict[str, str], *interfaces: dict[str, Any], files: dict[str, str] | None = None) -> Result:
    return run("hccl.interface", environ=environ, interfaces=list(interfaces or (LO, ETH)), files=files)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"HCCL_IF_IP": "10.0.0.7"},
        {"HCCL_SOCKET_IFNAME": "eth"},
        {"HCCL_SOCKET_IFNAME": "=lo"},
        {"HCCL_SOCKET_IFNAME": "=eth0", "GLOO_SOCKET_IFNAME": "eth0", "TP_SOCKET_IFNAME": "eth0"},
        {"HCCL_SOCKET_IFNAME": "^lo,docker"},
    ],
)
def test_a_usable_interface_passes(environ: dict[str, str]) -> None:
    result = interface(environ)
    assert (result.status, result.findings) == (Status.OK, ())


@pytest.mark.parametrize(
    ("environ", "code", "text"),
    [
        ({"HCCL_IF_IP": "10.0.0.8"}, "address-elsewhere", "is not an address of this node"),
        ({"HCCL_IF_IP": "localhost"}, "address-invalid", "is not an IP address"),
        ({"HCCL_IF_IP": "10.9.0.7"}, "address-down", "belongs to an interface that is down: enp9s0"),
        (
            {"HCCL_IF_IP": "127.0.0.1", "MASTER_ADDR": "10.0.0.9"},
            "loopback",
            "leaves only the loopback interface (lo)",
        ),
        ({"HCCL_SOCKET_IFNAME": "=eth1"}, "name-elsewhere", "matches no interface of this node"),
        (
            {"HCCL_SOCKET_IFNAME": "enp"},
            "name-down",
            "selects only interfaces that are down or have no address: enp9s0",
        ),
        ({"HCCL_SOCKET_IFNAME": "="}, "name-invalid", "contains no interface name"),
        (
            {"HCCL_SOCKET_IFNAME": "^eth", "MASTER_ADDR": "10.0.0.9"},
            "loopback",
            "leaves only the loopback interface (lo)",
        ),
        (
            {"HCCL_SOCKET_IFNAME": "=lo", "MASTER_ADDR": "10.0.0.9"},
            "loopback",
            "leaves only the loopback interface (lo)",
        ),
        (
            {"HCCL_SOCKET_IFNAME": "^eth,lo"},
            "name-down",
            "selects only interfaces that are down or have no address: enp9s0",
        ),
        ({"HCCL_SOCKET_IFNAME": " eth0"}, "name-with-blank", "starts or ends with a blank"),
        ({"GLOO_SOCKET_IFNAME": "eth1"}, "gloo-elsewhere", "names eth1: not an interface of this node"),
        ({"GLOO_SOCKET_IFNAME": "=eth0"}, "gloo-signs", "names =eth0: only HCCL reads the signs = and ^"),
        (
            {"GLOO_SOCKET_IFNAME": "eth0,enp9s0"},
            "gloo-down",
            "names an interface that is down or has no address: enp9s0",
        ),
        ({"GLOO_SOCKET_IFNAME": ","}, "gloo-empty", "contains no interface name"),
    ],
)
def test_a_variable_that_leads_nowhere_is_an_error(environ: dict[str, str], code: str, text: str) -> None:
    result = interface(environ, LO, ETH, DOWN)
    assert severities(result) == [Severity.ERROR]
    assert result.findings[0].code == f"hccl.interface/{code}"
    name, value = next(iter(environ.items()))
    assert result.findings[0].summary in (f"{name}={value} {text}", f"{name}={value!r} {text}")
    assert any(evidence.actual and "eth0 10.0.0.7" in evidence.actual for evidence in result.findings[0].evidence)
    assert result.findings[0].pitfall == "P016"


@pytest.mark.parametrize("environ", [{"HCCL_IF_IP": "127.0.0.1"}, {"HCCL_SOCKET_IFNAME": "^eth"}])
def test_the_loopback_alone_is_a_warning_on_one_node(environ: dict[str, str]) -> None:
    result = interface(environ, LO, ETH, DOWN)
    assert severities(result) == [Severity.WARNING]
    assert result.findings[0].code == "hccl.interface/loopback"


def test_a_wrong_name_for_tensorpipe_is_a_warning() -> None:
    assert severities(interface({"TP_SOCKET_IFNAME": "eth1"})) == [Severity.WARNING]


def test_one_node_with_several_candidates_is_told_which_one_hccl_takes() -> None:
    result = interface({}, LO, ETH, BOND)
    assert severities(result) == [Severity.INFO]
    assert summaries(result) == [
        "HCCL uses bond0 (192.168.1.7): HCCL_SOCKET_IFNAME is not set, and this interface is the first by name"
    ]


def test_docker_and_the_loopback_are_no_candidates() -> None:
    assert interface({}, LO, DOCKER, ETH).findings == ()


def test_several_nodes_need_the_interface_that_leads_to_the_others() -> None:
    result = interface({"MASTER_ADDR": "10.0.0.9"}, LO, ETH, BOND)
    assert severities(result) == [Severity.WARNING]
    finding = result.findings[0]
    assert finding.summary == "HCCL uses bond0 (192.168.1.7), but the route to 10.0.0.9 is eth0"
    command, _, why = finding.commands[0].partition("  # ")
    assert command == "export HCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0 TP_SOCKET_IFNAME=eth0"
    assert why.startswith("=eth0: only the interface with exactly this name")
    assert interface({"MASTER_ADDR": "192.168.1.9"}, LO, ETH, BOND).findings == ()


def test_the_node_of_rank_0_is_judged_by_its_own_address() -> None:
    environ = {"MASTER_ADDR": "10.0.0.7", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
    assert severities(interface(environ, LO, ETH, BOND)) == [Severity.WARNING]
    assert interface(environ, LO, ETH).findings == ()


def test_a_route_tells_the_way_to_another_network() -> None:
    header = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
    route = header + "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
    result = interface({"MASTER_ADDR": "10.77.0.9"}, LO, ETH, BOND, files={"/proc/net/route": route})
    assert result.findings[0].code == "hccl.interface/other-route"
    assert result.findings[0].params["route"] == "eth0"


def test_several_nodes_and_no_interface_that_leads_out_is_a_warning() -> None:
    result = interface({"MASTER_ADDR": "10.0.0.9"}, LO, DOCKER)
    assert severities(result) == [Severity.WARNING]
    assert summaries(result) == ["HCCL uses docker0 (172.17.0.1), but it leads to no other node"]


def test_no_interface_with_an_address_is_an_error() -> None:
    result = interface({}, {"name": "lo", "up": False, "addresses": []})
    assert severities(result) == [Severity.ERROR]
    assert summaries(result) == ["No network interface is up and has an address"]


def test_gloo_elsewhere_is_info_on_one_node_and_a_warning_on_several() -> None:
    environ = {"HCCL_SOCKET_IFNAME": "=eth0", "GLOO_SOCKET_IFNAME": "bond0"}
    alone = interface(environ, LO, ETH, BOND)
    assert severities(alone) == [Severity.INFO]
    assert summaries(alone) == ["GLOO_SOCKET_IFNAME=bond0, but HCCL uses eth0"]
    assert severities(interface({**environ, "MASTER_ADDR": "10.0.0.9"}, LO, ETH, BOND)) == [Severity.WARNING]


def test_the_address_goes_before_the_name_and_a_prefix_may_take_several() -> None:
    result = interface({"HCCL_IF_IP": "10.0.0.7", "HCCL_SOCKET_IFNAME": "bond0"}, LO, ETH, BOND)
    assert severities(result) == [Severity.INFO]
    assert summaries(result) == ["HCCL_SOCKET_IFNAME=bond0 has no effect: HCCL_IF_IP takes precedence"]
    many = interface({"HCCL_SOCKET_IFNAME": "eth,bond"}, LO, ETH, BOND)
    assert severities(many) == [Severity.INFO]
    assert summaries(many) == ["HCCL_SOCKET_IFNAME=eth,bond matches eth0, bond0; HCCL uses eth0"]


def test_without_interfaces_it_is_not_judged() -> None:
    result = run_check("hccl.interface", options={"role": "full"}, files=CARDS)
    assert (result.status, result.because) == (Status.SKIPPED, Because.NOT_RECORDED)


def test_without_a_job_environment_it_is_not_judged() -> None:
    result = run_check(
        "hccl.interface",
        options={"role": "full"},
        files=CARDS,
        measures={"interfaces": [LO, ETH]},
        environ=Unavailable("no job environment: started by cron"),
    )
    assert result.reason == "no job environment: started by cron"


@pytest.mark.thorough
@given(st.text(max_size=12), st.sampled_from(["HCCL_IF_IP", "HCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"]))
def test_any_value_is_judged_without_a_crash(value: str, name: str) -> None:
    assert interface({name: value}, LO, ETH, BOND).status is not Status.CRASHED


# What the findings offer

hccl = importlib.import_module("npudoctor.checks.hccl")


def test_the_fix_reserves_the_whole_range_and_never_inside_a_container() -> None:
    kernel = KernelPorts(PortRanges.of((32768, 60999)), PortRanges())
    ports = host_ports({}, 16)
    chips = Chips((NodeChip(subject="npu:0"), NodeChip(subject="npu:1")), "/dev")
    finding = next(hccl.ports_are_reserved(kernel, ports, chips, None, None))
    assert finding.fix == FixOffer(id="hccl.reserve-ports", params={"ports": "60000-60031"})
    inside = Container(runtime="docker", host_network=True)
    assert next(hccl.ports_are_reserved(kernel, ports, chips, inside, None)).fix is None
