"""What `npudoctor explain` knows of a code, a known issue, a check or a fix, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npudoctor.control_characters import visible_lines

if TYPE_CHECKING:
    from npudoctor.tui.model.session import Session

_LEFT_OUT = frozenset(
    {"kind", "asked", "as_of", "confidence", "reversible", "needs_root", "root_when", "facts", "tags"}
)
_NAMES = {
    "of": "component",
    "look": "check first",
    "mend": "fix",
    "foreseen_by": "detected by",
    "pitfalls": "known issues",
    "wraps_many_causes": "many causes",
}


def explained(session: Session, name: str) -> list[tuple[str, str]]:
    """Headings with texts for a name; the reason where it is not known."""
    from npudoctor.explain import documents, topics

    catalog = session.node.catalog
    try:
        found = [(name, one) for one in topics.find_all(name, catalog)]
    except topics.Unknown as problem:
        return [("", visible_lines(str(problem)))]
    rows = documents.of_topics(found, catalog).get("topics", ())
    return [(heading, visible_lines(text)) for row in rows for heading, text in _lines(row)]


def _lines(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in row.items():
        if key not in _LEFT_OUT and value not in (None, "", [], {}, ()) and (text := _text(value)):
            yield _NAMES.get(key, key.replace("_", " ")), text


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        if "title" in value and "id" in value:
            return f"{value['id']}  {value['title']}"
        return "  ".join(_text(one) for one in value.values() if one not in (None, "", [], {}))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(_text(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else ""
    return " ".join(str(value).split())
