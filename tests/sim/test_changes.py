"""What is done to a simulated node shows in what it answers afterwards, and what a kernel refuses is refused."""

import errno
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npudoctor import sim
from npudoctor.sim.kernel import RESERVED_PORTS, accept

RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
GUEST = 'product = "atlas-800t-a2-910b3"\nuser = { name = "guest", uid = 1007, groups = { guest = 1007 } }\n'


def test_a_setting_that_is_written_is_read_back_as_the_kernel_writes_it() -> None:
    host = sim.simulate("new-node")
    host.set_sysctl("net.ipv4.ip_local_reserved_ports", "60010,60001,60000")
    assert host.read(RESERVED) == "60000-60001,60010\n"
    host.write_file(RESERVED, b"60000-60031\n")
    assert host.read(RESERVED) == "60000-60031\n"
    host.write_file(RESERVED, b"")
    assert host.read(RESERVED) == "60000-60031\n"
    host.set_sysctl("net.ipv4.ip_local_port_range", "20000 30000")
    assert host.read("/proc/sys/net/ipv4/ip_local_port_range") == "20000\t30000\n"


@pytest.mark.parametrize("value", ["60031-60000", "60000, 60001", "65536", ",60000", "60000,,60001", "ports", "089"])
def test_ports_that_the_kernel_refuses_leave_the_old_ones(value: str) -> None:
    host = sim.simulate("seed-910b1")
    with pytest.raises(OSError, match="Invalid argument") as caught:
        host.set_sysctl("net.ipv4.ip_local_reserved_ports", value)
    assert caught.value.errno == errno.EINVAL
    assert host.read(RESERVED) == "60000-60031\n"


def test_hex_and_octal_are_numbers_and_a_newline_clears() -> None:
    assert accept(RESERVED_PORTS, "0x100,060\n", "7") == "48,256"
    assert accept(RESERVED_PORTS, "\n", "7") == ""
    assert accept(RESERVED_PORTS, "", "7") == "7"
    assert accept(RESERVED_PORTS, "1-65535", "7") == "1-65535"


def test_a_setting_needs_root_and_a_writable_proc(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(GUEST, encoding="utf-8")
    with pytest.raises(PermissionError):
        sim.simulate(str(path)).set_sysctl("net.ipv4.ip_local_reserved_ports", "1")
    with pytest.raises(OSError, match="Read-only file system"):
        sim.simulate("container-broken").set_sysctl("net.ipv4.ip_local_reserved_ports", "1")
    with pytest.raises(FileNotFoundError):
        sim.simulate("seed-910b1").set_sysctl("net.ipv4.no_such_thing", "1")


KERNEL = """
import os, sys
path, old = sys.argv[1], b"7,9-11\\n"
def write(value):
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, value)
    finally:
        os.close(handle)
for line in sys.stdin.read().split("\\x1e"):
    write(old)
    try:
        write(line.encode())
    except OSError as problem:
        print(problem.errno, end="\\x1e")
        continue
    with open(path) as file:
        print(file.read().rstrip("\\n"), end="\\x1e")
"""


def kernel_says(values: list[str]) -> list[str]:
    """What this machine's kernel makes of values, in a network namespace of its own."""
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-c", KERNEL, RESERVED],
        input="\x1e".join(values),
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    return done.stdout.split("\x1e")[:-1]


def can_unshare() -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-rn", "test", "-w", RESERVED], capture_output=True, check=False).returncode == 0


port_lists = st.one_of(
    st.text(alphabet="0123456789-,\n x06", min_size=1, max_size=9),
    st.lists(st.integers(0, 70_000).map(str), min_size=1, max_size=5).map(",".join),
    st.tuples(st.integers(0, 65_535), st.integers(0, 65_535)).map(lambda pair: f"{pair[0]}-{pair[1]}\n"),
)


@pytest.mark.skipif(not can_unshare(), reason="no network namespace can be had here to ask a real kernel")
@settings(max_examples=5)
@given(st.lists(port_lists, min_size=200, max_size=300))
@example(
    [
        "1,",
        "1,\n",
        "\n\n1",
        "1\n\n",
        "1,\n\n",
        "0x",
        "0X1f-0x2f",
        "00",
        "08",
        "-1",
        "1-",
        "1-2-3",
        "1\t",
        "+1",
        "65535,0",
    ]
)
def test_the_simulated_kernel_is_as_picky_as_the_real_one(values: list[str]) -> None:
    answers = []
    for value in values:
        try:
            answers.append(accept(RESERVED_PORTS, value, "7,9-11"))
        except OSError as problem:
            answers.append(str(problem.errno))
    assert answers == kernel_says(values)


def test_a_process_that_ends_lets_go_of_its_card_and_its_port() -> None:
    host = sim.simulate("in-service")
    (owner,) = (row["pid"] for row in host.measure("sockets") if row["laddr"].endswith(":60000"))
    host.signal(owner, 0)
    assert any(row["pid"] == owner for row in host.measure("processes"))
    host.signal(owner, signal.SIGTERM)
    assert not any(row["pid"] == owner for row in host.measure("processes"))
    assert not any(row["laddr"].endswith(":60000") for row in host.measure("sockets"))
    assert "EA60" not in host.read("/proc/net/tcp")
    table = host.run(["npu-smi", "info"]).stdout
    assert f"| {owner} " not in table
    assert "No running processes found in NPU 0" in table
    first = re.search(r"\| 0 +\| 0000:C1:00.0 +\| (\d+) +0 +/ 0 +(\d+) ?/", table)
    assert first
    assert (first[1], int(first[2]) < 4000) == ("0", True)
    with pytest.raises(ProcessLookupError):
        host.signal(owner, signal.SIGKILL)


def test_children_of_an_ended_process_fall_to_the_first_one() -> None:
    host = sim.simulate("in-service")
    (launcher,) = (row["pid"] for row in host.measure("processes") if "torch.distributed.run" in row["cmdline"])
    host.signal(launcher, signal.SIGKILL)
    orphans = [row for row in host.measure("processes") if row["username"] == "train"]
    assert len(orphans) == 8
    assert all(row["ppid"] == 1 for row in orphans)


def test_some_processes_cannot_be_ended(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        GUEST + '[[process]]\npid = 70\nstuck = true\nuser = "guest"\n[[process]]\npid = 71\nnpu = 0\ndead = true',
        encoding="utf-8",
    )
    host = sim.simulate(str(path))
    with pytest.raises(PermissionError):
        host.signal(1482, signal.SIGTERM)
    host.signal(70, signal.SIGKILL)
    assert any(row["pid"] == 70 for row in host.measure("processes"))
    with pytest.raises(ProcessLookupError):
        host.signal(71, signal.SIGKILL)


def test_files_are_written_and_removed() -> None:
    host = sim.simulate("new-node")
    host.write_file("/etc/sysctl.d/60-npudoctor.conf", b"a = 1\n", mode=0o640)
    assert host.read("/etc/sysctl.d/60-npudoctor.conf") == "a = 1\n"
    assert "60-npudoctor.conf" in host.list_dir("/etc/sysctl.d")
    assert host.stat("/etc/sysctl.d/60-npudoctor.conf").mode == 0o640
    host.remove("/etc/sysctl.d/60-npudoctor.conf")
    host.remove("/etc/sysctl.d/60-npudoctor.conf")
    assert not host.exists("/etc/sysctl.d/60-npudoctor.conf")
    with pytest.raises(FileNotFoundError):
        host.write_file("/etc/no/such/folder", b"")


def test_an_ordinary_user_writes_at_home_only(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(GUEST, encoding="utf-8")
    host = sim.simulate(str(path))
    host.write_file("/home/guest/.bashrc", b"x")
    assert host.read("/home/guest/.bashrc") == "x"
    with pytest.raises(PermissionError):
        host.write_file("/etc/profile.d/x.sh", b"")


def test_without_npu_smi_nobody_answers_for_it() -> None:
    host = sim.simulate("seed-910b1")
    host.remove("/usr/local/bin/npu-smi")
    assert host.which("npu-smi") is None


def test_commands_that_change_a_node_change_it() -> None:
    host = sim.simulate("seed-910b1")
    told: list[str] = []
    host.run_streaming(["hccn_tool", "-i", "3", "-tls", "-s", "enable", "1"], timeout=5, stream=told.append)
    assert "tls switch[1]" in host.run(["hccn_tool", "-i", "3", "-tls", "-g"]).stdout
    assert "tls switch[0]" in host.run(["hccn_tool", "-i", "2", "-tls", "-g"]).stdout
    assert told == ["Cmd execute successfully!\n"]
    host.run_streaming(["usermod", "-aG", "HwHiAiUser", "dev"], timeout=5)
    assert "HwHiAiUser:x:1000:dev\n" in host.read("/etc/group")
    host.run_streaming(["mount", "-o", "remount,size=4G", "/dev/shm"], timeout=5)
    (shm,) = (row for row in host.measure("mounts") if row["mount"] == "/dev/shm")
    assert shm["total"] == 4 << 30
    done = host.run_streaming(["sysctl", "-w", "net.ipv4.ip_local_reserved_ports=5-3"], timeout=5)
    assert (done.returncode, "Invalid argument" in done.stderr) == (255, True)
    assert host.run_streaming(["sysctl", "-w", "vm.swappiness=1"], timeout=5).stdout == "vm.swappiness = 1\n"
    assert host.read("/proc/sys/vm/swappiness") == "1\n"
    assert host.run_streaming(["npu-smi", "-v"], timeout=5).stdout == "npu-smi version: 24.1.rc1\n"


def test_one_node_knows_nothing_of_another() -> None:
    one, other = sim.simulate("in-service"), sim.simulate("in-service")
    one.signal(211412, signal.SIGKILL)
    one.set_sysctl("vm.swappiness", "1")
    assert other.read("/proc/sys/vm/swappiness") == "10\n"
    assert "211412" in other.run(["npu-smi", "info"]).stdout
