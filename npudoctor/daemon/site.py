"""What is decided outside the daemon: its configuration, what to look at, and where its files lie."""

from __future__ import annotations

from npudoctor.config import Config
from npudoctor.daemon_config import DaemonSettings
from npudoctor.records import record
from npudoctor.sdk import Options


@record(frozen=True, kw_only=True)
class Site:
    """The configuration, what to look at, and the daemon's own section of the configuration."""

    config: Config
    options: Options
    settings: DaemonSettings


@record(frozen=True, kw_only=True)
class Places:
    """Where its files lie: the socket, the state file, the history, and the journal of fixes (None: the usual one)."""

    socket: str
    state: str
    history: str
    journal: str | None = None
