"""A host whose answers are given beforehand: what replay, the simulator and the tests have in common."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from npudoctor.findings import Because
from npudoctor.host import (
    DRIVER,
    LIBRARY,
    STANDARD_PLACES,
    TOOL_TIMEOUT_S,
    About,
    Completed,
    FileStat,
    Unavailable,
    User,
    command_key,
)
from npudoctor.host.shortage import what_ran_out
from npudoctor.host.simulated.tree import Content, FileTree, MemoryStore, Overlay, normalise

OUTPUT_LIMIT_BYTES = 8 << 20
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RecordedHost:
    """Implements `Host` over files, commands by their key, variables and measurements.

    `unrecorded` is what silence means: `absent` (it is not there) or `unknown` (not recorded), except for what
    `missing` names: the commands and the absolute paths that were looked for and not found. `tools` says where commands
    lie. `failures` holds what was asked in vain for another reason, by `failure_key`.
    """

    instant = True
    rooted = True

    def __init__(
        self,
        *,
        about: About,
        tree: FileTree,
        commands: Mapping[str, Completed],
        environ: Mapping[str, str] | Unavailable,
        measures: Mapping[str, Any],
        user: User,
        unrecorded: str = "absent",
        missing: Collection[str] = (),
        tools: Mapping[str, str] | None = None,
        failures: Mapping[str, Unavailable] | None = None,
    ) -> None:
        self._about = about
        self._environ = environ
        self._measures = measures
        self._user = user
        self._unknown = unrecorded == "unknown"
        self._missing_paths = frozenset(normalise(path) for path in missing if path.startswith("/"))
        self._missing_tools = frozenset(key.split(" ", 1)[0] for key in missing if not key.startswith("/"))
        self._places = tools or {}
        self._failures = failures or {}
        self._what = "simulation" if about.source == "simulated" else "recording"
        self.tree = tree
        self.commands = commands

    @property
    def about(self) -> About:
        """Where the answers come from, and whose they are."""
        return self._about

    @property
    def user(self) -> User:
        """The user of that node who asked."""
        return self._user

    def _as_recorded(self, asked: str, what: str) -> None:
        """Fail as it failed when the node was recorded."""
        if self._failures and (failed := self._failures.get(failure_key(asked, what))):
            raise Unavailable(failed.reason, because=failed.because, blocked_by=failed.blocked_by)

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of a job on that node."""
        if isinstance(self._environ, Unavailable):
            raise self._environ
        return self._environ

    # Commands

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:  # noqa: ARG002 - the protocol
        """The recorded answer of a command."""
        key = command_key(argv)
        self._as_recorded("run", key)
        answer = self.commands.get(key)
        if answer is None:
            raise self._why_unanswered(argv[0], key)
        return answer

    def run_in_target(
        self,
        name: str,
        python: str,
        *,
        timeout: float,  # noqa: ARG002 - the protocol
        environ: Mapping[str, str] | None = None,  # noqa: ARG002 - the protocol
    ) -> Completed:
        """The recorded answer of a probe inside the target Python."""
        key = f"python {name}"
        self._as_recorded("run", key)
        answer = self.commands.get(key)
        if answer is None:
            raise self._why_unanswered(python, key)
        return answer

    def ask_library(
        self,
        driver: str = DRIVER,  # noqa: ARG002 - the protocol
        *,
        pages: bool = True,  # noqa: ARG002 - the protocol
        timeout: float = TOOL_TIMEOUT_S,  # noqa: ARG002 - the protocol
    ) -> Completed:
        """The recorded answer of the driver's library."""
        self._as_recorded("run", LIBRARY)
        answer = self.commands.get(LIBRARY)
        if answer is None:
            if self._unknown and LIBRARY not in self._missing_tools:
                raise self._not_recorded("an answer of libdcmi.so")
            raise Unavailable("libdcmi.so is not installed")
        return answer

    def target_user(self, python: str) -> User:  # noqa: ARG002 - the protocol
        """The user of that node who asked: a recording does not say more."""
        return self._user

    def target_environ(self, python: str) -> Mapping[str, str]:  # noqa: ARG002 - the protocol
        """The variables of a job."""
        return self.environ

    def _why_unanswered(self, tool: str, key: str) -> Unavailable:
        first = key.split(" ", 1)[0]
        known = first in self._tools or self._is_executable(tool) or self._lying_at(first) is not None
        if known and (hung := self._hung.get(first)):
            return Unavailable(f"{tool} is not asked again: `{hung}` did not answer", because=Because.TIMED_OUT)
        if known or (self._unknown and not self._missing_tools & {first, posixpath.basename(tool)}):
            return self._not_recorded(f"`{key}`")
        if "/" not in tool and (path := self._lying_at(tool, self._is_file)):
            mode = self.tree.stat(path).mode
            return Unavailable(f"{path} cannot be executed: its mode is {mode:04o}", because=Because.NO_RIGHT)
        return Unavailable(f"{tool} does not exist" if "/" in tool else f"{tool} is not installed")

    @cached_property
    def _hung(self) -> dict[str, str]:
        """By tool, the recorded command of it that did not answer: after it the recorder asked no further one."""
        found: dict[str, str] = {}
        for key in self.commands:
            tool = key.split(" ", 1)[0]
            if tool in STANDARD_PLACES and tool not in found and self.commands[key].timed_out:
                found[tool] = key
        return found

    @cached_property
    def _tools(self) -> frozenset[str]:
        return frozenset(key.split(" ", 1)[0] for key in self.commands)

    def which(self, name: str) -> str | None:
        """Where a command lies: on PATH, at the vendor's places, or its bare name where only its answers are known."""
        if name in self._places:
            return self._places[name]
        if "/" in name:
            return name if self._is_executable(name) else None
        found = self._lying_at(name)
        if found is None and name in self._tools:
            return name
        if found is None and self._unknown and name not in self._missing_tools:
            raise self._not_recorded(f"whether {name} is installed")
        return found

    def _lying_at(self, name: str, fits: Callable[[str], bool] | None = None) -> str | None:
        variables = {} if isinstance(self._environ, Unavailable) else self._environ
        places = [*variables.get("PATH", USUAL_PATH).split(":"), *STANDARD_PLACES.get(name, ())]
        paths = (posixpath.join(place, name) for place in places if place.startswith("/"))
        return next((path for path in paths if (fits or self._is_executable)(path)), None)

    def _is_file(self, path: str) -> bool:
        try:
            return self.tree.stat(path).kind == "file"
        except OSError:
            return False

    def _is_executable(self, path: str) -> bool:
        try:
            found = self.tree.stat(path)
        except OSError:
            return False
        return found.kind == "file" and "x" in found.access

    # Files

    def read(self, path: str) -> str:
        """The text of a file; bytes that are not UTF-8 read U+FFFD."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str, *, limit: int = OUTPUT_LIMIT_BYTES) -> bytes:
        """The first `limit` bytes of a file."""
        self._as_recorded("read", path)
        try:
            content = self.tree.read_bytes(path, limit=limit)
            known = not self._unknown or self.tree.holds(path, limit)
        except OSError as problem:
            raise self._why_unreadable(path, problem) from None
        if not known:
            raise self._not_recorded(path)
        return content

    def exists(self, path: str) -> bool:
        """Whether the path is there, links followed."""
        self._as_recorded("exists", path)
        try:
            found = self.tree.exists(path)
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                return False
            raise self._why_unreadable(path, problem) from None
        if not found and self._is_unknown(path):
            raise self._not_recorded(path)
        return found

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted."""
        self._as_recorded("list", path)
        try:
            names = self.tree.list_dir(path)
            known = not (self._unknown and self.tree.listings) or self.tree.resolve(path) in self.tree.listings
        except OSError as problem:
            raise self._why_unreadable(path, problem) from None
        if not known:
            raise self._not_recorded(path)
        return names

    def stat(self, path: str) -> FileStat:
        """Kind, mode, owner and access of a path, links followed."""
        self._as_recorded("stat", path)
        try:
            return self.tree.stat(path)
        except OSError as problem:
            raise self._why_unreadable(path, problem) from None

    def read_part(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes out of the middle of a file."""
        return self.read_bytes(path, limit=offset + length)[offset:]

    def read_link(self, path: str) -> str | None:
        """The target of a symbolic link; None where the path is no link."""
        try:
            return self.tree.read_link(path)
        except OSError:
            return None

    def real_path(self, path: str) -> str:
        """The path with its links followed; as it is where they go round in a circle."""
        try:
            return self.tree.resolve(path)
        except OSError:
            return path

    def _is_unknown(self, path: str) -> bool:
        """Whether silence about a path means that it was not recorded.

        Neither it nor a folder above it is listed as missing, or is absent from the listing of the folder it is in.
        """
        if not self._unknown:
            return False
        try:
            path = self.tree.resolve(path)
        except OSError:
            path = normalise(path)
        while path != "/":
            folder, name = posixpath.split(path)
            if path in self._missing_paths or name not in self.tree.listings.get(folder, (name,)):
                return False
            path = folder
        return "/" not in self._missing_paths

    def _why_unreadable(self, path: str, problem: OSError) -> Unavailable:
        if what_ran_out(problem):
            raise problem
        if isinstance(problem, FileNotFoundError):
            return self._not_recorded(path) if self._is_unknown(path) else Unavailable(f"{path} does not exist")
        if isinstance(problem, PermissionError):
            return Unavailable(f"{path} cannot be read by {self._user.name}", because=Because.NO_RIGHT)
        if problem.errno == errno.EINVAL:
            return Unavailable(f"{path} is not a regular file", because=Because.FAILED)
        return Unavailable(f"{path} cannot be read: {problem.strerror}", because=Because.FAILED)

    def _not_recorded(self, what: str) -> Unavailable:
        return Unavailable(f"{what} is not in this {self._what}", because=Because.NOT_RECORDED)

    def close(self) -> None:
        """Nothing runs here."""

    # Measurements

    def measure(self, key: str) -> Any:
        """One of the facts of host.json."""
        self._as_recorded("measure", key)
        try:
            return self._measures[key]
        except KeyError:
            what = "bundle" if self._about.source == "bundle" else self._what
            raise Unavailable(f"the {what} holds no {key}", because=Because.NOT_RECORDED) from None


def failure_key(asked: str, what: str) -> str:
    """The name of a failure in a recording: `read /sys/x`, `run npu-smi info`, `measure sockets`."""
    return f"{asked} {what}"


class FakeHost(RecordedHost):
    """A host for tests, typed in place: a command's answer is its stdout or a `Completed`.

    What is not given is not there (`unrecorded="absent"`), or not known (`"unknown"`).
    """

    def __init__(
        self,
        *,
        files: Mapping[str, Content] | None = None,
        commands: Mapping[str, str | Completed] | None = None,
        environ: Mapping[str, str] | Unavailable | None = None,
        measures: Mapping[str, Any] | None = None,
        links: Mapping[str, str] | None = None,
        stats: Mapping[str, Overlay] | None = None,
        user: User | None = None,
        machine: str = "aarch64",
        unrecorded: str = "absent",
        missing: Collection[str] = (),
    ) -> None:
        user = user or User()
        super().__init__(
            about=About(source="bundle", hostname="fake", machine=machine),
            tree=FileTree(MemoryStore(files or {}), links=links, stats=stats, user=user),
            commands={key: _to_completed(answer) for key, answer in (commands or {}).items()},
            environ={} if environ is None else environ,
            measures=measures or {},
            user=user,
            unrecorded=unrecorded,
            missing=missing,
        )


def _to_completed(answer: str | Completed) -> Completed:
    return answer if isinstance(answer, Completed) else Completed(returncode=0, stdout=answer)
