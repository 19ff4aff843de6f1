"""What a new login on the simulated node has for variables: the start-up files are read as the shell would read them.

Understood are lines that source a script, `export` and `unset`, and the conditions that npudoctor writes around them.
"""

from __future__ import annotations

import posixpath
import re
import shlex

from npudoctor.facts.cann.set_env import read_exports
from npudoctor.host import Unavailable, User
from npudoctor.host.recording.canned import USUAL_PATH
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.records import replace
from npudoctor.sim import cann
from npudoctor.sim.node import Node

_DEEPEST = 4
LIMITS_FOLDER = "/etc/security/limits.d"


def variables(node: Node, host: SimulatedHost, from_files: frozenset[str]) -> dict[str, str]:
    """The variables of a login shell of the node's user, its Python's environment activated.

    `from_files` are those that the start-up files have set since before anything was changed.
    """
    said = node.scenario.python
    found = {**_of_pam(host), "HOME": node.home, "USER": node.user.name, "PATH": USUAL_PATH}
    if node.has_cann and node.scenario.cann.sourced:
        found |= cann.environment(node, USUAL_PATH)
    if said.kind != "system":
        found["PATH"] = f"{said.prefix}/bin:{found['PATH']}"
    if said.kind in ("conda", "venv"):
        found["CONDA_PREFIX" if said.kind == "conda" else "VIRTUAL_ENV"] = said.prefix
    found |= {name: value for name, value in node.scenario.environ.items() if name not in from_files}
    for path in _files(node, host):
        _source(path, found, node, host, 0)
    return found


def _files(node: Node, host: SimulatedHost) -> list[str]:
    profiles = [f"/etc/profile.d/{name}" for name in _names(host, "/etc/profile.d") if name.endswith(".sh")]
    own = next(
        (path for name in (".bash_profile", ".bash_login", ".profile") if _text(host, path := f"{node.home}/{name}")),
        "",
    )
    prefix = node.scenario.python.prefix
    hooks = [f"{prefix}/etc/conda/activate.d/{name}" for name in _names(host, f"{prefix}/etc/conda/activate.d")]
    return [*profiles, own, *hooks, *([f"{prefix}/bin/activate"] if node.scenario.python.kind == "venv" else [])]


def _of_pam(host: SimulatedHost) -> dict[str, str]:
    """The variables of /etc/environment, which PAM gives to each login."""
    lines = [line.strip().removeprefix("export ") for line in _text(host, "/etc/environment").splitlines()]
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name: value.strip("'\"") for name, _, value in pairs}


def _names(host: SimulatedHost, folder: str) -> tuple[str, ...]:
    try:
        return host.list_dir(folder)
    except Unavailable:
        return ()


def _text(host: SimulatedHost, path: str) -> str:
    try:
        return host.read(path) if path else ""
    except Unavailable:
        return ""


def user(node: Node, host: SimulatedHost) -> User:
    """The node's user with the groups that a new login has: those of /etc/group beside those of the scenario."""
    groups = dict(node.scenario.user.groups) or dict(zip(node.user.groups, node.user.gids, strict=False))
    for line in _text(host, "/etc/group").splitlines():
        name, _, gid, members = (*line.split(":"), "", "", "", "")[:4]
        if node.user.name in members.split(",") and gid.isdecimal():
            groups.setdefault(name, int(gid))
    return replace(node.user, gids=tuple(groups.values()), groups=tuple(groups))


def limits(node: Node, host: SimulatedHost) -> dict[str, tuple[int, int]]:
    """What PAM gives a new login by the files of limits.d: soft and hard limit by name, -1 for none."""
    found: dict[str, tuple[int, int]] = {}
    for name in _names(host, LIMITS_FOLDER):
        for line in _text(host, f"{LIMITS_FOLDER}/{name}").splitlines():
            whose, kind, what, value = (*line.partition("#")[0].split(), "", "", "", "")[:4]
            if whose == node.user.name or (whose == "*" and node.user.uid != 0):
                number = -1 if value == "unlimited" else int(value) << (10 if what == "memlock" else 0)
                soft, hard = found.get(what, (number, number))
                found[what] = (number if kind in ("-", "soft") else soft, number if kind in ("-", "hard") else hard)
    return found


def set_by_files(node: Node, host: SimulatedHost) -> frozenset[str]:
    """The variables of the scenario's environment that its start-up files set: a login has them from nowhere else."""
    found = _of_pam(host)
    for path in _files(node, host):
        _source(path, found, node, host, 0)
    return frozenset(found) - {"PATH"}


def _source(path: str, found: dict[str, str], node: Node, host: SimulatedHost, depth: int) -> None:
    if posixpath.basename(path) == "set_env.sh":
        _source_cann(path, found, node, host)
        return
    skipping = False
    for line in _text(host, path).splitlines() if depth < _DEEPEST else ():
        stripped = line.strip()
        if re.match(r'if \[ ! -d "\$\{ASCEND_HOME_PATH:-\}" \]', stripped):
            skipping = host.exists(found.get("ASCEND_HOME_PATH") or "/nowhere")
        elif stripped == "fi":
            skipping = False
        elif not skipping and (command := _command(stripped, found, host)):
            _line(command, found, node, host, depth)


def _source_cann(path: str, found: dict[str, str], node: Node, host: SimulatedHost) -> None:
    """The script of the node's CANN, or the text of another one; both put their folders before what is there."""
    if not _text(host, path) or not node.has_cann or "/nnal/" in path:
        return
    if path in node.scenario.files:
        said = read_exports(_text(host, path), path=path, machine=node.machine, variables=found, real=host.real_path)
        found |= said.variables
        return
    new = cann.environment(node, found.get("PATH", USUAL_PATH))
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        new[name] = ":".join([new[name], *([found[name]] if found.get(name) else [])])
    found |= new


def _command(line: str, found: dict[str, str], host: SimulatedHost) -> str:
    """What a line runs after its conditions, empty where they do not hold: `[ … ] ||`, `case … esac`."""
    if test := re.match(r'\[ "\$\{(\w+):-\}" != (\S+) \] \|\| ', line):
        if found.get(test[1], "") != "".join(shlex.split(test[2])):
            return ""
        line = line[test.end() :]
    if test := re.match(r'\[ -d "\$\{(\w+):-\}" \] \|\| ', line):
        return "" if host.exists(found.get(test[1]) or "/nowhere") else line[test.end() :]
    if test := re.fullmatch(r'case ":\$\{(\w+):-\}:" in \*:([^:]+):\*\) ;; \*\) ([^;]+) ;; esac', line):
        folder = "".join(shlex.split(test[2]))
        return "" if folder in found.get(test[1], "").split(":") else test[3]
    return line


def _line(line: str, found: dict[str, str], node: Node, host: SimulatedHost, depth: int) -> None:
    try:
        words = shlex.split(line.partition("||")[0], comments=True)
    except ValueError:
        return
    if "&&" in words:
        words = words[words.index("&&") + 1 :]
    if words[:1] == ["export"] and len(words) > 1:
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if equals:
                found[name] = _expand(value, found)
    elif words[:1] == ["unset"]:
        for name in words[1:]:
            found.pop(name, None)
    elif words[:1] in (["."], ["source"]) and len(words) > 1:
        _source(words[1].replace("$HOME", node.home), found, node, host, depth + 1)


def _expand(value: str, found: dict[str, str]) -> str:
    """A value with the variables in it: ${NAME:+$NAME:}, ${NAME}, $NAME."""
    value = re.sub(r"\$\{(\w+):\+\$\1:\}", lambda match: f"{found[match[1]]}:" if found.get(match[1]) else "", value)
    return re.sub(r"\$\{?(\w+)\}?", lambda match: found.get(match[1], ""), value)
