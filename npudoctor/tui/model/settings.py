"""The user's settings of the terminal interface, in one small file; a damaged file is ignored."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from npudoctor.host import Refused
from npudoctor.host.live import accounts
from npudoctor.host.live.safe_files import Unreadable, make_folders, read_bounded, written
from npudoctor.records import record, replace


@record(frozen=True, kw_only=True)
class Settings:
    """`theme` is empty until one is chosen; `interval_s` is the refresh interval of NPUs, None for automatic."""

    theme: str = ""
    ok: bool = True
    skipped: bool = True
    interval_s: float | None = None

    def changed(self, **what: Any) -> Settings:
        """A copy with other values."""
        return replace(self, **what)


def path() -> str:
    """The path of the settings file."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(accounts.home() or "/", ".config")
    return os.path.join(home, "npudoctor", "tui.json")


def load() -> Settings:
    """Read the settings; unknown values keep their default."""
    try:
        found = json.loads(read_bounded(path()))
    except (Unreadable, ValueError, RecursionError):
        return Settings()
    if not isinstance(found, dict):
        return Settings()
    interval = found.get("interval_s")
    return Settings(
        theme=found["theme"] if isinstance(found.get("theme"), str) else "",
        ok=found.get("ok") is not False,
        skipped=found.get("skipped") is not False,
        interval_s=float(interval) if isinstance(interval, (int, float)) and 0.5 <= interval <= 3600 else None,
    )


def save(settings: Settings) -> None:
    """Write the settings; ignore a home that cannot be written or belongs to another user."""
    words = {name: getattr(settings, name) for name in ("theme", "ok", "skipped", "interval_s")}
    with contextlib.suppress(OSError, Refused):
        make_folders(os.path.dirname(path()))
        with written(path(), ours=True) as file:
            file.write(json.dumps(words).encode())
