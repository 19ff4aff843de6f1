"""The commands of a terminal session in a log: which one printed a line, and which later one runs the same again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

_PROMPT = re.compile(
    rb"^(?:\([\w.-]{1,40}\) )?(?:\$|(?:ba)?sh-\d\.\d[$#]|\[?[\w.-]{1,40}@[\w.-]{1,60}[: ][^\]$#\n]{0,80}\]?[$#])"
    rb" {1,4}(?P<command>[^\s#][^\n]{0,400})",
    re.MULTILINE,
)
_PARTS = re.compile(r"&&|\|\||;")
_REDIRECTED = re.compile(r"[\d&]?>{1,2} {0,4}\S{1,200}")
_BEFORE = re.compile(
    r"^(?:\w{1,60}=\S{0,400}|sudo|env|nohup|time|exec|command|stdbuf|bash|sh|-\S{0,60}|\d{1,9}[smKMG]?)$"
)
"""Words that say nothing of which program a command runs."""

_NAMES_MORE = frozenset(
    {
        *(
            "apt",
            "apt-get",
            "cat",
            "conda",
            "dnf",
            "docker",
            "kubectl",
            "ls",
            "mamba",
            "pip",
            "pip3",
            "python",
            "python3",
        ),
        *("ssh", "systemctl", "torchrun", "uv", "yum"),
    }
)
"""Programs of which three words tell one command from another, and not two."""


class Commands:
    """The commands of one file, as far as it was read."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._names: list[str] = []

    def read(self, block: bytes, offset: int) -> None:
        """Find the commands in whole lines that begin at this offset of the file."""
        for found in _PROMPT.finditer(block):
            self._ends.append(offset + found.start())
            self._names.append(name_of(found["command"].decode("utf-8", "replace")))

    def number_at(self, offset: int) -> int:
        """The number of the command that printed the line at this offset, from 1; 0 before the first one."""
        return bisect_right(self._ends, offset)

    @property
    def names(self) -> tuple[str, ...]:
        """What each command runs."""
        return tuple(self._names)


def name_of(command: str) -> str:
    """What the last part of a command runs: `docker build`, `python train.py`, `pip install torch`."""
    last = _REDIRECTED.sub(" ", _PARTS.split(command)[-1].partition("|")[0])
    words = [word.removeprefix("./") for word in last.split() if not _BEFORE.match(word)]
    if words and words[0] in ("source", "."):
        return f"source {words[1].rsplit('/', 1)[-1]}" if len(words) > 1 else "source"
    more = bool(words) and words[0] in _NAMES_MORE and words[:2] != ["docker", "build"]
    return " ".join(words[: 3 if more else 2])


def is_run_again(number: int, names: Sequence[str]) -> bool:
    """Whether a later command runs the same as this one; `number` counts from 1, 0 is no command."""
    return number > 0 and bool(names[number - 1]) and names[number - 1] in names[number:]
