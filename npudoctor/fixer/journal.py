"""What survives a crash: one folder a run, one file a step, written before the step is taken.

    /var/lib/npudoctor/runs/20261121T124155-hccl.reserve-ports/     (root; else ~/.local/state/npudoctor/runs/…)
        run.json       which fix, its parameters, the user, and the preview as shown
        status.json    applying, applied, undoing, undone, or rolled-back; of an installation running,
                       waiting-for-reboot, stopped, replaced, or done
        000.json …     each step with its inverse

Every file is whole or absent. A run without status.json has changed nothing; one that is `applying` or `undoing` was
interrupted, and recovery undoes its steps, newest first: an inverse is idempotent, so the interrupted one counts too.
"""

from __future__ import annotations

import functools
import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from npudoctor import clock
from npudoctor.fixer import messages, serialise
from npudoctor.host import Because, Host, MutableHost, Refused, Unavailable
from npudoctor.records import record
from npudoctor.steps import Step
from npudoctor.steps.files import untrusted_writer
from npudoctor.steps.packages import KeepPackages

SYSTEM = "/var/lib/npudoctor"
APPLYING, APPLIED, UNDOING, UNDONE, ROLLED_BACK = "applying", "applied", "undoing", "undone", "rolled-back"
RUNNING, WAITING, STOPPED, DONE = "running", "waiting-for-reboot", "stopped", "done"
REPLACED = "replaced"
"""A stopped installation after which a new one was confirmed."""
HELD = (RUNNING, WAITING, STOPPED)
"""An installation of driver or firmware that is not done (npudoctor/installing)."""
OF_INSTALLATION = (*HELD, REPLACED, DONE)
"""No recovery and no undo touches these."""
CUT_OFF = (APPLYING, UNDOING)
"""A run that was begun and not ended: a crash cut it off, or it is still running."""

_ENTRY = r"\d{3}\.json"
_read_description = functools.partial(serialise.read, ignore_unknown=True)


@record(frozen=True, kw_only=True)
class RunRecord:
    """What a journal says of a run: `params` as JSON, times in UTC, `aims` the findings as check and subject.

    `reason` is why it was made, `login` who logged in, `sudo_user` who called sudo, `origin` the address that they came
    from, `host` and `machine_id` the node. All are empty where they are not known, as in journals of 0.1.
    """

    id: str
    fix: str
    title: str
    params: str
    by: str
    started_at: str
    effect: str
    preview: tuple[str, ...]
    reversible: bool = True
    aims: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    login: str = ""
    sudo_user: str = ""
    origin: str = ""
    host: str = ""
    machine_id: str = ""


@record(frozen=True, kw_only=True)
class Status:
    """How far a run is, since when, and why; `turned` are the checks that failed before and passed after.

    `rechecked` is the number of checks that were run again, `seconds` how long that took.
    """

    status: str
    at: str
    reason: str = ""
    turned: tuple[str, ...] = ()
    rechecked: int = 0
    seconds: float = 0.0


@record(frozen=True)
class Entry:
    """A step that was begun, and what undoes it."""

    step: Step
    inverse: Step | None

    @property
    def subjects(self) -> set[str]:
        """What the step changes: a later step of the same run may have changed it again."""
        if isinstance(self.step, KeepPackages):
            return {f"package {name}" for name, _, _ in self.step.changes}
        return {f"{name} {value}" for name in ("path", "key", "group") if (value := getattr(self.step, name, None))}


def state_folder(host: Host) -> str:
    """Where the journal of this user lies."""
    if host.user.uid == 0:
        return SYSTEM
    try:
        variables = host.environ
    except Unavailable:
        variables = {}
    chosen = variables.get("XDG_STATE_HOME", "")
    if chosen.startswith("/"):
        return f"{chosen}/npudoctor"
    return f"{home_of(host)}/.local/state/npudoctor"


def home_of(host: Host) -> str:
    """The home folder of the current user; raises Refused if it is not known."""
    try:
        for line in host.read("/etc/passwd").splitlines():
            fields = line.split(":")
            if len(fields) >= 6 and fields[2] == str(host.user.uid) and fields[5].startswith("/"):
                return fields[5].rstrip("/") or "/"
        home = host.environ.get("HOME", "")
    except Unavailable:
        home = ""
    if not home.startswith("/"):
        raise Refused(messages.HOME_UNKNOWN.text(user=host.user.name))
    return home.rstrip("/") or "/"


def now() -> str:
    """This moment, in UTC."""
    return clock.now().isoformat(timespec="seconds")


class Journal:
    """The runs of one node and one user."""

    def __init__(self, host: MutableHost, folder: str | None = None) -> None:
        self.host = host
        self.folder = folder or state_folder(host)

    @property
    def _runs(self) -> str:
        return f"{self.folder}/runs"

    def prepare(self) -> None:
        """Make the folders; raises Refused if others could write them, OSError if they cannot be made."""
        missing = []
        folder = self.folder
        while not self.host.exists(folder):
            missing.append(folder)
            folder = posixpath.dirname(folder)
        for one in reversed(missing):
            self.host.make_folder(one)
        self.host.make_folder(self._runs, mode=0o700)
        if problem := untrusted_writer(self.host, self._runs):
            raise Refused(messages.JOURNAL_NOT_SAFE.text(problem=problem))

    def begin(self, record: RunRecord, *, status: str = APPLYING) -> None:
        """Open a run; before this returns, nothing of it has been done."""
        self.host.make_folder(self._at(record.id), mode=0o700)
        self._write(record.id, "run.json", {"schema": "npudoctor.fix-run/1", **serialise.write_form(record)})
        self.mark(record.id, status)

    def note(self, run: str, number: int, step: Step, inverse: Step | None) -> None:
        """Write down a step and its inverse; only then may it be taken."""
        back = None if inverse is None else serialise.write_step(inverse)
        self._write(run, f"{number:03}.json", {"step": serialise.write_step(step), "inverse": back})

    def mark(self, run: str, status: str, reason: str = "", **verification: Any) -> None:
        """Say how far a run is; `verification` are the fields of Status about the checks that were run again."""
        said = Status(status=status, at=now(), reason=reason, **verification)
        self._write(run, "status.json", serialise.write_form(said))

    def archive(self, run: str, name: str) -> str:
        """Where a run may keep files."""
        return f"{self._at(run)}/{name}"

    def make(self, run: str, name: str) -> None:
        """Make a folder of root's in the folder of a run."""
        self.host.make_folder(self.archive(run, name), mode=0o700)

    def keep(self, run: str, name: str, data: dict[str, Any]) -> None:
        """Write a document of a run."""
        self._write(run, name, data)

    def document(self, run: str, name: str) -> dict[str, Any] | None:
        """A document of a run; None where there is none, Refused for data that is not ours."""
        return self._read(run, name) if self.host.exists(self.archive(run, name)) else None

    def new_name(self, fix: str) -> str:
        """A name for a new run, in the order of time."""
        stem = f"{clock.now():%Y%m%dT%H%M%S}"
        number = sum(run.startswith(stem) for run in self.runs())
        return f"{stem}{number:02}-{fix}"

    # Reading

    def runs(self) -> tuple[str, ...]:
        """The runs, oldest first; raises Refused for another user's journal."""
        try:
            return self.host.list_dir(self._runs)
        except Unavailable as why:
            if why.because is Because.NO_RIGHT:
                if self.host.user.uid == 0 and (problem := untrusted_writer(self.host, self._runs)):
                    raise Refused(messages.JOURNAL_NOT_TRUSTED.text(problem=problem)) from why
                raise Refused(messages.JOURNAL_OF_OWNER.text(path=self.folder), instead="sudo") from why
            return ()

    def cut_off(self) -> tuple[str, ...]:
        """The runs that were begun on this node and not ended."""
        return tuple(run for run in self.unfinished_runs() if not self.elsewhere(run))

    def refuse_during_installation(self) -> None:
        """Raise Refused while an installation of driver or firmware runs on this node, or its end is not known."""
        for run in self.runs():
            status = self.status(run)
            if status is not None and status.status == RUNNING and not self.elsewhere(run):
                raise Refused(messages.INSTALLATION_RUNS.text(run=run), instead="npudoctor setup --attach")

    def unfinished_runs(self) -> tuple[str, ...]:
        """The runs that were begun and not ended, on any node that shares this folder."""
        statuses = ((run, self.status(run)) for run in self.runs())
        return tuple(run for run, found in statuses if found is not None and found.status in CUT_OFF)

    def elsewhere(self, run: str) -> str | None:
        """The other node on which a run was made, in a home that several share; None for one of this node.

        Root's journal lies on the node: there the name of the host may have changed since, as a first boot does.
        """
        record = self.record(run)
        if record.machine_id and self.machine_id:
            if record.machine_id != self.machine_id:
                return record.host or record.machine_id
            if self.folder == SYSTEM:
                return None
        return record.host if record.host != self.host.about.hostname else None

    @functools.cached_property
    def machine_id(self) -> str:
        """The id of this node (machine-id(5)); empty where it has none."""
        try:
            text = self.host.read("/etc/machine-id").strip()
        except Unavailable:
            return ""
        return text if re.fullmatch(r"[0-9a-f]{32}", text) else ""

    def note_commands(self, run: str, number: int, commands: Sequence[tuple[Sequence[str], int | None]]) -> None:
        """Write down the commands of a step and their exit codes; None is one that was ended."""
        if commands:
            said = [{"command": list(argv), "exit_code": code} for argv, code in commands]
            self._write(run, f"{number:03}.commands.json", {"commands": said})

    def commands(self, run: str) -> list[Any]:
        """The commands of a run and their exit codes, in order."""
        found: list[Any] = []
        for name in self.host.list_dir(self._at(run)):
            if name.endswith(".commands.json"):
                found += self._read(run, name).get("commands", [])
        return found

    def record(self, run: str) -> RunRecord:
        """What a run was; raises Refused for data that is not ours."""
        data = self._read(run, "run.json")
        record: RunRecord = self._read_form(run, _read_description, RunRecord, data)
        return record

    def status(self, run: str) -> Status | None:
        """How far a run is; None where it has not begun."""
        if not self.host.exists(f"{self._at(run)}/status.json"):
            return None
        data = self._read(run, "status.json")
        status: Status = self._read_form(run, _read_description, Status, data)
        return status

    def entries(self, run: str) -> tuple[Entry, ...]:
        """The steps that were begun, oldest first."""
        return tuple(self._entries(run))

    def _entries(self, run: str) -> Iterator[Entry]:
        for name in self.host.list_dir(self._at(run)):
            if re.fullmatch(_ENTRY, name):
                data = self._read(run, name)
                back = data.get("inverse")
                step = self._read_form(run, serialise.read_step, data.get("step"))
                inverse = None if back is None else self._read_form(run, serialise.read_step, back)
                yield Entry(step, inverse)

    def history(self) -> list[Mapping[str, Any]]:
        """Every run with what became of it, oldest first; `why` is the reason of the person who made it."""
        found: list[Mapping[str, Any]] = []
        for run in self.runs():
            status = self.status(run)
            if status is not None:
                record = self.record(run)
                data = {**serialise.write_form(record), "params": json.loads(record.params), "why": record.reason}
                found.append({**data, **serialise.write_form(status), "commands": self.commands(run)})
        return found

    def drop(self, run: str) -> None:
        """Forget a run that has changed nothing."""
        for name in self.host.list_dir(self._at(run)):
            self.host.remove(f"{self._at(run)}/{name}")
        self.host.remove_folder(self._at(run))

    def _at(self, run: str) -> str:
        return f"{self._runs}/{run}"

    def _write(self, run: str, name: str, data: dict[str, Any]) -> None:
        text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
        self.host.write_file(f"{self._at(run)}/{name}", text.encode(), mode=0o600)

    def _read(self, run: str, name: str) -> dict[str, Any]:
        path = f"{self._at(run)}/{name}"
        if problem := untrusted_writer(self.host, path):
            raise Refused(messages.JOURNAL_NOT_TRUSTED.text(problem=problem))
        try:
            data = json.loads(self.host.read_bytes(path, limit=64 << 20))
        except (ValueError, Unavailable) as why:
            raise Refused(messages.JOURNAL_INVALID.text(path=path, problem=why)) from why
        if not isinstance(data, dict):
            raise Refused(messages.JOURNAL_NOT_A_RECORD.text(path=path))
        return data

    def _read_form(self, run: str, reading: Callable[..., Any], *data: Any) -> Any:
        try:
            return reading(*data)
        except serialise.InvalidData as problem:
            raise Refused(messages.JOURNAL_INVALID.text(path=self._at(run), problem=problem)) from problem
