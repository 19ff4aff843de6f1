"""The processes on the chips: whose they are, in which container or pod, which rank; in an order and by words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from npudoctor.records import record

if TYPE_CHECKING:
    from npudoctor.host import Host
    from npudoctor.tui.model.fixing import Job
    from npudoctor.tui.model.session import Session

ORDERS = ("memory", "pid", "user", "container")
RELEASE = "npu.release"


@record(frozen=True, kw_only=True)
class Held:
    """A process on a chip. `memory_mb` is in MiB; `box` is its pod and container, `rank` such as `3 of 8`."""

    pid: int
    name: str
    memory_mb: int | None = None
    owner: str | None = None
    command: str = ""
    alive: bool | None = None
    box: str = ""
    rank: str = ""

    def matches(self, words: str) -> bool:
        """Whether it contains all words."""
        text = f"{self.pid} {self.name} {self.owner or ''} {self.command} {self.box}".lower()
        return all(word in text for word in words.lower().split())


def order_held(held: Iterable[Held], order: str, words: str = "") -> list[Held]:
    """The processes that contain all words; those with most memory first, or by pid, user or container."""
    keys: dict[str, Any] = {
        "memory": lambda one: (-(one.memory_mb or 0), one.pid),
        "pid": lambda one: one.pid,
        "user": lambda one: (one.owner or "~", one.pid),
        "container": lambda one: (one.box or "~", one.pid),
    }
    return sorted((one for one in held if one.matches(words)), key=keys[order])


class Boxes:
    """The containers of processes, by their control groups, and the ranks of their jobs."""

    def __init__(self, session: Session, host: Host, launched: Any) -> None:
        from npudoctor.facts.node.running_containers import RunningContainers

        running = session.fact(RunningContainers)
        self._titles = {one.id: one.title for one in running.containers} if running else {}
        self._host = host
        self._launched = launched

    def box_of(self, pid: int) -> str:
        """Pod and container of a process; empty where it is in none, or that is not visible."""
        from npudoctor.facts.node.running_containers import container_of
        from npudoctor.host import Unavailable

        with contextlib.suppress(Unavailable):
            for line in self._host.read(f"/proc/{pid}/cgroup").splitlines():
                if (found := container_of(line.rpartition(":")[2])) is not None:
                    return str(self._titles.get(found[0], f"{found[1]} {found[0][:12]}"))
        return ""

    def rank_of(self, pid: int) -> str:
        """The rank of a process in its job, as its launcher has set it."""
        found = self._launched.by_pid.get(pid, {}) if self._launched is not None else {}
        rank, size = found.get("RANK", ""), found.get("WORLD_SIZE", "")
        return f"{rank} of {size}" if rank and size else rank


def releasing(session: Session, held: Iterable[Held]) -> Job:
    """The confirmation for ending these processes; nothing is ended before it. Raises ReadOnly."""
    from npudoctor.control_characters import escape
    from npudoctor.fixer import plan
    from npudoctor.host import Refused
    from npudoctor.tui.model import fixing

    session.must_allow_changes()
    pids = tuple(sorted({one.pid for one in held}))
    catalog, options = session.node.catalog, session.node.selection.options
    words = ("--set", f"pids={','.join(map(str, pids))}")
    with session.looking() as host:
        others = host.user.uid == 0
        try:
            planned = plan.make(catalog, host, plan.Request(RELEASE, {"pids": pids, "others": others}), options)
        except Refused as why:
            return fixing.Job(title=RELEASE, obstacle=escape(why.reason))
    return fixing.job_of(
        [planned], recorded=session.source == "bundle", words=[*words, "--irreversible", *session.node.words]
    )
