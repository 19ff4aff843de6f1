"""A host that hands every question on to another one: what those that mask or record answers begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npudoctor.host import DRIVER, TOOL_TIMEOUT_S, About, Completed, FileStat, Host, User

OUTPUT_LIMIT_BYTES = 8 << 20


class ForwardingHost:
    """Implements `Host` over another host; it is never a `MutableHost`, whatever the other one is."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def about(self) -> About:
        """Where the answers come from: the other host itself."""
        return self._host.about

    @property
    def user(self) -> User:
        """The user who asks."""
        return self._host.user

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of a job."""
        return self._host.environ

    @property
    def instant(self) -> bool:
        """Whether no user waits for an answer."""
        return self._host.instant

    @property
    def rooted(self) -> bool:
        """Whether its files are not those of this machine."""
        return self._host.rooted

    def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """Run a command."""
        return self._host.run(argv, timeout=timeout)

    def ask_library(self, driver: str = DRIVER, *, pages: bool = True, timeout: float = TOOL_TIMEOUT_S) -> Completed:
        """What the driver's library says of every chip."""
        return self._host.ask_library(driver, pages=pages, timeout=timeout)

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run a script inside the target Python."""
        return self._host.run_in_target(name, python, timeout=timeout, environ=environ)

    def target_user(self, python: str) -> User:
        """As which user the interpreter runs there."""
        return self._host.target_user(python)

    def target_environ(self, python: str) -> Mapping[str, str]:
        """The variables with which it runs."""
        return self._host.target_environ(python)

    def read(self, path: str) -> str:
        """The text of a file."""
        return self._host.read(path)

    def read_bytes(self, path: str, *, limit: int = OUTPUT_LIMIT_BYTES) -> bytes:
        """The first `limit` bytes of a file."""
        return self._host.read_bytes(path, limit=limit)

    def read_part(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes out of the middle of a file."""
        return self._host.read_part(path, offset, length)

    def exists(self, path: str) -> bool:
        """Whether a path is there."""
        return self._host.exists(path)

    def list_dir(self, path: str) -> tuple[str, ...]:
        """The names in a folder."""
        return self._host.list_dir(path)

    def stat(self, path: str) -> FileStat:
        """Kind, mode, owner and access of a path."""
        return self._host.stat(path)

    def read_link(self, path: str) -> str | None:
        """The target of a symbolic link."""
        return self._host.read_link(path)

    def real_path(self, path: str) -> str:
        """The path with its links followed."""
        return self._host.real_path(path)

    def which(self, name: str) -> str | None:
        """Where a command lies."""
        return self._host.which(name)

    def measure(self, key: str) -> Any:
        """A measurement."""
        return self._host.measure(key)

    def close(self) -> None:
        """End what still runs."""
        self._host.close()
