"""The file of the history: private to this user, and renamed where it is damaged."""

from __future__ import annotations

import os
import sqlite3

from npudoctor import clock
from npudoctor.daemon.state import must_be_ours

KEPT_ASIDE = 3


def make_ready(path: str) -> None:
    """Create an empty private file; raises Untrusted where another user could write it."""
    folder = os.path.dirname(path) or "."
    try:
        must_be_ours(folder, folder=True)
        if os.path.lexists(path):
            must_be_ours(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as problem:
        raise sqlite3.OperationalError(problem.strerror) from problem


def set_aside(path: str) -> str:
    """Rename an unreadable file, and delete all but the latest few of its kind; its new name."""
    aside = f"{path}.corrupt-{clock.now():%Y%m%dT%H%M%S}"
    os.replace(path, aside)
    for left in (f"{path}-wal", f"{path}-shm"):
        if os.path.exists(left):
            os.unlink(left)
    folder, name = os.path.split(aside)
    kin = sorted(one for one in os.listdir(folder or ".") if one.startswith(name.rpartition("-")[0] + "-"))
    for old in kin[:-KEPT_ASIDE]:
        os.unlink(os.path.join(folder, old))
    return aside
