"""This machine: real commands, real files, real measurements. The one place that starts processes.

A vendor tool may hang, ignore SIGTERM, print a gigabyte, or leave a child behind that holds its pipe; none of these
may hold npudoctor up. Every command has its own session and a time limit, and is ended with all that it started.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import json
import os
import posixpath
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import npudoctor
from npudoctor.findings import Because
from npudoctor.host import (
    DRIVER,
    STANDARD_PLACES,
    TOOL_TIMEOUT_S,
    About,
    Completed,
    FileStat,
    Unavailable,
    User,
    command_key,
)
from npudoctor.host.hands_off import Maintenance, must_be_absent
from npudoctor.host.live import identity, measures, processes, python_owner, tools
from npudoctor.host.live.changes import Changes
from npudoctor.host.live.library import Library
from npudoctor.host.live.named_paths import Namer
from npudoctor.host.live.once import Once
from npudoctor.host.live.output import GRACE_S, OUTPUT_LIMIT_BYTES, Output
from npudoctor.host.live.reader import let_go
from npudoctor.host.live.reading import explain_errors, kind_of
from npudoctor.host.live.scripts import Scripts
from npudoctor.host.shortage import few_files, what_ran_out
from npudoctor.host.simulated.tree import DiskStore, FileTree

AT_ONCE_BYTES = 1 << 20
"""How much is read in one call: /proc/sys refuses 4 MiB and more with ENOMEM, from Linux 5.8 on."""


SCRIPTS = posixpath.join(posixpath.dirname(npudoctor.__file__), "in_target")
VENDOR_TOOLS = frozenset(STANDARD_PLACES)
LOOKING_S = 10.0
"""How long a Python may take to start where only its .pth files are examined."""

ALONE = "hccn_tool"
"""The tool that answers "busy" while another call of it runs (its manual: no two at once)."""
_CALLS = itertools.count(1)


class LocalHost(Changes):
    """The machine npudoctor runs on, or the one whose file tree is below `root`.

    `environ` holds the variables of a job, or the Unavailable that says why there are none; `environment` says whose,
    and `owner` who wrote them, where that is another user: what they name runs as him.
    At most `at_once` vendor tools run side by side; each distinct command runs once in the life of this object.
    """

    def __init__(
        self,
        *,
        root: str = "",
        environ: Mapping[str, str] | Unavailable | None = None,
        environment: str = "process",
        owner: User | Unavailable | None = None,
        at_once: int = 2,
    ) -> None:
        self._root = root.rstrip("/")
        self._owner = owner
        self._namer = Namer(environ, owner)
        self._users: dict[str, User] = {}
        self._why_users: dict[str, str] = {}
        self._judging = threading.Lock()
        self._scripts = Scripts(SCRIPTS)
        self._environ = dict(os.environ) if environ is None else environ
        self._environment = environment
        self._at_once = at_once
        self._slots = threading.BoundedSemaphore(at_once)
        self._alone = threading.Lock()
        self._library = Library(self._root)
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], Once] = {}
        self._hung: dict[str, str] = {}
        self._running: dict[subprocess.Popen[bytes], str] = {}
        self._starting: set[str] = set()
        self._closed = False
        self._since = processes.now()

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
    def instant(self) -> bool:
        """Whether no user waits for an answer: processes take their time."""
        return False

    @property
    def rooted(self) -> bool:
        """Whether its files are another node's than its processes."""
        return bool(self._root)

    @functools.cached_property
    def user(self) -> User:
        """The user that npudoctor runs as."""
        return identity.own_user()

    @functools.cached_property
    def _working_folder(self) -> str | None:
        """Where root starts its own commands: `python -m pip` runs what is in the working folder."""
        return identity.private_folder(self.user) if os.geteuid() == 0 else None

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of a job."""
        if isinstance(self._environ, Unavailable):
            raise self._environ
        return self._environ

    def own_script(self, name: str) -> str:
        """Where in_target/NAME.py lies."""
        return posixpath.join(SCRIPTS, f"{name}.py")

    def fresh(self) -> LocalHost:
        """The same node with nothing remembered: what was asked before a change is asked again."""
        return LocalHost(
            root=self._root,
            environ=self._environ,
            environment=self._environment,
            owner=self._owner,
            at_once=self._at_once,
        )

    def after_login(self) -> LocalHost:
        """The same node with the variables that a new login of this user has."""
        from npudoctor.host.live import job_environment  # a check never needs it

        if self._root:
            raise Unavailable("no login environment below --root")
        whose, variables, owner = job_environment.resolve(self._login, LocalHost())
        return LocalHost(environ=variables, environment=whose, owner=owner, at_once=self._at_once)

    @property
    def _login(self) -> str:
        return self._environment if self._environment.startswith("login:") else "login"

    # Files

    def _at(self, path: str, *, follow: bool = True) -> str:
        if not self._root:
            return path
        return self._root + FileTree(DiskStore(self._root)).resolve(path, follow=follow)

    def _reading(self, path: str) -> contextlib.AbstractContextManager[None]:
        return explain_errors(path, self.user)

    def _open(self, path: str, flags: int = 0) -> int:
        """Open for reading, without waiting.

        What another user could replace by a link, or what a variable of another user names, with that user's rights.
        """
        return identity.open_to_read(self._at(path), flags=flags, user=self._namer.of(path))

    def read(self, path: str) -> str:
        """The text of a file of at most 8 MiB; bytes that are not UTF-8 read U+FFFD."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def read_bytes(self, path: str, *, limit: int = OUTPUT_LIMIT_BYTES) -> bytes:
        """The first `limit` bytes of a file, without waiting on pipes and devices."""
        with self._reading(path):
            handle = self._open(path)
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
            handle = self._open(path)
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
                identity.look_at(self._at(path), user=self._namer.of(path))
        except Unavailable as why:
            if why.because is Because.NO_RIGHT:
                raise
            return False
        return True

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted."""
        with self._reading(path):
            handle = self._open(path, os.O_DIRECTORY)
            try:
                return tuple(sorted(os.listdir(handle)))
            finally:
                os.close(handle)

    def stat(self, path: str) -> FileStat:
        """Kind, mode, owner and access of a path, links followed."""
        with self._reading(path):
            found = identity.look_at(self._at(path), user=self._namer.of(path))
        may = ((os.R_OK, "r"), (os.W_OK, "w"), (os.X_OK, "x"))
        return FileStat(
            kind=kind_of(found.st_mode),
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
        with contextlib.suppress(OSError, Unavailable):
            return self._namer.call(path, lambda: os.readlink(self._at(path, follow=False)))
        return None

    def real_path(self, path: str) -> str:
        """The path with its links followed, as far as they are there: one may go meanwhile."""
        with contextlib.suppress(OSError, Unavailable):
            follow = self._at if self._root else os.path.realpath
            return self._namer.call(path, lambda: follow(path)).removeprefix(self._root)
        return path

    def measure(self, key: str) -> object:
        """One of the facts of host.json, measured now."""
        return measures.measure(key, self)

    # Commands

    def which(self, name: str) -> str | None:
        """Where a command lies: on PATH, else at the standard places; as root, only what no other user can change."""
        return tools.find(name)

    def _why_missing(self, name: str) -> Unavailable:
        return tools.why_missing(name)

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run a command once; every later call with the same words gets the same answer."""
        words, environment = self._command_of(argv)
        return self._once(words, command_key(argv), environment, timeout)

    def _command_of(self, argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """The words and variables of a command; of one that `env` would find on PATH, the program that it starts."""
        argv, environment = tools.without_env(argv, own_environment())
        path = self.which(argv[0])
        if path is None:
            raise self._why_missing(argv[0])
        return [path, *argv[1:]], environment

    def run_confined(self, argv: Sequence[str], *, timeout: float) -> Completed:
        """Run a command that becomes another user by itself, with no_new_privs and no descriptor of npudoctor's."""
        path = self.which(argv[0])
        if path is None:
            raise self._why_missing(argv[0])
        return self._execute([path, *argv[1:]], own_environment(), timeout, user=self.user)

    def ask_library(self, driver: str = DRIVER, *, pages: bool = True, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Ask the driver's library once; every later call gets the same answer."""
        with self._lock:
            once = self._answers.setdefault(("libdcmi.so", driver, "pages" if pages else ""), Once())
        return once.answer(lambda: self._library.ask(driver, pages=pages, timeout=timeout))

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run in_target/NAME.py under `python`, with the job's variables and those of `environ`.

        It runs as `target_user`; raises Unavailable where that is not possible.
        """
        must_be_absent(self._library.hands_off)
        user = self.target_user(python)
        path = os.path.abspath(python) if "/" in python else self.which(python)
        if path is None:
            raise self._why_missing(python)
        environment = {**self.target_environ(python), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **(environ or {})}
        script = self._scripts.readable_by(user, f"{name.replace(' ', '_')}.py")
        confined = user if os.geteuid() == 0 else None
        try:
            return self._once([path, "-B", script], f"python {name}", environment, timeout, confined)
        except Unavailable as why:
            if why.because is Because.NO_RIGHT and (reason := self._why_users.get(path)):
                more = f"{reason}; name another Python with --python"
                raise Unavailable(f"{why.reason}, and {more}", because=why.because) from why
            raise

    def target_user(self, python: str) -> User:
        """As which user a target Python runs: the owner of the environment, else who decides what it executes."""
        if os.geteuid() != 0:
            return self.user
        if isinstance(self._owner, Unavailable):
            raise self._owner
        if self._owner is not None and self._owner.uid != 0:
            return self._owner
        with self._judging:
            path = os.path.abspath(python) if "/" in python else self.which(python) or python
            if path not in self._users:
                found = python_owner.who_decides(path, self._variables, self._looked_at)
                self._users[path], self._why_users[path] = found or (self.user, "")
            return self._users[path]

    def _looked_at(self, python: str, variables: Mapping[str, str]) -> tuple[str, ...]:
        """What a Python looks at when it starts, found out by a user who owns nothing; nothing where he cannot."""
        try:
            script = self._scripts.readable_by(identity.NO_ONE, "site_paths.py")
            done = self._execute([python, "-B", "-S", script], variables, LOOKING_S, user=identity.NO_ONE)
            return tuple(map(str, json.loads(done.stdout.strip().rpartition("\n")[2])))
        except (Unavailable, ValueError, TypeError, RecursionError):
            return ()

    @property
    def _variables(self) -> Mapping[str, str]:
        return self._environ if isinstance(self._environ, Mapping) else os.environ

    def target_environ(self, python: str) -> Mapping[str, str]:
        """The variables with which a target Python runs: the job's.

        A user who owns no more than the Python gets no secret of root's, and root no PATH or TMPDIR that others can
        write.
        """
        user = self.target_user(python)
        if os.geteuid() != 0 or (isinstance(self._owner, User) and self._owner.uid):
            return self._variables
        if user.uid:
            return python_owner.handed_on(self._variables, user)
        variables = python_owner.trusted_variables(self._variables)
        return {**variables, "PATH": python_owner.trusted_path(variables.get("PATH", os.defpath))}

    def _once(
        self, argv: list[str], key: str, environment: Mapping[str, str], timeout: float, user: User | None = None
    ) -> Completed:
        with self._lock:
            once = self._answers.setdefault((key, *argv), Once())
        return once.answer(lambda: self._in_turn(argv, key, environment, timeout, user))

    def _in_turn(
        self, argv: list[str], key: str, environment: Mapping[str, str], timeout: float, user: User | None
    ) -> Completed:
        tool = posixpath.basename(argv[0])
        if tool not in VENDOR_TOOLS:
            return self._execute(argv, environment, timeout, user=user, lets_go=key.startswith("python "))
        with self._alone if tool == ALONE else contextlib.nullcontext(), self._slots:
            must_be_absent(self._library.hands_off)
            if first := self._hung.get(tool):
                raise Unavailable(f"{tool} is not asked again: {first}", because=Because.TIMED_OUT)
            completed = self._execute(argv, environment, timeout, lets_go=True)
            if completed.timed_out:
                self._hung[tool] = f"`{key}` did not answer within {timeout:g} s"
            return completed

    def run_streaming(
        self, argv: Sequence[str], *, timeout: float, stream: Callable[[str], None] | None = None
    ) -> Completed:
        """Run a command anew, handing each piece of its output to `stream` as it comes."""
        if self._root:
            raise Unavailable("a command would change this machine, and not the one below --root")
        words, environment = self._command_of(argv)
        let_go()
        return self._execute(words, environment, timeout, stream, self._locks)

    def _execute(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        timeout: float,
        stream: Callable[[str], None] | None = None,
        locks: Sequence[int] = (),
        user: User | None = None,
        *,
        lets_go: bool = False,
    ) -> Completed:
        if user is None or not user.uid:
            tools.must_be_trusted(argv[0])
        if user is None and posixpath.basename(argv[0]).startswith("python"):
            python_owner.must_be_own(argv[0], environment, self._looked_at)  # pip, with npudoctor's own variables
        mark = f"{os.getpid()}.{next(_CALLS)}"
        started, since = time.monotonic(), processes.now()
        start = identity.Start(user, argv, {**environment, "NPUDOCTOR_CALL": mark}, locks)
        self._starting.add(mark)
        try:
            if self._closed:
                raise tools.given_up(argv, 0.0)
            process = processes.start(
                start.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=start.descriptors,
                env=start.environ,
                cwd=start.cwd or self._working_folder,
            )
            self._running[process] = mark
        except OSError as problem:
            if what_ran_out(problem):
                raise
            raise Unavailable(tools.why_not_started(argv[0], problem), because=tools.because(problem)) from problem
        except BaseException:
            processes.end_marked(mark)
            raise
        finally:
            self._starting.discard(mark)
        output, timed_out = Output(process, stream, self._library.hands_off if lets_go else None), True
        try:
            timed_out = output.collect(started + timeout)
        finally:
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()
            if timed_out or output.left_open or output.truncated or output.let_go:
                # or interrupted: it must not go on beside an undoing
                processes.end(process, mark, since)
            self._running.pop(process, None)
        if output.let_go:
            raise Maintenance(output.let_go, because=Because.FAILED)
        if self._closed and process.poll() == -signal.SIGKILL:
            raise tools.given_up(argv, time.monotonic() - started)
        try:
            start.must_have_started()
        except OSError as problem:
            raise Unavailable(tools.why_not_started(argv[0], problem), because=tools.because(problem)) from problem
        if process.poll() and (few := few_files()):
            raise OSError(errno.EMFILE, f"a tool failed while only {few} files may be open (ulimit -n)")
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
        self._library.close()
        until = time.monotonic() + GRACE_S  # a start may hang, where the program lies on a dead file server
        while self._starting and time.monotonic() < until:
            time.sleep(0.002)
        running = dict(self._running)
        for process in running:
            processes.signal_group(process, signal.SIGKILL)
        for mark in running.values():  # the caller may be gone by then
            processes.end_marked(mark)
        if running:
            processes.end_orphans(self._since)
        processes.reap()
        self._scripts.close()


def own_environment() -> dict[str, str]:
    """The variables of a tool: npudoctor's own, never a job's."""
    variables = dict(os.environ)
    if os.geteuid() == 0:  # a tool starts others, as apt-get does dpkg
        variables = python_owner.trusted_variables(os.environ)
        variables["PATH"] = python_owner.trusted_path(variables.get("PATH", os.defpath)) or os.defpath
    return {**variables, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
