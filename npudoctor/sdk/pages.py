"""Where the page of a check is: in docs/checks of the sources, or below the address of the package's metadata.

A packager who publishes the documentation sets `Checks` in `[project.urls]` of pyproject.toml.
"""

from __future__ import annotations

import functools

FOLDER = "docs/checks"


def page_of(check: str) -> str:
    """The address of the page of a built-in check."""
    return f"{_base()}/{check}.md"


@functools.cache
def _base() -> str:
    import importlib.metadata  # only a run that has found something pays for it

    try:
        named = importlib.metadata.metadata("npudoctor").get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:
        named = ()
    return base(named)


def base(urls: list[str] | tuple[str, ...]) -> str:
    """The address of the folder of the pages, from the lines `Label, URL` of the metadata."""
    for line in urls:
        label, _, url = line.partition(",")
        if label.strip().lower() == "checks" and url.strip().startswith("https://"):
            return url.strip().rstrip("/")
    return FOLDER
