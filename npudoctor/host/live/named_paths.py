"""Which paths the variables of a user name: what is there is opened with that user's rights, not with root's.

RANK_TABLE_FILE=/etc/shadow must not make root read it. A path counts as named where it is the value of a variable, or a
part of one between colons, or is below such a part; its real path counts too, because probes follow links by
themselves.
"""

from __future__ import annotations

import functools
import os
import posixpath
from collections.abc import Callable, Mapping
from typing import TypeVar

from npudoctor.host import Unavailable, User
from npudoctor.host.live import identity

Result = TypeVar("Result")

OF_THE_SHELL = frozenset({"PWD", "OLDPWD"})
"""They say where a shell stood, and nothing is read because of them."""

MOST_PARTS = 2000
LONGEST_PART = 4096


def named_paths(environ: Mapping[str, str], *, follow: bool = True) -> frozenset[str]:
    """The absolute paths that variables name; `follow`: each also with its links followed on this machine."""
    parts = {
        part.strip()
        for name, value in environ.items()
        if "/" in value and name not in OF_THE_SHELL
        for part in value.split(":")
    }
    found = {part for part in parts if part.startswith("/") and part.strip("/") and len(part) <= LONGEST_PART}
    named = {posixpath.normpath(path) for path in sorted(found)[:MOST_PARTS]}
    return frozenset(named | {os.path.realpath(path) for path in named} if follow else named)


def is_named(path: str, named: frozenset[str]) -> bool:
    """Whether a path is one of these, or is below one."""
    here = posixpath.normpath(path)
    while True:
        if here in named:
            return True
        above = posixpath.dirname(here)
        if above == here:
            return False
        here = above


class Namer:
    """The other user whose variables name a path: `owner` wrote them; Unavailable where several users could have."""

    def __init__(self, environ: Mapping[str, str] | Unavailable | None, owner: User | Unavailable | None) -> None:
        self._environ, self._owner = environ, owner

    @functools.cached_property
    def _named(self) -> frozenset[str]:
        return named_paths(self._environ) if isinstance(self._environ, Mapping) else frozenset()

    def of(self, path: str) -> User | None:
        """With whose rights root reads a path for that reason; None for its own. Raises Unavailable where unclear."""
        if self._owner is None or os.geteuid() != 0 or not is_named(path, self._named):
            return None
        if isinstance(self._owner, Unavailable):
            raise self._owner
        return self._owner if self._owner.uid else None

    def call(self, path: str, ask: Callable[[], Result]) -> Result:
        """What `ask` returns with these rights."""
        user = self.of(path)
        return ask() if user is None else identity.call_as(user, ask, path)
