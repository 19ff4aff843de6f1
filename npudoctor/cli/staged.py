"""The folders of packages that the person names on the command line; they are those of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from npudoctor.cli.output import UsageError
from npudoctor.control_characters import visible
from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.host import Unavailable
from npudoctor.packages.folder import read_folders


def staged_in(folders: Sequence[str]) -> StagedPackages:
    """The packages in folders of this machine; raises UsageError for one that cannot be listed."""
    from npudoctor.host.live.local import LocalHost

    host = LocalHost()
    try:
        return read_folders(host, [os.path.abspath(folder) for folder in folders])
    except Unavailable as why:
        raise UsageError(f"{visible(why.reason)}; expected a folder with package files") from why
    finally:
        host.close()
