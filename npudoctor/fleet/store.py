"""The folder of a run: who was expected, what each node answered, and what became of it.

    RUN/expected.txt      one name a line, in the order of the targets
    RUN/nodes/NAME.json.gz
    RUN/asked.json        with which options they were asked
    RUN/outcomes.jsonl    one line for each attempt; the last of a node counts
    RUN/fleet.json        the merged report

Every file is complete or not there, so that a run that was killed can be resumed and merged again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence

from npudoctor.data import read, to_data
from npudoctor.fleet.line import MOST_BYTES, file_name
from npudoctor.fleet.outcomes import Outcome
from npudoctor.fleet.targets import BadTargets, check_names
from npudoctor.host.live import safe_files
from npudoctor.host.live.safe_files import Unreadable

MOST_OUTCOMES = 64 << 20
"""The most bytes of outcomes.jsonl that are read."""


class Run:
    """One run folder, which only this user may read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, *names: str) -> str:
        """A path in the folder."""
        return os.path.join(self.folder, *names)

    def begin(self, names: Sequence[str]) -> None:
        """Make the folder and note who is expected; raises OSError and Refused."""
        safe_files.make_folders(os.path.join(self.folder, "nodes"))
        os.chmod(self.folder, 0o700)
        with safe_files.open_replacement(self.path("expected.txt")) as file:
            file.write("".join(f"{name}\n" for name in names).encode())

    def expected_names(self) -> list[str]:
        """The names in order; none where the run has no list. Raises BadTargets for one that no host can have."""
        try:
            text = safe_files.read_bounded(self.path("expected.txt"), 16 << 20).decode("utf-8", "replace")
        except Unreadable:
            return []
        names = [line for line in text.splitlines() if line]
        try:
            return check_names(names) if names else []
        except BadTargets as problem:
            raise BadTargets(f"{self.path('expected.txt')}: {problem}") from None

    def options_asked(self) -> dict[str, object]:
        """The options with which its nodes were asked; none where the run has no such file, or another one."""
        with contextlib.suppress(Unreadable, ValueError, RecursionError):
            said = json.loads(safe_files.read_bounded(self.path("asked.json")))
            return dict(said) if isinstance(said, dict) else {}
        return {}

    def keep(self, outcome: Outcome, content: bytes | None) -> None:
        """Store what a node answered, then what became of it."""
        if content is not None:
            with safe_files.open_replacement(self.path("nodes", f"{file_name(outcome.node)}.json.gz")) as file:
                file.write(content)
        told = {name: value for name, value in to_data(outcome).items() if value is not None}
        safe_files.append(self.path("outcomes.jsonl"), json.dumps(told, ensure_ascii=False) + "\n")

    def outcomes(self) -> dict[str, Outcome]:
        """The last outcome of each node; a line that was not completed is ignored."""
        found: dict[str, Outcome] = {}
        with contextlib.suppress(Unreadable):
            for line in safe_files.read_bounded(self.path("outcomes.jsonl"), MOST_OUTCOMES).splitlines():
                with contextlib.suppress(ValueError, RecursionError):
                    outcome = read(Outcome, json.loads(line), ignore_unknown=True)
                    found[outcome.node] = outcome
        return found

    def content(self, name: str) -> bytes | None:
        """The stored answer of a node; None without one."""
        try:
            return safe_files.read_bounded(self.path("nodes", f"{file_name(name)}.json.gz"), MOST_BYTES)
        except Unreadable:
            return None

    def write(self, name: str, text: str) -> None:
        """Write a file of the run as a whole."""
        with safe_files.open_replacement(self.path(name)) as file:
            file.write(text.encode())


def files_of(paths: Sequence[str]) -> Iterator[str]:
    """The files that these paths name: of a folder those below it whose name ends as an answer's does."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        folder = os.path.join(path, "nodes") if os.path.isdir(os.path.join(path, "nodes")) else path
        for name in sorted(os.listdir(folder)):
            if name.endswith((".json.gz", ".json", ".line", ".txt", ".out")) and name not in _NOT_ANSWERS:
                yield os.path.join(folder, name)


_NOT_ANSWERS = frozenset({"expected.txt", "fleet.json"})
