"""Names that a module offers and others define: looked up when somebody wants them, since a check wants few."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazily(face: str, offered: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` (PEP 562) over `offered`: from a module to the names in it, parted by blanks."""
    home = {name: module for module, names in offered.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home[name]), name)

    return find
