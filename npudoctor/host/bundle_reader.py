"""Reading the files of a bundle, from a folder or from memory, and saying in one line what is wrong with one."""

from __future__ import annotations

import json
import os
import posixpath
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from npudoctor.findings import Because
from npudoctor.host import BundleError, Unavailable, User
from npudoctor.host.tree import KINDS, DiskStore, MemoryStore, Overlay, Store, enter, normal
from npudoctor.records import dataclass

SCHEMA = "npudoctor.bundle/1"

NO_ENVIRONMENT = "environ"
"""The name of the failure that says why a recording holds no variables."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of JSON from `least` to `most`, and neither infinite nor none at all."""

    whole: bool = False
    least: float = 0
    most: float = 1e20

    def complaint(self, value: Any) -> str | None:
        """What was expected, where a value is no such number; NaN is between no two numbers."""
        kind = "a whole number" if self.whole else "a number"
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return kind
        return None if self.least <= value <= self.most else f"{kind} from {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Maybe:
    """What a shape says, or null for what is not known."""

    shape: Any


@dataclass(frozen=True, slots=True)
class Row:
    """An object that must have some of its keys."""

    shape: Mapping[str, Any]
    required: tuple[str, ...]


_NUMBER = Number()
_COUNT = Number(whole=True)
_FROM_MINUS_ONE = Number(whole=True, least=-1)
_ANY_WHOLE = Number(whole=True, least=-1e18)
_TEXT = Maybe(str)
_ROOM = {"mount": str, "fstype": _TEXT, "total": Maybe(_NUMBER), "free": Maybe(_NUMBER)}
HOST_SHAPE: Mapping[str, Any] = {
    "cpu": {"logical": Maybe(_COUNT), "physical": Maybe(_COUNT), "numa_nodes": Maybe({str: str}), "allowed": _TEXT},
    "memory": Row({"total": _NUMBER, "available": _NUMBER}, ("total", "available")),
    "disks": [Row({**_ROOM, "files_total": Maybe(_NUMBER), "files_free": Maybe(_NUMBER)}, ("mount",))],
    "mounts": [Row({**_ROOM, "options": _TEXT}, ("mount",))],
    "interfaces": [
        Row(
            {
                "name": str,
                "up": bool,
                "addresses": [str],
                "speed_mbps": Maybe(Number(least=-1)),
                "mtu": Maybe(_NUMBER),
            },
            ("name",),
        )
    ],
    "sockets": [Row({"family": _TEXT, "type": _TEXT, "laddr": str, "status": _TEXT, "pid": Maybe(_COUNT)}, ("laddr",))],
    "processes": [
        Row(
            {
                "pid": _COUNT,
                "ppid": Maybe(_COUNT),
                "name": _TEXT,
                "username": _TEXT,
                "status": _TEXT,
                "cmdline": Maybe([str]),
                "create_time": Maybe(Number(most=1e11)),
            },
            ("pid",),
        )
    ],
    "limits": {str: Maybe([_FROM_MINUS_ONE, _FROM_MINUS_ONE])},
    "pci": [
        Row(
            {"slot": str, "vendor": str, "device": str, "numa_node": Maybe(_FROM_MINUS_ONE), "driver": _TEXT},
            ("slot", "vendor", "device"),
        )
    ],
    "container": Maybe({"runtime": _TEXT, "cgroup": _TEXT}),
}
"""What host.json may hold. A list of one shape has any length, one of several has just these."""

_USER_SHAPE = {"name": str, "uid": _COUNT, "gid": _COUNT, "gids": [_COUNT], "groups": [str]}
BUNDLE_SHAPE = {
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
    "uid": _COUNT,
    "gid": _COUNT,
    "access": str,
    "mtime": Number(least=-1e18),
    "rdev": str,
    "size": _COUNT,
    "cut": bool,
}
_FAILURE_SHAPE = {"because": str, "reason": str}
RESULT_SHAPE = {
    "returncode": Maybe(_ANY_WHOLE),
    "seconds": Maybe(_NUMBER),
    "timed_out": Maybe(bool),
    "truncated": Maybe(bool),
}
_WORDS = {str: "text", bool: "true or false"}


class Place(Protocol):
    """Where the files of a bundle lie."""

    def content(self, name: str, limit: int = -1) -> bytes | None:
        """The first `limit` bytes of a regular file; None where there is none."""
        ...

    def folders(self, name: str) -> list[str]:
        """The names of the folders in a folder, sorted."""
        ...

    def store(self) -> Store:
        """The node's own files."""
        ...


class OnDisk:
    """A bundle that is a folder of this machine; no link in it is followed."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def content(self, name: str, limit: int = -1) -> bytes | None:
        """The first `limit` bytes of a regular file; None where there is none."""
        try:
            path = os.path.join(self._folder, name)
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        with open(handle, "rb") as file:
            return file.read(limit) if stat.S_ISREG(os.fstat(handle).st_mode) else None

    def folders(self, name: str) -> list[str]:
        """The names of the folders in a folder, sorted."""
        try:
            with os.scandir(os.path.join(self._folder, name)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def store(self) -> Store:
        """The node's own files, below root/."""
        return DiskStore(os.path.join(self._folder, "root"))


class InMemory:
    """A bundle that is held in memory: files by name, and the names of its folders."""

    def __init__(self, files: Mapping[str, bytes], folders: Iterable[str]) -> None:
        self._files = files
        self._folders: dict[str, set[str]] = {}
        for name in [*folders, *map(posixpath.dirname, files)]:
            enter(self._folders, normal(name))

    def content(self, name: str, limit: int = -1) -> bytes | None:
        """The first `limit` bytes of a file; None where there is none."""
        content = self._files.get(name)
        return content if content is None or limit < 0 else content[:limit]

    def folders(self, name: str) -> list[str]:
        """The names of the folders in a folder, sorted."""
        return sorted(self._folders.get(normal(name), ()))

    def store(self) -> Store:
        """The node's own files, below root/."""
        files = {name[len("root") :]: content for name, content in self._files.items() if name.startswith("root/")}
        folders = [
            posixpath.join(folder, name)[len("/root") :]
            for folder, names in self._folders.items()
            for name in names
            if posixpath.join(folder, name).startswith("/root/")
        ]
        return MemoryStore(files, folders)


class Reader:
    """Reads the JSON files of a bundle and says in one line what is wrong with them."""

    def __init__(self, place: Place, shown: str) -> None:
        self.place = place
        self._shown = shown

    def json(self, name: str, shape: Any, *, required: bool = False) -> Any:
        """JSON of a given shape; {} where the file is missing."""
        where = f"{self._shown}/{name}"
        try:
            data = self.place.content(name)
            if data is None and required:
                raise BundleError(f"{where} does not exist: this is no bundle, or the folder above or below is meant")
            value = {} if data is None else json.loads(data)
        except BundleError:
            raise
        except OSError as problem:
            raise BundleError(f"{where} cannot be read: {problem.strerror}") from None
        except (ValueError, RecursionError) as problem:
            raise BundleError(f"{where} is not valid JSON ({str(problem)[:80]}); record the node again") from None
        _check(value, shape, where)
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
            return self.place.folders(name)
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
            text = (self.place.content("root/etc/group") or b"").decode("utf-8", "replace")
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


def _check(value: Any, shape: Any, where: str) -> None:
    """Compare JSON with its shape: {key: shape}, {str: shape} for any key, [shape], a type, a Number, a Row, what may
    be null, or None for anything.

    Keys that the shape does not name are left alone: a later 1.x may have written them.
    """
    if shape is None or (isinstance(shape, Maybe) and value is None):
        return
    if isinstance(shape, Maybe):
        _check(value, shape.shape, where)
    elif isinstance(shape, Row):
        _check(value, shape.shape, where)
        if missing := next((key for key in shape.required if key not in value), None):
            raise BundleError(f"{where}: {missing} is missing")
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            raise BundleError(f"{where}: expected an object, found {_shown(value)}")
        for key, inner in value.items():
            _check(inner, shape.get(str, shape.get(key)), f"{where}: {key}")
    elif isinstance(shape, list):
        _check_list(value, shape, where)
    elif isinstance(shape, Number):
        if expected := shape.complaint(value):
            raise BundleError(f"{where}: expected {expected}, found {_shown(value)}")
    elif not isinstance(value, shape):
        raise BundleError(f"{where}: expected {_WORDS[shape]}, found {_shown(value)}")


def _check_list(value: Any, shape: list[Any], where: str) -> None:
    if not isinstance(value, list):
        raise BundleError(f"{where}: expected a list, found {_shown(value)}")
    if len(shape) > 1 and len(value) != len(shape):
        raise BundleError(f"{where}: expected {len(shape)} values, found {_shown(value)}")
    for number, inner in enumerate(value):
        _check(inner, shape[number % len(shape)], f"{where}[{number}]")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
