"""Commands in texts: found, split into simple commands, and judged by a table of programs.

A command is text: nothing here runs one. `simple_commands` splits a line at pipes, `;`, `&&`, `||`, `for … do … done`
and `$(…)`; `complaints` says what is wrong with one: a program or option that the table does not have, a placeholder
without a word about it.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "programs.toml").read_text(encoding="utf-8"))
WRAPPERS = ("sudo", "time", "exec", "do", "then")
PLACEHOLDER = re.compile(
    r"<[^<>|&;]{1,40}>|(?<![\w$=])[A-Z]{3,}(?![\w=(/.:-])|\bX\.Y(?:\.Z)?\b|…|\.\.\.|(?<![\w-])N(?![\w-])"
)
NO_PLACEHOLDER = frozenset({"ACCEPT", "INPUT", "AER", "GREP", "DROP"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_REDIRECTION = re.compile(r"\d?(?:>>?|<)(?:&\d)?$|\d?>&\d$|\d?>/dev/null$")
_OPERATORS = frozenset({"|", "||", "&&", ";", "&", "(", ")", ";;", "|&"})


def without_comment(line: str) -> tuple[str, str]:
    """A line and the comment behind it; a `#` counts after two blanks, as all our texts write it."""
    command, _, comment = line.partition("  #")
    return command.strip(), comment.strip()


def simple_commands(line: str) -> Iterator[list[str]]:
    """The words of each simple command; raises ValueError for quotes that do not close."""
    text, _ = without_comment(line)
    for inner in re.findall(r"\$\(([^()]*)\)", text):
        if not inner.startswith("("):
            yield from simple_commands(inner)
    text = re.sub(r"\$\(\([^()]*\)\)|\$\([^()]*\)", "SUBSTITUTED", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in _OPERATORS:
            if words:
                yield from _unwrapped(words)
            words = []
        else:
            words.append(word)


def _unwrapped(words: list[str]) -> Iterator[list[str]]:
    while words and (words[0] in WRAPPERS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if words and words[0] == "for":
        return
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif re.fullmatch(r"\d?(?:>>?|<)", word):
            skip = True
        elif not _REDIRECTION.match(word):
            kept.append(word)
    if kept and kept != ["done"]:
        yield kept


def complaints(line: str) -> Iterator[str]:
    """What is wrong with a command line; nothing where all of it is known."""
    command, comment = without_comment(line)
    for place in PLACEHOLDER.findall(command):
        bare = place.strip("<>")
        if place not in NO_PLACEHOLDER and not command.startswith("unset ") and not _speaks_of(comment, bare):
            yield f"placeholder {place} without a word about it"
    try:
        parts = list(simple_commands(line))
    except ValueError as problem:
        yield f"not a command line: {problem}"
        return
    for words in parts:
        yield from _judged(words)


def _speaks_of(comment: str, place: str) -> bool:
    """Whether a comment explains a placeholder: it names it, or for an ellipsis says anything."""
    return bool(comment) if place in ("…", "...") else place.lower() in comment.lower()


def _judged(words: list[str]) -> Iterator[str]:
    program = words[0].rpartition("/")[2]
    if re.fullmatch(r"python(\d(\.\d+)?)?", program):
        program = "python"
    if program.startswith(("Ascend-", "Atlas-")):
        program = "installer"
    row = TABLE.get(program)
    if row is None:
        yield f"unknown program {program}"
        return
    if row.get("anything"):
        return
    rest = words[1:]
    if program == "python" and rest[:2] == ["-m", "pip"]:
        yield from _judged(["pip", *rest[2:]])
        return
    if program == "kubectl" and rest[:1] == ["-n"]:
        rest = rest[2:]
    chosen = row
    for sub, below in row.get("sub", {}).items():
        if rest[: len(sub.split())] == sub.split():
            chosen, rest = {**row, **below}, rest[len(sub.split()) :]
            break
    else:
        if "sub" in row:
            yield f"unknown command {program} {' '.join(rest[:1])}"
            return
    yield from _options(program, chosen, _before_the_image(rest) if chosen.get("image") else rest)


def _before_the_image(words: list[str]) -> list[str]:
    """The options of `docker run`: behind the image stands the command that runs in it."""
    for place, word in enumerate(words):
        follows = place > 0 and words[place - 1] in _WITH_VALUE
        if not word.startswith("-") and not follows:
            return words[:place]
    return words


_WITH_VALUE = (
    "-v",
    "-e",
    "-p",
    "--name",
    "--ulimit",
    "--sysctl",
    "--add-host",
    "--user",
    "--entrypoint",
    "--group-add",
)


def _options(program: str, row: dict[str, Any], words: list[str]) -> Iterator[str]:
    options, letters, values = set(row.get("options", ())), row.get("letters", ""), row.get("values", {})
    previous = ""
    for word in words:
        if previous in values and not re.fullmatch(values[previous], word):
            yield f"{program} {previous}: unknown value {word}"
        if previous not in values and re.match(r"-[\w-]", word) and not re.fullmatch(r"-\d+\w?", word):
            name = word.partition("=")[0]
            short = re.fullmatch(r"-([A-Za-z])\S*", word)
            cluster = re.fullmatch(r"-[A-Za-z]+\d*", name) and set(re.sub(r"\d", "", name[1:])) <= set(letters)
            attached = short is not None and short[1] in row.get("attached", "")
            if name not in options and not cluster and not attached:
                yield f"{program}: unknown option {name}"
        previous = word


def in_backticks(text: str) -> Iterator[str]:
    """What a text sets in backticks and what begins with a program of the table: other backticks hold messages."""
    for found in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
        first = found.split()[0].rpartition("/")[2] if found.split() else ""
        if first in TABLE or first.startswith(("./Ascend-", "./Atlas-")) or found.startswith("sudo "):
            yield found


Judge = Callable[[str], Iterator[str]]
