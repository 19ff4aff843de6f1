"""A recorded node that can be changed: what is written lies over the recording, whose commands answer as before.

Files, kernel settings, group members and processes can be changed. What nobody has recorded stays unknown: what pip
would install, and what a new login has for variables.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from npudoctor.host import Completed, Unavailable
from npudoctor.host.recording.canned import RecordedHost
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.host.simulated.tree import Content, MemoryStore, Store
from npudoctor.host.simulated.tree_changes import ChangingTree
from npudoctor.sim import kernel


class Layered:
    """Files in memory over those of a recording."""

    def __init__(self, below: Store) -> None:
        self._below = below
        self._over = MemoryStore({})
        self._gone: set[str] = set()

    def _where(self, path: str) -> Any:
        return self._over if self._over.kind(path) == "file" or path in self._gone else self._below

    def kind(self, path: str) -> str | None:
        return self._over.kind(path) or (None if path in self._gone else self._below.kind(path))

    def target(self, path: str) -> str:
        return self._below.target(path)

    def names(self, path: str) -> Iterable[str]:
        below = (name for name in self._below.names(path) if f"{path.rstrip('/')}/{name}" not in self._gone)
        return {*below, *self._over.names(path)}

    def size(self, path: str) -> int:
        return int(self._where(path).size(path))

    def content(self, path: str, limit: int) -> bytes:
        return bytes(self._where(path).content(path, limit))

    def put(self, path: str, content: Content) -> None:
        self._over.put(path, content)
        self._gone.discard(path)

    def drop(self, path: str) -> None:
        if self._over.kind(path) is not None:
            self._over.drop(path)
        self._gone.add(path)

    def drop_folder(self, path: str) -> None:
        self._over.drop_folder(path)
        self._gone.add(path)


class Recorded:
    """What can be done to a recorded node beyond its files."""

    def __init__(self, tree: ChangingTree, measures: dict[str, Any]) -> None:
        self._tree = tree
        self._measures = measures

    def state(self) -> dict[str, Any]:
        """What is not a file, and the settings, which are."""
        return {"processes": copy.deepcopy(self._measures.get("processes"))}

    def set_sysctl(self, key: str, value: str) -> None:
        path = kernel.path_of(key)
        old = self._tree.read_bytes(path).decode().rstrip("\n")
        self._tree.write(path, kernel.accept(key, value, old) + "\n")

    def end(self, pid: int, number: int) -> None:
        rows = self._measures["processes"]
        if all(row["pid"] != pid for row in rows):
            raise ProcessLookupError(pid)
        self._measures["processes"] = [row for row in rows if row["pid"] != pid]

    def answer(self, argv: Sequence[str]) -> Completed | None:
        return None

    def in_target(self, probe: str, python: str) -> Completed | None:
        return None

    def act(self, argv: Sequence[str]) -> Completed | None:
        return None

    def after_login(self, host: SimulatedHost) -> SimulatedHost:
        raise Unavailable("nobody has recorded what a login of this node has for variables")


def changeable(host: RecordedHost) -> SimulatedHost:
    """The same node, to be changed."""
    tree = host.tree
    over = ChangingTree(
        Layered(tree._store),  # type: ignore[arg-type]
        links=tree.links,
        stats=tree.stats,
        user=host.user,
        listings=tree.listings,
    )
    measures = copy.deepcopy(dict(host._measures))
    machine = Recorded(over, measures)
    return SimulatedHost(
        machine,
        about=host.about,
        tree=over,
        commands=host.commands,
        environ=host._environ,
        measures=measures,
        user=host.user,
        unrecorded="unknown" if host._unknown else "absent",
        missing=[*host._missing_paths, *host._missing_tools],
        tools=host._places,
        failures=host._failures,
    )
