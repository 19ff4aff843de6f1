"""The nodes on which fixes are struck, and the fixes that are played on them: every fix, every kind of step.

A node lies below a folder. Most scenes see that folder as the root of a machine whose own tools lie beside it; where
the real tools, processes or mounts are wanted, a scene is played on this machine, in a mount namespace if need be.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from npudoctor import clock, plugins
from npudoctor.facts.by_chip import PerPort
from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.hccn.tls import Tls, TlsCard
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import Service
from npudoctor.facts.node.device_access import DeviceAccess
from npudoctor.host import Completed, Host
from npudoctor.host.live.local import LocalHost
from npudoctor.packages.folder import read_folders
from npudoctor.plugins import Catalog
from npudoctor.sdk import (
    GroupMember,
    MakeFolder,
    NotApplicable,
    Note,
    Options,
    Probe,
    Remount,
    RemoveFile,
    RemoveFolder,
    Run,
    SetSysctl,
    Step,
    WriteFile,
    fix,
    probe,
)
from tests.packages.installers import installer
from tests.packages.managers import managers

KEY = "net.ipv4.ip_local_reserved_ports"
STATE = "/var/lib/npudoctor"
OLD_S = 30 * 86400.0
CPU = "+cpu" if os.uname().machine == "x86_64" else ""


class Where(Enum):
    """Where a scene is played: on the node below the folder, on this machine, or there in a mount namespace."""

    BELOW = "below"
    HERE = "here"
    ALONE = "alone"


@dataclass(frozen=True)
class Scene:
    """A fix with its parameters, the kinds of step that it takes (or that take it back), and what the node has for it.

    `proved` False leaves the checks out, where they would start the node's Python many times.
    """

    fix: str
    kinds: tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    begin: Callable[[str], None] | None = None
    where: Where = Where.BELOW
    irreversible: bool = False
    proved: bool = True


# The node


def put(root: str, path: str, text: str, mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    with open(root + path, "w", encoding="latin-1") as file:
        file.write(text)
    os.chmod(root + path, mode)


def node(root: str, scene: Scene) -> None:
    """A node with what the fixes read."""
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("/var/lib", "/root", "/etc/profile.d", "/etc/security/limits.d", "/tmp"):
        os.makedirs(root + folder, exist_ok=True)
    put(root, "/proc/sys/net/ipv4/ip_local_reserved_ports", "8080,9000-9010\n")
    put(root, "/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    put(root, "/etc/sysctl.d/99-site.conf", f"vm.swappiness = 1\n{KEY} = 8080\n", 0o640)
    put(root, "/etc/sysctl.d/10-net.conf", "net.core.somaxconn = 4096\n")
    put(root, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")
    put(root, "/etc/group", "root:x:0:\n")
    put(root, "/root/.bashrc", "# mine\nalias ll='ls -l'", 0o600)
    put(root, "/etc/odd", "caf\xe9\n", 0o604)
    os.setxattr(root + "/etc/odd", "user.note", b"kept\xff")
    os.makedirs(root + "/etc/hollow")
    if scene.begin:
        scene.begin(root)
    for shared in SHARED if scene.where is Where.ALONE else ():
        subprocess.run(["mount", "-o", "remount,size=1m", shared], check=True)
    if scene.where is Where.ALONE:
        for name in os.listdir("/etc"):
            if name.endswith((".lock", "+")) or re.fullmatch(r"g(roup|shadow)\.\d+", name):
                os.unlink(f"/etc/{name}")  # of a tool that was killed
        for name in ("group", "gshadow"):
            shutil.copy2(f"/mnt/{name}", f"/etc/{name}")


SHARED = ("/mnt", "/dev/shm")


def namespace() -> None:
    """Lay what scenes change over this machine, in the mount namespace that this process was started in."""
    for place, size in (("/mnt", "64m"), ("/dev/shm", "64m")):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], check=True)
    os.makedirs("/mnt/up")
    os.makedirs("/mnt/work")
    subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", "lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work", "/etc"],
        check=True,
    )
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"], check=True)
    for name in ("group", "gshadow"):
        shutil.copy2(f"/etc/{name}", f"/mnt/{name}")


SYSTEMCTL = """#!/bin/sh
# Stands in for systemctl: what is enabled is a file below /enabled, what runs a copy of its unit below /active.
unit=$2
case $1 in
  is-enabled) [ -e "$SCENE_ROOT/enabled/$unit" ] && echo enabled || { echo disabled; exit 1; } ;;
  is-active) [ -e "$SCENE_ROOT/active/$unit" ] && echo active || { echo inactive; exit 3; } ;;
  enable) [ -e "$SCENE_ROOT/etc/systemd/system/$unit" ] && : >"$SCENE_ROOT/enabled/$unit" ;;
  disable) rm -f "$SCENE_ROOT/enabled/$unit" ;;
  restart) rm -f "$SCENE_ROOT.unit"; cp "$SCENE_ROOT/etc/systemd/system/$unit" "$SCENE_ROOT.unit" &&
    mv "$SCENE_ROOT.unit" "$SCENE_ROOT/active/$unit" ;;
  stop) rm -f "$SCENE_ROOT/active/$unit" ;;
esac
"""
HCCN_TOOL = """#!/bin/sh
# Stands in for hccn_tool -i CARD -tls -s enable SWITCH.
echo "$6" >"$SCENE_ROOT.switch" && mv "$SCENE_ROOT.switch" "$SCENE_ROOT/cards/$2"
"""
HCCN_PORTS = """#!/bin/sh
# Stands in for hccn_tool -i CARD -ip|-gateway|-netdetect -g, or -s with values: it writes /etc/hccn.conf, too.
port=$SCENE_ROOT/ports/$2$3
new=$SCENE_ROOT.port
case $3$4 in
  -ip-g) [ -e "$port" ] && { read -r a m <"$port"; printf 'ipaddr:%s\\nnetmask:%s\\n' "$a" "$m"; }; exit 0 ;;
  -gateway-g) [ -e "$port" ] && { read -r a <"$port"; echo "default gateway:$a, Iface:eth$2"; }; exit 0 ;;
  -netdetect-g) [ -e "$port" ] && { read -r a <"$port"; echo "netdetect address: $a"; }; exit 0 ;;
  -ip-s) echo "$6 $8" >"$new"; lines="address_$2=$6 netmask_$2=$8" ;;
  -gateway-s) echo "$6" >"$new"; lines="gateway_$2=$6" ;;
  -netdetect-s) echo "$6" >"$new"; lines="netdetect_$2=$6" ;;
esac
mv "$new" "$port"
conf=$SCENE_ROOT/etc/hccn.conf
for line in $lines; do
  { grep -v "^${line%%=*}=" "$conf"; echo "$line"; } >"$new"
  cat "$new" >"$conf"
done
"""
ACCOUNTS = {
    "groupadd": """[ "$1" = -g ] || exit 2
grep -q "^$3:" "$etc/group" && exit 9
{ cat "$etc/group"; echo "$3:x:$2:"; } >"$etc/.group+" && mv "$etc/.group+" "$etc/group\"""",
    "groupdel": """grep -v "^$1:" "$etc/group" >"$etc/.group+"; mv "$etc/.group+" "$etc/group\"""",
    "useradd": """[ "$1 $3 $5 $6 $8" = "-u -g -M -d -s" ] || exit 2
{ cat "$etc/passwd"; echo "${10}:x:$2:$4::$7:$9"; } >"$etc/.passwd+" && mv "$etc/.passwd+" "$etc/passwd\"""",
    "userdel": """grep -v "^$1:" "$etc/passwd" >"$etc/.passwd+"; mv "$etc/.passwd+" "$etc/passwd"
grep -v "^$1:" "$etc/group" >"$etc/.group+"; mv "$etc/.group+" "$etc/group\"""",
    "rmdir": '/usr/bin/rmdir "$SCENE_ROOT$2"',
    "install": """[ "$1 $2 $3" = "-d -m 0750" ] || exit 2
/usr/bin/mkdir -p -m 0750 "$SCENE_ROOT$8\"""",
}
"""Stand-ins for the tools of accounts; userdel removes a group of the user's name, as the real one does."""


def with_accounts(root: str) -> None:
    os.makedirs(f"{root}/home")
    for name, text in ACCOUNTS.items():
        tool(root, name, f"#!/bin/sh\netc=$SCENE_ROOT/etc\n{text}\n")


PIP = '''\
"""Stands in for pip over unpacked wheels, in its order of doing things, at a tenth of its time."""
import json, os, re, shutil, sys, sysconfig
verb, words, site = sys.argv[1], sys.argv[2:], sysconfig.get_paths()["purelib"]
source = words[words.index("--find-links") + 1] if "--find-links" in words else ""
named = [word for word in words if re.fullmatch(r"[a-z][a-z-]+(==.*)?", word) and word != "-"]
def known(name):
    return [one for one in sorted(os.listdir(source)) if one.partition("-")[0].replace("_", "-") == name]
def chosen(word):
    name, _, version = word.partition("==")
    return next(one for one in known(name) if version in one)
if "--dry-run" in words:
    rows = [chosen(word).partition("-")[::2] for word in named]
    print(json.dumps({"install": [{"metadata": {"name": name, "version": version}} for name, version in rows]}))
    sys.exit()
for word in named:
    name = word.partition("==")[0].replace("-", "_")
    there = [one for one in os.listdir(site) if one.startswith(name + "-") and one.endswith(".dist-info")]
    moved = []
    for info in there:
        rows = [row.split(",")[0] for row in open(os.path.join(site, info, "RECORD"))]
        for top in sorted({row.strip().partition("/")[0] for row in rows} | {info}):
            if os.path.exists(os.path.join(site, top)):
                os.rename(os.path.join(site, top), os.path.join(site, "~" + top[1:]))
                moved.append("~" + top[1:])
    if verb == "install":
        tree = os.path.join(source, chosen(word))
        for folder, _, names in sorted(os.walk(tree)):
            here = os.path.join(site, os.path.relpath(folder, tree))
            os.makedirs(here, exist_ok=True)
            for one in sorted(names):
                with open(os.path.join(here, one), "w") as file:
                    file.write(open(os.path.join(folder, one)).read())
    for one in moved:
        shutil.rmtree(os.path.join(site, one))
'''


def tool(root: str, name: str, text: str) -> None:
    """Lay a tool beside the node, where PATH finds it."""
    put(f"{root}.tools", f"/{name}", text, 0o755)


def with_systemd(root: str) -> None:
    for folder in ("/run/systemd/system", "/etc/systemd/system", "/enabled", "/active"):
        os.makedirs(root + folder)
    tool(root, "systemctl", SYSTEMCTL)
    put(root, "/usr/local/bin/npudoctor", "#!/bin/sh\n", 0o755)


def with_services(root: str) -> None:
    with_systemd(root)
    for name in ("npudoctor.service", "npudoctor-setup.service"):
        put(root, f"/etc/systemd/system/{name}", f"[Service]\nExecStart=/bin/{name}\n", 0o640)
        put(root, f"/enabled/{name}", "")
    shutil.copy(f"{root}/etc/systemd/system/npudoctor.service", f"{root}/active")


def with_switches(root: str) -> None:
    for card, switch in (("0", "0"), ("1", "1"), ("2", "1")):
        put(root, f"/cards/{card}", f"{switch}\n")
    tool(root, "hccn_tool", HCCN_TOOL)


def with_ports(root: str) -> None:
    for card in "01":
        put(root, f"/ports/{card}-ip", f"10.1.0.1{card} 255.255.255.0\n")
        put(root, f"/ports/{card}-gateway", "10.1.0.1\n")
        put(root, f"/ports/{card}-netdetect", "10.1.0.1\n")
    put(root, "/etc/hccn.conf", "# ours\naddress_0=10.1.0.10\ndscp_tc_0=25:0,\ngateway_0=10.1.0.1", 0o640)
    put(root, "/root/table.csv", "device,address,netmask,gateway\n0,10.2.0.2,24,10.2.0.1\n1,10.2.0.3,24,10.2.0.1\n")
    tool(root, "hccn_tool", HCCN_PORTS)


def with_logs(root: str) -> None:
    for day in range(4):
        path = f"/root/ascend/log/debug/plog/plog-{day}_2026010100000000{day}.log"
        put(root, path, "x\n")
        put(root, "/proc/mounts", f"none {root} tmpfs rw 0 0\n")
        os.utime(root + path, (clock.timestamp() - OLD_S,) * 2)


def with_python(root: str) -> None:
    """An environment of a stand-in for pip, with torch 2.5.1, the torch_npu of 2.6.0, and both tritons."""
    base = os.path.realpath(sys.executable)
    site = f"/env/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    put(root, "/env/pyvenv.cfg", f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\n")
    os.makedirs(f"{root}/env/bin")
    os.symlink(base, f"{root}/env/bin/python")
    put(root, f"{site}/pip/__main__.py", PIP)
    put(root, f"{site}/pip-99.dist-info/METADATA", "Metadata-Version: 2.1\nName: pip\nVersion: 99\n")
    put(root, f"{site}/pip-99.dist-info/RECORD", "pip/__main__.py,,\n")
    packed = f"{root}.wheels"
    shutil.rmtree(packed, ignore_errors=True)
    for name, version, module in (
        ("torch", f"2.5.1{CPU}", "torch"),
        ("torch", f"2.6.0{CPU}", "torch"),
        ("torch_npu", "2.6.0", "torch_npu"),
        ("helper", "1.0", "helper"),
        ("triton", "3.2.0", "triton"),
        ("triton_ascend", "3.2.0", "triton"),
    ):
        wheel, stem = f"{packed}/{name}-{version}", f"{name}-{version}.dist-info"
        files = {
            f"{module}/__init__.py": f"# {name} {version}\n",
            f"{module}/deep/only_{version[2]}.py": "x = 1\n",
            f"an_extra_{version[2]}/{name}.py": "x = 1\n",
            f"{stem}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n",
        }
        rows = "".join(f"{path},,{len(text)}\n" for path, text in files.items()) + f"{stem}/RECORD,,\n"
        for path, text in {**files, f"{stem}/RECORD": rows}.items():
            put(wheel, f"/{path}", text)
        if version != f"2.6.0{CPU}" or not CPU or name == "torch_npu":
            shutil.copytree(wheel, root + site, dirs_exist_ok=True)


BASE = """#!/bin/bash
# Stands in for a Python of its own name: makes an environment with the stand-in for pip; all else the real one does.
here=${0%/bin/python}
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" "$3/lib"; cp -r "$here/lib/." "$3/lib"; cp "$here/pyvenv.cfg" "$3"
    ln -s "$(readlink "$here/bin/real")" "$3/bin/python" ;;
  *) exec -a "$0" "$here/bin/real" "$@" ;;
esac
"""


def with_base(root: str) -> None:
    """An environment of a stand-in for pip, and a Python beside it that makes copies of it."""
    with_python(root)
    folder = f"{root}.base"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(f"{root}/env", folder, symlinks=True)
    site = glob.glob(f"{folder}/lib/*/site-packages")[0]
    for name in os.listdir(site):
        if not name.startswith("pip"):
            shutil.rmtree(f"{site}/{name}")
    os.rename(f"{folder}/bin/python", f"{folder}/bin/real")
    put(folder, "/bin/python", BASE, 0o755)


def with_canns(root: str) -> None:
    """CANN 8.5.0, to which the links lead by a way of their own each, and 9.0.0."""
    for version in ("8.5.0", "9.0.0"):
        put(root, f"/usr/local/Ascend/cann-{version}/version.cfg", f"toolkit_running_version=[{version}:{version}]\n")
        put(root, f"/usr/local/Ascend/cann-{version}/set_env.sh", "export ASCEND_HOME_PATH=/usr/local/Ascend/cann\n")
    os.makedirs(f"{root}/usr/local/Ascend/ascend-toolkit")
    os.symlink("cann-8.5.0", f"{root}/usr/local/Ascend/cann")
    os.symlink("/usr/local/Ascend/cann-8.5.0", f"{root}/usr/local/Ascend/ascend-toolkit/latest")


def with_cann_packages(root: str) -> None:
    """CANN 8.5.0 at a prefix, and packages of 9.0.0 beside the node."""
    with_canns(root)
    shutil.rmtree(f"{root}/usr/local/Ascend/cann-9.0.0")
    for part in ("toolkit", "ops", "nnal"):
        installer(Path(f"{root}.packages"), part, "9.0.0", os.uname().machine)


def with_managers(root: str) -> None:
    repo: dict[str, Any] = {
        "dkms": {"version": "3.0-1", "needs": ["gcc"]},
        "gcc": {"version": "12-1"},
        "make": {"version": "4-1"},
    }
    managers(Path(f"{root}.tools"), Path(root), repo)
    put(root, "/db/make", "4-1 installed")


def with_docker(root: str) -> None:
    put(root, "/usr/local/bin/ascend-docker-runtime", "#!/bin/sh\n", 0o755)
    put(root, "/etc/docker/daemon.json", '{"log-driver": "journald"}\n', 0o640)


SLEEPERS: list[subprocess.Popen[bytes]] = []
"""The processes of a scene, children of the one that plays it."""


def end_sleepers() -> None:
    for one in SLEEPERS:
        one.kill()
        one.wait()


def with_sleepers(_: str) -> None:
    end_sleepers()
    SLEEPERS[:] = [subprocess.Popen(["sleep", "300"]) for _ in range(2)]


# The fixes


@fix("test.kinds", resolves=())
def every_kind(host: Host) -> Iterator[Step | Note]:
    """Take a step of every kind that works on files."""
    yield MakeFolder("/etc/new", 0o750)
    yield WriteFile("/etc/new/inside", "one\n", 0o600)
    yield WriteFile("/etc/odd", "two\n")
    yield RemoveFile("/etc/sysctl.d/10-net.conf")
    yield RemoveFolder("/etc/hollow")
    yield SetSysctl(KEY, "1-5")


@fix("test.command", resolves=())
def a_command(host: Host) -> Iterator[Step | Note]:
    """Run a command with its inverse, then write."""
    base = os.environ["SCENE_ROOT"]
    yield Run(("cp", f"{base}/etc/odd", f"{base}/etc/copy"), ("rm", "-f", f"{base}/etc/copy"))
    yield WriteFile(f"{base}/etc/after", "x\n")


@fix("test.system", resolves=())
def a_system(host: Host) -> Iterator[Step | Note]:
    """Change what only the system's own tools change: who is in a group, how large a mount is."""
    yield GroupMember("games", "users")
    yield Remount("/mnt", 4 << 20)
    yield WriteFile(f"{os.environ['SCENE_ROOT']}/etc/after", "x\n")


WORDS = {"set": {"HCCL_CONNECT_TIMEOUT": "600"}}
SCENES: dict[str, Scene] = {
    "reserve": Scene("hccl.reserve-ports", ("SetSysctl", "WriteFile", "RemoveFile"), {"ports": "60000-60031"}),
    "profile": Scene(
        "env.profile", ("MakeFolder", "WriteFile", "RemoveFolder"), {**WORDS, "unset": ["ASCEND_GLOBAL_LOG_LEVEL"]}
    ),
    "system-profile": Scene("env.profile", ("WriteFile",), {**WORDS, "scope": "system"}),
    "limits": Scene(
        "system.limits", ("WriteFile", "RemoveFile"), {"limits": {"nofile": "1048576", "memlock": "unlimited"}}
    ),
    "kinds": Scene("test.kinds", ("MakeFolder", "WriteFile", "RemoveFile", "RemoveFolder", "SetSysctl")),
    "service": Scene(
        "service.install",
        ("SystemdUnit",),
        {"command": "/usr/local/bin/npudoctor", "setup": True},
        begin=with_systemd,
    ),
    "service-again": Scene(
        "service.install", ("SystemdUnit",), {"command": "/usr/local/bin/npudoctor"}, begin=with_services
    ),
    "service-remove": Scene("service.remove", ("SystemdUnit",), begin=with_services),
    "switch": Scene("cann.switch", ("SetLink",), {"to": "9.0.0"}, begin=with_canns),
    "install": Scene(
        "cann.install",
        ("MakeFolder", "InstallPackage", "UninstallPackage"),
        begin=with_cann_packages,
        where=Where.HERE,
        proved=False,
    ),
    "runtime": Scene(
        "container.runtime", ("WriteFile",), {"path": "/usr/local/bin/ascend-docker-runtime"}, begin=with_docker
    ),
    "os-packages": Scene(
        "system.packages", ("SystemPackages",), {"packages": ["dkms"]}, begin=with_managers, proved=False
    ),
    "tls": Scene("npu.tls-off", ("Run",), begin=with_switches),
    "address": Scene("npu.address", ("CardAddresses",), {"table": "/root/table.csv"}, begin=with_ports, proved=False),
    "logs": Scene("system.clean-logs", ("RemoveLogs",), begin=with_logs, irreversible=True),
    "release": Scene("npu.release", ("EndProcess",), begin=with_sleepers, where=Where.HERE, irreversible=True),
    "command": Scene("test.command", ("Run", "WriteFile"), where=Where.HERE),
    "pair": Scene(
        "python.install-pair",
        ("KeepPackages", "RestorePackages"),
        {"torch": "2.6.0", "torch_npu": "2.6.0"},
        begin=with_python,
        where=Where.HERE,
        proved=False,
    ),
    "create": Scene(
        "python.create",
        ("MakeFolder", "WriteFile", "CreateEnvironment", "RemoveEnvironment"),
        {"torch": "2.6.0", "torch_npu": "2.6.0"},
        begin=with_base,
        where=Where.HERE,
        proved=False,
    ),
    "packages": Scene(
        "python.install-packages",
        ("KeepPackages", "RestorePackages"),
        begin=with_python,
        where=Where.HERE,
        proved=False,
    ),
    "system": Scene("test.system", ("GroupMember", "Remount", "WriteFile"), where=Where.ALONE),
    "access": Scene("driver.grant-access", ("GroupMember",), {"user": "games", "group": "users"}, where=Where.ALONE),
    "user": Scene("driver.user", ("LocalGroup", "LocalUser"), begin=with_accounts, proved=False),
    "shared": Scene("system.shm", ("Remount",), {"size": "128m"}, where=Where.ALONE),
}
WITHOUT_STEPS = ("container.run-command", "env.visible-devices")
"""The fixes that change nothing, and so cannot be struck."""


def params_of(scene: Scene, root: str) -> Mapping[str, Any]:
    """The parameters of a scene on a node that has been made."""
    if scene.begin is with_sleepers:
        return {"pids": [one.pid for one in SLEEPERS]}
    if scene.begin is with_cann_packages:
        return {"prefix": f"{root}/usr/local/Ascend"}
    if scene.begin is with_base:
        return {
            **scene.params,
            "offline": f"{root}.wheels",
            "path": f"{root}/opt/new/env",
            "python": f"{root}.base/bin/python",
        }
    return {**scene.params, "offline": f"{root}.wheels"} if scene.begin is with_python else scene.params


def options_of(scene: Scene, root: str) -> Options:
    """With the node's own Python, where it has one."""
    if scene.begin is with_cann_packages:
        return Options(python="/nowhere", packages=read_folders(LocalHost(), [f"{root}.packages"]))
    return Options(python=f"{root}/env/bin/python" if scene.begin in (with_python, with_base) else "/nowhere")


# What cannot be asked of a machine without cards


@probe
def switches(host: Host) -> PerPort[Tls]:
    cards = {int(name): int(host.read(f"/cards/{name}")) for name in host.list_dir("/cards")}
    told = {card: Tls((TlsCard(dev_id=card, switch=switch),)) for card, switch in cards.items()}
    return PerPort(told)


@probe
def ports() -> NetworkDevices:
    return NetworkDevices({0: "npu:0", 1: "npu:1"})


@probe
def chips() -> Chips:
    return Chips(chips=(), source="/dev")


@probe
def in_service() -> Service:
    return Service(False)


@probe
def access(host: Host) -> DeviceAccess:
    return DeviceAccess(user=host.user, nodes=())


@probe
def no_container() -> Container:
    raise NotApplicable("this is not a container")


def catalog_of(scene: Scene) -> Catalog:
    """Everything that is installed, and the fixes and facts of the scenes."""
    found = plugins.load(folder="")
    mine = {one.id: one for one in (every_kind, a_command, a_system)}
    told: Sequence[Probe] = (switches, ports, chips, in_service, access, no_container)
    probes = {**found.probes, **{one.provides: one for one in told}}
    return Catalog(checks=found.checks if scene.proved else {}, probes=probes, fixes={**found.fixes, **mine})


class Below(LocalHost):
    """A node below a folder whose tools act on that folder."""

    def __init__(self, root: str) -> None:
        super().__init__(root=root, environ={"HOME": "/root", "PATH": "/usr/bin:/bin"})
        self._folder = root

    def fresh(self) -> Below:
        return Below(self._folder)

    def run_streaming(
        self, argv: Sequence[str], *, timeout: float, stream: Callable[[str], None] | None = None
    ) -> Completed:
        outside = LocalHost()
        outside._locks = self._locks
        return outside.run_streaming(argv, timeout=timeout, stream=stream)


def host_of(scene: Scene, root: str) -> LocalHost:
    """The node of a scene as npudoctor sees it."""
    return Below(root) if scene.where is Where.BELOW else LocalHost(environ={"HOME": "/root"})


def state_of(scene: Scene, root: str) -> str:
    """Where its journal lies, by the name that its host has for it."""
    return STATE if scene.where is Where.BELOW else root + STATE


def snapshot(scene: Scene, root: str) -> dict[str, Any]:
    """Everything that a scene can change, but the journal: files with kind, mode, owner, content and attributes."""
    found: dict[str, Any] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(folder, name) != root + STATE]
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(about.st_mode) else ""
            if stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    content = file.read().decode("latin-1")
            attributes = {
                one: os.getxattr(path, one).hex() for one in sorted(os.listxattr(path, follow_symlinks=False))
            }
            found[path.removeprefix(root)] = [about.st_mode, about.st_uid, about.st_gid, content, attributes]
    for shared in SHARED if scene.where is Where.ALONE else ():
        size = os.statvfs(shared)
        found[shared] = size.f_blocks * size.f_frsize
    for name in ("group", "gshadow") if scene.where is Where.ALONE else ():
        with open(f"/etc/{name}", encoding="utf-8") as text:
            found[name] = text.read()
    for number, one in enumerate(SLEEPERS):
        found[f"process {number}"] = "runs" if one.poll() is None else "has ended"
    return found
