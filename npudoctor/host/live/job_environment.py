"""Whose environment is judged: variables matter in the context of a job, and npudoctor is often run by something else.

`process` is this process's own; `login` and `login:USER` what a new login shell of that user has; `pid:N` that of a
running process; `file:PATH` one of KEY=VALUE lines. Without a choice: this process's, but the login environment of the
person behind it where sudo, systemd, cron or Ansible started npudoctor.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from npudoctor.findings import Because
from npudoctor.host import Unavailable, User
from npudoctor.host.live import accounts, tools
from npudoctor.host.live.identity import user_named, user_of
from npudoctor.host.live.safe_files import Unreadable, read_owned
from npudoctor.host.live.trust import foreign_writer

if TYPE_CHECKING:
    from npudoctor.host.live.local import LocalHost

FORMS = "process, login, login:USER, pid:N or file:PATH"
LOGIN_TIMEOUT_S = 10.0
PROCESS_LIMIT = 8 << 20
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MARK = "__npudoctor_environment__"


class BadEnvironment(ValueError):
    """The value of `--environment` is not valid; the text says what it may be."""


Owner = User | Unavailable | None
"""Who wrote an environment: None where it is npudoctor's own, Unavailable where several users could have."""


def resolve(
    spec: str | None, host: LocalHost, *, user: str | None = None
) -> tuple[str, Mapping[str, str] | Unavailable, Owner]:
    """The variables of a job, whose they are as the report names them, and the user who wrote them.

    `spec` is what the person asked for, None to choose; `user` the one whose login counts where no other is known.
    Raises BadEnvironment for a form that is none, a user or a process that is not there, a file that cannot be read.
    """
    spec = spec or _choose(user)
    kind, _, name = spec.partition(":")
    if spec == "process":
        return spec, dict(os.environ), None
    if kind == "login":
        name = name or user or accounts.user_name(os.geteuid())
        try:
            owner = user_named(name)
        except KeyError:
            raise BadEnvironment(f"--environment login:{name}: there is no user {name!r} on this node") from None
        except Unavailable as why:
            return f"login:{name}", why, why
        try:
            return f"login:{name}", _login(name, host), owner
        except Unavailable as why:
            return f"login:{name}", why, owner
    if kind == "pid" and re.fullmatch("[0-9]{1,10}", name):
        return spec, *_of_process(int(name))
    if kind == "file" and name:
        return spec, *_of_file(name)
    raise BadEnvironment(f"--environment {spec}: expected {FORMS}")


def _choose(user: str | None) -> str:
    if os.geteuid() == 0 and (invoker := os.environ.get("SUDO_USER")) and invoker != "root":
        return f"login:{invoker}"
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return "process"
    if _started_by_a_service():
        return f"login:{user}" if user else "login"
    return "process"


def _started_by_a_service() -> bool:
    """Whether systemd, cron or Ansible started this, and no person at a terminal."""
    with contextlib.suppress(OSError):
        if os.isatty(0) or os.isatty(2):
            return False
    if "INVOCATION_ID" in os.environ and "JOURNAL_STREAM" in os.environ:
        return True
    return any(name in ("cron", "crond") or "ansible" in command.lower() for name, command in _ancestors())


def _ancestors() -> list[tuple[str, str]]:
    """Name and command line of the processes above this one, nearest first."""
    found: list[tuple[str, str]] = []
    pid = os.getppid()
    while pid > 1 and len(found) < 32:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                command = file.read().replace("\0", " ")
            pid = int(rest.split()[1])
        except (OSError, ValueError, IndexError):
            break
        found.append((name, command))
    return found


def _login(name: str, host: LocalHost) -> Mapping[str, str]:
    """The variables of a new login shell, printed by that shell itself."""
    entry = accounts.user_by_name(name)
    say = f"printf '%s\\0' {_MARK}; env -0"
    if entry.pw_uid == os.geteuid():
        shell = entry.pw_shell or "/bin/sh"
        tools.must_be_trusted(shell)
        keep = {"HOME": entry.pw_dir, "USER": name, "LOGNAME": name, "SHELL": shell}
        argv = ["env", "-i", *(f"{key}={value}" for key, value in keep.items()), "TERM=dumb"]
        argv += [shell, "-l", "-c", say]
    elif os.geteuid() == 0:
        argv = ["su", "-", name, "-c", say]
    else:
        raise Unavailable(f"no job environment: only root can see {name}'s login environment", because=Because.NO_RIGHT)
    done = host.run_confined(argv, timeout=LOGIN_TIMEOUT_S)
    if done.timed_out:
        raise Unavailable(
            f"no job environment: the login shell of {name} did not answer within {LOGIN_TIMEOUT_S:g} s",
            because=Because.TIMED_OUT,
        )
    _, mark, text = done.stdout.partition(f"{_MARK}\0")
    if not mark:
        first = (done.stderr.strip() or "it printed nothing").splitlines()[0]
        raise Unavailable(f"no job environment: the login shell of {name} failed: {first}", because=Because.FAILED)
    return _variables(text.split("\0"))


def _of_process(pid: int) -> tuple[Mapping[str, str] | Unavailable, Owner]:
    """Owner and variables through one descriptor of /proc/PID, so that they are those of one process."""
    try:
        folder = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise BadEnvironment(f"--environment pid:{pid}: there is no process {pid}") from None
    try:
        before = _read_below(folder, "status", PROCESS_LIMIT)
        text = _read_below(folder, "environ", PROCESS_LIMIT)
        if _ids(before) != _ids(_read_below(folder, "status", PROCESS_LIMIT)):
            return Unavailable(f"no job environment: process {pid} is changing its user", because=Because.FAILED), None
    except PermissionError:
        return Unavailable(f"no job environment: process {pid} is another user's", because=Because.NO_RIGHT), None
    except OSError:  # it ended in between
        raise BadEnvironment(f"--environment pid:{pid}: there is no process {pid}") from None
    finally:
        os.close(folder)
    uids = {uid for uid in _ids(before) if uid}
    if len(uids) > 1:
        owner: Owner = Unavailable(f"process {pid} runs with the rights of several users", because=Because.NO_RIGHT)
    else:
        owner = user_of(uids.pop() if uids else 0)
    return _variables(text.decode("utf-8", "replace").split("\0")), owner


def _ids(status: bytes) -> tuple[int, ...]:
    """All users of a process: a set-user-ID program is root, and has the variables of its caller."""
    line = next(line for line in status.splitlines() if line.startswith(b"Uid:"))
    return tuple(map(int, line.split()[1:]))


def _read_below(folder: int, name: str, limit: int) -> bytes:
    handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    with open(handle, "rb") as file:
        return file.read(limit)


def _of_file(path: str) -> tuple[Mapping[str, str], Owner]:
    """The assignments of a regular file, and who besides root could have written them."""
    try:
        content, uid = read_owned(path)
        return _assignments(path, content.decode().splitlines()), _owner_of_file(path, uid)
    except Unreadable as problem:  # its text begins with the path
        raise BadEnvironment(f"--environment file:{problem}") from problem
    except UnicodeDecodeError as problem:
        raise BadEnvironment(f"--environment file:{path}: {problem}") from problem


def _owner_of_file(path: str, uid: int) -> Owner:
    if os.geteuid() != 0:
        return None
    where = os.path.abspath(path)
    found = foreign_writer(where)
    if found is not None and uid == 0 and found.uid is not None:
        uid = found.uid
    owner = user_of(uid)
    found = foreign_writer(where, users=(uid,), groups=(owner.gid,) if uid else None)
    if found is not None:
        return Unavailable(f"nothing named by {path} is run by root: {found.reason}", because=Because.NO_RIGHT)
    return owner


def _assignments(path: str, lines: list[str]) -> Mapping[str, str]:
    cleaned = [
        line.strip().removeprefix("export ") for line in lines if line.strip() and not line.lstrip().startswith("#")
    ]
    for number, line in enumerate(cleaned, 1):
        if "=" not in line:
            raise BadEnvironment(f"--environment file:{path}: assignment {number} is no KEY=VALUE: {line[:60]!r}")
    return {key: value.strip("\"'") for key, value in _variables(cleaned).items()}


def _variables(assignments: list[str]) -> dict[str, str]:
    pairs = (assignment.partition("=") for assignment in assignments)
    return {key: value for key, equals, value in pairs if equals and _NAME.fullmatch(key)}
