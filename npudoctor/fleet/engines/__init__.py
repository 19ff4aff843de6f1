"""How nodes are asked. An engine takes a plan and yields one answer a node, as they come; it judges nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Answer:
    """What came back of one node. `code` is the exit code, None where it was ended; times in seconds since 1970.

    `stdout` and `stderr` are bounded: `overflow` where more came. `kind` is the outcome where the engine knows it.
    """

    node: str
    code: int | None
    stdout: str = ""
    stderr: str = ""
    started: float = 0.0
    received: float = 0.0
    timed_out: bool = False
    overflow: bool = False
    kind: str | None = None


@record(frozen=True, kw_only=True)
class Plan:
    """The nodes to ask and how. `command` is npudoctor on the node, `words` what follows it.

    A node has `timeout_s` for its checks; `fanout` nodes are asked at once. `scenario` makes them simulated;
    `ssh_config` is a file that takes the place of the user's own. `script` is run instead of npudoctor, with the file
    `feed` as its standard input.
    """

    names: tuple[str, ...]
    command: tuple[str, ...] = ("npudoctor",)
    words: tuple[str, ...] = ()
    timeout_s: float = 120.0
    fanout: int = 64
    sudo: bool = False
    partition: str | None = None
    scenario: str | None = None
    ssh_config: str | None = None
    script: tuple[str, ...] = ()
    feed: str | None = None

    @property
    def own(self) -> tuple[str, ...]:
        """What follows npudoctor in the command: all that sudo has to allow."""
        return ("node", "--line", "--timeout", f"{max(1.0, self.timeout_s - 5):g}", *self.words)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command on the node, which is ended there when its time is up: closing ssh does not end it."""
        sudo = ("sudo", "-n") if self.sudo else ()
        words = self.script or (*self.command, *self.own)
        return ("timeout", "-k", "5", f"{self.timeout_s:g}", *sudo, *words)

    @property
    def line(self) -> str:
        """The same for a remote shell."""
        return shlex.join(self.argv) if self.feed else f"{shlex.join(self.argv)} </dev/null"


Engine = Callable[[Plan], Iterator[Answer]]
