"""This machine: real commands, real files, real measurements. The one place that starts processes.

A vendor tool may hang, ignore SIGTERM, print a gigabyte, or leave a child behind that holds its pipe; none of these
may hold npudoctor up. Every command has its own session and a time limit, and is ended with all that it started.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import posixpath
import pwd
import selectors
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from npudoctor.findings import Because
from npudoctor.host import (
    STANDARD_PLACES,
    TOOL_TIMEOUT_S,
    About,
    Completed,
    FileStat,
    Unavailable,
    User,
    command_key,
    measures,
)
from npudoctor.host.changes import Changes
from npudoctor.host.tree import DiskStore, FileTree

OUTPUT_LIMIT_BYTES = 8 << 20
AT_ONCE_BYTES = 1 << 20
"""How much is read in one call: /proc/sys refuses 4 MiB and more with ENOMEM, from Linux 5.8 on."""

GRACE_S = 0.15
"""How long a process may take to act on SIGTERM, how long on SIGKILL, and how long a pipe may outlive its command."""

SCRIPTS = posixpath.join(posixpath.dirname(posixpath.dirname(__file__)), "facts", "in_target")
VENDOR_TOOLS = frozenset(STANDARD_PLACES)
ALONE = "hccn_tool"
"""The tool that answers "busy" while another call of it runs (its manual: no two at once)."""
_CALLS = itertools.count(1)


class LocalHost(Changes):
    """The machine npudoctor runs on, or the one whose file tree lies below `root`.

    `environ` holds the variables of a job, or the Unavailable that says why there are none; `environment` says whose.
    At most `at_once` vendor tools run side by side; each distinct command runs once in the life of this object.
    """

    def __init__(
        self,
        *,
        root: str = "",
        environ: Mapping[str, str] | Unavailable | None = None,
        environment: str = "process",
        at_once: int = 2,
    ) -> None:
        self._root = root.rstrip("/")
        self._environ = dict(os.environ) if environ is None else environ
        self._environment = environment
        self._at_once = at_once
        self._slots = threading.BoundedSemaphore(at_once)
        self._alone = threading.Lock()
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], _Once] = {}
        self._hung: dict[str, str] = {}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._starting: set[str] = set()
        self._closed = False

    # Who and where

    @property
    def about(self) -> About:
        """This machine's name and architecture."""
        return About(
            source="live",
            hostname=os.uname().nodename,
            machine=os.uname().machine,
            environment=self._environment,
            own_prefix=sys.prefix,
        )

    @property
    def rooted(self) -> bool:
        """Whether its files are another node's than its processes."""
        return bool(self._root)

    @functools.cached_property
    def user(self) -> User:
        """The user that npudoctor runs as."""
        gids = tuple(dict.fromkeys([os.getegid(), *os.getgroups()]))
        try:
            name = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            name = str(os.geteuid())
        return User(
            name=name, uid=os.geteuid(), gid=os.getegid(), gids=gids, groups=tuple(map(measures.group_name, gids))
        )

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of a job."""
        if isinstance(self._environ, Unavailable):
            raise self._environ
        return self._environ

    def own_script(self, name: str) -> str:
        """Where facts/in_target/NAME.py lies."""
        return posixpath.join(SCRIPTS, f"{name}.py")

    def fresh(self) -> LocalHost:
        """The same node with nothing remembered: what was asked before a change is asked again."""
        return LocalHost(root=self._root, environ=self._environ, environment=self._environment, at_once=self._at_once)

    def after_login(self) -> LocalHost:
        """The same node with the variables that a new login of this user has."""
        from npudoctor.host import job  # a check never needs it

        if self._root:
            raise Unavailable("nobody logs in below --root")
        whose, variables = job.resolve(self._login, LocalHost())
        return LocalHost(root=self._root, environ=variables, environment=whose, at_once=self._at_once)

    @property
    def _login(self) -> str:
        return self._environment if self._environment.startswith("login:") else "login"

    # Files

    def _at(self, path: str, *, follow: bool = True) -> str:
        if not self._root:
            return path
        return self._root + FileTree(DiskStore(self._root)).resolve(path, follow=follow)

    def _reading(self, path: str) -> contextlib.AbstractContextManager[None]:
        return _explained(path, self.user)

    def read(self, path: str) -> str:
        """The text of a file of at most 8 MiB; bytes that are not UTF-8 read U+FFFD."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str, *, limit: int = OUTPUT_LIMIT_BYTES) -> bytes:
        """The first `limit` bytes of a file, without waiting on pipes and devices."""
        with self._reading(path):
            handle = os.open(self._at(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb", buffering=0) as file:
                kind = os.fstat(handle).st_mode
                if not stat.S_ISREG(kind):
                    raise Unavailable(f"{path} is not a regular file", because=Because.FAILED)
                pieces = bytearray()
                while len(pieces) < limit and (piece := file.read(min(limit - len(pieces), AT_ONCE_BYTES))):
                    pieces += piece
                return bytes(pieces)

    def read_part(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes out of the middle of a regular file, as many as there are."""
        with self._reading(path):
            handle = os.open(self._at(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise Unavailable(f"{path} is not a regular file", because=Because.FAILED)
                return os.pread(handle, length, offset)
            finally:
                os.close(handle)

    def exists(self, path: str) -> bool:
        """Whether the path is there, links followed."""
        try:
            with self._reading(path):
                os.stat(self._at(path))
        except Unavailable as why:
            if why.because is Because.NO_RIGHT:
                raise
            return False
        return True

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted."""
        with self._reading(path):
            return tuple(sorted(os.listdir(self._at(path))))

    def stat(self, path: str) -> FileStat:
        """Kind, mode, owner and access of a path, links followed."""
        with self._reading(path):
            found = os.stat(self._at(path))
        may = ((os.R_OK, "r"), (os.W_OK, "w"), (os.X_OK, "x"))
        return FileStat(
            kind=_kind(found.st_mode),
            mode=stat.S_IMODE(found.st_mode),
            uid=found.st_uid,
            gid=found.st_gid,
            access="".join(letter for right, letter in may if os.access(self._at(path), right)),
            size=found.st_size,
            mtime=found.st_mtime,
            rdev=f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" if found.st_rdev else None,
        )

    def read_link(self, path: str) -> str | None:
        """The target of a symbolic link; None where the path is no link."""
        with contextlib.suppress(OSError):
            return os.readlink(self._at(path, follow=False))
        return None

    def real_path(self, path: str) -> str:
        """The path with its links followed."""
        return os.path.realpath(path) if not self._root else self._at(path).removeprefix(self._root)

    def measure(self, key: str) -> object:
        """One of the facts of host.json, measured now."""
        return measures.measure(key, self)

    # Commands

    def which(self, name: str) -> str | None:
        """Where a command lies: on PATH, else at the standard places of the vendor's tools."""
        if "/" in name:
            return name if os.path.lexists(name) else None
        for folder in os.environ.get("PATH", os.defpath).split(":"):
            path = posixpath.join(folder or ".", name)
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return path
        places = (posixpath.join(place, name) for place in STANDARD_PLACES.get(name, ()))
        return next((path for path in places if os.path.lexists(path)), None)

    def _missing(self, name: str) -> Unavailable:
        """Why a command cannot be run: it is nowhere, or it lies where nobody has the right to execute it."""
        for folder in (*os.environ.get("PATH", os.defpath).split(":"), *STANDARD_PLACES.get(name, ())):
            path = posixpath.join(folder or ".", name)
            if "/" not in name and os.path.isfile(path):
                return Unavailable(_why_not_started(path, PermissionError()), because=Because.NO_RIGHT)
        return Unavailable(f"{name} is not installed")

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run a command once; every later call with the same words gets the same answer."""
        path = self.which(argv[0])
        if path is None:
            raise self._missing(argv[0])
        environment = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        return self._once([path, *argv[1:]], command_key(argv), environment, timeout)

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run facts/in_target/NAME.py under `python`, with the job's variables and those of `environ`."""
        script = posixpath.join(SCRIPTS, f"{name.replace(' ', '_')}.py")
        variables = self._environ if isinstance(self._environ, Mapping) else os.environ
        environment = {**variables, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **(environ or {})}
        return self._once([python, "-B", script], f"python {name}", environment, timeout)

    def _once(self, argv: list[str], key: str, environment: Mapping[str, str], timeout: float) -> Completed:
        with self._lock:
            once = self._answers.setdefault(tuple(argv), _Once())
        return once.answer(lambda: self._in_turn(argv, key, environment, timeout))

    def _in_turn(self, argv: list[str], key: str, environment: Mapping[str, str], timeout: float) -> Completed:
        tool = posixpath.basename(argv[0])
        if tool not in VENDOR_TOOLS:
            return self._execute(argv, environment, timeout)
        with self._alone if tool == ALONE else contextlib.nullcontext(), self._slots:
            if first := self._hung.get(tool):
                raise Unavailable(f"{tool} is not asked again: {first}", because=Because.TIMED_OUT)
            completed = self._execute(argv, environment, timeout)
            if completed.timed_out:
                self._hung[tool] = f"`{key}` did not answer within {timeout:g} s"
            return completed

    def run_streaming(
        self, argv: Sequence[str], *, timeout: float, stream: Callable[[str], None] | None = None
    ) -> Completed:
        """Run a command anew, handing each piece of its output to `stream` as it comes."""
        if self._root:
            raise Unavailable("a command would change this machine, and not the one below --root")
        path = self.which(argv[0])
        if path is None:
            raise Unavailable(f"{argv[0]} is not installed")
        environment = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        return self._execute([path, *argv[1:]], environment, timeout, stream, self._locks)

    def _execute(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        timeout: float,
        stream: Callable[[str], None] | None = None,
        locks: Sequence[int] = (),
    ) -> Completed:
        mark = f"{os.getpid()}.{next(_CALLS)}"
        started = time.monotonic()
        self._starting.add(mark)
        try:
            if self._closed:
                raise _given_up(argv, 0.0)
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=locks,
                env={**environment, "NPUDOCTOR_CALL": mark},
            )
            self._running.add(process)
        except OSError as problem:
            raise Unavailable(_why_not_started(argv[0], problem), because=_because(problem)) from problem
        except BaseException:
            _end_marked(mark)
            raise
        finally:
            self._starting.discard(mark)
        output, timed_out = _Output(process, stream), True
        try:
            timed_out = output.collect(started + timeout)
        finally:
            if timed_out or output.left_open or output.truncated:  # or interrupted: it must not go on beside an undoing
                _end(process, mark)
            self._running.discard(process)
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()
        if self._closed and process.poll() == -signal.SIGKILL:
            raise _given_up(argv, time.monotonic() - started)
        return Completed(
            returncode=None if timed_out else process.poll(),
            stdout=output.text(0),
            stderr=output.text(1),
            seconds=time.monotonic() - started,
            timed_out=timed_out,
            truncated=output.truncated,
        )

    def pass_over(self, tool: str, why: str) -> None:
        """Do not ask a vendor's tool at all."""
        self._hung[tool] = why

    def close(self) -> None:
        """End every command that still runs or is just being started; what waits for one is answered at once."""
        self._closed = True
        until = time.monotonic() + GRACE_S  # a start may hang, where the program lies on a dead file server
        while self._starting and time.monotonic() < until:
            time.sleep(0.002)
        for process in tuple(self._running):
            _signal(process, signal.SIGKILL)


class _Once:
    """A call that is made once, however many threads ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: Completed | Unavailable | None = None

    def answer(self, call: Callable[[], Completed]) -> Completed:
        with self._lock:
            if self._done is None:
                try:
                    self._done = call()
                except Unavailable as why:
                    self._done = why
        if isinstance(self._done, Unavailable):
            raise self._done
        return self._done


class _Output:
    """Both pipes of a process, read until they close, the process ends, the time is up, or 8 MiB have come."""

    def __init__(self, process: subprocess.Popen[bytes], stream: Callable[[str], None] | None) -> None:
        self._process = process
        self._stream = stream
        self._pieces = (bytearray(), bytearray())
        self.truncated = False
        self.left_open = False

    def text(self, which: int) -> str:
        return bytes(self._pieces[which][:OUTPUT_LIMIT_BYTES]).decode("utf-8", "replace")

    def collect(self, deadline: float) -> bool:
        """Read; True where the time was up before the process had ended."""
        with selectors.DefaultSelector() as selector, _watch(self._process) as ended:
            for which, pipe in enumerate((self._process.stdout, self._process.stderr)):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, which)
            if ended is not None:
                selector.register(ended, selectors.EVENT_READ, None)
            until = deadline
            open_pipes = 2
            exited = False
            while not self.truncated and (open_pipes or not exited):
                if not exited and self._process.poll() is not None:
                    exited = True
                    until = min(until, time.monotonic() + GRACE_S)
                    if ended is not None:
                        selector.unregister(ended)
                    continue
                left = until - time.monotonic()
                if left <= 0:
                    self.left_open = exited
                    return not exited
                for key, _ in selector.select(left if ended is not None or exited else min(left, 0.02)):
                    if key.data is not None and not self._read(key.fileobj, key.data):
                        selector.unregister(key.fileobj)
                        open_pipes -= 1
        return False

    def _read(self, pipe: object, which: int) -> bool:
        try:
            piece = os.read(pipe.fileno(), 1 << 16)  # type: ignore[attr-defined]
        except BlockingIOError:
            return True
        if self._stream and piece:
            self._stream(piece.decode("utf-8", "replace"))
        self._pieces[which].extend(piece)
        self.truncated = len(self._pieces[which]) > OUTPUT_LIMIT_BYTES
        return bool(piece)


@contextlib.contextmanager
def _watch(process: subprocess.Popen[bytes]):  # type: ignore[no-untyped-def]
    """A descriptor that becomes readable when the process ends; None where the kernel has no such thing."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a process, its group, and whatever it started that left the group; never waits longer than 0.3 s."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal(process, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    _signal(process, signal.SIGKILL)
    _end_marked(mark)


def _end_marked(mark: str) -> None:
    """End what a call has started, wherever it went, also where an interrupt came before its process was known."""
    needle = f"NPUDOCTOR_CALL={mark}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
            if needle in file.read().split(b"\0"):
                os.kill(int(entry), signal.SIGKILL)


@contextlib.contextmanager
def _explained(path: str, user: User):  # type: ignore[no-untyped-def]
    """Turn the errors of reading a path into the reason why the fact is not known."""
    try:
        yield
    except FileNotFoundError:
        raise Unavailable(f"{path} does not exist") from None
    except PermissionError:
        raise Unavailable(f"{path} cannot be read by {user.name}", because=Because.NO_RIGHT) from None
    except OSError as problem:
        raise Unavailable(f"{path} cannot be read: {problem.strerror}", because=Because.FAILED) from problem


def _given_up(argv: Sequence[str], seconds: float) -> Unavailable:
    """Why a command gave no answer: nobody waited for it any longer."""
    command = command_key(argv)
    asked = f"`{command}` had not answered after {seconds:.1f} s" if seconds else f"`{command}` was not asked yet"
    return Unavailable(f"{asked} when the run's time was up", because=Because.TIMED_OUT)


def _why_not_started(path: str, problem: OSError) -> str:
    if os.path.islink(path) and not os.path.exists(path):
        return f"{path} is a link to {os.readlink(path)}, which does not exist"
    if isinstance(problem, PermissionError) and os.path.isfile(path):
        return f"{path} cannot be executed: its mode is {stat.S_IMODE(os.stat(path).st_mode):04o}"
    return f"{path} cannot be started: {problem.strerror}"


def _because(problem: OSError) -> Because:
    return Because.NO_RIGHT if isinstance(problem, PermissionError) else Because.FAILED


def _kind(mode: int) -> str:
    tests = {"dir": stat.S_ISDIR, "char": stat.S_ISCHR, "block": stat.S_ISBLK, "fifo": stat.S_ISFIFO}
    return next((kind for kind, test in tests.items() if test(mode)), "socket" if stat.S_ISSOCK(mode) else "file")
