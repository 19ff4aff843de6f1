"""The daemon's current state in one small file, for cheap health checks: neither pydantic nor psutil.

The file is replaced atomically. Ages use the machine's boot clock, which is not affected by changes of the wall clock
and is shared by a container and its host.
"""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Any, NamedTuple

from npudoctor.host.live.safe_files import Unreadable, read_trusted, why_untrusted

SCHEMA = "npudoctor.state/1"
PATH = "/run/npudoctor/state.json"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
LARGEST_BYTES = 1 << 20


class CardState(NamedTuple):
    """One chip: the N of /dev/davinciN, and its problem; None without one."""

    device: int
    problem: str | None


class State(NamedTuple):
    """The daemon's knowledge after its last run.

    `written_s` is a time of the boot clock, `interval_s` the interval of runs, both in seconds. `problem` is a
    health problem of the whole node; `undetermined` why health could not be determined.
    """

    boot_id: str
    written_s: float
    interval_s: float
    cards: tuple[CardState, ...]
    problem: str | None = None
    undetermined: str | None = None

    @property
    def age_s(self) -> float:
        """Its age in seconds."""
        return now_s() - self.written_s

    @property
    def is_fresh(self) -> bool:
        """Whether the last run was within two intervals."""
        return 0 <= self.age_s <= 2 * self.interval_s


class Untrusted(Exception):
    """The file exists but cannot be trusted; the text is a clause that names it and says why."""


def now_s() -> float:
    """The boot clock, in seconds; it continues while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """The id of this boot of this machine, equal inside a container and on its host."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


def write(path: str, state: State) -> None:
    """Replace the file; raises OSError and then leaves the old one in place."""
    said: dict[str, Any] = {"schema": SCHEMA, **state._asdict()}
    said["cards"] = [card._asdict() for card in state.cards]
    draft = f"{path}.{os.getpid()}"
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(said, file)
        os.replace(draft, path)
    except OSError:
        if os.path.lexists(draft):
            os.unlink(draft)
        raise


def sweep(path: str) -> None:
    """Remove drafts left by a daemon that was killed while writing."""
    folder, name = os.path.split(path)
    for one in os.listdir(folder or "."):
        stem, _, pid = one.rpartition(".")
        if stem == name and pid.isdigit():
            os.unlink(os.path.join(folder, one))


def read(path: str) -> State | None:
    """The state; None where there is no file. Raises Untrusted for one that cannot be read or relied on."""
    if not os.path.lexists(path):
        return None
    must_be_ours(path)
    try:
        return _parse(json.loads(read_trusted(path, LARGEST_BYTES)))
    except Unreadable as problem:
        raise Untrusted(str(problem)) from problem
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise Untrusted(f"{path} is not a state file of the daemon") from problem


def must_be_ours(path: str, *, folder: bool = False) -> None:
    """Raise Untrusted for a file or a folder that users other than root and this one can write."""
    if not folder and not stat.S_ISREG(os.lstat(path).st_mode):
        raise Untrusted(f"{path} must be a regular file")
    if reason := why_untrusted(path):
        raise Untrusted(f"{path} refused: {reason}")


def _parse(said: Any) -> State:
    if said["schema"] != SCHEMA:
        raise ValueError(said["schema"])
    cards = tuple(CardState(_of(int, card["device"]), _clause(card["problem"])) for card in said["cards"])
    return State(
        boot_id=_of(str, said["boot_id"]),
        written_s=float(said["written_s"]),
        interval_s=min(max(float(said["interval_s"]), 0.1), 86400.0),
        cards=cards,
        problem=_clause(said["problem"]),
        undetermined=_clause(said["undetermined"]),
    )


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(value)
    return value


def _clause(value: Any) -> str | None:
    return None if value is None else str(_of(str, value))
