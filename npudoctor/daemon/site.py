"""The daemon's inputs: its configuration, the node, and the paths of its files."""

from __future__ import annotations

from npudoctor.config import Config
from npudoctor.daemon_config import DaemonSettings
from npudoctor.host import hands_off
from npudoctor.records import record
from npudoctor.sdk import Options


@record(frozen=True, kw_only=True)
class Site:
    """The configuration, the node, and the daemon's section of the configuration."""

    config: Config
    options: Options
    settings: DaemonSettings


@record(frozen=True, kw_only=True)
class Places:
    """Paths of the socket, the state file, the history, and the journal of fixes (None: the default one).

    `hands_off` is the file that forbids to ask the driver.
    """

    socket: str
    state: str
    history: str
    journal: str | None = None
    hands_off: str = hands_off.PATH
