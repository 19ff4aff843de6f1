"""The runtime `ascend` in containerd's configuration: tables are added to its text, which otherwise stays as it is.

containerd 1.x takes the whole section of a plugin from the last file that has it, and its built-in runtimes only where
the section names none (issues 5837 and 7982 of containerd); 2.x merges. Adding to that last file is right for both.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.records import record
from npudoctor.sdk import Host, Refused, untrusted_writer

from . import messages

SETTINGS = "/etc/containerd/config.toml"
PLUGINS = {2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
"""The plugin that has the runtimes, by the version of the file."""
RUNC = "io.containerd.runc.v2"
_HEADER = r"""(?m)^[ \t]*\[plugins\.["']([\w.]{1,60})["']\.containerd\][ \t]*(?:#[^\n]*)?$"""
"""The line that begins the table of the default runtime; its group is the plugin."""


@record(frozen=True)
class File:
    """One file of the configuration: its text, and what it says."""

    path: str
    text: str
    said: Mapping[str, Any]
    version: int

    @property
    def plugin(self) -> str:
        """The name of the plugin that has the runtimes."""
        return PLUGINS[self.version]

    @property
    def section(self) -> Mapping[str, Any]:
        """What it says of runtimes; empty where it says nothing."""
        found = _table(_table(self.said, "plugins"), self.plugin)
        return _table(found, "containerd")

    @property
    def runtimes(self) -> Mapping[str, Any]:
        """The runtimes that it names."""
        return _table(self.section, "runtimes")


def changed_file(host: Host, program: str, *, default: bool) -> tuple[str, str] | None:
    """The file to write and its new text; None where the runtime is there already, Refused where it cannot be added."""
    files = list(_files(host))
    last = next((one for one in reversed(files) if one.plugin in _table(one.said, "plugins")), files[0])
    known = [one for one in files if "ascend" in one.runtimes]
    if any(_program(one.runtimes["ascend"]) != program for one in known):
        raise Refused(messages.OTHER_RUNTIME.text(path=known[0].path))
    text = last.text
    if default and last.section.get("default_runtime_name") != "ascend":
        text = _as_default(last)
    if last not in known:
        runc: Mapping[str, Any] = next((one.runtimes["runc"] for one in (last, *files) if "runc" in one.runtimes), {})
        text = text.rstrip("\n") + "\n\n" + "\n".join(_runtime_lines(last, runc, program)) + "\n"
    if text == last.text:
        return None
    _must_only_add(last, text, program, default=default)
    return last.path, text


def _files(host: Host) -> Iterator[File]:
    """The configuration and what it imports, in the order in which containerd reads them."""
    main = _read(host, SETTINGS, None)
    if "cri" in main.said.get("disabled_plugins", ()) or main.plugin in main.said.get("disabled_plugins", ()):
        raise Refused(messages.NO_CRI.text(path=SETTINGS))
    yield main
    for pattern in main.said.get("imports", ()):
        folder, name = posixpath.split(posixpath.join(posixpath.dirname(SETTINGS), str(pattern)))
        if re.search(r"[*?\[]", folder):
            raise Refused(messages.IMPORTS_UNKNOWN.text(path=SETTINGS, pattern=str(pattern)))
        for one in sorted(host.list_dir(folder)) if host.exists(folder) else ():
            if fnmatch.fnmatchcase(one, name) and posixpath.join(folder, one) != SETTINGS:
                yield _read(host, posixpath.join(folder, one), main)


def _parse(text: str) -> dict[str, Any]:
    """A configuration as TOML; ValueError for what is none."""
    if sys.version_info >= (3, 11):  # imported here, because every check loads this module
        import tomllib
    else:
        import tomli as tomllib
    said: dict[str, Any] = tomllib.loads(text)
    return said


def _read(host: Host, path: str, main: File | None) -> File:
    if host.user.uid == 0 and (problem := untrusted_writer(host, path)):
        raise Refused(messages.SETTINGS_NOT_TRUSTED.text(path=path, problem=problem))
    text = host.read(path)
    try:
        said = _parse(text)
    except ValueError as problem:
        raise Refused(messages.NOT_TOML.text(path=path, problem=problem)) from problem
    version = said.get("version", main.version if main else 1)
    if version not in PLUGINS:
        raise Refused(messages.OLD_CONTAINERD.text(path=path, version=version))
    if said.get("imports") and main is not None:
        raise Refused(messages.IMPORTS_UNKNOWN.text(path=path, pattern=said["imports"]))
    return File(path, text, said, version)


def _table(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _program(runtime: object) -> object:
    return _table(runtime, "options").get("BinaryName") if isinstance(runtime, dict) else None


def _runtime_lines(file: File, runc: Mapping[str, Any], program: str) -> Iterator[str]:
    """The lines of the runtime, with the settings of runc, which it calls; and runc where the file has no runtimes."""
    top = f'plugins."{file.plugin}".containerd.runtimes'
    yield messages.BY_NPUDOCTOR.text()
    if not file.runtimes:
        yield from _lines(f"{top}.runc", {"runtime_type": RUNC, **_plain(runc)})
        if options := _plain(_table(runc, "options")):
            yield from _lines(f"{top}.runc.options", options)
    yield from _lines(f"{top}.ascend", {"runtime_type": RUNC, **_plain(runc)})
    yield from _lines(f"{top}.ascend.options", {**_plain(_table(runc, "options")), "BinaryName": program})


def _lines(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{name}]"
    yield from (f"  {key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is no table: texts, numbers, flags and lists of them, which JSON writes as TOML does."""
    return {
        key: value
        for key, value in values.items()
        if re.fullmatch(r"[\w-]+", key)
        and (
            isinstance(value, (str, bool, int)) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
        )
    }


def _as_default(file: File) -> str:
    line = '  default_runtime_name = "ascend"'
    found = next((one for one in re.finditer(_HEADER, file.text) if one[1] == file.plugin), None)
    if found is None:
        if "containerd" in _table(_table(file.said, "plugins"), file.plugin) and file.section.keys() != {"runtimes"}:
            raise Refused(messages.OTHER_DEFAULT.text(path=file.path))
        return file.text.rstrip("\n") + f'\n\n[plugins."{file.plugin}".containerd]\n{line}\n'
    rest = file.text[found.end() :]
    ends = re.search(r"^[ \t]*\[", rest, re.M)
    own, after = (rest[: ends.start()], rest[ends.start() :]) if ends else (rest, "")
    replaced, count = re.subn(r"^[ \t]*default_runtime_name[ \t]*=.*$", line, own, count=1, flags=re.M)
    return file.text[: found.end()] + (replaced if count else f"\n{line}{own}") + after


def _must_only_add(file: File, text: str, program: str, *, default: bool) -> None:
    """Raise Refused unless the new text says what the old one says, and the runtime."""
    try:
        said = _parse(text)
        section = said["plugins"][file.plugin]["containerd"]
        added = section["runtimes"].pop("ascend")
        if default:
            section.pop("default_runtime_name")
        if not file.runtimes:
            del section["runtimes"]
    except (ValueError, KeyError) as problem:
        raise Refused(messages.CANNOT_ADD.text(path=file.path)) from problem
    before = _parse(file.text)
    of_plugin = before.setdefault("plugins", {}).setdefault(file.plugin, {})
    old = of_plugin.setdefault("containerd", {})
    old.get("runtimes", {}).pop("ascend", None)
    if default:
        old.pop("default_runtime_name", None)
    if not file.runtimes:
        old.pop("runtimes", None)
    if said != before or _program(added) != program:
        raise Refused(messages.CANNOT_ADD.text(path=file.path))
