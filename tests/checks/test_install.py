"""The checks before an installation: one that passes, one with a finding, one without its fact."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins, sim
from npudoctor.facts.node.install_conditions import owner_of, parse_attributes, parse_pam
from npudoctor.facts.node.staged_packages import Package, StagedPackages
from npudoctor.facts.system.module_builds import SCRIPT, _changed_by
from npudoctor.findings import Result, Status
from npudoctor.host import Completed, User
from npudoctor.host.live.local import LocalHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sdk import ON_REQUEST
from npudoctor.testing import run, run_check

GIB = 1 << 30
DRIVER = Package(
    path="/r/d.run", name="d.run", format="run", component="driver", title="d", told_by="name", size_bytes=GIB
)
WHEEL = Package(
    path="/r/t.whl", name="t.whl", format="whl", component="torch", title="torch", told_by="name", glibc="2.28"
)
STAGED = StagedPackages(folders=("/r",), packages=(DRIVER, WHEEL))
KERNEL = "5.10.0-1.aarch64"
HEADERS = f"/lib/modules/{KERNEL}"
TOOLS = ("lspci", "ifconfig", "udevadm", "modprobe", "modinfo", "lsattr", "chattr", "systemctl", "useradd")
BUILD = ("make", "gcc", "dkms")
PASSWD = "root:x:0:0:root:/root:/bin/bash\nHwHiAiUser:x:1000:1000::/home/HwHiAiUser:/bin/bash\n"
GROUP = "root:x:0:\nHwHiAiUser:x:1000:\n"


def ran(id: str, **host: Any) -> Result:
    return run_check(id, options={"packages": STAGED}, **host)


def codes(result: Result) -> list[str]:
    return [str(finding.code).partition("/")[2] for finding in result.findings]


def disk(mount: str, free: int) -> dict[str, Any]:
    return {"mount": mount, "fstype": "ext4", "total": 100 * GIB, "free": free}


def mount(path: str, fstype: str = "ext4", options: str = "rw") -> dict[str, Any]:
    return {"mount": path, "fstype": fstype, "options": options}


def process(pid: int, name: str, *cmdline: str) -> dict[str, Any]:
    return {"pid": pid, "ppid": 1, "name": name, "username": "root", "status": "sleeping", "cmdline": [*cmdline]}


def tools(*names: str) -> dict[str, str]:
    return {f"/usr/bin/{name}": "" for name in names}


def execs(*names: str) -> dict[str, Any]:
    return {"files": tools(*names), "stats": {f"/usr/bin/{name}": Overlay(mode=0o755) for name in names}}


# Only when named


def test_they_run_only_when_they_are_named_with_a_folder() -> None:
    catalog = plugins.load()
    own = {check.id for check in catalog.checks.values() if check.group == "install"}
    assert len(own) == 14, sorted(own)
    assert {catalog.checks[id].profile for id in own} == {ON_REQUEST}
    assert not own & {result.check for result in run(sim.simulate("new-node"), profile="full").results}
    skipped = run(sim.simulate("new-node"), "install").results
    assert {result.check for result in skipped} == own
    assert {result.status for result in skipped} == {Status.SKIPPED}


# install.space


def test_space() -> None:
    assert ran("install.space", measures={"disks": [disk("/", 90 * GIB)], "mounts": []}).status is Status.OK
    low = ran("install.space", measures={"disks": [disk("/", 90 * GIB), disk("/tmp", GIB)], "mounts": []})
    assert [finding.subject for finding in low.findings] == ["/tmp"]
    low = ran("install.space", measures={"disks": [disk("/", 1000)], "mounts": []})
    assert [finding.subject for finding in low.findings] == ["/usr/local/Ascend", "/tmp"]
    assert ran("install.space").status is Status.SKIPPED


def test_another_temporary_folder_counts() -> None:
    disks = [disk("/", GIB), disk("/big", 50 * GIB)]
    found = ran("install.space", measures={"disks": disks, "mounts": []}, environ={"TMPDIR": "/big/tmp"})
    assert found.status is Status.OK


# install.temporary-folder


def test_noexec() -> None:
    good = {"mounts": [mount("/"), mount("/home", options="rw,noexec")]}
    assert ran("install.temporary-folder", measures=good).status is Status.OK
    bad = {"mounts": [mount("/"), mount("/tmp", "tmpfs", "rw,nosuid,noexec")]}
    assert codes(ran("install.temporary-folder", measures=bad)) == ["noexec"]
    assert ran("install.temporary-folder", measures=bad, environ={"TMPDIR": "/root/t"}).status is Status.OK
    assert ran("install.temporary-folder").status is Status.SKIPPED


# install.module-build


def kernels(answer: Completed | None, *, headers: bool = True) -> Result:
    files = {f"{HEADERS}/modules.dep": "", "/proc/sys/kernel/osrelease": KERNEL}
    files |= {f"{HEADERS}/build/Makefile": ""} if headers else {}
    commands = {} if answer is None else {f"sh -c {SCRIPT} npudoctor {HEADERS}/build": answer}
    there = execs("make", "gcc", "sh") if answer is not None else {"files": {}, "stats": {}}
    return ran("install.module-build", files={**files, **there["files"]}, stats=there["stats"], commands=commands)


def test_a_module_is_built_for_every_kernel() -> None:
    assert codes(kernels(Completed(returncode=0))) == ["built"]
    failed = kernels(Completed(returncode=1, stdout="make: Entering\nx.c:1: fatal error: no such file\nmake: *** 1\n"))
    assert codes(failed) == ["failed"]
    assert "x.c:1: fatal error: no such file" in failed.findings[0].summary
    assert codes(kernels(Completed(returncode=None, timed_out=True))) == ["not-tried"]
    assert codes(kernels(None)) == ["not-tried"]
    assert codes(kernels(None, headers=False)) == ["headers"]
    assert ran("install.module-build").status is Status.SKIPPED


@pytest.mark.parametrize(("recipe", "code"), [("touch '$(M)/npudoctor_empty.ko'", 0), ("echo gone wrong; exit 2", 1)])
def test_the_script_builds_in_a_folder_of_its_own_and_removes_it(tmp_path: Path, recipe: str, code: int) -> None:
    """The Makefile of the stand-in for kernel headers shows where, and with which mode, a module is built."""
    if shutil.which("make", path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        pytest.skip("make is not installed")
    headers = tmp_path / "head ers"
    headers.mkdir()
    seen = tmp_path / "seen"
    script = SCRIPT.replace("/tmp/", f"{tmp_path}/")
    assert script != SCRIPT
    lines = f"modules:\n\tstat -c '%a %n' '$(M)' >'{seen}'\n\tgrep module_init '$(M)/npudoctor_empty.c'\n\t{recipe}\n"
    (headers / "Makefile").write_text(lines, encoding="utf-8")
    done = subprocess.run(
        ["sh", "-c", script, "npudoctor", str(headers)], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == code
    assert ("gone wrong" in done.stdout) is bool(code)
    mode, _, folder = seen.read_text(encoding="utf-8").strip().partition(" ")
    assert mode == "700"
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("recipe", "users"), [("touch '$(M)/npudoctor_empty.ko'", ["65534"]), ("false", ["65534", "0"])]
)
def test_the_build_runs_as_nobody_where_that_works(recipe: str, users: list[str]) -> None:
    tools = ("make", "setpriv")
    if os.geteuid() != 0 or any(shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None for tool in tools):
        pytest.skip("needs root, make and setpriv")
    with tempfile.TemporaryDirectory(prefix="npudoctor-test-", dir="/tmp") as folder:  # which nobody may enter
        os.chmod(folder, 0o755)
        seen = Path(folder, "seen")
        seen.touch()
        seen.chmod(0o666)
        Path(folder, "Makefile").write_text(f"modules:\n\tid -u >>'{seen}'\n\t{recipe}\n", encoding="utf-8")
        subprocess.run(["sh", "-c", SCRIPT, "-", folder], capture_output=True, check=False)
        assert seen.read_text(encoding="utf-8").split() == users


def test_a_file_of_a_user_deep_in_the_tree_is_found(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("find") is None:
        pytest.skip("needs root and find")
    host = LocalHost()
    try:
        deep = tmp_path / "linux" / "include" / "generated"
        deep.mkdir(parents=True, mode=0o755)
        (deep / "autoconf.h").write_text("", encoding="utf-8")
        (tmp_path / "build").symlink_to("linux")
        (tmp_path / "linux" / "Makefile").write_text("", encoding="utf-8")
        paths = [f"{tmp_path}/build", f"{tmp_path}/build/Makefile"]
        assert _changed_by(host, paths) is None
        os.chown(deep / "autoconf.h", 4242, 4242)
        said = f"{tmp_path}/build/include/generated/autoconf.h can be changed by another user than root"
        assert _changed_by(host.fresh(), paths) == said
    finally:
        host.close()


def test_a_kernel_that_may_not_be_read_does_not_hide_the_others() -> None:
    files = {f"{HEADERS}/modules.dep": "", "/lib/modules/6.1.0-9/modules.dep": "", "/proc/sys/kernel/osrelease": KERNEL}
    files[f"{HEADERS}/build/Makefile"] = ""
    closed = {f"{HEADERS}/build": Overlay(mode=0o700)}
    builds = ran("install.module-build", files=files, stats=closed, user=User(uid=4242, gid=4242, name="u"))
    assert codes(builds) == ["headers", "not-tried"]


# install.module-signing

SECURE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def test_signing() -> None:
    unsigned = {"/sys/module/module/parameters/sig_enforce": "N\n"}
    assert ran("install.module-signing", files=unsigned).status is Status.OK
    assert ran("install.module-signing", files={**unsigned, SECURE: b"\x06\0\0\0\0"}).status is Status.OK
    assert codes(ran("install.module-signing", files={**unsigned, SECURE: b"\x06\0\0\0\x01"})) == ["secure-boot"]
    assert codes(ran("install.module-signing", files={"/sys/module/module/parameters/sig_enforce": "Y"})) == [
        "required"
    ]
    locked = {**unsigned, "/sys/kernel/security/lockdown": "none [integrity] confidentiality"}
    assert codes(ran("install.module-signing", files=locked)) == ["required"]
    status = {"getstatus": "KySec status: enabled\nexec control: warning\n"}
    assert codes(ran("install.module-signing", files=unsigned, commands=status)) == ["kysec"]
    off = {"getstatus": "KySec status: disabled\n"}
    assert ran("install.module-signing", files=unsigned, commands=off).status is Status.OK
    assert ran("install.module-signing", unrecorded="unknown").status is Status.SKIPPED


# install.tools


def test_tools() -> None:
    assert ran("install.tools", **execs(*TOOLS, *BUILD)).status is Status.OK
    found = ran("install.tools", **execs(*TOOLS[1:], "make"))
    assert codes(found) == ["installer", "build"]
    assert found.findings[0].params["tools"] == ["lspci"]
    assert found.findings[1].params["tools"] == ["gcc", "dkms"]
    assert ran("install.tools", unrecorded="unknown").status is Status.SKIPPED


@pytest.mark.parametrize(
    ("id", "command"),
    [
        ("debian", "apt-get install make dkms gcc linux-headers-5.10"),
        ("kylin", "dnf install make dkms gcc kernel-headers-5.10"),
    ],
)
def test_the_command_is_that_of_the_system(id: str, command: str) -> None:
    files = {"/etc/os-release": f"ID={id}\n", "/proc/sys/kernel/osrelease": "5.10"}
    assert ran("install.tools", files=files).findings[0].commands[0].startswith(command)


# install.immutable


def test_immutable() -> None:
    words = "lsattr -d /usr /etc"
    files = {"/usr/x": "", "/etc/x": ""}
    good = {words: "--------------e------- /usr\n--------------e------- /etc\n"}
    assert ran("install.immutable", files=files, commands=good).status is Status.OK
    bad = {words: "----i---------e------- /usr\n-----a--------e------- /etc\n"}
    assert ran("install.immutable", files=files, commands=bad).findings[0].params["paths"] == ["/usr", "/etc"]
    assert ran("install.immutable", files=files).status is Status.SKIPPED
    assert ran("install.immutable", files=files, commands={words: ""}).status is Status.SKIPPED
    assert parse_attributes("lsattr: Operation not supported While reading flags on /proc\n") == {}


# install.su


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("auth sufficient pam_rootok.so\nauth required pam_unix.so\n", True),
        ("#%PAM-1.0\nauth\t\t[success=done default=ignore] pam_rootok.so\n", True),
        ("# auth sufficient pam_rootok.so\nauth required pam_unix.so\n", False),
        ("auth required pam_unix.so\nauth sufficient pam_rootok.so\n", False),
        ("auth required pam_rootok.so\n", False),
        ("auth sufficient /usr/lib64/security/pam_rootok.so debug\n", True),
    ],
)
def test_who_may_su_without_password(text: str, allowed: bool) -> None:
    assert parse_pam(text) is allowed
    assert codes(ran("install.su", files={"/etc/pam.d/su": text})) == ([] if allowed else ["asks"])


def test_su_without_its_file() -> None:
    assert ran("install.su").status is Status.SKIPPED
    files = {"/etc/pam.d/su-l": "auth include su\n", "/etc/pam.d/su": "auth sufficient pam_rootok.so\n"}
    assert ran("install.su", files=files).status is Status.OK


# install.other-installers


def test_other_installers() -> None:
    quiet = {"processes": [process(1, "systemd"), process(9, "packagekitd"), process(10, "python3", "train.py")]}
    assert ran("install.other-installers", measures=quiet).status is Status.OK
    busy = [
        process(20, "dnf"),
        process(21, "bash", "bash", "/repo/Ascend-hdk-310p-npu-driver_25.2.0_linux-aarch64.run"),
    ]
    found = ran("install.other-installers", measures={"processes": busy})
    assert found.findings[0].params["names"] == ["dnf (pid 20)", "bash (pid 21)"]
    assert ran("install.other-installers").status is Status.SKIPPED


# install.holders and install.vnpu


def test_holders_of_simulated_nodes() -> None:
    def found(scenario: str) -> Result:
        return run(sim.simulate(scenario), "install.holders", packages=STAGED).results[0]

    assert found("healthy-a3").status is Status.OK
    assert codes(found("in-service"))[0] == "processes"
    assert found("bare-host").status is Status.SKIPPED


@pytest.mark.parametrize(
    ("cgroup", "owner"),
    [
        ("0::/system.slice/npu-exporter.service\n", "unit npu-exporter.service"),
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", "Slurm job 4711"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "a login session"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n", "a login session"),
        ("0::/system.slice/docker-0123456789abcdef0123.scope\n", "container 0123456789ab"),
        ("4:devices:/docker/fedcba9876543210\n", "container fedcba987654"),
        (
            "0::/kubepods.slice/kubepods-burstable.slice/"
            "kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-0123456789ab.scope\n",
            "pod 0a1b2c3d-1111-2222-3333-444455556666",
        ),
        ("0::/\n", None),
    ],
)
def test_the_owner_is_that_of_the_control_group(cgroup: str, owner: str | None) -> None:
    assert owner_of(cgroup) == owner


def test_slices() -> None:
    whole = {"/dev/davinci0": "", "/dev/davinci_manager": ""}
    assert ran("install.vnpu", files=whole).status is Status.OK
    found = ran("install.vnpu", files={**whole, "/dev/vdavinci100": "", "/dev/vdavinci101": ""})
    assert found.findings[0].params["count"] == 2
    assert ran("install.vnpu", unrecorded="unknown").status is Status.SKIPPED


# install.user


def account(passwd: str = PASSWD, group: str = GROUP, **more: Any) -> Result:
    files = {"/etc/passwd": passwd, "/etc/group": group, **more.pop("files", {})}
    return ran("install.user", files=files, **more)


def test_the_account() -> None:
    assert account().status is Status.OK
    nobody = account("root:x:0:0:root:/root:/bin/bash\n", "root:x:0:\n")
    assert codes(nobody) == ["missing"]
    assert nobody.findings[0].commands[0] == "groupadd -g 1000 HwHiAiUser"
    taken = account("ada:x:1000:1000::/home/ada:/bin/bash\n", "ada:x:1000:\n")
    assert codes(taken) == ["id-taken", "id-taken", "missing"]
    assert taken.findings[2].commands[0] == "groupadd HwHiAiUser"
    assert codes(account(PASSWD, "root:x:0:\n")) == ["group"]
    assert ran("install.user").status is Status.SKIPPED


def test_an_account_of_a_directory_service() -> None:
    answer = {"getent passwd HwHiAiUser": "HwHiAiUser:*:5000:5000::/home/HwHiAiUser:/bin/bash\n"}
    services = {"/etc/nsswitch.conf": "passwd: files sss\n"}
    found = account("root:x:0:0:root:/root:/bin/bash\n", GROUP, files=services, commands=answer)
    assert codes(found) == ["directory"]


# install.root


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ([mount("/")], []),
        ([mount("/", "overlay")], ["image"]),
        ([mount("/", "squashfs", "ro")], ["image"]),
        ([mount("/", "nfs4")], ["image"]),
        ([mount("/", "ext4", "ro,relatime")], ["image"]),
        ([mount("/"), mount("/usr/local", "nfs")], ["prefix"]),
        ([mount("/"), mount("/usr", "ext4", "ro")], ["prefix"]),
        ([mount("/"), mount("/home", "nfs")], []),
    ],
)
def test_the_root_file_system(mounts: list[dict[str, Any]], expected: list[str]) -> None:
    assert codes(ran("install.root", measures={"mounts": mounts})) == expected


def test_an_ostree_system_and_one_that_is_not_known() -> None:
    ostree = {"/run/ostree-booted": ""}
    assert codes(ran("install.root", measures={"mounts": [mount("/", "xfs")]}, files=ostree)) == ["image"]
    assert ran("install.root").status is Status.SKIPPED


# install.packages


def test_packages() -> None:
    def found(*packages: Package) -> Result:
        staged = StagedPackages(folders=("/r",), packages=packages)
        return run(sim.simulate("new-node"), "install.packages", packages=staged).results[0]

    empty = DRIVER.__class__(**{**_fields(DRIVER), "name": "e.run", "problem": "an empty file"})
    assert found(DRIVER, WHEEL).status is Status.OK
    assert codes(found()) == codes(found(empty)) == ["none"]
    assert codes(found(DRIVER, empty)) == ["unusable"]
    assert found(DRIVER, empty).findings[0].evidence[0].actual == "an empty file"
    assert run(sim.simulate("new-node"), "install.packages").results[0].status is Status.SKIPPED


# install.glibc


def test_glibc() -> None:
    def found(wheel: str) -> Result:
        staged = StagedPackages(folders=("/r",), packages=(WHEEL.__class__(**{**_fields(WHEEL), "glibc": wheel}),))
        return run(sim.simulate("new-node"), "install.glibc", packages=staged).results[0]

    assert found("2.17").status is Status.OK
    assert codes(found("2.99")) == ["old"]
    none = StagedPackages(folders=("/r",), packages=(DRIVER,))
    assert run(sim.simulate("new-node"), "install.glibc", packages=none).results[0].status is Status.SKIPPED
    assert ran("install.glibc").status is Status.SKIPPED


def _fields(package: Package) -> dict[str, Any]:
    return {name: getattr(package, name) for name in package.__dataclass_fields__}
