"""A recorded node: a folder or a .tar.gz that answers in the node's place.

Nothing in a bundle is ever executed, and an archive is looked through as a whole before any of it is unpacked.
"""

from __future__ import annotations

import json
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from npudoctor.findings import Because
from npudoctor.host import About, BundleError, Completed, Refused, Unavailable, User
from npudoctor.host.recorded import OUTPUT_LIMIT_BYTES, RecordedHost
from npudoctor.host.tree import KINDS, DiskStore, FileTree, Overlay

SCHEMA = "npudoctor.bundle/1"

NO_ENVIRONMENT = "environ"
"""The name of the failure that says why a recording holds no variables."""

SLASH = "%2F"
"""What stands for a / of a command's key in the name of its folder."""

_NUMBER = (int, float)
_HOST_SHAPE: Mapping[str, Any] = {
    "cpu": {"logical": int, "physical": int, "numa_nodes": {str: str}, "allowed": str},
    "memory": {"total": _NUMBER, "available": _NUMBER},
    "disks": [{"mount": str, "fstype": str, **dict.fromkeys(("total", "free", "files_total", "files_free"), _NUMBER)}],
    "mounts": [{"mount": str, "fstype": str, "options": str, "total": _NUMBER, "free": _NUMBER}],
    "interfaces": [{"name": str, "up": bool, "addresses": [str], "speed_mbps": _NUMBER, "mtu": _NUMBER}],
    "sockets": [{"family": str, "type": str, "laddr": str, "status": str, "pid": int}],
    "processes": [
        {
            "pid": int,
            "ppid": int,
            "name": str,
            "username": str,
            "status": str,
            "cmdline": [str],
            "create_time": _NUMBER,
        }
    ],
    "limits": {str: [_NUMBER]},
    "pci": [{"slot": str, "vendor": str, "device": str, "numa_node": int, "driver": str}],
    "container": {"runtime": str, "cgroup": str},
}
_USER_SHAPE = {"name": str, "uid": int, "gid": int, "gids": [int], "groups": [str]}
_BUNDLE_SHAPE = {
    "hostname": str,
    "recorded_at": str,
    "npudoctor": str,
    "machine": str,
    "user": _USER_SHAPE,
    "environment": str,
    "unrecorded": str,
    "cwd": str,
    "umask": str,
    "npudoctor_prefix": str,
    "tools": {str: str},
}
_STAT_SHAPE = {
    "type": str,
    "mode": str,
    "uid": int,
    "gid": int,
    "access": str,
    "mtime": _NUMBER,
    "rdev": str,
    "size": int,
    "cut": bool,
}
_FAILURE_SHAPE = {"because": str, "reason": str}
_RESULT_SHAPE = {"returncode": int, "seconds": _NUMBER, "timed_out": bool, "truncated": bool}
_WORDS = {str: "text", int: "a whole number", bool: "true or false", _NUMBER: "a number"}


class BundleHost(RecordedHost):
    """A recorded node. It refuses every change."""

    def close(self) -> None:
        """Remove what was unpacked for it; the end of the process does so too."""

    def write_file(self, path: str, content: bytes, *, mode: int | None = None) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse(f"{path} is not written")

    def remove(self, path: str) -> None:
        """Refuse."""
        self._refuse(f"{path} is not removed")

    def set_sysctl(self, key: str, value: str) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse(f"{key} is not set")

    def signal(self, pid: int, number: int) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse(f"process {pid} is not signalled")

    def run_streaming(
        self,
        argv: Sequence[str],
        *,
        timeout: float,  # noqa: ARG002
        stream: Callable[[str], None] | None = None,  # noqa: ARG002
    ) -> Completed:
        """Refuse."""
        self._refuse(f"`{' '.join(argv)}` is not run")

    def _refuse(self, what: str) -> NoReturn:
        raise Refused(f"{what}: a recording cannot be changed; run this on the node itself")


def open_bundle(path: str) -> BundleHost:
    """Open a recorded node; raises BundleError, one line, for what is no bundle or not a safe archive."""
    if os.path.isdir(path):
        return _open_folder(path, path)
    if not os.path.isfile(path):
        raise BundleError(f"{path}: there is no such bundle; give a folder or a .tar.gz that `npudoctor record` wrote")
    import shutil
    import tempfile
    import weakref

    from npudoctor.host.archive import unpack  # here, because a folder needs none of it

    into = tempfile.mkdtemp(prefix="npudoctor-bundle-")
    try:
        links = unpack(path, into)
        inner = _only_folder(into)
        host = _open_folder(inner, path, _below(links, os.path.relpath(inner, into), path))
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise
    remove = weakref.finalize(host, shutil.rmtree, into, True)
    host.close = remove  # type: ignore[method-assign]
    return host


def _only_folder(folder: str) -> str:
    """The folder that holds bundle.json: this one, or the only one in it."""
    names = os.listdir(folder)
    if "bundle.json" not in names and len(names) == 1 and os.path.isdir(os.path.join(folder, names[0])):
        return os.path.join(folder, names[0])
    return folder


def _below(links: Mapping[str, str], prefix: str, shown: str) -> dict[str, str]:
    """The links of an archive that lie in its root/, as the node's paths."""
    root = posixpath.normpath(posixpath.join(prefix, "root"))
    for path in links:
        if not path.startswith(root + "/"):
            raise BundleError(
                f"{shown} is refused: {path} is a link outside root/; links belong there or in links.json"
            )
    return {path[len(root) :]: target for path, target in links.items()}


def _open_folder(folder: str, shown: str, links: Mapping[str, str] | None = None) -> BundleHost:
    reader = _Reader(folder, shown)
    about = reader.json("bundle.json", _BUNDLE_SHAPE, required=True)
    reader.check_schema(about.get("schema"))
    if (unrecorded := about.get("unrecorded", "absent")) not in ("absent", "unknown"):
        raise BundleError(
            f'{shown}/bundle.json: unrecorded is {json.dumps(unrecorded)}; expected "absent" or "unknown"'
        )
    user = reader.user(about.get("user", {}))
    failures = reader.failures()
    return BundleHost(
        about=About(
            source="bundle",
            hostname=about.get("hostname", ""),
            machine=about.get("machine", ""),
            environment=about.get("environment", "process"),
            recorded_at=about.get("recorded_at"),
            own_prefix=about.get("npudoctor_prefix"),
        ),
        tree=FileTree(
            DiskStore(os.path.join(folder, "root")),
            links={**(links or {}), **reader.json("links.json", {str: str})},
            stats=reader.stats(),
            user=user,
            listings=reader.json("listings.json", {str: [str]}),
        ),
        commands=Recordings(reader),
        environ=failures.get(NO_ENVIRONMENT) or reader.json("environ.json", {str: str}),
        measures=reader.json("host.json", _HOST_SHAPE, null=True),
        user=user,
        unrecorded=unrecorded,
        missing=reader.missing(),
        tools=about.get("tools"),
        failures=failures,
    )


class Recordings(Mapping[str, Completed]):
    """The commands of a bundle by key. Their results are looked through at once, their output when asked for."""

    def __init__(self, reader: _Reader) -> None:
        self._folder = os.path.join(reader.folder, "commands")
        self._results = {
            folder.replace(SLASH, "/"): reader.json(f"commands/{folder}/result.json", _RESULT_SHAPE, null=True)
            for folder in reader.folders("commands")
        }

    def __getitem__(self, key: str) -> Completed:
        result = self._results[key]
        stdout, stdout_cut = self._output(key, "stdout")
        stderr, stderr_cut = self._output(key, "stderr")
        timed_out = bool(result.get("timed_out", result.get("returncode", 0) is None))
        return Completed(
            returncode=None if timed_out else result.get("returncode", 0),
            stdout=stdout,
            stderr=stderr,
            seconds=float(result.get("seconds", 0.0)),
            timed_out=timed_out,
            truncated=bool(result.get("truncated")) or stdout_cut or stderr_cut,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, key: object) -> bool:
        return key in self._results

    def _output(self, key: str, which: str) -> tuple[str, bool]:
        path = os.path.join(self._folder, key.replace("/", SLASH), which)
        data = _content(path, OUTPUT_LIMIT_BYTES + 1) or b""
        return data[:OUTPUT_LIMIT_BYTES].decode("utf-8", "replace"), len(data) > OUTPUT_LIMIT_BYTES


class _Reader:
    """Reads the JSON files of a bundle and says in one line what is wrong with them."""

    def __init__(self, folder: str, shown: str) -> None:
        self.folder = folder
        self._shown = shown

    def json(self, name: str, shape: Any, *, required: bool = False, null: bool = False) -> Any:
        """JSON of a given shape, values null only where allowed; {} where the file is missing."""
        where = f"{self._shown}/{name}"
        try:
            data = _content(os.path.join(self.folder, name))
            if data is None and required:
                raise BundleError(f"{where} does not exist: this is no bundle, or the folder above or below is meant")
            value = {} if data is None else json.loads(data)
        except BundleError:
            raise
        except OSError as problem:
            raise BundleError(f"{where} cannot be read: {problem.strerror}") from None
        except (ValueError, RecursionError) as problem:
            raise BundleError(f"{where} is not valid JSON ({str(problem)[:80]}); record the node again") from None
        _check(value, shape, where, null=null)
        return value

    def check_schema(self, schema: object) -> None:
        """Refuse what this version cannot read."""
        if schema == SCHEMA:
            return
        where = f"{self._shown}/bundle.json: schema is {json.dumps(schema)}"
        kind, _, number = str(schema).partition("/")
        if kind == SCHEMA.partition("/")[0] and number.isdecimal() and int(number) > 1:
            raise BundleError(f"{where}, newer than this npudoctor understands ({SCHEMA}); update npudoctor")
        raise BundleError(f"{where}; expected {json.dumps(SCHEMA)}")

    def folders(self, name: str) -> list[str]:
        """The names of the folders in a folder, sorted."""
        try:
            with os.scandir(os.path.join(self.folder, name)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise BundleError(f"{self._shown}/{name} cannot be read: {problem.strerror}") from None

    def user(self, said: Mapping[str, Any]) -> User:
        """Who asked; ids of groups that are only named are looked up in the node's own /etc/group."""
        if not said:
            return User()
        uid = said.get("uid", 0)
        groups = tuple(said.get("groups", ()))
        gids = tuple(said.get("gids", ())) or self._gids(groups)
        gid = said.get("gid", gids[0] if gids else uid)
        return User(
            name=said.get("name", str(uid)),
            uid=uid,
            gid=gid,
            gids=tuple(dict.fromkeys((gid, *gids))),
            groups=groups or (str(gid),),
        )

    def _gids(self, groups: Sequence[str]) -> tuple[int, ...]:
        try:
            text = (_content(os.path.join(self.folder, "root/etc/group")) or b"").decode("utf-8", "replace")
        except OSError:
            return ()
        fields = [line.split(":") for line in text.splitlines()]
        known = {row[0]: int(row[2]) for row in fields if len(row) > 2 and row[2].isdecimal()}
        return tuple(known[group] for group in groups if group in known)

    def stats(self) -> dict[str, Overlay]:
        """What stat.json says of each path."""
        said = self.json("stat.json", {str: _STAT_SHAPE})
        return {path: self._overlay(path, entry) for path, entry in said.items()}

    def _overlay(self, path: str, entry: Mapping[str, Any]) -> Overlay:
        where = f"{self._shown}/stat.json: {path}"
        kind, access, mode = entry.get("type"), entry.get("access"), entry.get("mode")
        if kind is not None and kind not in KINDS:
            raise BundleError(f"{where}: type is {json.dumps(kind)}; expected one of {', '.join(KINDS)}")
        if access is not None and set(access) - set("rwx"):
            raise BundleError(f"{where}: access is {json.dumps(access)}; expected any of the letters r, w, x")
        try:
            bits = None if mode is None else int(mode, 8)
        except ValueError:
            raise BundleError(f'{where}: mode is {json.dumps(mode)}; expected octal digits, "0660"') from None
        return Overlay(
            kind=kind,
            mode=bits,
            uid=entry.get("uid", 0),
            gid=entry.get("gid", 0),
            access=access,
            mtime=entry.get("mtime"),
            rdev=entry.get("rdev"),
            size=entry.get("size"),
            cut=entry.get("cut", False),
        )

    def failures(self) -> dict[str, Unavailable]:
        """What was asked in vain when the node was recorded, with the reason that there was."""
        said = self.json("failed.json", {str: _FAILURE_SHAPE})
        kinds = {because.value: because for because in Because}
        for asked, entry in said.items():
            if entry.get("because") not in kinds:
                where = f"{self._shown}/failed.json: {asked}: because is {json.dumps(entry.get('because'))}"
                raise BundleError(f"{where}; expected one of {', '.join(kinds)}")
        return {
            asked: Unavailable(entry.get("reason", f"{asked} failed"), because=kinds[entry["because"]])
            for asked, entry in said.items()
        }

    def missing(self) -> list[str]:
        """The commands and paths that the recorder looked for and did not find."""
        said = self.json("missing.json", None)
        if isinstance(said, dict):
            _check(said, {"commands": [str], "paths": [str]}, f"{self._shown}/missing.json")
            return [*said.get("commands", ()), *said.get("paths", ())]
        _check(said, [str], f"{self._shown}/missing.json")
        return list(said)


def _content(path: str, limit: int = -1) -> bytes | None:
    """The bytes of a regular file, not through a link; None where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(handle, "rb") as file:
        return file.read(limit) if stat.S_ISREG(os.fstat(handle).st_mode) else None


def _check(value: Any, shape: Any, where: str, *, null: bool = False) -> None:
    """Compare JSON with its shape: {key: shape}, {str: shape} for any key, [shape], a type, or None for anything.

    Keys that the shape does not name are left alone: a later 1.x may have written them.
    """
    if shape is None or (value is None and null):
        return
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise BundleError(f"{where}: expected an object, found {_shown(value)}")
        for key, inner in value.items():
            _check(inner, shape.get(str, shape.get(key)), f"{where}: {key}", null=null)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise BundleError(f"{where}: expected a list, found {_shown(value)}")
        for number, inner in enumerate(value):
            _check(inner, shape[0], f"{where}[{number}]", null=null)
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        raise BundleError(f"{where}: expected {_WORDS[shape]}, found {_shown(value)}")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


__all__ = ["SCHEMA", "BundleError", "BundleHost", "Recordings", "open_bundle"]
