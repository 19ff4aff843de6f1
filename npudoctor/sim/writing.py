"""A simulated node on disk: as a bundle, and with its commands as executables for the live host to run."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from npudoctor.host import STANDARD_PLACES, Completed
from npudoctor.host.live.safe_files import why_untrusted
from npudoctor.host.recording.bundle_writer import describe_node
from npudoctor.host.recording.canned import RecordedHost
from npudoctor.host.simulated.tree import FileTree
from npudoctor.sim.target import script_of

_SLOW_S = 3.0
_MEASURES = (
    "cpu",
    "memory",
    "disks",
    "mounts",
    "interfaces",
    "sockets",
    "processes",
    "limits",
    "pci",
    "container",
)


def write_bundle(host: RecordedHost, folder: str) -> None:
    """Write every command and file of a node; raises OSError where the folder is not empty."""
    if os.path.isdir(folder) and os.listdir(folder):
        raise FileExistsError(f"{folder} is not empty; give a folder that does not exist yet")
    os.makedirs(folder, exist_ok=True)
    if os.geteuid() == 0 and (reason := why_untrusted(folder)):
        raise PermissionError(f"{folder} is refused: {reason}")
    said = {**describe_node(host.about, host.user), "unrecorded": "absent"}
    del said["npudoctor_prefix"]  # of this machine, not of the simulated node
    _json(folder, "bundle.json", said)
    _json(folder, "environ.json", dict(host.environ))
    _json(folder, "host.json", _measures(host))
    _json(folder, "links.json", host.tree.links)
    _json(folder, "stat.json", _stats(host.tree))
    _write_files(host.tree, os.path.join(folder, "root"))
    for key in host.commands:
        _write_answer(host.commands[key], os.path.join(folder, "commands", key))


def write_tools(host: RecordedHost, folder: str) -> None:
    """Write a bundle, and beside it the commands as executables; each call is a line in calls.log."""
    write_bundle(host, folder)
    os.makedirs(os.path.join(folder, "bin"))
    vendor = {tool for tool in STANDARD_PLACES if host.which(tool)}
    for tool in sorted({key.split(" ", 1)[0] for key in host.commands} | vendor):
        names = ("python3", "python") if tool == "python" else (tool,)
        for name in names:
            path = os.path.join(folder, "bin", name)
            _text(path, _script(host, tool))
            os.chmod(path, 0o755)  # noqa: S103 - a tool that anybody may run is the point


def _measures(host: RecordedHost) -> dict[str, Any]:
    from npudoctor.host import Unavailable

    found = {}
    for key in _MEASURES:
        try:
            found[key] = host.measure(key)
        except Unavailable:
            continue
    return found


def _stats(tree: FileTree) -> dict[str, Any]:
    said = {}
    for path, overlay in sorted(tree.stats.items()):
        found = tree.stat(path)
        entry: dict[str, Any] = {
            "type": found.kind,
            "mode": f"{found.mode:04o}",
            "uid": found.uid,
            "gid": found.gid,
            "access": found.access,
        }
        if found.rdev is not None:
            entry["rdev"] = found.rdev
        if overlay.mtime is not None:
            entry["mtime"] = overlay.mtime
        said[path] = entry
    return said


def _write_files(tree: FileTree, root: str) -> None:
    os.makedirs(root)
    for path, kind in tree.walk():
        target = root + path
        if kind == "dir":
            os.mkdir(target)
        elif kind != "link":
            with open(target, "wb") as file:
                file.write(tree.read_bytes(path) if kind == "file" else b"")


def _write_answer(answer: Completed, folder: str) -> None:
    os.makedirs(folder)
    _text(os.path.join(folder, "stdout"), answer.stdout)
    if answer.stderr:
        _text(os.path.join(folder, "stderr"), answer.stderr)
    result: dict[str, Any] = {"returncode": answer.returncode, "seconds": answer.seconds}
    if answer.timed_out:
        result["timed_out"] = True
    _json(folder, "result.json", result)


def _json(folder: str, name: str, value: Mapping[str, Any]) -> None:
    _text(os.path.join(folder, name), json.dumps(value, indent=1, sort_keys=True) + "\n")


def _text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


_SCRIPT = """\
#!/bin/sh
# Replaces {tool} on a simulated node: prints what was written down for its arguments, and notes the call.
here=${{0%/*}}/..
{key}
printf '%s\\n' "$key" >>"$here/calls.log"
delay=${{{variable}-$NPUDOCTOR_FAKE_DELAY_S}}
[ -z "$delay" ] || sleep "$delay"
answer="$here/commands/$key"
if [ ! -d "$answer" ]; then
    {unknown}
fi
case $key in
{slow}
    *) ;;
esac
[ ! -e "$answer/stderr" ] || cat "$answer/stderr" >&2
case $key in
{ends}
    *) exec cat "$answer/stdout" ;;
esac
"""


def _script(host: RecordedHost, tool: str) -> str:
    answers = {key: host.commands[key] for key in host.commands if key.split(" ", 1)[0] == tool}
    vendor = tool in STANDARD_PLACES
    slow = [
        f"    {shlex.quote(key)}) {'exec sleep 86400' if answer.timed_out else f'sleep {answer.seconds:g}'} ;;"
        for key, answer in answers.items()
        if answer.timed_out or (vendor and answer.seconds >= _SLOW_S)
    ]
    shown = 'cat "$answer/stdout"'
    ends = [
        f"    {shlex.quote(key)}) {shown}; {_end(answer)} ;;" for key, answer in answers.items() if answer.returncode
    ]
    return _SCRIPT.format(
        tool=tool,
        variable=f"NPUDOCTOR_FAKE_DELAY_S_{re.sub('[^a-z0-9]', '_', tool)}",
        key=_python_key(answers) if tool == "python" else f'key="{tool}${{*:+ $*}}"',
        unknown=_answer_to_unknown(host, tool),
        slow="\n".join(slow),
        ends="\n".join(ends),
    )


def _end(answer: Completed) -> str:
    code = answer.returncode or 0
    return f"ulimit -c 0; kill -{-code} $$" if code < 0 else f"exit {code}"


def _python_key(keys: Iterable[str]) -> str:
    """Shell that finds out which probe is asked for, by the name of its script."""
    probes = [key.removeprefix("python ") for key in keys]
    cases = [f"        */{script_of(probe)} | {script_of(probe)}) key='python {probe}' ;;" for probe in probes]
    return "\n".join(["key=python", 'for word in "$@"; do', "    case $word in", *cases, "    esac", "done"])


def _answer_to_unknown(host: RecordedHost, tool: str) -> str:
    """Shell for arguments that were not written down: what the tool itself says to such a question."""
    mark = "@WHAT@"
    if tool == "hccn_tool":
        return _saying(host, f"hccn_tool -i 0 -{mark} -g", mark, "$3")
    if tool != "npu-smi":
        return _saying(host, f"{tool} {mark}", mark, "$*")
    first = next((key.rsplit(" ", 1)[1] for key in host.commands if key.startswith("npu-smi info -t board -i")), "0")
    query = _saying(host, f"npu-smi info -t {mark} -i {first}", mark, "$3")
    other = _saying(host, f"npu-smi {mark}", mark, "$*")
    return f"case $* in\n    'info -t '*)\n    {query} ;;\n    esac\n    {other}"


def _saying(host: RecordedHost, key: str, mark: str, word: str) -> str:
    """Shell that gives a host's answer, with a word of the real call for a mark that stood in the asked one."""
    answer = host.commands.get(key) or Completed(returncode=2, stderr=f"this is not simulated: {mark}\n")
    if answer.timed_out:
        return "exec sleep 86400"
    text = shlex.quote(answer.stdout + answer.stderr).replace(mark, f"'\"{word}\"'")
    return f"printf '%s' {text}{'' if answer.stdout else ' >&2'}\n    {_end(answer)}"
