"""A plan as a change for the owner of the files: tasks of Ansible, a shell script, or the lines of a drop-in file.

Nothing is changed here. What is in a file of somebody else is given line by line, so that the owner's template keeps
the rest of it; a file of npudoctor's own is given as a whole.
"""

from __future__ import annotations

import difflib
import json
import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Any

from npudoctor.fixer import messages
from npudoctor.fixer.plan import FixPlan
from npudoctor.host import Host, Refused
from npudoctor.steps import Step
from npudoctor.steps.accounts import LocalGroup, LocalUser
from npudoctor.steps.card_addresses import CardAddresses
from npudoctor.steps.environments import CreateEnvironment
from npudoctor.steps.files import MakeFolder, RemoveFile, RemoveFolder, SetLink, WriteFile, text_of, unified_diff
from npudoctor.steps.os_packages import APT, SystemPackages
from npudoctor.steps.owners import MANY_LINES, is_own
from npudoctor.steps.packages import KeepPackages
from npudoctor.steps.system import GroupMember, Remount, Run, SetSysctl
from npudoctor.steps.units import SystemdUnit

FORMS = ("ansible", "shell", "drop-in")
END = "NPUDOCTOR_END"
_TEMPLATE = re.compile(r"\{[{%#]")


def render(plan: FixPlan, host: Host, form: str) -> str:
    """The change as text; raises Refused for a plan that cannot be made, or a step that only npudoctor can do."""
    if plan.refused is not None:
        raise plan.refused
    steps = [one.step for one in plan.steps]
    if not steps:
        raise Refused(messages.NOTHING_TO_HAND_OVER.text(fix=plan.fix.id))
    head = f"# {messages.HANDED_OVER.text(fix=plan.fix.id, title=plan.fix.title)}\n"
    if form == "ansible":
        return head + "".join(_as_yaml({**task, "become": True}) for step in steps for task in _tasks(step, host))
    if form == "shell":
        return f"#!/bin/sh\n{head}set -eu\n" + "".join(text for step in steps for text in _commands(step, host))
    return head + "".join(_drop_ins(steps, host))


def _tasks(step: Step, host: Host) -> Iterator[dict[str, Any]]:
    """The tasks of Ansible that do what a step does."""
    told: dict[str, Any]
    if isinstance(step, WriteFile):
        name = f"npudoctor: {step.path}"
        if not _is_own(host, step):
            yield from ({"name": name, **task} for task in _line_tasks(step, host))
            return
        mode = {} if step.mode is None else {"mode": f"{step.mode:04o}"}
        yield {"name": name, "ansible.builtin.copy": {"dest": step.path, "content": step.content, **mode}}
    elif isinstance(step, (RemoveFile, RemoveFolder)):
        yield {"name": f"npudoctor: {step.path}", "ansible.builtin.file": {"path": step.path, "state": "absent"}}
    elif isinstance(step, SetLink) and step.target:
        told = {"src": step.target, "dest": step.path, "state": "link", "force": True}
        yield {"name": f"npudoctor: {step.path}", "ansible.builtin.file": told}
    elif isinstance(step, MakeFolder):
        told = {"path": step.path, "state": "directory", "mode": f"{step.mode:04o}"}
        yield {"name": f"npudoctor: {step.path}", "ansible.builtin.file": told}
    elif isinstance(step, GroupMember):
        told = {"name": step.user, "groups": [step.group], "append": True}
        yield {"name": f"npudoctor: {step.group}", "ansible.builtin.user": told}
    elif isinstance(step, SystemdUnit) and step.content is not None:
        yield from _tasks(WriteFile(step.path, step.content, 0o644), host)
        told = {"name": step.name, "enabled": step.enabled, "daemon_reload": True}
        told |= {} if step.active is None else {"state": "started" if step.active else "stopped"}
        yield {"name": f"npudoctor: {step.name}", "ansible.builtin.systemd": told}
    elif isinstance(step, SystemPackages) and step.present:
        mark = "=" if step.tool == APT else "-"
        told = {"name": [f"{name}{mark}{version}" for name, version in step.packages], "state": "present"}
        yield {"name": "npudoctor: packages", "ansible.builtin.package": told}
    elif isinstance(step, SetSysctl):
        yield from _setting_tasks(step)
    else:
        for argv in _argvs(step):
            yield {"name": f"npudoctor: {shlex.join(argv)}", "ansible.builtin.command": {"argv": argv}}


def _argvs(step: Step) -> list[list[str]]:
    """The commands that do what a step does."""
    if isinstance(step, (LocalUser, CardAddresses)):
        return [list(argv) for argv in step.commands]
    return [list(step.create), list(step.installer)] if isinstance(step, CreateEnvironment) else [_argv(step)]


def _setting_tasks(step: SetSysctl) -> Iterator[dict[str, Any]]:
    """A kernel setting, changed only where it differs; without ansible.posix, which a plain ansible-core lacks."""
    yield {
        "name": f"npudoctor: {step.key} now",
        "ansible.builtin.command": {"argv": ["sysctl", "-n", step.key]},
        "register": "npudoctor_setting",
        "changed_when": False,
        "check_mode": False,
    }
    argv = _argv(step)
    yield {
        "name": f"npudoctor: {shlex.join(argv)}",
        "ansible.builtin.command": {"argv": argv},
        "when": f"npudoctor_setting.stdout.split() != {step.value.split()!r}",
    }


def _line_tasks(step: WriteFile, host: Host) -> Iterator[dict[str, Any]]:
    """The lines of somebody else's file that change, each by the line that it replaces.

    The whole file where these do not give it: a line that comes twice, or that belongs elsewhere than at the end.
    """
    lines, tasks = text_of(host, step.path)[0].splitlines(), list[dict[str, Any]]()
    for old, new in _changes(host, step):
        for before, after in zip(old, new, strict=False):
            tasks.append({"path": step.path, "regexp": f"^{re.escape(before)}$", "line": after})
            if lines.count(before) == 1:
                lines[lines.index(before)] = after
        for before in old[len(new) :]:
            tasks.append({"path": step.path, "regexp": f"^{re.escape(before)}$", "state": "absent"})
            lines = [line for line in lines if line != before]
        for after in new[len(old) :]:
            tasks.append({"path": step.path, "line": after})
            lines += [] if after in lines else [after]
    if lines == step.content.splitlines():
        yield from ({"ansible.builtin.lineinfile": task} for task in tasks)
    else:
        yield {"ansible.builtin.copy": {"dest": step.path, "content": step.content}}


def _changes(host: Host, step: WriteFile) -> Iterator[tuple[list[str], list[str]]]:
    """The groups of lines that a step replaces in a file, and what comes into their place."""
    old, new = text_of(host, step.path)[0].splitlines(), step.content.splitlines()
    many = len(new) > MANY_LINES
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=many).get_opcodes():
        if kind != "equal":
            yield old[a:b], new[c:d]


def _is_own(host: Host, step: WriteFile) -> bool:
    """Whether a file is not there yet, or npudoctor has written it."""
    old, _ = text_of(host, step.path)
    return not old or is_own(old)


def _argv(step: Step) -> list[str]:
    """The command that does what a step does; raises Refused where only npudoctor itself should do it."""
    if isinstance(step, SetSysctl):
        return ["sysctl", "-w", f"{step.key}={step.value}"]
    if isinstance(step, Run):
        return list(step.argv)
    if isinstance(step, Remount):
        return ["mount", "-o", f"remount,size={step.size_bytes}", step.path]
    if isinstance(step, KeepPackages):
        return list(step.installer)
    if isinstance(step, SystemPackages):
        return list(step.command)
    if isinstance(step, SetLink):
        return ["ln", "-sfn", step.target, step.path] if step.target else ["rm", "-f", step.path]
    if isinstance(step, LocalGroup):
        return ["groupadd", "-g", str(step.gid), step.name]
    if isinstance(step, GroupMember):
        return ["usermod", "-aG", step.group, step.user]
    raise Refused(messages.NOT_HANDED_OVER.text(step=type(step).__name__))


def _commands(step: Step, host: Host) -> Iterator[str]:
    """The lines of a shell script that do what a step does."""
    if isinstance(step, WriteFile):
        path = shlex.quote(step.path)
        if not _is_own(host, step):
            change = unified_diff(step.path, text_of(host, step.path)[0], step.content)
            yield f"patch --no-backup-if-mismatch {path} {_here(change)}"
            return
        yield f"cat >{path} {_here(step.content)}"
        if step.mode is not None:
            yield f"chmod {step.mode:04o} {path}\n"
    elif isinstance(step, RemoveFile):
        yield f"rm -f {shlex.quote(step.path)}\n"
    elif isinstance(step, RemoveFolder):
        yield f"rmdir {shlex.quote(step.path)}\n"
    elif isinstance(step, MakeFolder):
        yield f"mkdir -p -m {step.mode:04o} {shlex.quote(step.path)}\n"
    elif isinstance(step, SystemdUnit) and step.content is not None:
        yield from _commands(WriteFile(step.path, step.content, 0o644), host)
        yield "systemctl daemon-reload\n"
        verb = ["enable" if step.enabled else "disable", *(["--now"] if step.active else [])]
        yield f"{shlex.join(['systemctl', *verb, step.name])}\n"
    else:
        yield "".join(f"{shlex.join(argv)}\n" for argv in _argvs(step))


def _here(text: str) -> str:
    """A here-document of a text, which may have a line like the usual end of one."""
    end = END
    while end in text:
        end += "_"
    return f"<<'{end}'\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{end}\n"


def _drop_ins(steps: list[Step], host: Host) -> Iterator[str]:
    """Our part of each file alone: the whole of an own file, of another one the lines that come into it."""
    written = [step for step in steps if isinstance(step, (WriteFile, SystemdUnit)) and step.content is not None]
    if not written:
        _ = [text for step in steps for text in _commands(step, host)]  # raises for a step that no form has
        raise Refused(messages.NO_DROP_IN.text())
    for step in written:
        content = step.content or ""
        if isinstance(step, WriteFile) and not _is_own(host, step):
            yield f"# {messages.LINES_FOR.text(path=step.path, folder=_folder_of(step.path))}\n"
            content = "".join(f"{_in_drop_in(line)}\n" for _, new in _changes(host, step) for line in new)
        else:
            yield f"# {step.path}\n"
        yield content if content.endswith("\n") or not content else f"{content}\n"


def _in_drop_in(line: str) -> str:
    """A changed line as a file that is read later says it: what a line sets that npudoctor disables is unset there."""
    mark, disabled, rest = line.partition("# npudoctor: ")
    names = re.findall(r"(?<!\S)([A-Za-z_]\w*)=", rest) if disabled and mark.strip() in ("", ":") else ()
    return f"unset {' '.join(names)}" if names else line


def _folder_of(path: str) -> str:
    """Where drop-in files of a file lie by custom: /etc/sysctl.conf has /etc/sysctl.d."""
    stem, dot, ending = path.rpartition(".")
    folder = posixpath.dirname(path)
    return folder if folder.endswith(".d") else f"{stem if dot and ending == 'conf' else path}.d"


def _as_yaml(task: dict[str, Any]) -> str:
    """One task as YAML: JSON is a part of YAML, so each value is written as JSON."""
    lines = []
    for key, value in task.items():
        if isinstance(value, dict):
            lines.append(f"{key}:")
            lines += [f"  {name}: {_as_value(one)}" for name, one in value.items()]
        else:
            lines.append(f"{key}: {_as_value(value)}")
    return "- " + "\n  ".join(lines) + "\n"


def _as_value(value: Any) -> str:
    """A value as JSON; one that Ansible would take for a template is marked, or it would run what a file has in it."""
    text = json.dumps(value, ensure_ascii=False)
    return f"!unsafe {text}" if _TEMPLATE.search(text) else text
