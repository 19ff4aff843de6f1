"""The processes of this node, which started which, and how one is shown to a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from npudoctor.privacy.command_lines import label_lines, show_words
from npudoctor.privacy.credentials import mask
from npudoctor.records import record
from npudoctor.sdk import Because, Host, Unavailable, probe

_BOUNDARY = frozenset(
    {
        *("systemd", "init", "tini", "dumb-init", "supervisord", "cron", "crond", "pause", "sleep", "tail", "cat"),
        *("sshd", "login", "su", "sudo", "bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh", "tmux", "screen"),
        *("containerd-shim", "containerd-shim-runc-v2", "dockerd", "kubelet", "slurmd", "slurmstepd", "jupyter-lab"),
    }
)
"""Names of processes that start many unrelated ones: a job does not reach above them."""

LONGEST_NAME = 64
"""The kernel keeps 15 characters; psutil completes them from the first word of the command line."""


@record(frozen=True, kw_only=True)
class Process:
    """One process. `create_time_s` is in seconds since 1970; None where not visible.

    `cmdline` holds the program, its script or module and the options of launchers; see `command_lines.reduce_line`.
    """

    pid: int
    ppid: int | None = None
    name: str = ""
    username: str | None = None
    status: str | None = None
    cmdline: tuple[str, ...] = ()
    create_time_s: float | None = None

    @property
    def dead(self) -> bool:
        """Whether it has ended and only waits to be collected."""
        return self.status in ("zombie", "dead")

    @property
    def options(self) -> dict[str, str]:
        """The options that are kept, by their names with hyphens; the value without `=` is the word that follows."""
        found = {}
        for word, following in zip(self.cmdline, (*self.cmdline[1:], ""), strict=False):
            name, equals, value = word.partition("=")
            if name.startswith("--"):
                found[name[2:].replace("_", "-")] = value if equals else following
        return found

    @property
    def command(self) -> str:
        """What is known of its command line, for a report: at most 100 characters."""
        line = show_words(self.cmdline)
        text = f"{self.name} {line}".strip() if not line or line.startswith("(+") else line
        return text if len(text) <= 100 else text[:99] + "…"


@record(frozen=True)
class Processes:
    """The processes that are visible here, by pid."""

    by_pid: Mapping[int, Process]

    def get(self, pid: int | None) -> Process | None:
        """The process with this pid, if it is visible."""
        return self.by_pid.get(pid) if pid is not None else None

    def children(self, pid: int) -> tuple[Process, ...]:
        """The processes that this one started."""
        return tuple(process for process in self.by_pid.values() if process.ppid == pid and process.pid != pid)

    def job_of(self, pid: int) -> frozenset[int]:
        """The pids of the job that this process belongs to: its launchers up to a shell or a service manager, and all
        that these have started."""
        top = pid
        seen = {pid}
        while (here := self.by_pid.get(top)) and here.ppid and here.ppid not in seen:
            above = self.by_pid.get(here.ppid)
            if above is None or above.name.removeprefix("-") in _BOUNDARY:
                break
            top = above.pid
            seen.add(top)
        found = {top}
        waiting = [top]
        while waiting:
            started = [child.pid for child in self.children(waiting.pop()) if child.pid not in found]
            found.update(started)
            waiting += started
        return frozenset(found | {pid})


def parse(rows: Iterable[Mapping[str, Any]]) -> Processes:
    """Read the `processes` of a recording."""
    rows = list(rows)
    lines = label_lines({int(row["pid"]): [str(word) for word in row.get("cmdline") or ()] for row in rows})
    found = {}
    for row in rows:
        pid = int(row["pid"])
        found[pid] = Process(
            pid=pid,
            ppid=row.get("ppid"),
            name=mask(str(row.get("name") or "")[:LONGEST_NAME]),
            username=row.get("username"),
            status=row.get("status"),
            cmdline=lines[pid],
            create_time_s=row.get("create_time"),
        )
    return Processes(found)


@probe(of_the_moment=True)
def processes(host: Host) -> Processes:
    """From the kernel; npudoctor itself is not among them."""
    rows = host.measure("processes")
    if rows is None:
        raise Unavailable("processes unknown", because=Because.NOT_RECORDED)
    return parse(rows)
