"""Writes docs/checks.md, docs/fixes.md and the pages in docs/checks from the catalogue: `python -m tools.pages`."""

from __future__ import annotations

from pathlib import Path

from npudoctor import plugins
from npudoctor.explain import fixes, pages

DOCS = Path(__file__).resolve().parents[1] / "docs"


def made() -> dict[str, str]:
    """Each page below docs, by its path there; of the built-in checks and fixes only."""
    catalog = plugins.load(folder="")
    each = {f"checks/{check.id}.md": pages.page(check, catalog) for check in catalog.checks.values()}
    return {"checks.md": pages.catalogue(catalog), "fixes.md": fixes.page(catalog), **each}


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


if __name__ == "__main__":
    main()
