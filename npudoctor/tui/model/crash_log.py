"""The file that keeps the traceback of an internal error of the terminal interface."""

from __future__ import annotations

import os

from npudoctor import clock
from npudoctor.host import Refused
from npudoctor.host.live import accounts
from npudoctor.host.live.safe_files import Unreadable, append


def write(text: str) -> str:
    """Append a traceback; a clause for the user that says where it was written, or why it was not."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(accounts.home() or "/", ".local", "state")
    path = os.path.join(home, "npudoctor", "tui.log")
    try:
        append(path, f"{clock.local():%Y-%m-%d %H:%M:%S}\n{text}\n")
    except (OSError, Refused, Unreadable) as problem:
        return f"cannot write the log {path}: {getattr(problem, 'strerror', None) or problem}"
    return f"see {path}"
