"""The folders of packages that the person names on the command line; they are those of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from npudoctor.cli.output import UsageError
from npudoctor.control_characters import escape
from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.host import Unavailable
from npudoctor.packages.folder import read_folders

if TYPE_CHECKING:
    from npudoctor.host.live.local import LocalHost


def this_machine() -> LocalHost:
    """The machine that npudoctor runs on, whichever node is examined: package files are read, nothing of it is run."""
    from npudoctor.host.live import local

    return local.LocalHost()


def staged_in(folders: Sequence[str]) -> StagedPackages:
    """The packages in folders of this machine; raises UsageError for one that cannot be listed."""
    if "" in folders:  # such as "$REPO" of a script that has not set it
        raise UsageError("--packages '': expected a folder with package files")
    host = this_machine()
    try:
        return read_folders(host, [os.path.abspath(folder) for folder in folders])
    except Unavailable as why:
        raise UsageError(f"{escape(why.reason)}; expected a folder with package files") from why
    finally:
        host.close()
