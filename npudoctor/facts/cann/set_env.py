"""What CANN's set_env.sh would export, read as text: the script itself is never run.

Understood are assignments and exports at the top level with variables, quotes, `$(arch)` and the usual ways to find
the script's own folder, and scripts that it sources. Functions and conditionals are passed over; the result says so.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from npudoctor.records import record
from npudoctor.sdk import Unavailable

PATH_LISTS = ("LD_LIBRARY_PATH", "PYTHONPATH", "PATH")

_NAME = r"[A-Za-z_]\w*"
_ASSIGNMENT = r"(?s)([A-Za-z_]\w*)=(.*)"
_OPENING = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_EXPORTING = frozenset({"export", "source", "."})
_OPERATORS = ("&&", "||", ";;", ";", "\n", "|", "&")
_BLANKS = re.compile(r"[ \t\r]+")
_PLAIN = re.compile(r"[^\s'\"`\\$#;&|]+")
_DEEPEST = 4


@record(frozen=True)
class Exports:
    """The variables that a script exports; `complete` is False where part of it was passed over."""

    variables: Mapping[str, str]
    complete: bool = True

    def entries(self, name: str) -> tuple[str, ...]:
        """The parts of a list of paths, without empty ones and without a slash at the end."""
        return split_paths(self.variables.get(name, ""))


def split_paths(value: str) -> tuple[str, ...]:
    """The parts of a value like PATH, each once, in order, without empty ones and without a slash at the end."""
    return tuple(dict.fromkeys(part.rstrip("/") or "/" for part in value.split(":") if part))


def read_exports(
    text: str,
    *,
    path: str,
    machine: str,
    variables: Mapping[str, str] | None = None,
    read: Callable[[str], str] | None = None,
    real: Callable[[str], str] | None = None,
) -> Exports:
    """What a shell that has `variables` would export after sourcing this text from `path`.

    `machine` is what `arch` prints; `read` gives the text of a sourced script, `real` follows links.
    """
    script = _Script(machine=machine, variables=dict(variables or {}), read=read, real=real or posixpath.normpath)
    script.run(text, path)
    exported = {name: script.variables[name] for name in script.exported if name in script.variables}
    return Exports(exported, script.complete)


class _TooHardError(Exception):
    """A piece of shell that is not understood here."""


class _Script:
    """The state of a shell while the script is read."""

    def __init__(
        self,
        *,
        machine: str,
        variables: dict[str, str],
        read: Callable[[str], str] | None,
        real: Callable[[str], str],
    ) -> None:
        self.machine = machine
        self.variables = variables
        self.read = read
        self.real = real
        self.exported: dict[str, None] = {}
        self.complete = True
        self.path = ""
        self.depth = 0

    def run(self, text: str, path: str) -> None:
        outer, self.path = self.path, path
        self.depth += 1
        block = 0
        for words, conditional in _statements(text):
            opened = (words[0] in _OPENING) + words.count("{")
            passed_over = bool(block or opened or conditional)
            block = max(0, block + opened - (words[0] in _CLOSING))
            if passed_over or words[0] in _CLOSING:
                self.complete = self.complete and not _EXPORTING.intersection(words)
                continue
            try:
                self._statement(words)
            except (_TooHardError, RecursionError):
                self.complete = False
        self.depth -= 1
        self.path = outer

    def _statement(self, words: list[str]) -> None:
        if words[0] == "export":
            for word in words[1:]:
                self._assign(word)
                self.exported[word.partition("=")[0]] = None
        elif words[0] in ("source", ".") and len(words) > 1:
            self._source(self._expand(words[1]))
        elif words[0] == "unset":
            for name in words[1:]:
                self.variables.pop(name, None)
        elif all(re.fullmatch(_ASSIGNMENT, word) for word in words):
            for word in words:
                self._assign(word)
        elif words[0] not in ("return", "exit", "true", ":", "echo"):
            raise _TooHardError

    def _assign(self, word: str) -> None:
        match = re.fullmatch(_ASSIGNMENT, word)
        if match:
            try:
                self.variables[match[1]] = self._expand(match[2])
            except _TooHardError:
                self.variables.pop(match[1], None)
                raise
        elif not re.fullmatch(_NAME, word):
            raise _TooHardError

    def _source(self, path: str) -> None:
        if self.read is None or self.depth >= _DEEPEST:
            raise _TooHardError
        try:
            text = self.read(path)
        except Unavailable:
            raise _TooHardError from None
        self.run(text, path)

    # Words

    def _expand(self, word: str) -> str:
        done = []
        position = 0
        quoted = False
        while position < len(word):
            letter = word[position]
            if letter == "'" and not quoted:
                end = word.find("'", position + 1)
                if end < 0:
                    raise _TooHardError
                done.append(word[position + 1 : end])
                position = end + 1
            elif letter == '"':
                quoted = not quoted
                position += 1
            elif letter == "\\" and position + 1 < len(word):
                done.append(word[position + 1])
                position += 2
            elif letter in "$`":
                text, position = self._substitution(word, position)
                done.append(text)
            else:
                done.append(letter)
                position += 1
        return "".join(done)

    def _substitution(self, word: str, position: int) -> tuple[str, int]:
        if word[position] == "`":
            end = word.find("`", position + 1)
            if end < 0:
                raise _TooHardError
            return self._command(word[position + 1 : end]), end + 1
        rest = word[position + 1 :]
        if rest.startswith("("):
            end = _matching(word, position + 1, "(", ")")
            return self._command(word[position + 2 : end]), end + 1
        if rest.startswith("{"):
            end = _matching(word, position + 1, "{", "}")
            return self._parameter(word[position + 2 : end]), end + 1
        if match := re.match(_NAME, rest):
            return self._value(match[0]), position + 1 + match.end()
        if rest.startswith("0"):
            return self.path, position + 2
        raise _TooHardError

    def _parameter(self, inside: str) -> str:
        name = re.match(_NAME, inside)
        if name is None:
            raise _TooHardError
        value, how = self._value(name[0]), inside[name.end() :]
        if how in ("", "[0]"):
            return value
        if how.startswith(":-"):
            return value or self._expand(how[2:])
        if how.startswith(":+"):
            return self._expand(how[2:]) if value else ""
        if how.startswith("+"):
            return self._expand(how[1:]) if value else ""
        if how == "%/*":
            return value.rpartition("/")[0]
        raise _TooHardError

    def _value(self, name: str) -> str:
        return self.path if name == "BASH_SOURCE" else self.variables.get(name, "")

    def _command(self, text: str) -> str:
        statements = list(_statements(text))
        words = [self._expand(word) for word in statements[0][0]] if statements else []
        last = statements[-1][0] if statements else []
        if words[:1] == ["cd"] and len(words) > 1 and len(statements) == 2 and last[:1] == ["pwd"]:
            return self.real(words[-1])
        if len(statements) != 1 or not words:
            raise _TooHardError
        if words in (["arch"], ["uname", "-m"]):
            return self.machine
        if words[0] == "dirname" and len(words) == 2:
            return posixpath.dirname(words[1]) or "."
        if words[0] in ("readlink", "realpath") and words[-1].startswith("/"):
            return self.real(words[-1])
        raise _TooHardError


def _matching(word: str, position: int, opening: str, closing: str) -> int:
    depth = 0
    for index in range(position, len(word)):
        depth += (word[index] == opening) - (word[index] == closing)
        if not depth:
            return index
    raise _TooHardError


def _statements(text: str) -> Iterator[tuple[list[str], bool]]:
    """Simple commands as raw words, and whether each hangs on the outcome of the one before."""
    words: list[str] = []
    word = ""
    position = 0
    conditional = False
    text = text.replace("\\\n", "") + "\n"
    while position < len(text):
        if plain := _PLAIN.match(text, position):
            word += plain[0]
            position = plain.end()
            continue
        blanks = _BLANKS.match(text, position)
        operator = None if blanks else next((one for one in _OPERATORS if text.startswith(one, position)), None)
        if operator or blanks:
            if word:
                words.append(word)
                word = ""
            if operator:
                if words:
                    yield words, conditional
                    conditional = operator in ("&&", "||", "|")
                words = []
            position = blanks.end() if blanks else position + len(operator or "")
        elif text[position] == "#" and not word:
            position = text.index("\n", position)
        else:
            end = _end_of_piece(text, position)
            word += text[position:end]
            position = end


def _end_of_piece(text: str, position: int) -> int:
    """Past one letter, one quoted text, or one substitution."""
    letter = text[position]
    if letter in "'\"`":
        end = position + 1
        while end < len(text) and text[end] != letter:
            end += 2 if text[end] == "\\" and letter != "'" else 1
        return min(end + 1, len(text))
    if letter == "\\":
        return min(position + 2, len(text))
    if text.startswith("$(", position) or text.startswith("${", position):
        try:
            return _matching(text, position + 1, text[position + 1], ")" if text[position + 1] == "(" else "}") + 1
        except _TooHardError:
            return len(text)
    return position + 1
