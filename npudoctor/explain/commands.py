"""The commands of a terminal session in a log: which one printed a line, and which later one runs the same again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from npudoctor.explain.lines import PROMPT

_COMMAND = re.compile(rf"^{PROMPT} {{1,4}}(?P<command>[^\s#][^\n]{{0,400}})".encode(), re.MULTILINE)
_MOST = 200
"""Commands of a session; a log with more lines like prompts is none."""

_REDIRECTED = re.compile(r"[\d&]?>{1,2} {0,4}\S{1,200}")
_PARTS = re.compile(r"&&|\|\||;")
_BEFORE = re.compile(r"^(?:\w{1,60}=\S{0,400}|sudo|env|nohup|time|exec|command|stdbuf|bash|sh|-\S{0,60})$")
"""Words that say nothing of which program a command runs."""

_ASKS = re.compile(r"(?:^|\s)(?:--help|-h|--version|-V)(?:\s|$)")
_LOOPS = re.compile(r"^(?:for|while|until|if|case|function|done|fi|esac|[({}])(?:\s|$)")


class Commands:
    """The commands of one file, as far as it was read."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._runs: list[tuple[str, ...]] = []

    def read(self, block: bytes, offset: int) -> None:
        """Find the commands in whole lines that begin at this offset of the file."""
        for found in _COMMAND.finditer(block):
            if len(self._starts) > _MOST:
                break
            self._starts.append(offset + found.start())
            self._ends.append(offset + found.end())
            self._runs.append(words_of(found["command"].decode("utf-8", "replace")))

    @property
    def is_session(self) -> bool:
        """Whether the file shows commands, and not more than a session has."""
        return 0 < len(self._starts) <= _MOST

    def number_at(self, offset: int) -> int:
        """The number of the command that printed the line at this offset, from 1; 0 before the first one."""
        return bisect_right(self._starts, offset)

    def run_again(self, size: int) -> frozenset[int]:
        """The numbers of the commands that a later one runs again, in a file of this size in bytes.

        A command at the end of the file has printed nothing yet, and one that asks for help runs nothing.
        """
        if not self.is_session:
            return frozenset()
        places = range(len(self._runs))
        return frozenset(
            place + 1
            for place in places
            if any(
                runs_again(self._runs[place], self._runs[later]) and self._ends[later] + 1 < size
                for later in places[place + 1 :]
            )
        )


def words_of(command: str) -> tuple[str, ...]:
    """What the last part of a command runs, without options; a loop as a whole; nothing of a call for help."""
    if _ASKS.search(command):
        return ()
    if _LOOPS.match(command):
        return (command.strip(),)
    last = _REDIRECTED.sub(" ", _PARTS.split(command)[-1].partition("|")[0]).strip()
    if _LOOPS.match(last):
        return ()
    words = [word.removeprefix("./") for word in last.split() if not _BEFORE.match(word)]
    if words and words[0] in ("source", "."):
        return ("source", *(word.rsplit("/", 1)[-1] for word in words[1:2]))
    return tuple(words[:20])


def runs_again(earlier: Sequence[str], later: Sequence[str]) -> bool:
    """Whether a later command is the earlier one, with the same words or more of them: options are left out of both."""
    return bool(earlier) and bool(later) and earlier[0] == later[0] and set(earlier) <= set(later)
