"""Writes what is made from other files: `python -m tools.pages`.

docs/checks.md, docs/fixes.md and the pages in docs/checks from the catalogue; npudoctor/knowledge/tables/words.json,
the words by which logs are sifted, from the expressions of the known issues.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from npudoctor import knowledge, plugins
from npudoctor.explain import fixes, pages, patterns, prefilter

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WORDS = ROOT / "npudoctor" / "knowledge" / "tables" / "words.json"


def made() -> dict[str, str]:
    """Each page below docs, by its path there; of the built-in checks and fixes only."""
    catalog = plugins.load(folder="")
    each = {f"checks/{check.id}.md": pages.page(check, catalog) for check in catalog.checks.values()}
    return {"checks.md": pages.catalogue(catalog), "fixes.md": fixes.page(catalog), **each}


def words() -> dict[str, Any]:
    """The words of each expression, by its key; the keys are in order, so that a change shows as few lines."""
    found = {patterns.key_of(one): sorted(prefilter.words_of(one) or ()) for _, _, one in patterns.expressions()}
    return {"schema": 1, "as_of": knowledge.pitfalls().as_of, "words": dict(sorted(found.items()))}


def main() -> None:
    """Write them, and remove the pages of checks that are gone."""
    folder = DOCS / "checks"
    folder.mkdir(exist_ok=True)
    found = made()
    for old in folder.glob("*.md"):
        if f"checks/{old.name}" not in found:
            old.unlink()
    for name, text in found.items():
        (DOCS / name).write_text(text, encoding="utf-8")
    WORDS.write_text(_lines(words()), encoding="utf-8")


def _lines(table: dict[str, Any]) -> str:
    """A table as JSON, with one expression a line."""
    head = json.dumps({name: value for name, value in table.items() if name != "words"}).removesuffix("}")
    rows = [f'"{key}": {json.dumps(each, ensure_ascii=False)}' for key, each in table["words"].items()]
    return head + ', "words": {\n' + ",\n".join(rows) + "\n}}\n"


if __name__ == "__main__":
    main()
