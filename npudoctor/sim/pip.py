"""The simulated Python's pip, as far as fixes use it: resolve, install, uninstall, and the script that keeps files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from npudoctor.host import Completed
from npudoctor.sim.target import Target

_OWN_SCRIPT = "npudoctor-packages.py"


class Pip:
    """It finds every release that is asked for by its number, and nothing that is not."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._kept: dict[str, dict[str, str]] = {}

    def answer(self, argv: Sequence[str]) -> Completed | None:
        """What a dry run prints; None for any other command."""
        words = self._words(argv)
        if words is None or "--dry-run" not in words:
            return None
        wanted = self._wanted_versions(words)
        if wanted is None:
            return Completed(returncode=1, stderr="ERROR: No matching distribution found\n", seconds=1.0)
        there = {} if "--ignore-installed" in words else self.target.packages
        new = {name: version for name, version in wanted.items() if there.get(name) != version}
        listed = [{"metadata": {"name": name, "version": version}} for name, version in new.items()]
        return Completed(returncode=0, stdout=json.dumps({"version": "1", "install": listed}), seconds=2.0)

    def act(self, argv: Sequence[str]) -> Completed | None:
        """Change the packages; None for a command that is not pip's."""
        if _OWN_SCRIPT in argv:
            what, archive, *names = argv[list(argv).index(_OWN_SCRIPT) + 1 :]
            if what == "done":
                return Completed(returncode=0)
            return self._keep(archive, names) if what == "keep" else self._restore(archive, names)
        words = self._words(argv)
        if words is None or "--dry-run" in words:
            return None
        if words[0] == "uninstall":
            for name in words[1:]:
                self.target.packages.pop(name, None)
            return Completed(returncode=0, stdout="", seconds=1.0)
        wanted = self._wanted_versions(words)
        if wanted is None:
            return Completed(returncode=1, stderr="ERROR: No matching distribution found\n", seconds=1.0)
        self.target.packages.update(wanted)
        said = " ".join(f"{name}-{version}" for name, version in wanted.items())
        return Completed(returncode=0, stdout=f"Successfully installed {said}\n", seconds=8.0)

    def _words(self, argv: Sequence[str]) -> list[str] | None:
        """The words after `python -m pip`."""
        ours = argv[0].startswith(f"{self.target.prefix}/bin/python")
        return list(argv[3:]) if ours and list(argv[1:3]) == ["-m", "pip"] else None

    def _wanted_versions(self, words: list[str]) -> dict[str, str] | None:
        found = {}
        for word in words[1:]:
            if word.startswith("-"):
                continue
            match = re.fullmatch(r"([\w.-]+?)(?:==(\S+)|<(\d+))?", word)
            if match is None:
                return None
            name = re.sub(r"[-_.]+", "-", match[1]).lower()
            found[name] = match[2] or ("1.26.4" if name == "numpy" else "1.0")
        return found

    def _keep(self, archive: str, names: Sequence[str]) -> Completed:
        self._kept[archive] = {name: self.target.packages[name] for name in names if name in self.target.packages}
        return Completed(returncode=0, seconds=1.0)

    def _restore(self, archive: str, names: Sequence[str]) -> Completed:
        if archive in self._kept:
            for name in names:
                self.target.packages.pop(name, None)
            self.target.packages.update(self._kept[archive])
        return Completed(returncode=0, seconds=1.0)
