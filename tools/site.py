"""A hook of MkDocs (mkdocs.yml): the site's pages that lie outside docs/, and links to and from them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "LICENSE": "LICENSE.md",
    **{name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")},
}
"""Files of the repository, and the page each becomes."""

_LINK = re.compile(r"(?<=\]\()[^)#:\s]+(?=(?:#[^)\s]*)?\))")


def on_files(files: Any, config: Any) -> Any:
    """Add those pages."""
    from mkdocs.structure.files import File  # of the group `docs`; the tests do without it

    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text if name.endswith(".md") else f"```text\n{text}```\n"))
    worker = (ROOT / "tools" / "iframe-worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, "assets/iframe-worker.js", content=worker))
    return files


def on_page_read_source(page: Any, config: Any) -> str | None:
    """The page in the language of the site, where it is translated; None is the English one."""
    path = ROOT / "docs" / config.theme["language"] / page.file.src_uri
    return path.read_text(encoding="utf-8") if path.is_file() else None


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to pages of the site; MkDocs warns of others."""
    place = next((name for name, made in OUTSIDE.items() if made == page.file.src_uri), f"docs/{page.file.src_uri}")

    def link(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), found[0]))
        reached = OUTSIDE.get(path) or (path[len("docs/") :] if path.startswith("docs/") else None)
        return posixpath.relpath(reached, posixpath.dirname(page.file.src_uri) or ".") if reached else found[0]

    return _LINK.sub(link, markdown)
