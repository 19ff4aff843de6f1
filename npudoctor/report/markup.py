"""Texts of a node in Markdown: shown as they are, whatever markup is in them."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([\\`*\[\]!|~]|(?<!\w)_|_(?!\w)|^[#+>-])")
_NUMBERED = re.compile(r"^([0-9]{1,9})([.)])(?= |$)")
_ADDRESSED = re.compile(r"@(?=\w)|#(?=\d)")
"""What an issue tracker turns into a mention of a person or another issue."""


def prose(text: str) -> str:
    """A text of the node as Markdown that shows it as it is: no markup, no mention of a person.

    What is between backticks stays code, as the sentences of findings write commands.
    """
    parts = re.split(r"(`[^`\n]+`)", " ".join(text.split()))
    return "".join(part if number % 2 else _plain(part) for number, part in enumerate(parts))


def _plain(text: str) -> str:
    said = _MARKUP.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
    said = _NUMBERED.sub(r"\1\\\2", said)
    return _ADDRESSED.sub(lambda found: f"{found[0]}<!-- -->", said)


def code(text: str) -> str:
    """A text as code; nothing where it is empty, because two backticks alone mean something else."""
    text = " ".join(text.split())
    if not text:
        return "nothing"
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", prose(text))


def link_to(check: str, page: str) -> str:
    """The page of a check: its address, else the command that prints it (a path is of the sources, which few have)."""
    return f"<{page}>" if page.startswith("https://") else code(f"npudoctor explain {check}")
