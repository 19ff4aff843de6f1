"""A recorded node: a folder or a .tar.gz that answers in the node's place.

Nothing in a bundle is ever executed, and an archive is looked through as a whole before any of it is used.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from npudoctor.host import About, Because, BundleError, Completed, FileStat, Refused, Unavailable
from npudoctor.host.recording.bundle_reader import NO_ENVIRONMENT, SCHEMA, InMemory, OnDisk, Place, Reader
from npudoctor.host.recording.bundle_shape import BundleFile, HostFile, ResultFile
from npudoctor.host.recording.canned import OUTPUT_LIMIT_BYTES, RecordedHost
from npudoctor.host.simulated.tree import FileTree

SLASH = "%2F"
"""What stands for a / of a command's key in the name of its folder."""


class BundleHost(RecordedHost):
    """A recorded node. It refuses every change."""

    def write_file(
        self,
        path: str,
        content: bytes,  # noqa: ARG002
        *,
        mode: int | None = None,  # noqa: ARG002
        owner: tuple[int, int] | None = None,  # noqa: ARG002
        attributes: Mapping[str, bytes] | None = None,  # noqa: ARG002
    ) -> None:
        """Refuse."""
        self._refuse(f"{path} is not written")

    def write_link(self, path: str, target: str) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse(f"{path} is not written")

    def make_folder(self, path: str, *, mode: int = 0o755) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse(f"{path} is not made")

    def remove_folder(self, path: str) -> None:
        """Refuse."""
        self._refuse(f"{path} is not removed")

    def sweep(self, path: str, *, follow: bool = True) -> None:  # noqa: ARG002
        """Refuse."""
        self._refuse(f"nothing beside {path} is removed")

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Refuse."""
        self._refuse(f"{path} is not locked")

    def link_stat(self, path: str) -> FileStat | None:
        """Kind, mode and owner of a path itself, its last link not followed; None where nothing is recorded."""
        if self.read_link(path) is not None:
            return FileStat(kind="link", mode=0o777, uid=0, gid=0, access="")
        try:
            return self.stat(path)
        except Unavailable as why:
            if why.because is Because.ABSENT:
                return None
            raise

    def attributes(self, path: str) -> Mapping[str, bytes]:  # noqa: ARG002 - the protocol
        """No extended attributes are recorded."""
        return {}

    def own_script(self, name: str) -> str:
        """A name: nothing is run from a recording."""
        return f"npudoctor-{name}.py"

    def fresh(self) -> BundleHost:
        """The same recording: it remembers no more than it holds."""
        return self

    def after_login(self) -> BundleHost:
        """The same recording: it holds the variables of one moment."""
        return self

    def remove(self, path: str, *, follow: bool = False) -> None:  # noqa: ARG002
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


def open_bundle(path: str, *, for_its_files: bool = False) -> BundleHost:
    """Open a recorded node, an archive in memory; raises BundleError, one line, for what is no bundle or not safe.

    `for_its_files`: its commands will not be asked for, so that they are not looked through for damage.
    """
    if os.path.isdir(path):
        return _open(OnDisk(path), path, look_through=not for_its_files)
    if not os.path.isfile(path):
        raise BundleError(f"{path}: bundle not found; give a folder or a .tar.gz that `npudoctor record` wrote")
    from npudoctor.host.recording.archive import hold  # here, because a folder needs none of it

    held = hold(path)
    tops = {name.partition("/")[0] for name in (*held.files, *held.folders) if name != "."}
    top = tops.pop() if len(tops) == 1 and "bundle.json" not in held.files else ""
    skip = len(top) + 1 if top else 0
    files = {name[skip:]: content for name, content in held.files.items()}
    folders = [name[skip:] for name in held.folders]
    return _open(InMemory(files, folders), path, _below(held.links, top, path), look_through=not for_its_files)


def _below(links: Mapping[str, str], prefix: str, shown: str) -> dict[str, str]:
    """The links of an archive that are in its root/, as the node's paths."""
    root = posixpath.normpath(posixpath.join(prefix, "root"))
    for path in links:
        if not path.startswith(root + "/"):
            raise BundleError(
                f"{shown} is refused: {path} is a link outside root/; links belong there or in links.json"
            )
    return {path[len(root) :]: target for path, target in links.items()}


def _open(place: Place, shown: str, links: Mapping[str, str] | None = None, *, look_through: bool = True) -> BundleHost:
    reader = Reader(place, shown)
    about = reader.json("bundle.json", BundleFile, required=True)
    reader.check_schema(about.get("schema"))
    if (unrecorded := about.get("unrecorded", "absent")) not in ("absent", "unknown"):
        raise BundleError(
            f'{shown}/bundle.json: unrecorded is {json.dumps(unrecorded)}; expected "absent" or "unknown"'
        )
    user = reader.user(about.get("user", {}))
    failures = reader.failures()
    commands = Recordings(reader)
    if look_through:
        commands.look_through()
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
            reader.place.store(),
            links={**(links or {}), **reader.json("links.json", dict[str, str])},
            stats=reader.stats(),
            user=user,
            listings=reader.json("listings.json", dict[str, tuple[str, ...]]),
        ),
        commands=commands,
        environ=failures.get(NO_ENVIRONMENT) or reader.json("environ.json", dict[str, str]),
        measures=reader.json("host.json", HostFile),
        user=user,
        unrecorded=unrecorded,
        missing=reader.missing_names(),
        tools=about.get("tools"),
        failures=failures,
    )


class Recordings(Mapping[str, Completed]):
    """The commands of a bundle by key; what each has printed is read when it is asked for."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._place = reader.place
        self._keys = {folder.replace(SLASH, "/"): folder for folder in reader.folders("commands")}
        self._results: dict[str, dict[str, Any]] = {}

    def look_through(self) -> None:
        """Read how every command ended; raises BundleError where one is damaged."""
        for key in self._keys:
            self._result(key)

    def _result(self, key: str) -> dict[str, Any]:
        if key not in self._results:
            self._results[key] = self._reader.json(f"commands/{self._keys[key]}/result.json", ResultFile)
        return self._results[key]

    def __getitem__(self, key: str) -> Completed:
        result = self._result(key)
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
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def _output(self, key: str, which: str) -> tuple[str, bool]:
        data = self._place.content(f"commands/{key.replace('/', SLASH)}/{which}", OUTPUT_LIMIT_BYTES + 1) or b""
        return data[:OUTPUT_LIMIT_BYTES].decode("utf-8", "replace"), len(data) > OUTPUT_LIMIT_BYTES


__all__ = ["SCHEMA", "BundleError", "BundleHost", "Recordings", "open_bundle"]
