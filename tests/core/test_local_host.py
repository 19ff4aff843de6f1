"""The live host against real processes that misbehave in every way a vendor tool has been seen to."""

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.findings import Because
from npudoctor.host import NotApplicable, Unavailable, real_path, run_each
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.output import OUTPUT_LIMIT_BYTES

pytestmark = pytest.mark.thorough
Tool = Callable[[str], Path]
LIMIT_S = 60.0
"""Far below the ten minutes that a hanging tool takes, and far above what ends one, on a busy machine."""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Put an npu-smi of our own first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def write(script: str) -> Path:
        path = folder / "npu-smi"
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)
        return path

    return write


def alive(pid: int) -> bool:
    """Whether a process still runs; a zombie that nobody has collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    until = time.monotonic() + 60
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def test_a_command_gives_its_output_and_status(tool: Tool) -> None:
    tool("#!/bin/sh\necho out; echo err >&2; exit 3\n")
    done = LocalHost().run(["npu-smi", "info"])
    assert (done.returncode, done.stdout, done.stderr, done.timed_out) == (3, "out\n", "err\n", False)


def test_a_command_runs_once_however_many_ask(tool: Tool, tmp_path: Path) -> None:
    tool(f"#!/bin/sh\necho called >> {tmp_path}/calls\nsleep 0.2\necho $@\n")
    host = LocalHost()
    threads = [threading.Thread(target=host.run, args=(["npu-smi", "info"],)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert host.run(["npu-smi", "info"]).stdout == "info\n"
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "called\n"


HANGING = {
    "sleeps": "#!/bin/sh\necho $$ > {pid}\nexec sleep 600\n",
    "ignores SIGTERM": "#!/bin/sh\ntrap '' TERM\necho $$ > {pid}\nwhile true; do sleep 600; done\n",
    "is stopped": "#!/bin/sh\necho $$ > {pid}\nkill -STOP $$\nsleep 600\n",
    "waits for its input": "#!/bin/sh\necho $$ > {pid}\nsleep 600 &\nwait\n",
}


@pytest.mark.parametrize("script", HANGING.values(), ids=HANGING.keys())
def test_a_tool_that_hangs_is_ended_in_time_and_leaves_nothing(tool: Tool, tmp_path: Path, script: str) -> None:
    tool(script.format(pid=tmp_path / "pid"))
    began = time.monotonic()
    done = LocalHost().run(["npu-smi", "info"], timeout=2)
    assert time.monotonic() - began < 2 + LIMIT_S
    assert (done.timed_out, done.returncode) == (True, None)
    assert gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_a_tool_that_hung_is_not_asked_again(tool: Tool, tmp_path: Path) -> None:
    tool(f"#!/bin/sh\necho called >> {tmp_path}/calls\nexec sleep 600\n")
    host = LocalHost()
    host.run(["npu-smi", "info"], timeout=2)
    with pytest.raises(
        Unavailable, match=r"npu-smi is not asked again: `npu-smi info` did not answer within 2 s"
    ) as why:
        host.run(["npu-smi", "info", "-l"], timeout=2)
    assert why.value.because is Because.TIMED_OUT
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "called\n"


@pytest.mark.parametrize("leaving", ["", "setsid "], ids=["in its group", "in a session of its own"])
def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_run(tool: Tool, tmp_path: Path, leaving: str) -> None:
    tool(f"#!/bin/sh\necho table\n{leaving}sleep 600 &\necho $! > {tmp_path}/pid\nexit 0\n")
    began = time.monotonic()
    done = LocalHost().run(["npu-smi", "info"], timeout=600)
    assert time.monotonic() - began < LIMIT_S
    assert (done.returncode, done.stdout, done.timed_out) == (0, "table\n", False)
    assert gone(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_a_gigabyte_of_output_is_cut_and_marked(tool: Tool) -> None:
    tool("#!/bin/sh\nexec head -c 1073741824 /dev/zero\n")
    done = LocalHost().run(["npu-smi", "info"], timeout=600)
    assert done.truncated
    assert len(done.stdout) == OUTPUT_LIMIT_BYTES


def test_bytes_that_are_no_text_are_replaced(tool: Tool) -> None:
    tool("#!/bin/sh\nprintf 'a\\377\\376b'\n")
    assert LocalHost().run(["npu-smi", "info"]).stdout == "a\ufffd\ufffdb"


def test_a_tool_that_dies_by_a_signal_says_which(tool: Tool) -> None:
    tool("#!/bin/sh\nkill -SEGV $$\n")
    assert LocalHost().run(["npu-smi", "info"]).returncode == -11


def test_a_broken_link_is_named(tool: Tool) -> None:
    path = tool("#!/bin/sh\n")
    path.unlink()
    path.symlink_to("/nowhere/npu-smi")
    with pytest.raises(
        Unavailable, match=r"npu-smi is not installed|is a link to /nowhere/npu-smi, which does not exist"
    ):
        LocalHost().run(["npu-smi", "info"])


def test_a_tool_that_is_not_there_is_not_installed() -> None:
    with pytest.raises(Unavailable, match=r"^npu-smi is not installed$"):
        LocalHost().run(["npu-smi", "info"])


def test_a_tool_for_another_machine_cannot_be_started(tool: Tool) -> None:
    tool("").write_bytes(b"\x7fELF" + bytes(60))
    with pytest.raises(Unavailable, match=r"cannot be started: Exec format error") as why:
        LocalHost().run(["npu-smi", "info"])
    assert why.value.because is Because.FAILED


def test_no_more_than_two_vendor_tools_run_at_once(tool: Tool, tmp_path: Path) -> None:
    tool(
        f"#!/bin/sh\nmkdir {tmp_path}/on.$$\nls -d {tmp_path}/on.* | wc -l >> {tmp_path}/seen\n"
        f"sleep 0.1\nrmdir {tmp_path}/on.$$\n"
    )
    run_each(LocalHost(), [["npu-smi", "info", "-t", "board", "-i", str(card)] for card in range(8)])
    assert max(int(line) for line in (tmp_path / "seen").read_text(encoding="utf-8").split()) == 2


def test_closing_ends_what_runs(tool: Tool, tmp_path: Path) -> None:
    tool(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    host = LocalHost()

    def close_once_it_runs() -> None:
        while not (tmp_path / "pid").exists():
            time.sleep(0.02)
        host.close()

    threading.Thread(target=close_once_it_runs).start()
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"`npu-smi info` had not answered after [\d.]+ s when the run") as caught:
        host.run(["npu-smi", "info"], timeout=600)
    assert caught.value.because is Because.TIMED_OUT
    assert time.monotonic() - began < LIMIT_S
    assert gone(int((tmp_path / "pid").read_text(encoding="utf-8")))
    with pytest.raises(Unavailable, match="was not asked yet when the run's time was up"):
        host.run(["npu-smi", "info", "-l"])


def test_a_tool_that_nobody_may_execute_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "npu-smi").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "npu-smi").chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"npu-smi cannot be executed: its mode is 0644$") as caught:
        LocalHost().run(["npu-smi", "info"])
    assert caught.value.because is Because.NO_RIGHT


def test_a_file_is_read_and_its_absence_explained(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"one\xff")
    host = LocalHost()
    assert host.read(str(tmp_path / "there")) == "one\ufffd"
    with pytest.raises(Unavailable, match=r"absent does not exist$"):
        host.read(str(tmp_path / "absent"))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unavailable, match=r"is not a regular file"):
        LocalHost().read(str(tmp_path / "pipe"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_the_right_to_read_the_reason_says_so(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x", encoding="utf-8")
    secret.chmod(0)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder != Path("/") and str(folder) != "/tmp":
            folder.chmod(0o755)
    script = (
        "import os, sys\n"
        "from npudoctor.host.live.local import LocalHost\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: LocalHost().read(sys.argv[1])\n"
        "except Exception as why: print(why.because.value, why)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(secret)], capture_output=True, encoding="utf-8", check=False
    )
    assert done.stdout.startswith("no-right /"), done.stderr


def test_a_written_file_keeps_its_mode_and_leaves_no_temporary_one(tmp_path: Path) -> None:
    target = tmp_path / "99-hccl.conf"
    target.write_text("old", encoding="utf-8")
    target.chmod(0o640)
    LocalHost().write_file(str(target), b"new")
    assert target.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["99-hccl.conf"]


def test_links_are_followed_as_the_node_would(tmp_path: Path) -> None:
    (tmp_path / "cann-8.5.0" / "lib64").mkdir(parents=True)
    (tmp_path / "cann").symlink_to("cann-8.5.0")
    (tmp_path / "loop").symlink_to("loop")
    assert real_path(LocalHost(), f"{tmp_path}/cann/./lib64/../lib64") == f"{tmp_path}/cann-8.5.0/lib64"
    assert real_path(LocalHost(), f"{tmp_path}/loop") == f"{tmp_path}/loop"


@pytest.mark.parametrize(
    "key", ["cpu", "memory", "disks", "mounts", "interfaces", "sockets", "processes", "limits", "pci", "container"]
)
def test_every_measure_has_the_shape_of_a_recording(key: str) -> None:
    try:
        measured = LocalHost().measure(key)
    except Unavailable as why:
        assert key == "pci", why
        return
    assert measured is None or isinstance(measured, (dict, list))


def test_not_applicable_is_its_own_reason() -> None:
    assert NotApplicable("not a container").because is Because.NOT_APPLICABLE


def test_hccn_tool_which_bears_no_second_call_runs_alone(tool: Tool, tmp_path: Path) -> None:
    tool(
        f"#!/bin/sh\nmkdir {tmp_path}/on.$$\nls -d {tmp_path}/on.* | wc -l >> {tmp_path}/seen\n"
        f"sleep 0.05\nrmdir {tmp_path}/on.$$\n"
    ).rename(tmp_path / "bin" / "hccn_tool")
    run_each(LocalHost(), [["hccn_tool", "-i", str(device), "-link", "-g"] for device in range(6)])
    assert (tmp_path / "seen").read_text(encoding="utf-8").split() == ["1"] * 6


def test_a_kernel_setting_is_read_although_the_kernel_refuses_large_reads() -> None:
    assert LocalHost().read("/proc/sys/net/ipv4/ip_local_port_range").split()[0].isdecimal()


def test_an_interface_that_knows_no_ethtool_leaves_the_others_known(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    import psutil

    from npudoctor.host.live import measures

    def refused() -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    usual = {row["name"]: row for row in measures._interfaces(LocalHost())}
    monkeypatch.setattr(psutil, "net_if_stats", refused)
    asked = fcntl.ioctl

    def ioctl(fd: int, question: int, argument: bytes) -> bytes:
        if argument.startswith(b"lo\0"):
            raise OSError(errno.ENOSYS, "Function not implemented")
        answer: bytes = asked(fd, question, argument)
        return answer

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    found = {row["name"]: row for row in measures._interfaces(LocalHost())}
    assert found.keys() == usual.keys()
    assert (found["lo"]["up"], found["lo"]["addresses"]) == (usual["lo"]["up"], usual["lo"]["addresses"])
    assert [row for name, row in found.items() if name != "lo"] == [row for name, row in usual.items() if name != "lo"]


def test_an_interface_with_a_strange_name_or_mask_leaves_the_others_known(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    from types import SimpleNamespace

    import psutil

    from npudoctor.host.live import measures

    def address(text: str, mask: str | None, family: int = socket.AF_INET) -> SimpleNamespace:
        return SimpleNamespace(family=family, address=text, netmask=mask)

    rows = {
        "od\udcffd": [address("10.0.0.7", "none"), address("00:11", None, socket.AF_PACKET)],
        "eth7": [address("10.0.1.7", "255.255.255.0"), address("fe80::7%eth7", "ffff:ffff::", socket.AF_INET6)],
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: rows)
    found = {row["name"]: row["addresses"] for row in measures._interfaces(LocalHost())}
    assert found == {"od\udcffd": ["10.0.0.7"], "eth7": ["10.0.1.7/24", "fe80::7/32"]}


def test_a_kernel_without_numa_leaves_the_cards_on_the_bus_known(tmp_path: Path) -> None:
    from npudoctor.host.live import measures

    for slot, vendor in (("0000:01:00.0", "0x19e5"), ("0000:02:00.0", "0x8086"), ("0000:c1:00.0", "0x19e5")):
        folder = tmp_path / "sys/bus/pci/devices" / slot
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n", encoding="utf-8")
        (folder / "device").write_text("0xd802\n", encoding="utf-8")
    (folder / "numa_node").write_text("3\n", encoding="utf-8")
    found = measures._pci(LocalHost(root=str(tmp_path)))
    assert [(row["slot"], row["numa_node"], row["driver"]) for row in found] == [
        ("0000:01:00.0", -1, None), ("0000:c1:00.0", 3, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "options"), [("process", "ro"), ("login:alice", "rw"), ("pid:7", "rw,noatime"), ("pid:8", "ro")]
)
def test_the_mount_table_is_that_of_whose_environment_is_judged(tmp_path: Path, environment: str, options: str) -> None:
    for name, said in (("", "ro"), ("1/", "rw"), ("7/", "rw,noatime")):
        path = tmp_path / "proc" / name / "mounts"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"/dev/sda1 / ext4 {said} 0 0\n", encoding="utf-8")
    mounts: Any = LocalHost(root=str(tmp_path), environment=environment).measure("mounts")
    assert [row["options"] for row in mounts] == [options]
