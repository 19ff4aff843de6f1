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
from npudoctor.host.recording.bundle_shape import FailureEntry, MissingFile, StatEntry, check
from npudoctor.host.simulated.tree import KINDS, DiskStore, MemoryStore, Overlay, Store, enter, normalise

SCHEMA = "npudoctor.bundle/1"

NO_ENVIRONMENT = "environ"
"""The name of the failure that says why a recording holds no variables."""


MAX_JSON_BYTES = 16 << 20
MAX_JSON_VALUES = 1_000_000
"""A node with 1,000 processes and 10,000 sockets tells some 60,000 values; each takes about 100 bytes of memory."""


def too_much(data: bytes) -> str | None:
    """Why a JSON document is not even read: it is, or becomes in memory, too large; None where it is not."""
    if len(data) > MAX_JSON_BYTES:
        return f"it is larger than {MAX_JSON_BYTES >> 20} MiB"
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_JSON_VALUES:
        return f"it holds more than {MAX_JSON_VALUES:,} values"
    return None


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
            enter(self._folders, normalise(name))

    def content(self, name: str, limit: int = -1) -> bytes | None:
        """The first `limit` bytes of a file; None where there is none."""
        content = self._files.get(name)
        return content if content is None else bytes(content if limit < 0 else content[:limit])

    def folders(self, name: str) -> list[str]:
        """The names of the folders in a folder, sorted."""
        return sorted(self._folders.get(normalise(name), ()))

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
            data = self.place.content(name, MAX_JSON_BYTES + 1)
            if data is None and required:
                raise BundleError(f"{where} does not exist: this is no bundle, or the folder above or below is meant")
            if data and (problem := too_much(data)):
                raise BundleError(f"{where} is refused: {problem}")
            value = {} if data is None else json.loads(data)
        except BundleError:
            raise
        except MemoryError:
            raise BundleError(f"{where} is refused: it takes more memory than there is") from None
        except OSError as problem:
            raise BundleError(f"{where} cannot be read: {problem.strerror}") from None
        except (ValueError, RecursionError) as problem:
            raise BundleError(f"{where} is not valid JSON ({str(problem)[:80]}); record the node again") from None
        check(value, shape, where)
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
            text = (self.place.content("root/etc/group", MAX_JSON_BYTES) or b"").decode("utf-8", "replace")
        except OSError:
            return ()
        fields = [line.split(":") for line in text.splitlines()]
        known = {row[0]: int(row[2]) for row in fields if len(row) > 2 and row[2].isdecimal()}
        return tuple(known[group] for group in groups if group in known)

    def stats(self) -> dict[str, Overlay]:
        """What stat.json says of each path."""
        said = self.json("stat.json", dict[str, StatEntry])
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
        said = self.json("failed.json", dict[str, FailureEntry])
        kinds = {because.value: because for because in Because}
        for asked, entry in said.items():
            if entry.get("because") not in kinds:
                where = f"{self._shown}/failed.json: {asked}: because is {json.dumps(entry.get('because'))}"
                raise BundleError(f"{where}; expected one of {', '.join(kinds)}")
        return {
            asked: Unavailable(entry.get("reason", f"{asked} failed"), because=kinds[entry["because"]])
            for asked, entry in said.items()
        }

    def missing_names(self) -> list[str]:
        """The commands and paths that the recorder looked for and did not find."""
        said = self.json("missing.json", Any)
        if isinstance(said, dict):
            check(said, MissingFile, f"{self._shown}/missing.json")
            return [*said.get("commands", ()), *said.get("paths", ())]
        check(said, tuple[str, ...], f"{self._shown}/missing.json")
        return list(said)
