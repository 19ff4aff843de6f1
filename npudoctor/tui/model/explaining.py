"""What `npudoctor explain` knows of a code, a known issue, a check or a fix, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudoctor.control_characters import visible_lines

if TYPE_CHECKING:
    from npudoctor.tui.model.session import Session

WIDE = 1 << 20
"""Columns of the text: each paragraph is one line, which the screen wraps."""


def is_known(session: Session, name: str) -> bool:
    """Whether `npudoctor explain NAME` knows it."""
    from npudoctor.explain import topics

    try:
        return bool(topics.find_all(name, session.node.catalog))
    except topics.Unknown:
        return False


def explain_lines(session: Session, name: str) -> list[tuple[str, str]]:
    """The lines of `npudoctor explain NAME`, each with its label; the reason where the name is not known."""
    from npudoctor.explain import documents, topics
    from npudoctor.report import explained as page

    catalog = session.node.catalog
    try:
        found = [(name, one) for one in topics.find_all(name, catalog)]
    except topics.Unknown as problem:
        return [("", visible_lines(str(problem)))]
    text = page.topics(documents.of_topics(found, catalog), no_color=True, width=WIDE)
    return [_split_label(line) for line in visible_lines(text).splitlines()]


def _split_label(line: str) -> tuple[str, str]:
    """A line of the explanation as its label, with the blanks around it, and its text; a title has no label."""
    from npudoctor.report.explained import LABEL

    if not line.startswith(" "):
        return "", line
    blanks = len(line) - len(line.lstrip())
    column = blanks + LABEL
    labelled = blanks <= 4 and line[column - 1 : column] == " "
    return (line[:column], line[column:]) if labelled else (line[:blanks], line[blanks:])
