"""Bandwidths of earlier smoke runs of this user on this node, to detect a link that has become slow.

One line of JSON per run, in smoke-history.jsonl in the state folder ($XDG_STATE_HOME or ~/.local/state, npudoctor).
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
from typing import Any

from npudoctor import clock
from npudoctor.host import Refused
from npudoctor.host.live import accounts
from npudoctor.host.live.safe_files import Unreadable, make_folders, open_replacement, read_bounded
from npudoctor.smoke.events import Bandwidth, Planned

FILE = "smoke-history.jsonl"
KEPT = 200
ENOUGH = 3
"""The fewest runs that make a baseline."""


def default_folder() -> str:
    """The state folder of this user."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(accounts.home() or "/", ".local", "state")
    return os.path.join(home, "npudoctor")


def kind_of(planned: Planned) -> str:
    """The key of comparable runs: product, NPUs, and number of nodes."""
    cards = ",".join(one.card or one.device for one in planned.ranks)
    return f"{planned.product or planned.family} {cards} of {planned.world_size} on {planned.nnodes}"


def usual_bus_gb_s(planned: Planned, folder: str) -> float | None:
    """The median of earlier runs with this key; None where there are too few."""
    kind = kind_of(planned)
    values = [float(one["bus_gb_s"]) for one in _read(folder) if one["kind"] == kind]
    return statistics.median(values[-20:]) if len(values) >= ENOUGH else None


def remember(planned: Planned, rows: tuple[Bandwidth, ...], folder: str, *, min_bytes: int) -> None:
    """Add a run that passed; ignore a folder that cannot be written."""
    speeds = [row.bus_gb_s for row in rows if row.size_bytes >= min_bytes]
    if not speeds:
        return
    kept = [*_read(folder), {"kind": kind_of(planned), "at": int(clock.timestamp()), "bus_gb_s": round(max(speeds), 3)}]
    path = os.path.join(folder, FILE)
    with contextlib.suppress(OSError, Refused):
        make_folders(folder)
        with open_replacement(path, ours=True) as file:
            file.writelines(f"{json.dumps(one)}\n".encode() for one in kept[-KEPT:])


def _read(folder: str) -> list[dict[str, Any]]:
    found = []
    with contextlib.suppress(Unreadable):
        for line in read_bounded(os.path.join(folder, FILE)).decode("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError, TypeError, KeyError):
                one = json.loads(line)
                found.append({"kind": str(one["kind"]), "at": int(one["at"]), "bus_gb_s": float(one["bus_gb_s"])})
    return found
