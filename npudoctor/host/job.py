"""Whose environment is judged: variables matter in the context of a job, and npudoctor is often run by something else.

`process` is this process's own; `login` and `login:USER` what a new login shell of that user has; `pid:N` that of a
running process; `file:PATH` one of KEY=VALUE lines. Without a choice: this process's, but the login environment of the
person behind it where sudo, systemd, cron or Ansible started npudoctor.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Mapping
from typing import TYPE_CHECKING

from npudoctor.findings import Because
from npudoctor.host import Unavailable

if TYPE_CHECKING:
    from npudoctor.host.local import LocalHost

FORMS = "process, login, login:USER, pid:N or file:PATH"
LOGIN_TIMEOUT_S = 10.0
_MARK = "__npudoctor_environment__"


class BadEnvironment(ValueError):
    """`--environment` names nobody's environment; the text says what it may name."""


def resolve(
    spec: str | None, host: LocalHost, *, user: str | None = None
) -> tuple[str, Mapping[str, str] | Unavailable]:
    """The variables of a job and whose they are, as the report names them.

    `spec` is what the person asked for, None to choose; `user` the one whose login counts where nobody else is known.
    Raises BadEnvironment for a form that is none, a user or a process that is not there, a file that cannot be read.
    """
    spec = spec or _choose(user)
    kind, _, name = spec.partition(":")
    if spec == "process":
        return spec, dict(os.environ)
    if kind == "login":
        name = name or user or pwd.getpwuid(os.geteuid()).pw_name
        try:
            return f"login:{name}", _login(name, host)
        except Unavailable as why:
            return f"login:{name}", why
    if kind == "pid" and name.isdigit():
        return spec, _of_process(int(name))
    if kind == "file" and name:
        return spec, _of_file(name)
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
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise BadEnvironment(f"--environment login:{name}: there is no user {name!r} on this node") from None
    say = f"printf '%s\\0' {_MARK}; env -0"
    if entry.pw_uid == os.geteuid():
        keep = {"HOME": entry.pw_dir, "USER": name, "LOGNAME": name, "SHELL": entry.pw_shell or "/bin/sh"}
        argv = ["env", "-i", *(f"{key}={value}" for key, value in keep.items()), "TERM=dumb"]
        argv += [entry.pw_shell or "/bin/sh", "-l", "-c", say]
    elif os.geteuid() == 0:
        argv = ["su", "-", name, "-c", say]
    else:
        raise Unavailable(f"no job environment: only root can see {name}'s login environment", because=Because.NO_RIGHT)
    done = host.run(argv, timeout=LOGIN_TIMEOUT_S)
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


def _of_process(pid: int) -> Mapping[str, str] | Unavailable:
    try:
        with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:
            return _variables(file.read().split("\0"))
    except FileNotFoundError:
        raise BadEnvironment(f"--environment pid:{pid}: there is no process {pid}") from None
    except PermissionError:
        return Unavailable(f"no job environment: process {pid} is another user's", because=Because.NO_RIGHT)


def _of_file(path: str) -> Mapping[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadEnvironment(f"--environment file:{path}: {getattr(problem, 'strerror', None) or problem}") from problem
    cleaned = [
        line.strip().removeprefix("export ") for line in lines if line.strip() and not line.lstrip().startswith("#")
    ]
    for number, line in enumerate(cleaned, 1):
        if "=" not in line:
            raise BadEnvironment(f"--environment file:{path}: assignment {number} is no KEY=VALUE: {line[:60]!r}")
    return {key: value.strip("\"'") for key, value in _variables(cleaned).items()}


def _variables(assignments: list[str]) -> dict[str, str]:
    pairs = (assignment.partition("=") for assignment in assignments)
    return {key: value for key, equals, value in pairs if equals and key}
