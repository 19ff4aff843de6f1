"""Scripts of npudoctor's own, where every user can read them: npudoctor may be below a folder like /root."""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import stat
import tempfile
import threading

from npudoctor.findings import Because
from npudoctor.host import Unavailable, User
from npudoctor.host.live.trust import foreign_writer


class Scripts:
    """The scripts of one folder; where a user cannot reach it, a copy that `close` removes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._copy: str | None = None
        self._lock = threading.Lock()

    def readable_by(self, user: User, name: str) -> str:
        """The path of a script that this user can read."""
        if user.uid in (0, os.geteuid()) or can_read(user, posixpath.join(self._folder, name)):
            return posixpath.join(self._folder, name)
        with self._lock:
            self._copy = self._copy or _copy_folder(self._folder)
            return posixpath.join(self._copy, name)

    def close(self) -> None:
        """Remove the copy."""
        with self._lock:
            if self._copy is not None:
                shutil.rmtree(self._copy, ignore_errors=True)
                self._copy = None

    def __del__(self) -> None:
        self.close()


def can_read(user: User, path: str) -> bool:
    """Whether the modes of a file and of the folders above it let a user read it."""
    path = os.path.realpath(path)
    folders = [path]
    while folders[-1] != "/":
        folders.append(posixpath.dirname(folders[-1]))
    return all(_allows(user, os.stat(one), 4 if one == path else 1) for one in folders)


def _allows(user: User, found: os.stat_result, bit: int) -> bool:
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == user.uid:
        return bool(mode >> 6 & bit)
    return bool(mode >> 3 & bit) if found.st_gid in user.gids else bool(mode & bit)


def _copy_folder(folder: str) -> str:
    """A copy of the folder that all can read and only this user can write."""
    for place in (os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0], "/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108
        if not place or foreign_writer(place) is not None:
            continue
        with contextlib.suppress(OSError):
            made = tempfile.mkdtemp(prefix="npudoctor-scripts-", dir=place)
            for name in os.listdir(folder):
                if name.endswith(".py"):
                    shutil.copyfile(posixpath.join(folder, name), posixpath.join(made, name))
                    os.chmod(posixpath.join(made, name), 0o644)
            os.chmod(made, 0o755)  # noqa: S103 - it is to be read by all
            return made
    raise Unavailable(
        f"{folder} cannot be read by other users, and no copy of it can be made; install npudoctor where all can read",
        because=Because.NO_RIGHT,
    )
