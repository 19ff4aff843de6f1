"""Plain users of this machine, for tests that run as root: an attack is only one if another user makes it.

A uid alone does for files, processes and sockets. A login wants an entry in /etc/passwd: `with_accounts` runs a
command in a mount namespace in which these files are copies with the accounts added, so the machine keeps its own.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ALICE = 24242
BOB = 24343
NAMES = {ALICE: "alice24242", BOB: "bob24343"}

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="requires root: it compares root with a plain user")
"""Marks a test that only root can run."""


def identity(uid: int) -> dict[str, Any]:
    """What makes subprocess start a command as a plain user without further groups."""
    return {"user": uid, "group": uid, "extra_groups": []}


def run_as(uid: int, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a plain user and return what it printed."""
    said: dict[str, Any] = {"capture_output": True, "encoding": "utf-8", "errors": "replace"}
    return subprocess.run(argv, check=False, **said, **identity(uid), **options)


def give(path: Path, uid: int) -> Path:
    """Hand a file, or a folder with all that is in it, to a user; the folders above it are opened for passage."""
    for one in (path, *path.rglob("*")):
        os.chown(one, uid, uid, follow_symlinks=False)
    for folder in path.parents:
        if folder != Path(folder.anchor) and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    return path


def accounts_missing() -> str | None:
    """Why no accounts can be added here; None where they can."""
    if os.geteuid() != 0:
        return "requires root: accounts are added in a mount namespace"
    if not (shutil.which("unshare") and shutil.which("mount")):
        return "unshare and mount (util-linux) are not installed"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, encoding="utf-8", check=False)
    return f"no mount namespace here: {done.stderr.strip()}" if done.returncode else None


def with_accounts(argv: Sequence[str], folder: Path) -> list[str]:
    """The command as it runs where alice and bob have accounts, with homes FOLDER/home/NAME and /bin/sh.

    `folder` must be one that plain users can pass through; use the fixture `open_folder`.
    """
    (folder / "home").mkdir(exist_ok=True)
    texts = {name: (Path("/etc") / name).read_text(encoding="utf-8") for name in ("passwd", "group", "shadow")}
    for uid, name in NAMES.items():
        home = folder / "home" / name
        if not home.exists():
            home.mkdir()
            os.chown(home, uid, uid)
        texts["passwd"] += f"{name}:x:{uid}:{uid}::{home}:/bin/sh\n"
        texts["group"] += f"{name}:x:{uid}:\n"
        texts["shadow"] += f"{name}:!:19000:0:99999:7:::\n"
    script = ""
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        script += f'mount --bind "{folder}/{name}" /etc/{name}; '
    (folder / "shadow").chmod(0o600)
    script += 'exec "$@"'
    return ["unshare", "--mount", "sh", "-ec", script, "sh", *argv]
