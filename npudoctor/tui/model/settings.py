"""The user's settings of the terminal interface, in one small file; a damaged file is ignored."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Annotated, Any

from npudoctor.data import read, to_json
from npudoctor.host import Refused
from npudoctor.host.live import accounts
from npudoctor.host.live.safe_files import Unreadable, make_folders, open_replacement, read_bounded
from npudoctor.records import record, replace
from npudoctor.value_rules import Between


@record(frozen=True, kw_only=True)
class Settings:
    """`theme` is empty until one is chosen; `interval_s` is the refresh interval of NPUs, None for automatic."""

    theme: str = ""
    ok: bool = True
    skipped: bool = True
    interval_s: Annotated[float, Between(0.5, 3600)] | None = None

    def with_values(self, **what: Any) -> Settings:
        """A copy with other values."""
        return replace(self, **what)


def path() -> str:
    """The path of the settings file."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(accounts.home() or "/", ".config")
    return os.path.join(home, "npudoctor", "tui.json")


def load() -> Settings:
    """Read the settings; the defaults where the file is missing or damaged."""
    try:
        return read(Settings, json.loads(read_bounded(path())), ignore_unknown=True)
    except (Unreadable, ValueError, RecursionError):
        return Settings()


def save(settings: Settings) -> None:
    """Write the settings; ignore a home that cannot be written or belongs to another user."""
    with contextlib.suppress(OSError, Refused):
        make_folders(os.path.dirname(path()))
        with open_replacement(path(), ours=True) as file:
            file.write(to_json(settings).encode())
