"""Scenarios: what the TOML may say, what a wrong one is told, and that the healthy ones are of one piece."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.facts.cann.set_env import read_exports
from npudoctor.findings import Because
from npudoctor.host import Host, MutableHost, Unavailable
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sim.releases import release_of

KNOWLEDGE = json.loads(
    (Path(sim.__file__).parents[1] / "knowledge/tables/compatibility.json").read_text(encoding="utf-8")
)
HEALTHY = ("seed-910b1", "healthy-a3", "healthy-910a", "duo-310p", "in-service")
ALL = tuple(sim.scenarios())


def node(tmp_path: Path, text: str) -> SimulatedHost:
    path = tmp_path / "node.toml"
    path.write_text(text, encoding="utf-8")
    return sim.simulate(str(path))


def said(host: Host, probe: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.run_in_target(probe, "python3", timeout=60).stdout)
    return found


def test_every_shipped_scenario_is_named_and_says_what_it_is_about() -> None:
    wanted = {*HEALTHY, "new-node", "sick-cards", "container-broken", "bare-host"}
    assert wanted <= set(ALL)
    assert all(about and "\n" not in about for about in sim.scenarios().values())


def test_a_product_is_enough_for_a_node(tmp_path: Path) -> None:
    host = node(tmp_path, 'product = "atlas-800i-a2-910b4"\n')
    assert isinstance(host, MutableHost)
    assert "910B4" in host.run(["npu-smi", "info"]).stdout
    assert host.about.source == "simulated"


def test_a_scenario_file_is_short() -> None:
    for path in (Path(sim.__file__).parent / "scenarios").glob("*.toml"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 24, path


WRONG = [
    ("product = ", "node.toml: not valid TOML"),
    ("", "product: this key is missing"),
    ('product = "atlas"', "product: expected one of atlas-300i-duo, "),
    ('product = "none"\nsystem = "dos"', "system: expected one of euleros-2.0-sp10, "),
    ('product = "none"\nhostnam = "x"', "hostnam: no such key; did you mean hostname? (expected one of "),
    ('product = "none"\ncann = { prefx = "x" }', "cann: prefx: no such key; did you mean prefix?"),
    ('product = "none"\ncann = "8.5.0"', 'cann: expected a table, found "8.5.0"'),
    ('product = "none"\nhostname = 7', "hostname: expected text, found 7"),
    ('product = "none"\nmemory_gib = 1.5', "memory_gib: expected a whole number, found 1.5"),
    ('product = "none"\nmemory_gib = true', "memory_gib: expected a whole number, found true"),
    ('product = "none"\nmachine = "riscv64"', 'machine: expected one of "aarch64", "x86_64", found "riscv64"'),
    ('product = "none"\ncards = { temp_c = "hot" }', 'cards: temp_c: expected a whole number or a list, found "hot"'),
    ('product = "none"\ncards = { health = ["OK", "ill"] }', 'cards: health[1]: expected one of "OK", "Warning"'),
    ('product = "none"\n[[card]]\nhealth = "OK"', "card[0]: id: this key is missing"),
    ('product = "none"\nlimits = { nofile = [1] }', "limits: nofile: expected a list of 2, found [1]"),
    ('product = "none"\ncontainer = { devices = "some" }', 'container: devices: expected a list or one of "all"'),
    ('product = "atlas-800t-a3"\n[[card]]\nid = 8', "card: id 8: atlas-800t-a3 has the NPUs 0, 1"),
    ('product = "atlas-800t-a3"\ncards = { count = 9 }', "cards: count: atlas-800t-a3 holds at most 8 NPUs, not 9"),
    ('product = "atlas-800t-a3"\n[[process]]\npid = 1\nnpu = 9', "process: pid 1: there is no chip 0 on an NPU 9"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_a_wrong_scenario_is_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(sim.ScenarioError) as caught:
        node(tmp_path, text)
    message = str(caught.value)
    assert expected in message
    assert message.startswith(str(tmp_path / "node.toml"))
    assert "\n" not in message


def test_an_unknown_scenario_is_told_the_nearest_and_all_names() -> None:
    with pytest.raises(sim.ScenarioError) as caught:
        sim.simulate("seed-910b")
    assert "did you mean seed-910b1? (known: bare-host, " in str(caught.value)
    with pytest.raises(sim.ScenarioError, match="No such file"):
        sim.simulate("./nowhere.toml")


def test_a_simulated_node_answers_at_once() -> None:
    sim.simulate("seed-910b1").run(["npu-smi", "info"])
    taken: list[float] = []
    bare: list[float] = []
    for _ in range(9):
        started = time.perf_counter()
        sim.simulate("seed-910b1").run(["npu-smi", "info"])
        taken.append(time.perf_counter() - started)
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(time.perf_counter() - started)
    assert min(taken) < 2 * min(bare), "as fast as an interpreter that does nothing, or nearly so"


@pytest.mark.parametrize("name", ALL)
def test_every_file_can_be_read_and_every_command_answers(name: str) -> None:
    host = sim.simulate(name)
    for path, kind in host.tree.walk():
        if kind == "file":
            assert isinstance(host.read(path), str)
        elif kind == "dir":
            assert isinstance(host.list_dir(path), tuple)
    for key in host.commands:
        assert not host.run(key.split(" "), timeout=60).timed_out
    for measure in ("cpu", "memory", "disks", "mounts", "interfaces", "sockets", "processes", "limits", "pci"):
        assert host.measure(measure) is not None


@pytest.mark.parametrize("name", ALL)
def test_every_link_leads_somewhere(name: str) -> None:
    host = sim.simulate(name)
    for path in host.tree.links:
        assert host.exists(path), path


@pytest.mark.parametrize("name", HEALTHY)
def test_the_versions_of_a_healthy_node_fit_each_other(name: str) -> None:
    host = sim.simulate(name)
    packages = {key: one["version"] for key, one in said(host, "environment")["distributions"].items()}
    (row,) = (row for row in KNOWLEDGE["releases"] if row["version"] == packages["torch-npu"])
    assert row["torch"] == packages["torch"].partition("+")[0]
    assert row["confidence"] == "official_table"
    cann = said(host, "import torch_npu")["cann"]
    assert cann in row["cann"]
    assert ".".join(said(host, "environment")["version"].split(".")[:2]) in row["pythons"]
    driver = re.search(r"^Version=(.*)$", host.read("/usr/local/Ascend/driver/version.info"), re.M)
    assert driver
    (pair,) = (pair for pair in KNOWLEDGE["hdk"] if pair["cann"] == cann)
    known = {version.lower() for version in [*pair["paired"], *pair.get("compatible", ())]}
    assert driver[1] in known or pair["confidence"] == "weak"
    accepts = re.search(r"compatible_version_fw=\[(.*),(.*)\]", host.read("/usr/local/Ascend/driver/version.info"))
    firmware = re.search(r"^Version=(.*)$", host.read("/usr/local/Ascend/firmware/version.info"), re.M)
    assert accepts
    assert firmware
    assert release_of(accepts[1]) <= release_of(firmware[1])[:3] <= release_of(accepts[2])


@pytest.mark.parametrize("name", HEALTHY)
def test_the_environment_of_a_healthy_node_is_what_its_own_set_env_sh_makes(name: str) -> None:
    host = sim.simulate(name)
    environ = host.environ
    for variable in ("LD_LIBRARY_PATH", "PYTHONPATH", "PATH"):
        entries = environ[variable].split(":")
        assert len(entries) == len(set(entries))
        own = [entry for entry in entries if "Ascend" in entry]
        assert own
        assert all(host.exists(entry) for entry in own), [entry for entry in own if not host.exists(entry)]
    home = environ["ASCEND_HOME_PATH"]
    assert host.exists(f"{home}/lib64/libascendcl.so")
    script = next(path for path in (f"{home}/set_env.sh", f"{home}/../set_env.sh") if host.exists(path))
    made = read_exports(host.read(script), path=script, machine=host.about.machine, variables={"PATH": "/usr/bin"})
    assert made.complete
    assert {"ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH", "TOOLCHAIN_HOME"} <= set(made.variables)
    for variable, value in made.variables.items():
        if variable in ("LD_LIBRARY_PATH", "PYTHONPATH", "PATH"):
            wanted = [entry for entry in made.entries(variable) if entry != "/usr/bin"]
            assert [entry for entry in environ[variable].split(":") if entry in wanted] == wanted
        else:
            assert environ[variable] == value


@pytest.mark.parametrize("name", HEALTHY)
def test_bus_device_nodes_and_npu_smi_agree_on_a_healthy_node(name: str) -> None:
    host = sim.simulate(name)
    rows = re.findall(r"\| (\d+) .* \| (0000:[0-9A-F:.]+) ", host.run(["npu-smi", "info"]).stdout)
    nodes = [path for path in host.list_dir("/dev") if re.fullmatch(r"davinci\d+", path)]
    assert len(rows) == len(nodes)
    assert {bus.lower() for _, bus in rows} == {row["slot"] for row in host.measure("pci")}
    assert {row["slot"] for row in host.measure("pci")} == set(host.list_dir("/sys/bus/pci/devices"))
    assert all(host.stat(f"/dev/{path}").access == "rw" for path in (*nodes, "davinci_manager"))


@pytest.mark.parametrize("name", HEALTHY)
def test_libraries_carry_the_machine_of_the_node(name: str) -> None:
    host = sim.simulate(name)
    wanted = {"aarch64": 0xB7, "x86_64": 0x3E}[host.about.machine]
    libraries = [path for path, kind in host.tree.walk() if kind == "file" and path.endswith(".so")]
    assert len(libraries) > 30
    for path in libraries:
        header = host.read_bytes(path, limit=64)
        assert header[:5] == b"\x7fELF\x02"
        assert int.from_bytes(header[18:20], "little") == wanted


@pytest.mark.parametrize("name", HEALTHY)
def test_the_ports_of_a_healthy_node_are_reserved_now_and_after_a_reboot(name: str) -> None:
    host = sim.simulate(name)
    assert host.read("/proc/sys/net/ipv4/ip_local_reserved_ports") == "60000-60031\n"
    assert "ip_local_reserved_ports = 60000-60031" in host.read("/etc/sysctl.d/60-hccl-ports.conf")


def test_in_service_eight_ranks_hold_eight_cards_and_the_first_holds_the_port() -> None:
    host = sim.simulate("in-service")
    table = host.run(["npu-smi", "info"]).stdout
    pids = {int(pid) for pid in re.findall(r"\| \d+ +0 +\| (\d+) ", table)}
    processes = {row["pid"]: row for row in host.measure("processes")}
    assert len(pids) == 8
    assert pids <= set(processes)
    (owner,) = (row["pid"] for row in host.measure("sockets") if row["laddr"].endswith(":60000"))
    assert owner == min(pids)
    assert f":{60000:04X} " in host.read("/proc/net/tcp")
    assert all(one == {"skipped": "busy"} for one in said(host, "device-math")["devices"].values())


def test_a_new_node_fails_where_it_should_and_nowhere_else() -> None:
    host = sim.simulate("new-node")
    assert "ASCEND_HOME_PATH" not in host.environ
    assert host.read("/proc/sys/net/ipv4/ip_local_reserved_ports") == "\n"
    assert not host.exists("/etc/sysctl.d/60-hccl-ports.conf")
    packages = said(host, "environment")["distributions"]
    assert packages["torch-npu"]["requires"] == ["torch==2.6.0"]
    assert packages["torch"]["version"] == "2.5.1"
    assert "libhccl.so: cannot open shared object file" in said(host, "import torch_npu")["error"]
    assert "Failed to load the backend extension: torch_npu" in said(host, "import torch")["error"]
    assert said(host, "import torch without autoload")["ok"] is True


def test_sick_cards_are_sick_in_one_way_each() -> None:
    host = sim.simulate("sick-cards")
    table = host.run(["npu-smi", "info"]).stdout
    slots = {row["slot"] for row in host.measure("pci")}
    assert len(slots) == 7
    assert "0000:02:00.0" not in slots
    assert table.count("| Alarm ") == 1
    assert table.count("| OK ") == 7
    assert "23880/ 65536" in table
    assert "Process id" in table
    assert table.count("No running processes") == 8


def test_a_broken_container_has_no_device_and_says_so() -> None:
    host = sim.simulate("container-broken")
    assert host.measure("container") == {"runtime": "docker", "cgroup": "v2"}
    with pytest.raises(Unavailable):
        host.list_dir("/dev")
    assert "ret is -8005" in host.run(["npu-smi", "info"]).stdout
    assert len(host.measure("pci")) == 8
    assert said(host, "import torch_npu")["device_count"] == 0


def test_a_bare_host_has_nothing_of_the_vendor() -> None:
    host = sim.simulate("bare-host")
    assert host.measure("pci") == []
    assert host.which("npu-smi") is None
    with pytest.raises(Unavailable) as caught:
        host.run(["npu-smi", "info"])
    assert caught.value.because is Because.ABSENT
    assert not [path for path, _ in host.tree.walk() if "scend" in path or "davinci" in path]
    assert said(host, "import torch")["error"] == "ModuleNotFoundError: No module named 'torch'"


def test_what_a_scenario_overrides_is_what_is_found(tmp_path: Path) -> None:
    host = node(
        tmp_path,
        """
product = "atlas-800t-a2-910b3"
remove = ["/usr/local/bin/npu-smi", "/etc/Ascend"]
environ = { HCCL_CONNECT_TIMEOUT = "60" }
shm_gib = 0.5
[files]
"/etc/motd" = "hello\\n"
[commands."nft list ruleset"]
stdout = "table inet filter\\n"
[[interface]]
name = "bond0"
addresses = ["10.1.2.3/16"]
[[process]]
pid = 555
npu = 1
memory_mb = 900
listen = ["127.0.0.1:60007"]
[[process]]
pid = 556
npu = 1
memory_mb = 100
dead = true
""",
    )
    assert host.which("npu-smi") is None
    assert not host.exists("/etc/Ascend/ascend_cann_install.info")
    assert host.environ["HCCL_CONNECT_TIMEOUT"] == "60"
    assert host.read("/etc/motd") == "hello\n"
    assert host.run(["nft", "list", "ruleset"]).stdout == "table inet filter\n"
    assert [row["name"] for row in host.measure("interfaces")] == ["lo", "bond0"]
    assert {row["pid"] for row in host.measure("processes")} >= {555}
    assert 556 not in {row["pid"] for row in host.measure("processes")}
    assert "0100007F:EA67" in host.read("/proc/net/tcp")


@pytest.mark.parametrize(
    ("fault", "timed_out", "returncode"), [("hang", True, None), ("crash", False, -11), ("slow", True, None)]
)
def test_a_tool_can_hang_crash_and_dawdle(tmp_path: Path, fault: str, timed_out: bool, returncode: int | None) -> None:
    host = node(tmp_path, f'product = "atlas-800t-a2-910b3"\ndriver = {{ fault = "{fault}" }}')
    done = host.run(["npu-smi", "info"], timeout=2)
    assert (done.timed_out, done.returncode) == (timed_out, returncode)
    assert done.seconds <= 2
    if fault == "slow":
        assert host.run(["npu-smi", "info"], timeout=10).seconds == 6


def test_a_module_that_was_not_reloaded_differs_from_the_installed_one(tmp_path: Path) -> None:
    host = node(tmp_path, 'product = "atlas-800t-a2-910b3"\ndriver = { version = "25.2.0", loaded = "24.1.0" }')
    name = "drv_pcie_host"
    assert host.read(f"/sys/module/{name}/version") == "24.1.0\n"
    assert host.run(["modinfo", "-F", "version", name]).stdout == "25.2.0\n"
    installed = host.run(["modinfo", "-F", "srcversion", name]).stdout
    assert installed != host.read(f"/sys/module/{name}/srcversion")
    assert re.fullmatch(r"[0-9A-F]{23}\n", installed)


def test_the_operators_may_be_of_another_release_or_chip_or_missing(tmp_path: Path) -> None:
    old = 'product = "atlas-800t-a2-910b3"\n'
    record = "/usr/local/Ascend/ascend-toolkit/latest/opp_kernel/ascend_kernels_install.info"
    left_behind = node(tmp_path, f'{old}cann = {{ version = "8.2.RC1", ops_version = "8.1.RC1" }}')
    assert "version=8.1.RC1" in left_behind.read(record)
    other = node(tmp_path, f'{old}cann = {{ version = "8.2.RC1", ops = "310p" }}')
    assert "Ascend-cann-kernels-310p" in other.read(record)
    without = node(tmp_path, f'{old}cann = {{ version = "8.5.0", ops = "" }}')
    assert not without.exists("/usr/local/Ascend/cann/aarch64-linux/ascend_ops_install.info")
    assert without.exists("/usr/local/Ascend/cann/aarch64-linux/ascend_toolkit_install.info")
