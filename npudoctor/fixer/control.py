"""Change control: whether the site allows a change now, whose run stands against it, and the system's log about it."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from npudoctor import clock
from npudoctor.fixer import messages
from npudoctor.fixer.journal import Journal
from npudoctor.host import Host, Refused, Unavailable, hold, real_path
from npudoctor.host.live import audit
from npudoctor.host.live.measures import NETWORK_FILESYSTEMS
from npudoctor.sdk import Options
from npudoctor.steps import Step

if TYPE_CHECKING:
    from npudoctor.fixer.plan import FixPlan


def standing_against(planned: FixPlan, *, irreversible: bool) -> Refused | None:
    """Why a plan is not applied; None where nothing stands against it."""
    if planned.refused is not None:
        return planned.refused
    if planned.obstacle is not None:
        owned = "--as ansible" if planned.obstacle.owner else None
        return Refused(planned.obstacle.reason, instead="sudo" if planned.obstacle.root else owned)
    if planned.irreversible and not irreversible:
        return Refused(messages.IRREVERSIBLE.text(), instead="--irreversible")
    return None


def forbidden_now(options: Options, host: Host) -> Refused | None:
    """Why the site allows no change of this node now; None where it does."""
    control = options.changes
    if reason := hold.reason(host, clock.today()):
        return Refused(messages.ON_HOLD.text(reason=reason))
    if reason := control.frozen_for(clock.today()):
        return Refused(messages.FROZEN.text(reason=reason))
    if window := control.closed_window(clock.local()):
        return Refused(messages.WINDOW_CLOSED.text(window=window))
    if control.require_reason and not options.reason.strip():
        return Refused(messages.REASON_REQUIRED.text(), instead="--reason TEXT")
    return None


@contextlib.contextmanager
def lock_journal(journal: Journal) -> Iterator[None]:
    """Hold the lock of this user's journal; root's is root's alone. A refusal names the run that holds it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(journal.host.lock(f"{journal.folder}/lock"))
        except Refused as why:
            raise _name_run(journal, why) from why
        except OSError as problem:
            raise Refused(messages.JOURNAL_NOT_WRITABLE.text(problem=problem)) from problem
        yield


def _name_run(journal: Journal, why: Refused) -> Refused:
    """A refusal with the newest run that has not ended, and whose it is."""
    try:
        run = next(reversed(journal.unfinished_runs()), None)
        one = journal.record(run) if run else None
    except (Refused, Unavailable, OSError):
        return why
    if run is None or one is None:
        return why
    host = one.host or journal.host.about.hostname
    said = messages.UNDER_WAY.text(reason=why.reason, run=run, by=one.by, host=host, at=one.started_at)
    return Refused(said, instead=why.instead)


def nothing_cut_off(journal: Journal) -> str:
    """Why nothing was recovered: no run was interrupted, or only one of another node in a shared home."""
    for run in journal.unfinished_runs():
        if host := journal.elsewhere(run):
            return messages.LEFT_ON_ANOTHER_HOST.text(run=run, host=host)
    return messages.NOTHING_CUT_OFF.text()


def ignored_hold(host: Host) -> tuple[str, ...]:
    """A note where a file of a hold is there that does not count."""
    return (why,) if (why := hold.why_ignored(host)) else ()


def on_network(host: Host, steps: Iterable[Step]) -> tuple[str, ...]:
    """A note for each file system that several nodes share: a change of its files reaches all of them."""
    try:
        rows = [line.split(" ") for line in host.read("/proc/self/mounts").splitlines()]
    except Unavailable:
        return ()
    kinds = {row[1]: row[2] for row in rows if len(row) > 2}
    shared: dict[str, list[str]] = {}
    for path in dict.fromkeys(path for step in steps if (path := getattr(step, "path", ""))):
        place = real_path(host, path)
        while place not in kinds and place not in ("", "/"):
            place = posixpath.dirname(place)
        if kinds.get(place) in NETWORK_FILESYSTEMS:
            shared.setdefault(place, []).append(path)
    return tuple(
        messages.ON_NETWORK.text(paths=", ".join(paths), kind=kinds[place], place=place)
        for place, paths in shared.items()
    )


def log(journal: Journal, run: str, what: str, told: str) -> None:
    """Say in the system's log what was done, by which user and why; only of this machine itself."""
    if journal.host.about.source != "live":
        return
    record = journal.record(run)
    by = " ".join(dict.fromkeys(filter(None, (record.by, record.sudo_user or record.login))))
    origin = messages.FROM.text(origin=record.origin) if record.origin else ""
    reason = record.reason or messages.NO_REASON.text()
    said = messages.LOGGED.text(what=what, fix=record.fix, run=run, by=by, origin=origin, reason=reason)
    audit.log(f"{said}; {told}")
