"""Fixes on a real machine, a copy of this one in namespaces: kernel settings, shells, users, mounts, processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import clock
from tests.fixes import copied
from tests.fixes.copied import NPUDOCTOR, Machine
from tests.fixes.test_install import CPU, wheel

RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
OUR_FILE = "/etc/sysctl.d/99-npudoctor-hccl.conf"
PYTHON = "/opt/train/bin/python"
NODE = """\
about = "a new node of this machine's architecture"
product = "atlas-800t-a2-910b3"
hostname = "new-node"
machine = "{machine}"
driver = {{ version = "25.2.0" }}
cann = {{ version = "8.2.RC1", sourced = false }}
"""
TORCH_NPU = """\
import os
import torch
__version__ = "2.6.0"
if not torch.__version__.startswith("2.6.0"):
    raise ImportError("libtorch_npu.so: undefined symbol: _ZN3c10")
if not os.path.isdir(os.environ.get("ASCEND_HOME_PATH", "")):
    raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")
class _C: pass
class _Npu:
    @staticmethod
    def device_count(): return 8
    @staticmethod
    def is_available(): return True
torch.npu = _Npu
"""
COMPILER = "attrs numpy decorator sympy cffi pyyaml pathlib2 psutil protobuf scipy requests absl_py"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    scratch = tmp_path_factory.mktemp("node")
    (scratch / "node.toml").write_text(NODE.format(machine=os.uname().machine), encoding="utf-8")
    with copied.machine(tmp_path_factory.mktemp("copy")) as copy:
        copied.lay_over(copy, str(scratch / "node.toml"), scratch)
        copy.shell(
            "useradd -m -s /bin/bash dev; useradd -m -s /bin/bash other\n"
            "groupadd -f HwHiAiUser; chgrp HwHiAiUser /dev/davinci* /dev/devmm_svm /dev/hisi_hdc\n"
            "library=$(find /usr/local/Ascend -name libascendcl.so -type f)  # a real one: it is loaded\n"
            "cp $(ldconfig -p | sed -n 's/.*libm.so.6 .*=> //p' | head -1) $library\n"
            "rm -rf /etc/sysctl.d /etc/sysctl.conf /etc/profile.d/* /var/lib/npudoctor; mkdir /etc/sysctl.d\n"
        )
        yield copy


@pytest.fixture
def same_after(node: Machine) -> Iterator[None]:
    """What the test has undone itself must have left no trace."""
    before = node.state("/etc", "/home")
    yield
    assert node.state("/etc", "/home") == before


def test_ports_are_united_and_undo_restores_the_kernel_exactly(node: Machine, same_after: None) -> None:
    node.shell(f"echo 8080,9000-9010 >{RESERVED}")
    shown = node.npudoctor("fix", "hccl.reserve-ports", "--dry-run")
    assert (shown.returncode, node.read(RESERVED)) == (0, "8080,9000-9010\n")
    done = node.npudoctor("fix", "hccl.reserve-ports", "--yes")
    assert done.returncode == 0, done.stderr
    assert "applied and verified" in done.stderr
    assert node.read(RESERVED) == "8080,9000-9010,60000-60031\n"
    added = [line.strip()[1:] for line in shown.stdout.splitlines() if re.match(r"  \+[^+]", line)]
    assert node.read(OUR_FILE).splitlines() == added
    again = node.npudoctor("fix", "hccl.reserve-ports", "--yes")
    assert (again.returncode, "already applied" in again.stdout) == (0, True)
    assert node.npudoctor("undo").returncode == 0
    assert node.read(RESERVED) == "8080,9000-9010\n"
    node.shell(f"echo >{RESERVED}")


def test_what_a_person_edited_is_shown_and_left_alone_unless_forced(node: Machine, same_after: None) -> None:
    assert node.npudoctor("fix", "hccl.reserve-ports", "--yes").returncode == 0
    node.shell(f"echo '# mine' >>{OUR_FILE}")
    refused = node.npudoctor("undo")
    assert (refused.returncode, "-# mine" in refused.stderr) == (7, True)
    (command,) = re.findall(r"\$ npudoctor (undo \S+ --force)", refused.stderr)
    assert node.npudoctor(*command.split()).returncode == 0
    assert node.read(RESERVED) == "\n"


def test_a_plain_user_is_told_the_command_that_works_and_it_works(node: Machine, same_after: None) -> None:
    refused = node.npudoctor("fix", "hccl.reserve-ports", "--yes", user="dev", environ={"HOME": "/home/dev"})
    assert refused.returncode == 7
    (command,) = re.findall(r"\$ sudo (.*)", refused.stderr)
    assert command.startswith(NPUDOCTOR)
    assert node.run(*command.split(), "--yes").returncode == 0
    assert node.npudoctor("undo").returncode == 0


def test_a_user_without_a_home_is_refused_in_words(node: Machine, same_after: None) -> None:
    told = {"user": "65534", "environ": {"HOME": "/nonexistent"}}
    refused = node.npudoctor("fix", "env.profile", "--yes", **told)  # type: ignore[arg-type]
    assert (refused.returncode, "does not exist: /nonexistent" in refused.stderr) == (7, True)
    assert "--set scope=file path=" in refused.stderr
    for words, code in ((["undo"], 7), (["fix", "--recover"], 0), (["history"], 0)):
        assert node.npudoctor(*words, **told).returncode == code  # type: ignore[arg-type]


def test_a_read_only_folder_is_said_before_the_first_step(node: Machine, same_after: None) -> None:
    node.shell("mount --bind /etc/sysctl.d /etc/sysctl.d; mount -o remount,ro,bind /etc/sysctl.d")
    refused = node.npudoctor("fix", "hccl.reserve-ports", "--yes")
    node.shell("umount /etc/sysctl.d")
    assert (refused.returncode, "/etc/sysctl.d is on a file system that is mounted read-only" in refused.stderr) == (
        7,
        True,
    )
    assert node.read(RESERVED) == "\n"


def test_a_file_that_another_user_could_lead_elsewhere_is_not_written(node: Machine, same_after: None) -> None:
    node.shell(f"ln -s /home/dev/target {OUR_FILE}; chown -h dev {OUR_FILE}")
    refused = node.npudoctor("fix", "hccl.reserve-ports", "--yes")
    node.shell(f"rm {OUR_FILE}")
    assert (refused.returncode, "another user" in refused.stderr) == (7, True)
    node.shell("chmod o+w /etc/sysctl.d")
    refused = node.npudoctor("fix", "hccl.reserve-ports", "--yes")
    node.shell("chmod o-w /etc/sysctl.d")
    assert (refused.returncode, "other users can write /etc/sysctl.d" in refused.stderr) == (7, True)


def test_of_two_fixers_exactly_one_wins(node: Machine) -> None:
    fix = f"{NPUDOCTOR} fix hccl.reserve-ports --yes >/tmp"
    script = f"{fix}/one 2>&1 & {fix}/two 2>&1"
    for _ in range(2):
        earlier = len(json.loads(node.npudoctor("history", "--json").stdout))
        node.shell(f"{script} || true; wait; cat /tmp/one /tmp/two")
        runs = json.loads(node.npudoctor("history", "--json").stdout)[earlier:]
        assert [one["status"] for one in runs] == ["applied"]
        assert node.read(RESERVED) == "60000-60031\n"
        assert node.npudoctor("undo").returncode == 0
        assert node.read(RESERVED) == "\n"


@pytest.mark.parametrize("user", ["root", "dev"])
def test_a_profile_is_sourced_by_a_real_login_shell(node: Machine, same_after: None, user: str) -> None:
    home = copied.HOME if user == "root" else f"/home/{user}"
    told = {"user": "" if user == "root" else user, "environ": {"HOME": home}}
    assert node.npudoctor("check", "cann.environment", "--environment", "login", **told).returncode == 1  # type: ignore[arg-type]
    done = node.npudoctor("fix", "env.profile", "--yes", **told)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    assert "verified in a fresh login shell" in done.stderr
    said = node.run("su", "-", user, "-c", "echo $ASCEND_HOME_PATH; echo $LD_LIBRARY_PATH")
    assert said.stdout.startswith("/usr/local/Ascend/ascend-toolkit/latest\n")
    assert node.npudoctor("check", "cann.environment", "--environment", "login", **told).returncode == 0  # type: ignore[arg-type]
    assert node.npudoctor("undo", **told).returncode == 0  # type: ignore[arg-type]
    if user == "dev":
        node.shell("rm -rf /home/dev/.local")  # the journal


def test_the_hook_of_a_venv_is_sourced_when_it_is_activated(node: Machine, train: str) -> None:
    before = node.state("/opt/train/bin")
    fix = ("fix", "env.profile", "--python", train, "--set", "scope=python", "--yes")
    done = node.npudoctor(*fix)
    assert done.returncode == 0, done.stderr
    check = f"{NPUDOCTOR} check cann.environment --json"
    script = f". /opt/train/bin/activate; {check}; code=$?; deactivate; exit $code"
    assert node.run("bash", "-c", script, environ={"PATH": f"/usr/local/bin:{os.defpath}"}).returncode == 0
    assert node.run("bash", "-c", check, environ={"PATH": f"/usr/local/bin:{os.defpath}"}).returncode == 1
    assert "changes nothing" in node.npudoctor(*fix).stdout
    assert node.npudoctor("undo").returncode == 0
    assert node.state("/opt/train/bin") == before


def test_env_is_evaluated_by_real_shells(node: Machine) -> None:
    path = {"PATH": f"/usr/local/bin:{os.defpath}"}
    scripts = [("bash", f'eval "$({NPUDOCTOR} env)"'), ("bash", f"source <({NPUDOCTOR} env --shell bash)")]
    if node.run("sh", "-c", "command -v zsh").returncode == 0:
        scripts.append(("zsh", f'eval "$({NPUDOCTOR} env)"'))
    for shell, script in scripts:
        done = node.run(shell, "-c", f"{script}; {NPUDOCTOR} env --check", environ=path)
        assert done.returncode == 0, done.stdout + done.stderr
    assert node.run("bash", "-c", f"{script}; {NPUDOCTOR} check cann.environment", environ=path).returncode == 0
    assert node.npudoctor("env", "--check").returncode == 1
    lines = node.npudoctor("env", "--systemd").stdout.splitlines()
    node.write("/tmp/unit.env", "\n".join(lines) + "\n")
    checked = node.npudoctor("check", "cann.environment", "--environment", "file:/tmp/unit.env")
    assert checked.returncode == 0, checked.stdout
    for shell, name in (("fish", "fish"), ("csh", "tcsh")):
        if node.run("sh", "-c", f"command -v {name}").returncode == 0:
            text = node.npudoctor("env", "--shell", shell).stdout
            node.write(f"/tmp/env.{shell}", text)
            done = node.run(name, "-c", f"source /tmp/env.{shell}; {NPUDOCTOR} check cann.environment", environ=path)
            assert done.returncode == 0, done.stdout + done.stderr


def test_a_user_joins_the_group_of_the_cards_and_leaves_it(node: Machine) -> None:
    before = node.read("/etc/group"), node.read("/etc/gshadow")
    done = node.npudoctor("fix", "driver.grant-access", "--set", "user=dev", "--yes")
    assert done.returncode == 0, done.stderr
    assert "HwHiAiUser" in node.shell("id -nG dev").split()
    assert node.run("su", "dev", "-c", "test -w /dev/davinci0").returncode == 0
    assert node.npudoctor("undo").returncode == 0
    assert (node.read("/etc/group"), node.read("/etc/gshadow")) == before
    assert node.run("su", "dev", "-c", "test -w /dev/davinci0").returncode == 1


def test_the_user_of_the_driver_comes_and_goes_with_the_system_s_own_tools(node: Machine) -> None:
    """The group is there before: userdel removes it with the user, and it has to come back."""
    names = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
    read = f"for name in {' '.join(names)}; do sort /etc/$name 2>/dev/null; done"
    before, gid = node.shell(read), node.shell("getent group HwHiAiUser | cut -d: -f3").strip()
    done = node.npudoctor("fix", "driver.user", "--set", "uid=23456", "--yes")
    assert done.returncode == 0, done.stderr
    assert node.shell("id -u HwHiAiUser; id -g HwHiAiUser").split() == ["23456", gid]
    assert node.shell("stat -c '%U %a' /home/HwHiAiUser").split() == ["HwHiAiUser", "750"]
    assert node.npudoctor("undo").returncode == 7  # the driver is installed
    node.shell("mv /etc/ascend_install.info /tmp/kept.info")
    assert node.npudoctor("undo").returncode == 0
    node.shell("mv /tmp/kept.info /etc/ascend_install.info")
    assert node.shell(read) == before
    assert node.run("test", "-e", "/home/HwHiAiUser").returncode == 1


def test_shared_memory_is_remounted_and_gets_its_old_size_back(node: Machine) -> None:
    node.shell("mount -o remount,size=512m /dev/shm")
    done = node.npudoctor("fix", "system.shm", "--yes")
    assert done.returncode == 0, done.stderr
    assert node.shell("df --output=size -B1 /dev/shm | tail -1").strip() == str(16 << 30)
    assert node.npudoctor("undo").returncode == 0
    assert node.shell("df --output=size -B1 /dev/shm | tail -1").strip() == str(512 << 20)
    node.shell("mount -o remount,size=16g /dev/shm")


def test_limits_hold_at_a_login_through_pam(node: Machine, same_after: None) -> None:
    asked = ("fix", "system.limits", "--set", "limits.nofile=15000", "--yes")
    before = node.run("su", "-", "dev", "-c", "ulimit -Hn").stdout
    done = node.npudoctor(*asked)
    assert (done.returncode, "not verified" in done.stderr) == (0, True)
    assert "changes nothing" in node.npudoctor(*asked).stdout
    if "pam_limits" in node.shell("cat /etc/pam.d/su /etc/pam.d/common-session 2>/dev/null || true"):
        assert node.run("su", "-", "dev", "-c", "ulimit -Hn").stdout == "15000\n"
    assert node.npudoctor("undo").returncode == 0
    assert node.run("su", "-", "dev", "-c", "ulimit -Hn").stdout == before


def orphan(node: Machine, user: str = "") -> int:
    """A worker whose launcher is gone; its pid."""
    started = f"setsid {sys.executable} -c 'import time; time.sleep(300)' --local-rank=1 >/dev/null 2>&1 & echo $!"
    done = node.run("sh", "-c", started, user=user)
    pid, until = int(done.stdout), time.monotonic() + 60
    while b"python" not in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0] and time.monotonic() < until:
        time.sleep(0.02)  # it is still the shell, or setsid
    return pid


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def test_an_orphan_is_ended_and_one_of_another_user_is_left_alone(node: Machine) -> None:
    mine, theirs = orphan(node), orphan(node, "dev")
    release = ("fix", "npu.release", "--yes", "--set")
    asked = node.npudoctor(*release, f"pids={mine}")
    assert (asked.returncode, "--irreversible" in asked.stderr, alive(mine)) == (7, True, True)
    done = node.npudoctor(*release, f"pids={mine}", "--irreversible")
    assert (done.returncode, alive(mine), "npudoctor undo" in done.stderr) == (0, False, False), done.stderr
    left = node.npudoctor(*release, f"pids={theirs}", "--irreversible")
    assert (left.returncode, "left alone" in left.stderr, alive(theirs)) == (7, True, True)
    told = node.npudoctor(*release, f"pids={theirs}", "others=true", "--irreversible", user="other")
    assert (told.returncode, "sudo" in told.stderr, alive(theirs)) == (7, True, True)
    assert node.npudoctor(*release, f"pids={theirs}", "others=true", "--irreversible").returncode == 0
    assert not alive(theirs)
    gone = node.npudoctor(*release, f"pids={mine}", "--irreversible")
    assert (gone.returncode, "has already ended" in gone.stdout) == (0, True)


REUSED = """\
import os, subprocess, sys, time
from npudoctor import plugins
from npudoctor.fixer import plan, runner
from npudoctor.host.live.local import LocalHost
from npudoctor.sdk import EndProcess, Options

def started():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])

with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write("5000")
first = started()
catalog, request = plugins.load(folder=""), plan.Request("npu.release", {"pids": [first.pid]})
made = plan.make(catalog, LocalHost(), request, Options())
assert not made.refused and made.irreversible, made.refused
first.kill(); first.wait(); time.sleep(0.2)
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first.pid - 1))
second = started()
assert second.pid == first.pid, (first.pid, second.pid)
*_, ended = runner.apply(catalog, LocalHost(), made, Options(), irreversible=True, state="/tmp/state")
made.steps[0].step.apply(LocalHost())
print(ended.outcome.value, ended.reason, "|", second.poll() is None)
second.kill()
"""


def test_a_new_process_under_the_number_of_the_old_one_is_left_alone(node: Machine) -> None:
    node.write("/tmp/reused.py", REUSED)
    done = node.run("unshare", "-p", "-m", "-f", "--mount-proc", sys.executable, "/tmp/reused.py")
    assert done.stdout == "refused the node has changed since the preview; preview it again | True\n", done.stderr


def test_old_logs_go_and_nothing_else(node: Machine) -> None:
    log = f"{copied.HOME}/ascend/log/debug/plog"
    node.shell(
        f"mkdir -p {log} /home/elsewhere; cd {log}; now=@{clock.timestamp()}; old=@{clock.timestamp() - 30 * 86400}\n"
        "for one in plog-1_20260101000000000.log plog-2_20260101000000001.log plog-3_20260101000000002.log; do\n"
        "  echo x >$one; touch -d $old $one; done\n"
        "touch -d $now plog-4_20261121000000000.log; touch -d $old notes.txt\n"
        f"ln -s /home/elsewhere {copied.HOME}/ascend/log/link\n"
        "touch -d $old /home/elsewhere/plog-9_20260101000000000.log\n"
    )
    holding = f"exec 3<{log}/plog-3_20260101000000002.log; echo; exec sleep 600"
    opened = subprocess.Popen([*node.enter, "sh", "-c", holding], stdout=subprocess.PIPE)
    try:
        assert opened.stdout
        assert opened.stdout.readline()
        clean = ("fix", "system.clean-logs", "--yes", "--set", "days=7")
        assert node.npudoctor(*clean).returncode == 7
        done = node.npudoctor(*clean, "--irreversible")
        assert done.returncode == 0, done.stderr
    finally:
        opened.kill()
        opened.communicate()
    assert node.shell(f"ls {log}").split() == [
        "notes.txt",
        "plog-3_20260101000000002.log",
        "plog-4_20261121000000000.log",
    ]
    assert node.shell("ls /home/elsewhere").strip()
    node.shell(f"rm -r {copied.HOME}/ascend /home/elsewhere")


@pytest.fixture(scope="module")
def train(node: Machine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of an environment with stand-ins, a torch that torch_npu does not go with, and pip's configuration."""
    wheels = tmp_path_factory.mktemp("wheels")
    for version in ("2.5.1", "2.6.0"):
        body = f"__version__ = '{version}{CPU}'\nclass version:\n    cuda = None\n"
        body += "class _C:\n    _GLIBCXX_USE_CXX11_ABI = True\n"
        wheel(wheels, "torch", version + CPU, {"torch/__init__.py": body, "torch/_C.stand-in.so": ""})
    npu = {"torch_npu/__init__.py": TORCH_NPU, "torch_npu/_C.stand-in.so": ""}
    wheel(wheels, "torch_npu", "2.6.0", npu, (f"torch==2.6.0{CPU}",))
    for name in COMPILER.split():
        wheel(wheels, name, "1.26.4", {f"{name}.py": "x = 1\n"})
    for one in wheels.iterdir():
        node.write(f"/opt/wheels/{one.name}", one.read_bytes())
    node.write("/etc/pip.conf", "[global]\nno-index = true\nfind-links = /opt/wheels\n")
    base = os.path.join(sys.base_prefix, "bin", "python3")
    names = COMPILER.replace("_", "-")
    node.shell(
        f"{base} -m venv /opt/train\n{PYTHON} -m pip install -q --no-deps torch==2.5.1{CPU} torch-npu==2.6.0 {names}\n"
    )
    return PYTHON


def test_setup_makes_the_node_healthy_and_then_changes_nothing_even_from_cron(node: Machine, train: str) -> None:
    node.npudoctor("undo")
    before = node.state("/etc", "/home", "/opt/train")
    words = ("setup", "--yes", "--json", "--python", train)
    first = node.npudoctor(*words, "--allow", "python.install-pair")
    said = json.loads(first.stdout)
    assert [one["fix"] for one in said["done"]] == ["env.profile", "hccl.reserve-ports", "python.install-pair"]
    assert {one["outcome"] for one in said["done"]} == {"applied"}
    assert not [one for one in said["remaining"] if one["severity"] == "error"]
    assert (first.returncode, said["verdict"] in ("ok", "warning")) == (0, True), said["remaining"]
    there = node.state("/etc", "/home", "/opt/train")
    for environ in ({}, {"HOME": copied.HOME, "LOGNAME": "root", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}):
        cron = ["env", "-i", *(f"{name}={value}" for name, value in environ.items())]
        again = node.run(*cron, NPUDOCTOR, *words, "--allow", "python.install-pair", cwd="/")
        second = json.loads(again.stdout)
        assert (again.returncode, second["done"]) == (0, []), (second, again.stderr)
        assert node.state("/etc", "/home", "/opt/train") == there
    for _ in range(3):
        assert node.npudoctor("undo").returncode == 0
    assert node.state("/etc", "/home", "/opt/train") == before
    assert node.npudoctor("undo").returncode == 7
