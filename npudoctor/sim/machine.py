"""A simulated machine put together: its files with their rights, its commands, and the commands that change it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from npudoctor.host import About, Completed
from npudoctor.host.recording.canned import USUAL_PATH
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.host.simulated.tree import Content, MemoryStore, Overlay, normalise
from npudoctor.host.simulated.tree_changes import ChangingTree
from npudoctor.records import replace
from npudoctor.sim import cann, driver, hccn, login, system
from npudoctor.sim.commands import Commands
from npudoctor.sim.measures import Measures
from npudoctor.sim.node import RECORDED_AT, Node
from npudoctor.sim.pip import Pip
from npudoctor.sim.scenario import Scenario
from npudoctor.sim.target import Target

_EXECUTABLES = r".*/(s?bin|driver/tools|Ascend-Docker-Runtime)/[^/]+"
CONF = "/etc/hccn.conf"
_ACTIVE = {"conda": "CONDA_PREFIX", "venv": "VIRTUAL_ENV"}
_SIZES = {"k": 10, "m": 20, "g": 30, "t": 40, "": 0}


class Machine:
    """What can be done to a simulated node beyond its files."""

    def __init__(self, node: Node, tree: ChangingTree, target: Target) -> None:
        self._node = node
        self._target = target
        self._pip = Pip(target)
        self._made: dict[str, Pip] = {}
        self._tree = tree
        self.from_files: frozenset[str] = frozenset()

    def set_sysctl(self, key: str, value: str) -> None:
        """Write a kernel setting; raises OSError where the kernel would."""
        self._node.set_sysctl(key, value)

    def end(self, pid: int, number: int) -> None:
        """Send a signal to a process."""
        self._node.end(pid, number)

    def after_login(self, host: SimulatedHost) -> SimulatedHost:
        """The node as a new login of its user sees it: the same files and processes, other variables."""
        user = login.user(self._node, host)
        self._node.user = user
        self._tree.become(user)
        variables = login.variables(self._node, host, self.from_files)
        target = Target(self._node, variables)
        target.packages = self._target.packages
        for made in self._made.values():
            made.target.environ = variables
        about = host.about
        return SimulatedHost(
            self,
            about=replace(about, environment=f"login:{self._node.user.name}"),
            tree=self._tree,
            commands=Commands(self._node, self._tree, target),
            environ=variables,
            measures=Measures(self._node, login.limits(self._node, host)),
            user=user,
        )

    def answer(self, argv: Sequence[str]) -> Completed | None:
        """What a command prints that only looks, and is no recorded one; None for all others."""
        return self._pip.answer(argv)

    def in_target(self, probe: str, python: str) -> Completed | None:
        """What a probe prints inside an environment that was made here; None for any other Python."""
        made = next((pip for path, pip in self._made.items() if python.startswith(f"{path}/bin/")), None)
        return None if made is None else made.target.answer(probe, self._tree)

    def act(self, argv: Sequence[str]) -> Completed | None:
        """Run a command that changes the node; None for one that changes nothing."""
        for pip in (self._pip, *self._made.values()):
            if (done := pip.act(argv)) is not None:
                self._lay(pip.target)
                return done
        tool, words = argv[0].rpartition("/")[2], list(argv[1:])
        if tool == "hccn_tool" and words[2:5] == ["-tls", "-s", "enable"] and len(words) == 6:
            text, status = hccn.switch_tls(self._node, int(words[1]), words[5])
            return Completed(returncode=status, stdout=text, seconds=0.1)
        if tool == "hccn_tool" and words[2:4] in (["-ip", "-s"], ["-gateway", "-s"], ["-netdetect", "-s"]):
            there = self._tree.exists(CONF)
            conf = self._tree.read_bytes(CONF).decode() if there else ""
            said, status, conf = hccn.set_address(self._node, words, conf)
            if status == 0:
                self._tree.write(CONF, conf, mode=None if there else 0o644)
            return Completed(returncode=status, stdout=said, seconds=0.1)
        if words[:2] == ["-m", "venv"] and tool.startswith("python"):
            made = Pip(self._target.venv(normalise(words[-1])))
            self._made[made.target.prefix] = made
            self._lay(made.target)
            return Completed(returncode=0, seconds=3.0)
        if tool == "find" and words[-1:] == ["-delete"] and "-path" in words:
            return self._remove_environment(words[0], words[words.index("-path") + 1])
        if tool == "sysctl" and words[:1] == ["-w"]:
            return self._sysctl(words[1:])
        if tool == "usermod" and words[:1] == ["-aG"] and len(words) == 3:
            return self._join(words[1], words[2])
        if tool == "gpasswd" and words[:1] == ["-d"] and len(words) == 3:
            return self._join(words[2], words[1], leave=True)
        if tool == "mount" and words[:1] == ["-o"] and words[-1:] == ["/dev/shm"]:  # noqa: S108
            return self._remount(words[1])
        return None

    def _lay(self, target: Target) -> None:
        """Write the files of an environment that was made here, as far as they are not there."""
        if target.prefix not in self._made:
            return
        files = [*target.files(), (f"{target.prefix}/pyvenv.cfg", "home = /usr/bin\n")]
        for path, content in files:
            if not self._tree.exists(path):
                self._make_folders(posixpath.dirname(path))
                self._tree.write(path, content, mode=0o755 if re.fullmatch(_EXECUTABLES, path) else 0o644)
        for path, leads_to in target.links().items():
            self._tree.write_link(path, leads_to)

    def _make_folders(self, folder: str) -> None:
        if not self._tree.exists(folder):
            self._make_folders(posixpath.dirname(folder))
            self._tree.make_folder(folder)

    def _remove_environment(self, path: str, kept: str) -> Completed:
        below = [(one, kind) for one, kind in self._tree.walk() if one.startswith(f"{path}/") and one != kept]
        for one, kind in sorted(below, reverse=True):
            (self._tree.remove_folder if kind == "dir" else self._tree.remove)(one)
        self._made.pop(path, None)
        return Completed(returncode=0, seconds=1.0)

    def _sysctl(self, assignments: list[str]) -> Completed:
        said: list[str] = []
        for assignment in assignments:
            key, _, value = assignment.partition("=")
            try:
                self._node.set_sysctl(key, f"{value}\n")
            except OSError as problem:
                text = f'sysctl: setting key "{key}": {problem.strerror}\n'
                return Completed(returncode=255, stdout="".join(said), stderr=text)
            said.append(f"{key} = {value}\n")
        return Completed(returncode=0, stdout="".join(said))

    def _join(self, group: str, user: str, *, leave: bool = False) -> Completed:
        lines = self._tree.read_bytes("/etc/group").decode().splitlines()
        for place, line in enumerate(lines):
            fields = line.split(":")
            if fields[0] == group:
                members = [name for name in fields[3].split(",") if name and name != user]
                fields[3] = ",".join(members if leave else [*members, user])
                lines[place] = ":".join(fields)
                self._tree.write("/etc/group", "\n".join([*lines, ""]))
                return Completed(returncode=0)
        return Completed(returncode=6, stderr=f"usermod: group '{group}' does not exist\n")

    def _remount(self, options: str) -> Completed:
        size = re.fullmatch(r"remount,size=(\d+)([kmgt]?)", options.lower())
        if size is None:
            return Completed(returncode=32, stderr="mount: /dev/shm: mount point not mounted or bad option.\n")
        if self._node.user.uid != 0:
            return Completed(returncode=1, stderr="mount: only root can do that\n")
        self._node.shm_bytes = int(size[1]) << _SIZES[size[2]]
        return Completed(returncode=0)


def build(scenario: Scenario, name: str) -> SimulatedHost:
    """The host of a scenario; raises ScenarioError where its parts do not match."""
    node = Node(scenario, name)
    environ = _environment(node)
    target = Target(node, environ)
    tree = _tree(node, target)
    machine = Machine(node, tree, target)
    host = SimulatedHost(
        machine,
        about=About(source="simulated", hostname=scenario.hostname, machine=node.machine, recorded_at=RECORDED_AT),
        tree=tree,
        commands=Commands(node, tree, target),
        environ=environ,
        measures=Measures(node),
        user=node.user,
    )
    machine.from_files = login.set_by_files(node, host)
    return host


def _environment(node: Node) -> dict[str, str]:
    """The variables of the user's shell, or of the container's image."""
    said = node.scenario.python
    variables = {"HOME": node.home, "USER": node.user.name, "PATH": USUAL_PATH}
    if node.has_cann and node.scenario.cann.sourced:
        variables |= cann.environment(node, USUAL_PATH)
    if said.kind != "system":
        variables["PATH"] = f"{said.prefix}/bin:{variables['PATH']}"
    if said.kind in _ACTIVE:
        variables[_ACTIVE[said.kind]] = said.prefix
    return {**variables, **node.scenario.environ}


def _tree(node: Node, target: Target) -> ChangingTree:
    links = {**system.links(node), **target.links(), **(cann.links(node) if node.has_cann else {})}
    stats = {
        "/tmp": Overlay(kind="dir", mode=0o1777),  # noqa: S108
        node.home: Overlay(kind="dir", mode=0o700, uid=node.user.uid, gid=node.user.gid),
        "/proc/1": _first_process(node),
        **(driver.devices(node) if node.has_driver else {}),
    }
    files = {normalise(path): content for path, content in _files(node, target)}
    for path in node.scenario.remove:
        for known in (files, links, stats):
            _without(known, normalise(path))
    files |= {normalise(path): content for path, content in node.scenario.files.items()}  # a directory in its place
    for path in files:
        if re.fullmatch(_EXECUTABLES, path):
            stats[path] = Overlay(mode=0o755)
        elif node.user.uid and path.startswith(f"{node.home}/"):
            stats[path] = Overlay(uid=node.user.uid, gid=node.user.gid)
    return ChangingTree(MemoryStore(files, system.FOLDERS), links=links, stats=stats, user=node.user)


def _first_process(node: Node) -> Overlay:
    """Process 1: root's on a host, this node's user's in a container."""
    inside = node.scenario.container is not None
    return Overlay(kind="dir", mode=0o555, uid=node.user.uid if inside else 0, gid=node.user.gid if inside else 0)


def _files(node: Node, target: Target) -> Iterator[tuple[str, Content]]:
    yield from system.files(node)
    yield from target.files()
    if node.has_driver:
        yield from driver.files(node)
        yield from ((path, b"") for path in driver.devices(node))
    if node.has_cann:
        yield from cann.files(node)
    yield from node.scenario.files.items()


def _without(known: dict[str, object] | dict[str, Content] | dict[str, str] | dict[str, Overlay], path: str) -> None:
    for name in [name for name in known if name == path or name.startswith(f"{path}/")]:
        del known[name]
