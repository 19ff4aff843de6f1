"""The only door to a node. Everything npudoctor learns, and everything it changes, goes through a `Host`.

Exceptions: `Unavailable` (a fact cannot be known here; its text is the reason shown to the user), with
`NotApplicable` for a question that does not arise. `ParseError` (text was read but not understood). `Refused`
(a change that this host does not allow). `BundleError` (a recording that cannot be opened).
"""

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeGuard, runtime_checkable

from npudoctor.reasons import Because as Because
from npudoctor.records import record

TOOL_TIMEOUT_S = 10.0
DRIVER = "/usr/local/Ascend/driver"
"""Where the driver lies unless its installer was told another folder."""
LIBRARY = "dcmi"
"""The key of the library's answer in a recording."""
SIDE_BY_SIDE = 4
"""How many commands `ask_each` hands to the host at once."""

STANDARD_PLACES: Mapping[str, tuple[str, ...]] = {
    "npu-smi": ("/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin"),
    "hccn_tool": ("/usr/local/Ascend/driver/tools", "/usr/bin", "/usr/local/bin"),
}
"""Where the vendor's tools lie when PATH does not name them."""


class Unavailable(Exception):
    """A fact cannot be known here. The text is a full clause, shown to the user as the reason for a skip.

    `blocked_by` is the check whose error is the cause. `reported_by` is the check that reports the same failure as a
    finding: a summary of the run shows that finding instead of this text.
    """

    def __init__(
        self,
        reason: str,
        *,
        because: Because = Because.ABSENT,
        blocked_by: str | None = None,
        reported_by: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.because = reason, because
        self.blocked_by, self.reported_by = blocked_by, reported_by


class NotApplicable(Unavailable):
    """The question does not arise on this node."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, because=Because.NOT_APPLICABLE)


class ParseError(ValueError):
    """Text that a parser does not understand, with the line that it stopped at (counted from 1)."""

    def __init__(self, problem: str, *, line_number: int | None = None, line: str | None = None) -> None:
        where = f" (line {line_number}: {line.strip()[:80]!r})" if line_number and line is not None else ""
        super().__init__(problem + where)
        self.problem = problem
        self.line_number, self.line = line_number, line


class Refused(Exception):
    """A change that is not made; the text says why in a full clause, `instead` is the command that would work."""

    def __init__(self, reason: str, *, instead: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.instead = reason, instead


class BundleError(ValueError):
    """What was given is no bundle, or one that cannot be trusted; the text is one line: what, where, what to do."""


@record(frozen=True, kw_only=True)
class Completed:
    """A command that ended or was ended.

    `returncode` is None where it was ended after its time was up, negative for a signal. `stdout` and `stderr` are at
    most 8 MiB each (`truncated` where more came); bytes that are not UTF-8 read U+FFFD. `seconds` is wall time.
    """

    returncode: int | None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    truncated: bool = False


@record(frozen=True, kw_only=True)
class FileStat:
    """What `stat` says: `kind` is file, dir, char, block, fifo, socket; `mode` the permission bits.

    `access` holds what this user may do, any of `rwx`. `mtime` is in seconds since 1970; `rdev` is `major:minor`.
    """

    kind: str
    mode: int
    uid: int
    gid: int
    access: str
    size: int = 0
    mtime: float | None = None
    rdev: str | None = None


@record(frozen=True, kw_only=True)
class User:
    """The person who asked."""

    name: str = "root"
    uid: int = 0
    gid: int = 0
    gids: tuple[int, ...] = (0,)
    groups: tuple[str, ...] = ("root",)


@record(frozen=True, kw_only=True)
class About:
    """Provenance: `source` is `live`, `bundle` or `simulated`; `environment` says whose variables it holds.

    `own_prefix` is where the Python of the npudoctor that looks, or looked, at the node lies; None where it is unknown.
    """

    source: str
    hostname: str
    machine: str
    environment: str = "process"
    recorded_at: str | None = None
    own_prefix: str | None = None


@runtime_checkable
class Host(Protocol):
    """What can be asked of a node. Everything raises `Unavailable` where there is no answer."""

    @property
    def about(self) -> About:
        """Where its answers come from."""
        ...

    @property
    def user(self) -> User:
        """Who asks, on that node."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of a job; raises Unavailable where none can be had."""
        ...

    @property
    def instant(self) -> bool:
        """Whether no user waits for an answer, so that nothing is gained by asking side by side or again."""
        ...

    @property
    def rooted(self) -> bool:
        """Whether its files are not those of this machine: recorded, simulated, or below `--root`."""
        ...

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run a command without a shell. Raises Unavailable where it is not installed or not in the recording."""
        ...

    def ask_library(self, driver: str = DRIVER, *, pages: bool = True, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """What libdcmi.so of the driver in that folder says of every chip: the JSON lines of host/live/read_dcmi.py.

        `pages`: more than `npu-smi info` shows. Raises Unavailable without a library that may be loaded.
        """
        ...

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run the script in_target/NAME.py under the interpreter `python`, with the job's variables."""
        ...

    def target_user(self, python: str) -> User:
        """As which user the interpreter `python` runs; raises Unavailable where it is not run at all."""
        ...

    def target_environ(self, python: str) -> Mapping[str, str]:
        """The variables with which it runs."""
        ...

    def read(self, path: str) -> str:
        """The text of a regular file of at most 8 MiB."""
        ...

    def read_bytes(self, path: str, *, limit: int = ...) -> bytes:
        """The first `limit` bytes of a regular file."""
        ...

    def read_part(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes out of the middle of a regular file, as many as there are."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a path is there, links followed."""
        ...

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted."""
        ...

    def stat(self, path: str) -> FileStat:
        """What is known of a path, links followed."""
        ...

    def read_link(self, path: str) -> str | None:
        """The target of a symbolic link; None where the path is no link."""
        ...

    def real_path(self, path: str) -> str:
        """The path with every symbolic link in it followed, as far as they are there; at most 40 links."""
        ...

    def which(self, name: str) -> str | None:
        """Where a command lies: on PATH, else at the vendor's standard places."""
        ...

    def measure(self, key: str) -> Any:
        """One of the psutil-shaped facts of a bundle's host.json: cpu, memory, disks, mounts, interfaces, sockets,
        processes, limits, pci, container."""
        ...

    def close(self) -> None:
        """End what still runs on it; nothing is asked of it any more."""
        ...


@runtime_checkable
class MutableHost(Host, Protocol):
    """A host that can be changed; only the fixer holds one."""

    def write_file(
        self,
        path: str,
        content: bytes,
        *,
        mode: int | None = None,
        owner: tuple[int, int] | None = None,
        attributes: Mapping[str, bytes] | None = None,
    ) -> None:
        """Replace a file as a whole, durably, links followed; what is not given of the rest stays as it is."""
        ...

    def remove(self, path: str, *, follow: bool = False) -> None:
        """Remove a file or a link, or what the link leads to; one that is not there is no error."""
        ...

    def write_link(self, path: str, target: str) -> None:
        """Put a symbolic link in the place of a link, a file or nothing, durably."""
        ...

    def make_folder(self, path: str, *, mode: int = 0o755) -> None:
        """Make one folder in a folder that is there; one that exists is no error."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder; one that is not there or not empty is no error."""
        ...

    def link_stat(self, path: str) -> FileStat | None:
        """Kind (link, dir, file), mode and owner of a path itself, no last link followed; None where nothing is."""
        ...

    def attributes(self, path: str) -> Mapping[str, bytes]:
        """The extended attributes of a file, its ACL among them."""
        ...

    def sweep(self, path: str, *, follow: bool = True) -> None:
        """Remove what a writing of this file that was killed has left beside it, or of the link itself."""
        ...

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Hold a lock that ends with this process; raises Refused, naming the holder, where somebody has it."""
        ...

    def own_script(self, name: str) -> str:
        """Where in_target/NAME.py lies on that node, for a Python there to run."""
        ...

    def fresh(self) -> MutableHost:
        """The same node with nothing remembered of what was asked before."""
        ...

    def after_login(self) -> MutableHost:
        """The same node with the variables that a new login of this user has."""
        ...

    def set_sysctl(self, key: str, value: str) -> None:
        """Write a kernel setting; OSError where the kernel refuses it."""
        ...

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process."""
        ...

    def run_streaming(
        self, argv: Sequence[str], *, timeout: float, stream: Callable[[str], None] | None = None
    ) -> Completed:
        """Run a command anew, handing each piece of its output to `stream` as it comes."""
        ...


def run_each(host: Host, commands: Sequence[Sequence[str]], *, timeout: float = TOOL_TIMEOUT_S) -> list[Completed]:
    """Run several commands side by side; their answers in order, or the first Unavailable raised."""
    found = []
    for answer in ask_each(host, commands, timeout=timeout):
        if isinstance(answer, Unavailable):
            raise answer
        found.append(answer)
    return found


def ask_each(
    host: Host, commands: Sequence[Sequence[str]], *, timeout: float = TOOL_TIMEOUT_S
) -> list[Completed | Unavailable]:
    """Run several commands side by side, as many at once as the host allows; the answer of each, in order."""
    answers: dict[int, Completed | Unavailable] = {}
    broken: list[OSError] = []
    waiting = iter(list(enumerate(commands)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number, argv = next(waiting, (-1, ()))
            if number < 0:
                return
            try:
                answers[number] = host.run(argv, timeout=timeout)
            except Unavailable as why:
                answers[number] = why
            except OSError as problem:
                broken.append(problem)

    at_once = 1 if host.instant else min(SIDE_BY_SIDE, len(commands))
    others: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):  # no more threads are allowed: then fewer do the work
        for _ in range(at_once - 1):
            other = threading.Thread(target=work, daemon=True)
            other.start()
            others.append(other)
    work()
    for other in others:
        other.join()
    if broken:
        raise broken[0]
    return [answers[number] for number in range(len(commands))]


def is_mutable(host: object) -> TypeGuard[MutableHost]:
    """Whether the host can be changed; isinstance would read its properties, and one of an unknown login raises."""
    return hasattr(type(host), "write_file")


def real_path(host: Host, path: str) -> str:
    """The path with every symbolic link in it followed, as the node would."""
    return host.real_path(path)


def command_key(argv: Sequence[str]) -> str:
    """The name of a command in a recording: its words joined by blanks, the first without its folder."""
    return " ".join([posixpath.basename(argv[0]), *argv[1:]])


__all__ = [
    "STANDARD_PLACES",
    "TOOL_TIMEOUT_S",
    "About",
    "Because",
    "BundleError",
    "Completed",
    "FileStat",
    "Host",
    "MutableHost",
    "NotApplicable",
    "ParseError",
    "Refused",
    "Unavailable",
    "User",
    "ask_each",
    "command_key",
    "is_mutable",
    "real_path",
    "run_each",
]
