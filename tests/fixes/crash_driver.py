"""Kills, or fails, a fix at each of its journal and file operations, and says what is left after `fix --recover`.

Run as a process of its own: `python crash_driver.py SCENE FAULT FOLDER FIRST STEP`. FAULT is `kill`, `kill-undo`,
`kill-recover`, or the name of an errno. Every operation that can change a file is a point; at point N the child is
killed just before it, or, for odd N, just after. What the parent prints is one JSON line a point.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from npudoctor import plugins
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import Request
from npudoctor.host import Host
from npudoctor.host.local import LocalHost
from npudoctor.plugins import Catalog
from npudoctor.sdk import (
    GroupMember,
    MakeFolder,
    Note,
    Options,
    Remount,
    RemoveFile,
    RemoveFolder,
    Run,
    SetSysctl,
    Step,
    WriteFile,
    fix,
)

KEY = "net.ipv4.ip_local_reserved_ports"
CHANGING = ("mkdir", "rmdir", "rename", "unlink", "write", "fsync", "fchmod", "fchown", "chmod", "setxattr")
STATE = "/var/lib/npudoctor"


def put(root: str, path: str, text: str, mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    with open(root + path, "w", encoding="latin-1") as file:
        file.write(text)
    os.chmod(root + path, mode)


def node(root: str) -> None:
    """A node with what the fixes read."""
    for folder in ("/var/lib", "/root", "/etc/profile.d", "/etc/security/limits.d", "/tmp"):
        os.makedirs(root + folder, exist_ok=True)
    put(root, "/proc/sys/net/ipv4/ip_local_reserved_ports", "8080,9000-9010\n")
    put(root, "/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    put(root, "/etc/sysctl.conf", f"vm.swappiness = 1\n{KEY} = 8080\n", 0o640)
    put(root, "/etc/sysctl.d/10-net.conf", "net.core.somaxconn = 4096\n")
    put(root, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")
    put(root, "/etc/group", "root:x:0:\n")
    put(root, "/root/.bashrc", "# mine\nalias ll='ls -l'", 0o600)
    put(root, "/etc/odd", "caf\xe9\n", 0o604)
    os.setxattr(root + "/etc/odd", "user.note", b"kept\xff")
    os.makedirs(root + "/etc/hollow")
    if shared := os.environ.get("SCENE_SHM"):
        subprocess.run(["mount", "-o", "remount,size=1m", shared], check=True)
        for name in ("group", "gshadow"):
            shutil.copy2(f"{shared}.{name}", f"/etc/{name}")


def namespace(folder: str) -> None:
    """Prepare what the scene `system` changes, in the mount namespace that this process was started in."""
    os.environ["SCENE_SHM"] = shared = f"{folder}/shm"
    os.mkdir(shared)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", shared], check=True)
    os.makedirs(f"{shared}/up")
    os.makedirs(f"{shared}/work")
    over = f"lowerdir=/etc,upperdir={shared}/up,workdir={shared}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", over, "/etc"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", shared], check=True)
    for name in ("group", "gshadow"):
        shutil.copy2(f"/etc/{name}", f"{shared}.{name}")


@fix("test.kinds", mends=())
def every_kind(host: Host) -> Iterator[Step | Note]:
    """Take a step of every kind that works on files."""
    yield MakeFolder("/etc/new", 0o750)
    yield WriteFile("/etc/new/inside", "one\n", 0o600)
    yield WriteFile("/etc/odd", "two\n")
    yield RemoveFile("/etc/sysctl.d/10-net.conf")
    yield RemoveFolder("/etc/hollow")
    yield SetSysctl(KEY, "1-5")


@fix("test.command", mends=())
def a_command(host: Host) -> Iterator[Step | Note]:
    """Run a command with its inverse, then write."""
    base = os.environ["SCENE_ROOT"]
    yield Run(("cp", f"{base}/etc/odd", f"{base}/etc/copy"), ("rm", "-f", f"{base}/etc/copy"))
    yield WriteFile(f"{base}/etc/after", "x\n")


@fix("test.system", mends=())
def a_system(host: Host) -> Iterator[Step | Note]:
    """Change what only the system's own tools change: who is in a group, how large a mount is."""
    yield GroupMember("games", "users")
    yield Remount(os.environ["SCENE_SHM"], 4 << 20)
    yield WriteFile(f"{os.environ['SCENE_ROOT']}/etc/after", "x\n")


SCENES: dict[str, tuple[str, dict[str, Any]]] = {
    "reserve": ("hccl.reserve-ports", {"ports": "60000-60031"}),
    "profile": ("env.profile", {"set": {"HCCL_CONNECT_TIMEOUT": "600"}, "unset": ["ASCEND_GLOBAL_LOG_LEVEL"]}),
    "system-profile": ("env.profile", {"set": {"HCCL_CONNECT_TIMEOUT": "600"}, "scope": "system"}),
    "limits": ("system.limits", {"limits": {"nofile": "1048576", "memlock": "unlimited"}}),
    "kinds": ("test.kinds", {}),
    "command": ("test.command", {}),
    "system": ("test.system", {}),
}
HERE = ("command", "system")
"""Scenes that run commands, and so are played on this machine: `system` in a mount namespace of its own."""


def snapshot(root: str) -> dict[str, list[Any]]:
    """Everything below a root but the journal: kind, mode, owner, content, attributes."""
    found: dict[str, list[Any]] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(folder, name) != root + STATE]
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            content = ""
            if stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    content = file.read().decode("latin-1")
            attributes = {one: os.getxattr(path, one).hex() for one in sorted(os.listxattr(path))}
            found[path.removeprefix(root)] = [about.st_mode, about.st_uid, about.st_gid, content, attributes]
    if shared := os.environ.get("SCENE_SHM"):
        size = os.statvfs(shared)
        found["shm"] = [size.f_blocks * size.f_frsize]
        for name in ("group", "gshadow"):
            with open(f"/etc/{name}") as text:
                found[name] = [text.read()]
    return found


class Point:
    """Counts the operations, and strikes at one of them."""

    def __init__(self, number: int, strike: Callable[[], None], *, after: bool) -> None:
        self.left = number
        self.strike = strike
        self.after = after

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                self.strike()
            here = self.left == 0
            try:
                return call(*args, **named)
            finally:
                if here and self.after:
                    self.strike()

        return called


def arm(number: int, fault: str) -> None:
    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fail() -> None:
        code = getattr(errno, fault)
        raise OSError(code, os.strerror(code))

    killing = fault.startswith("kill")
    point = Point(
        (number + 1) // 2 if killing else number, kill if killing else fail, after=killing and number % 2 == 0
    )
    for name in CHANGING:
        setattr(os, name, point.wrap(getattr(os, name)))
    if killing:
        subprocess.Popen = point.wrap(subprocess.Popen)  # type: ignore[assignment, misc]


def host_of(root: str, scene: str) -> LocalHost:
    if scene in HERE:
        return LocalHost(environ={"HOME": "/root"})
    return LocalHost(root=root, environ={"HOME": "/root", "PATH": "/usr/bin:/bin"})


def state_of(root: str, scene: str) -> str:
    return root + STATE if scene in HERE else STATE


def act(what: str, catalog: Catalog, root: str, scene: str) -> str:
    host, state = host_of(root, scene), state_of(root, scene)
    id, params = SCENES[scene]
    if what == "apply":
        planned = plan.make(catalog, host, Request(id, params), Options(python="/nowhere"))
        events = runner.apply(catalog, host, planned, Options(python="/nowhere"), state=state)
    elif what == "undo":
        events = runner.undo(host, state=state)
    else:
        events = runner.recover(host, state=state)
    last = list(events)[-1]
    assert isinstance(last, runner.Ended)
    return f"{last.outcome.value}: {last.reason}"


def child(what: str, catalog: Catalog, root: str, scene: str, number: int = 0, fault: str = "") -> str:
    """What a forked process says before it ends; `killed` where it was."""
    reading, writing = os.pipe()
    write = os.write
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            if number:
                arm(number, fault)
            said = act(what, catalog, root, scene)
        except BaseException as problem:
            said = f"crashed: {type(problem).__name__}: {problem}"
        write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        said = file.read().decode()
    _, status = os.waitpid(pid, 0)
    return "killed" if os.WIFSIGNALED(status) else said


def is_cut_off(root: str) -> bool:
    runs = os.listdir(f"{root}{STATE}/runs")
    with open(f"{root}{STATE}/runs/{runs[0]}/status.json") as file:
        return '"applying"' in file.read()


def one(catalog: Catalog, folder: str, scene: str, fault: str, number: int) -> dict[str, Any]:
    root = f"{folder}/node"
    shutil.rmtree(root, ignore_errors=True)
    os.environ["SCENE_ROOT"] = root
    node(root)
    struck = "apply"
    if fault in ("kill-undo", "kill-recover"):
        struck = fault.removeprefix("kill-")
        begun(catalog, folder, scene, fault)
    said = child(struck, catalog, root, scene, number, fault)
    recovered = child("recover", catalog, root, scene)
    until = time.monotonic() + 20
    while "another fix is under way" in recovered and time.monotonic() < until:  # what was killed has started a command
        time.sleep(0.02)
        recovered = child("recover", catalog, root, scene)
    return {"point": number, "said": said, "recovered": recovered, "node": snapshot(root)}


def begun(catalog: Catalog, folder: str, scene: str, fault: str) -> None:
    """The node with the fix applied, or cut off as late as it goes; made once, and copied after that."""
    root, made = f"{folder}/node", f"{folder}/begun"
    if not os.path.exists(made):
        if fault == "kill-undo":
            child("apply", catalog, root, scene)
        else:
            for early in range(240, 0, -6):
                shutil.rmtree(root)
                node(root)
                if child("apply", catalog, root, scene, early, "kill") == "killed" and is_cut_off(root):
                    break
        shutil.copytree(root, made, symlinks=True)
    shutil.rmtree(root)
    shutil.copytree(made, root, symlinks=True)


def main(scene: str, fault: str, folder: str, first: str, step: str) -> None:
    found = plugins.load()
    mine = {one.id: one for one in (every_kind, a_command, a_system)}
    if scene == "system":
        namespace(folder)
    catalog = Catalog(checks=found.checks, probes=found.probes, fixes={**found.fixes, **mine})
    root = f"{folder}/node"
    os.environ["SCENE_ROOT"] = root
    node(root)
    before = snapshot(root)
    said = child("apply", catalog, root, scene)
    print(json.dumps({"said": said, "before": before, "after": snapshot(root)}), flush=True)
    number = int(first)
    while True:
        found_out = one(catalog, folder, scene, fault, number)
        print(json.dumps(found_out), flush=True)
        if fault.startswith("kill") and found_out["said"] != "killed":
            break
        if not fault.startswith("kill") and number > 12 and found_out["said"].startswith("applied"):
            break
        number += int(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
