"""Where a command lies. Root takes only programs that no other user can change: what PATH names may be a user's."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Mapping, Sequence

from npudoctor.findings import Because
from npudoctor.host import STANDARD_PLACES, Unavailable, command_key
from npudoctor.host.live.trust import foreign_writer, writer_within
from npudoctor.host.shortage import what_ran_out

_NO_RIGHT = Because.NO_RIGHT
_KEPT = ("PATH", "LANG", "LC_ALL")
_SEARCHED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


def find(name: str) -> str | None:
    """The path of a command: on PATH, else at the standard places of the vendor's tools; None where there is none."""
    if "/" in name:
        return name if os.path.lexists(name) else None
    for path in _on_path(name):
        if os.access(path, os.X_OK) and os.path.isfile(path) and why_untrusted(path) is None:
            return path
    places = (posixpath.join(place, name) for place in STANDARD_PLACES.get(name, ()))
    return next((path for path in places if os.path.lexists(path) and why_untrusted(path) is None), None)


def without_env(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """What `env [-i] NAME=VALUE... PROGRAM` starts, and with which variables; any other command as it is.

    The program is then judged as every other. Raises Unavailable where root would search a folder that another user
    can write.
    """
    words, variables = list(argv), dict(environment)
    if posixpath.basename(words[0]) != "env" or len(words) == 1:
        return words, variables
    del words[0]
    if words[0] == "-i":
        del words[0]
        variables = {name: value for name, value in variables.items() if name in _KEPT}
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        for folder in value.split(":") if name in _SEARCHED and os.geteuid() == 0 else ():
            found = writer_within(folder) if folder.startswith("/") else None
            if found or not folder.startswith("/"):
                why = found.reason if found else "it is not absolute"
                raise Unavailable(
                    f"root searches nothing in {folder or 'the working folder'}: {why}", because=_NO_RIGHT
                )
        variables[name] = value
    if not words:
        raise Unavailable("env has no program to start", because=Because.FAILED)
    return without_env(words, variables)


def why_missing(name: str) -> Unavailable:
    """Why a command is not run: it is nowhere, no user may execute it, or root passes over it."""
    for path in (*_on_path(name), *(posixpath.join(place, name) for place in STANDARD_PLACES.get(name, ()))):
        if "/" in name or not os.path.isfile(path):
            continue
        if reason := why_untrusted(path):
            return Unavailable(f"{path} is not run by root: {reason}", because=Because.NO_RIGHT)
        return Unavailable(why_not_started(path, PermissionError()), because=Because.NO_RIGHT)
    return Unavailable(f"{name} is not installed")


def must_be_trusted(path: str) -> None:
    """Raise Unavailable where root would run a program that others can change."""
    if reason := why_untrusted(path):
        raise Unavailable(f"{path} is not run by root: {reason}", because=Because.NO_RIGHT)


def why_untrusted(path: str) -> str | None:
    """Why root does not run this program, as a clause; None where it does, and for every other user."""
    if os.geteuid() != 0:
        return None
    if not path.startswith("/"):
        return "its folder on PATH is not absolute" if path.startswith("./") else "its path is not absolute"
    try:
        found = foreign_writer(path)
    except OSError as problem:
        if what_ran_out(problem):
            raise
        return f"it cannot be judged: {problem.strerror}"
    return found.reason if found else None


def why_not_started(path: str, problem: OSError) -> str:
    """Why a program that is there did not start, as a full clause."""
    if os.path.islink(path) and not os.path.exists(path):
        return f"{path} is a link to {os.readlink(path)}, which does not exist"
    if isinstance(problem, PermissionError) and os.path.isfile(path):
        return f"{path} cannot be executed: its mode is {stat.S_IMODE(os.stat(path).st_mode):04o}"
    return f"{path} cannot be started: {problem.strerror}"


def given_up(argv: Sequence[str], seconds: float) -> Unavailable:
    """Why a command gave no answer: it was no longer awaited."""
    command = command_key(argv)
    asked = f"`{command}` had not answered after {seconds:.1f} s" if seconds else f"`{command}` was not asked yet"
    return Unavailable(f"{asked} when the run's time was up", because=Because.TIMED_OUT)


def because(problem: OSError) -> Because:
    """Whether a program did not start for lack of a right."""
    return Because.NO_RIGHT if isinstance(problem, PermissionError) else Because.FAILED


def _on_path(name: str) -> list[str]:
    return [posixpath.join(folder or ".", name) for folder in os.environ.get("PATH", os.defpath).split(":")]
