"""What a new login on the simulated node has for variables: the start-up files are read as the shell would read them.

Only what npudoctor writes into such files is understood: sourcing a script, `export`, `unset`, and a condition on
ASCEND_HOME_PATH around them.
"""

from __future__ import annotations

import posixpath
import re
import shlex

from npudoctor.host import Unavailable
from npudoctor.host.recording.canned import USUAL_PATH
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sim import cann
from npudoctor.sim.node import Node

_DEEPEST = 4


def variables(node: Node, host: SimulatedHost) -> dict[str, str]:
    """The variables of a login shell of the node's user, its Python's environment activated."""
    said = node.scenario.python
    found = {"HOME": node.home, "USER": node.user.name, "PATH": USUAL_PATH}
    if node.has_cann and node.scenario.cann.sourced:
        found |= cann.environment(node, USUAL_PATH)
    if said.kind != "system":
        found["PATH"] = f"{said.prefix}/bin:{found['PATH']}"
    if said.kind in ("conda", "venv"):
        found["CONDA_PREFIX" if said.kind == "conda" else "VIRTUAL_ENV"] = said.prefix
    found |= node.scenario.environ
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


def _source(path: str, found: dict[str, str], node: Node, host: SimulatedHost, depth: int) -> None:
    if posixpath.basename(path) == "set_env.sh":
        if node.has_cann and _text(host, path) and "/nnal/" not in path:
            found |= cann.environment(node, found["PATH"])
        return
    skipping = False
    for line in _text(host, path).splitlines() if depth < _DEEPEST else ():
        stripped = line.strip()
        if re.match(r'if \[ ! -d "\$\{ASCEND_HOME_PATH:-\}" \]', stripped):
            skipping = bool(found.get("ASCEND_HOME_PATH"))
        elif stripped == "fi":
            skipping = False
        elif not skipping:
            _line(stripped, found, node, host, depth)


def _line(line: str, found: dict[str, str], node: Node, host: SimulatedHost, depth: int) -> None:
    try:
        words = shlex.split(line.partition("||")[0], comments=True)
    except ValueError:
        return
    if "&&" in words:
        words = words[words.index("&&") + 1 :]
    if words[:1] == ["export"] and len(words) > 1 and "$" not in words[1]:
        name, equals, value = words[1].partition("=")
        if equals:
            found[name] = value
    elif words[:1] == ["unset"]:
        for name in words[1:]:
            found.pop(name, None)
    elif words[:1] in (["."], ["source"]) and len(words) > 1:
        _source(words[1].replace("$HOME", node.home), found, node, host, depth + 1)
