"""Users other than the one npudoctor runs as: commands run as them, and file access with their rights.

A command of a user is started by drop_rights.py, a small program that gives up root privileges before it becomes the
command: `Start` prepares that. A file that a user's variable names is opened with that user's rights, so that root
reads nothing for him that he may not read himself: `call_as` runs a short call in a thread of its own that has his
file-system ids and groups and no capability; the real and effective ids stay, so that he can neither signal nor trace
npudoctor meanwhile (setfsuid(2)). glibc applies setgroups(2) to every thread of a process, so the system call itself is
made.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import marshal
import os
import posixpath
import stat
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from npudoctor.findings import Because
from npudoctor.host import Unavailable, User
from npudoctor.host.live import accounts
from npudoctor.host.live.opening import open_place
from npudoctor.host.live.trust import foreign_writer, writer_within

Result = TypeVar("Result")

NOBODY = 65534
"""The group of a user id without an account, and the user who owns nothing."""

NO_ONE = User(name="no one", uid=0xFFFFFFF0, gid=0xFFFFFFF0, gids=(0xFFFFFFF0,), groups=())
"""A user who owns nothing: not the account `nobody`, which may own processes of services."""

DEADLINE_S = 10.0
"""How long one call with another user's rights may take: the file may lie on a dead file server."""

DROP_RIGHTS = posixpath.join(posixpath.dirname(__file__), "drop_rights.py")

_SETGROUPS = {"x86_64": 116, "aarch64": 159}
"""The number of setgroups(2), from <asm/unistd.h>."""

_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3


def user_of(uid: int) -> User:
    """A user by number; one without an account has no group but nogroup. Unavailable where no answer comes in time."""
    try:
        return _user(accounts.user_by_id(uid))
    except KeyError:
        return User(name=str(uid), uid=uid, gid=NOBODY, gids=(NOBODY,), groups=())


def user_named(name: str) -> User:
    """A user by name; KeyError where there is none, Unavailable where no answer comes in time."""
    return _user(accounts.user_by_name(name))


def own_user() -> User:
    """The user that npudoctor runs as."""
    gids = tuple(dict.fromkeys([os.getegid(), *os.getgroups()]))
    name, groups = accounts.user_name(os.geteuid()), tuple(map(accounts.group_name, gids))
    return User(name=name, uid=os.geteuid(), gid=os.getegid(), gids=gids, groups=groups)


def _user(entry: accounts.Account) -> User:
    gids = tuple(dict.fromkeys([entry.pw_gid, *accounts.groups_of(entry.pw_name, entry.pw_gid)]))
    return User(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, gids=gids, groups=())


_OF_THE_KERNEL = ("/proc/", "/sys/", "/dev/")


def reader_of(path: str) -> int | None:
    """With whose rights root reads a path: the number of the user who could put a link there; None for root's own.

    Where everybody could, those of a user without files: no more is read than everybody may read. Where a group could,
    root reads: system services share folders such as /var/log by a group.
    """
    here = posixpath.normpath(path)
    if os.geteuid() != 0 or (here.startswith(_OF_THE_KERNEL) and not here.startswith("/dev/shm/")):  # noqa: S108
        return None
    with contextlib.suppress(OSError):
        found = foreign_writer(path, every_group=True)
        if found is not None:
            return NOBODY if found.is_everybody else found.uid
    return None


def open_to_read(path: str, *, flags: int = 0, user: User | None = None) -> int:
    """A descriptor for reading, with the rights of `user` where one is given.

    Without one, what another user could replace by a link is opened with that user's rights.
    """

    return _with_rights(user, path, lambda: _open(path, flags), lambda: _open_own(path, flags))


def _open(path: str, flags: int = 0, folder: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags, dir_fd=folder)


def _open_own(path: str, flags: int = 0) -> int:
    """Open part by part, so that a link such as /proc/self/cwd is followed by its name, which a user may not reach.

    The kernel would follow it to what npudoctor itself has open (proc(5)), no matter who owns the folders above.
    """
    with open_place(path, _anybody) as place:
        return _open(place.name, flags | os.O_NOFOLLOW, place.folder)


def _look_at_own(path: str) -> os.stat_result:
    with open_place(path, _anybody) as place:
        if place.stat is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return place.stat


def _anybody(*_: object) -> None:
    """Accept every owner: the user's own rights decide what is reached."""


def look_at(path: str, *, user: User | None = None) -> os.stat_result:
    """What lies at a path, links followed, with the rights with which `open_to_read` would open it."""
    return _with_rights(user, path, lambda: os.stat(path), lambda: _look_at_own(path))


def _with_rights(user: User | None, path: str, call: Callable[[], Result], call_own: Callable[[], Result]) -> Result:
    """What `call` returns, or `call_own` with a user's rights."""
    if user is None and (uid := reader_of(path)) is not None:
        user = user_of(uid)
    return call() if user is None else call_as(user, call_own, path)


class Start:
    """What to hand to subprocess so that a command runs as `user`; None: as npudoctor's own, in the usual way.

    A command of root is confined too: no_new_privs, no core file, and no descriptor but the standard ones and `keep`.
    Its folder is the present one where only `user` and root can write there, else `/`: an empty entry of PYTHONPATH
    means the working folder.
    """

    def __init__(
        self, user: User | None, argv: Sequence[str], environ: Mapping[str, str], keep: Sequence[int] = ()
    ) -> None:
        self._told = -1
        self.argv, self.environ, self.descriptors = list(argv), dict(environ), tuple(keep)
        self.cwd: str | None = None
        self._user = user
        self._program = argv[0]
        if user is None:
            return
        wanted = {
            "uid": 0 if user.uid == os.geteuid() else user.uid,  # 0: stay who you are
            "gid": user.gid,
            "gids": list(user.gids),
            "argv": [os.fsencode(word) for word in argv],
            "env": {os.fsencode(name): os.fsencode(value) for name, value in environ.items() if _is_valid(name, value)},
            "cwd": private_folder(user),
            "keep": list(keep),
        }
        self._told = unnamed_file()
        os.write(self._told, marshal.dumps(wanted))
        self.descriptors = (*keep, self._told)
        self.argv = [sys.executable, "-I", "-S", DROP_RIGHTS, str(self._told)]
        own = ("LD_LIBRARY_PATH", "NPUDOCTOR_CALL")  # npudoctor's own, with which it was itself started, and the mark
        self.environ = {name: value for name, value in os.environ.items() if name == own[0]}
        self.environ |= {name: value for name, value in environ.items() if name == own[1]}
        self.cwd = "/"

    def must_have_started(self) -> None:
        """Raise Unavailable, or OSError for npudoctor's own user, where the command was not started.

        It is known once the process has ended.
        """
        if self._told < 0:
            return
        said = os.pread(self._told, 4096, 0)
        if not said.startswith(b"!"):
            return
        assert self._user is not None
        number, _, text = said[1:].decode("utf-8", "replace").partition(" ")
        if self._user.uid == os.geteuid():
            raise OSError(int(number), os.strerror(int(number)))
        reason = os.strerror(int(number)) if int(number) else text
        raise Unavailable(
            f"{self._program} cannot be started as {self._user.name}: {reason}",
            because=Because.NO_RIGHT if int(number) in (1, 13) else Because.FAILED,
        )

    def __del__(self) -> None:
        if self._told >= 0:
            os.close(self._told)
            self._told = -1


_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
"""Numbers of the system call (Linux, asm/unistd.h)."""
_MFD_CLOEXEC = 1


def unnamed_file() -> int:
    """A descriptor of an empty file in memory; raises OSError.

    The archive's Python has no os.memfd_create, since glibc 2.17 has no function for it. Linux before 3.17 (CentOS 7)
    has no such call: there it is a temporary file without a name.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create("npudoctor")
    import tempfile

    number = _MEMFD_CREATE.get(os.uname().machine, -1)
    handle = int(ctypes.CDLL(None).syscall(ctypes.c_long(number), b"npudoctor", ctypes.c_uint(_MFD_CLOEXEC)))
    if handle >= 0:
        return handle
    with tempfile.TemporaryFile(buffering=0) as file:
        return os.dup(file.fileno())


def _is_valid(name: str, value: str) -> bool:
    return bool(name) and "=" not in name and "\0" not in name + value


def private_folder(user: User) -> str:
    """The working folder, where only `user` and root can write in it, else `/`."""
    with contextlib.suppress(OSError):
        folder = os.getcwd()
        if writer_within(folder, users=(user.uid,), groups=(user.gid,)) is None:
            return folder
    return "/"


def read_as(user: User, path: str, limit: int, *, deadline_s: float = DEADLINE_S) -> bytes:
    """The first `limit` bytes of a regular file, opened with the rights of `user`.

    Raises OSError as open(2) does for that user, and Unavailable where it is no regular file, or his rights cannot be
    taken on here: nothing is opened with more rights than his.
    """

    def read() -> bytes:
        with open(_open_own(path), "rb", buffering=0) as file:
            handle = file.fileno()
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Unavailable(f"{path} is not a regular file", because=Because.FAILED)
            pieces = bytearray()
            while len(pieces) < limit and (piece := file.read(min(limit - len(pieces), 1 << 20))):
                pieces += piece
            return bytes(pieces)

    return call_as(user, read, path, deadline_s=deadline_s)


def call_as(user: User, call: Callable[[], Result], what: str, *, deadline_s: float = DEADLINE_S) -> Result:
    """What `call` returns or raises with the file rights of `user`; `what` names it in the reason for a failure.

    This process's own user needs no other rights. Only root can take on another user's.
    """
    if user.uid == os.geteuid():
        return call()
    answers: list[Callable[[], Result]] = []

    def work() -> None:
        try:
            _take_file_rights(user)
            result = call()
        except BaseException as problem:  # raised where the result is awaited
            failure = problem
            answers.append(lambda: _raise(failure))
        else:
            answers.append(lambda: result)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(deadline_s)
    if not answers:
        raise Unavailable(f"{what} did not answer within {deadline_s:g} s", because=Because.TIMED_OUT)
    return answers[0]()


def _raise(problem: BaseException) -> Result:  # type: ignore[type-var]
    raise problem


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def _take_file_rights(user: User) -> None:
    """Give this thread the file-system ids and the groups of a user, and no capability; raises Unavailable."""
    refused = Unavailable(f"the rights of {user.name} cannot be taken on here", because=Because.NO_RIGHT)
    number = _SETGROUPS.get(os.uname().machine)
    if os.geteuid() != 0 or number is None:
        raise refused
    libc = ctypes.CDLL(None, use_errno=True)
    gids = (ctypes.c_uint32 * len(user.gids))(*user.gids)
    if libc.syscall(ctypes.c_long(number), ctypes.c_long(len(user.gids)), gids) != 0:
        raise refused
    for set_id, wanted in ((libc.setfsgid, user.gid), (libc.setfsuid, user.uid)):
        set_id(ctypes.c_uint32(wanted))
        if set_id(ctypes.c_uint32(0xFFFFFFFF)) != wanted:  # an invalid id changes nothing and returns the present one
            raise refused
    header, none = _CapabilityHeader(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(ctypes.byref(header), none) != 0:
        raise refused
