"""Runs a planned smoke run as a generator of events, for the command line and the TUI.

It must be consumed in one thread: the kernel kills the ranks with the thread that started them. Closing the generator,
or an exception in it, ends every process that it started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from npudoctor.host import Unavailable
from npudoctor.host.hands_off import reason
from npudoctor.host.live.identity import open_to_read
from npudoctor.host.live.trust import foreign_writer, writer_within
from npudoctor.records import replace
from npudoctor.smoke import blame, launch
from npudoctor.smoke.events import Cause, Ended, Event, Measured, RankFailed, Said
from npudoctor.smoke.plan import WORKER, Misused, Plan, Refused
from npudoctor.smoke.watch import RankState, Watch, log_tail

FOLDER = "npudoctor-smoke-"
"""Prefix of the folder of a run, which is removed at its end."""

KEPT_BYTES = 64 << 20
"""Bytes kept of one log, from its end."""

PLACE_LIMIT = 70
"""The path of a socket has at most 107 bytes."""

TICK_S = 0.1
SETTLE_S = 0.3
"""Seconds for other ranks to report, after a rank has failed on its own."""

SETTLE_CARDS_S = 1.5
"""The same on NPUs, where ranks fail at different times in the same call."""

SETTLE_FOLLOWING_S = 0.7
"""The same where ranks only reported a lost peer."""

SETTLE_STARTING_S = 3.0
"""The same while other ranks are starting, and do nothing: they wait for no peer, and may fail on their own."""

SETTLE_NODES_S = 5.0
"""The same with several nodes where ranks only lost a peer: the launcher ends the others, except one that hangs."""

REAP_S = 0.5
"""Seconds for a disconnected process to end; it may be writing a core dump."""

LAUNCHER_S = 2.0
"""Seconds for a launcher to print with which status a rank ended."""

QUIET_S = 15.0
"""A rank heard of within this many seconds before the run's time limit counts as working."""

FAREWELL_S = 10.0
"""Seconds for finished ranks to end."""

Sample = Callable[[], Mapping[str, tuple[float, tuple[int, ...]]]]
"""npu-smi's readings by subject: memory in use in MB, and processes."""


def run(plan: Plan, *, sample: Sample | None = None, hands_off: str | None = None) -> Iterator[Event]:
    """Run it; the last event is `Ended`. Raises Refused where it cannot be started.

    It ends all ranks and raises Refused when the file `hands_off` appears, since the driver is about to be changed.
    """
    if reason := launch.lacks(plan):
        raise Refused(reason)
    if plan.request.keep_logs:
        _must_be_kept_apart(plan.request.keep_logs)
    folder = _folder()
    try:
        yield from _Run(plan, folder, sample, hands_off).events()
    finally:
        if plan.request.keep_logs:
            with contextlib.suppress(OSError):
                _keep(folder, plan.request.keep_logs)
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> str:
    """A new folder for a run, in /tmp where the usual place has a name too long for a socket in it."""
    try:
        place = tempfile.gettempdir()
        if len(os.fsencode(place)) > PLACE_LIMIT or (os.geteuid() == 0 and foreign_writer(place)):
            place = "/tmp"  # noqa: S108 - mkdtemp makes it private
        sweep(place)
        return tempfile.mkdtemp(prefix=FOLDER, dir=place)
    except OSError as problem:
        raise Refused(f"cannot create a folder for the run: {problem}") from problem


def sweep(place: str) -> None:
    """Remove folders of killed runs, whose socket has no listener."""
    left: list[str] = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        left = [one.path for one in entries if one.name.startswith(FOLDER) and one.is_dir(follow_symlinks=False)]
    for folder in left:
        with socket.socket(socket.AF_UNIX) as knock:
            try:
                if os.stat(folder).st_uid == os.getuid():
                    knock.connect(os.path.join(folder, "socket"))
            except ConnectionRefusedError:
                shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                continue


def _must_be_kept_apart(folder: str) -> None:
    """Make the folder for kept logs; raises Misused on failure, or where other users could write to root's."""
    try:
        if os.geteuid() == 0 and (found := writer_within(os.path.abspath(folder))):
            raise Misused(f"--keep-logs {folder}: must not be writable by other users when run as root: {found.reason}")
        os.makedirs(folder, exist_ok=True)
    except OSError as problem:
        raise Misused(f"--keep-logs {folder}: {problem.strerror}") from problem


def _keep(folder: str, kept: str) -> None:
    """Copy the regular files of a run, no links; those of another user are read with that user's permissions."""
    for top, _, names in os.walk(folder):
        below = os.path.relpath(top, folder).removeprefix(launch.LOGS).strip("./")
        os.makedirs(os.path.join(kept, below), exist_ok=True)
        for name in set(names) - {"socket", os.path.basename(WORKER)}:
            with contextlib.suppress(OSError, Unavailable):
                content = _content(os.path.join(top, name))
                with open(os.path.join(kept, below, name), "wb") as file:
                    file.write(content)


def _content(path: str) -> bytes:
    """The end of a regular file."""
    with open(open_to_read(path, flags=os.O_NOFOLLOW), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return b""
        file.seek(max(0, size - KEPT_BYTES))
        return file.read(KEPT_BYTES)


class _Run:
    def __init__(self, plan: Plan, folder: str, sample: Sample | None, hands_off: str | None) -> None:
        self._plan = plan
        self._hands_off = hands_off
        self._folder = launch.logs_of(plan, folder)
        self._place = folder
        self._sample = sample
        self._watch = Watch(plan, os.path.join(folder, "socket"))
        self._launched: launch.Launched | None = None
        self._before: Mapping[str, tuple[float, tuple[int, ...]]] = {}
        self._several_nodes = plan.planned.nnodes > 1
        self._work = launch.Work()
        self._worked_at = 0.0

    def events(self) -> Iterator[Event]:
        yield self._plan.planned
        try:
            if self._sample:
                self._before = self._sample()
            self._watch.began = time.monotonic()
            self._launched = launch.start(self._plan, self._place)
            timed_out = yield from self._follow()
        finally:
            left = self._launched.end(self._watch.pids()) if self._launched else ()
            self._watch.close()
        yield Ended(at_s=self._watch.now(), timed_out=timed_out, left_behind=left)

    def _follow(self) -> Generator[Event, None, bool]:
        """Listen until all ranks have finished or one has failed; returns whether the run's time limit has passed."""
        states = self._watch.ranks
        until = self._watch.began + self._plan.request.timeout_s
        failed_at: float | None = None
        while True:
            yield from self._watch.wait(TICK_S)
            if self._hands_off and (why := reason(self._hands_off)):
                raise Refused(f"all ranks were stopped: {why}")
            codes, launcher_is_gone = self._codes(), self._launcher_is_gone()
            yield from self._watch.drain()  # a process that has ended has said all that it will
            if all(state.bye for state in states.values()):
                self._say_farewell()
                return False
            if self._sample is not None or any(state.holding for state in states.values()):
                yield from self._look_at_cards()
            now = time.monotonic()
            self._note_who_was_ended()
            failed = blame.failed_ranks(states.values(), codes)
            if not failed and launcher_is_gone:
                failed = [state.rank for state in states.values() if not state.bye]
            if failed:
                failed_at = failed_at or now
                if len(failed) == len(states) or self._has_settled(failed, failed_at, now):
                    yield from self._failures(failed)
                    return False
                continue
            wrong = [state.rank for state in states.values() if self._wrong_world(state.world)]
            if wrong:
                yield from self._wrong_worlds(wrong)
                return False
            if over := blame.late(self._plan, states, self._watch.began):
                yield from self._hangs(over)
                return False
            if now > until:
                waiting = tuple(state.rank for state in states.values() if not state.bye)
                limit = self._plan.request.timeout_s
                yield from self._hangs(blame.Late(stage="", ranks=waiting, limit_s=limit))
                return True

    def _note_who_was_ended(self) -> None:
        """Tell the ranks that their launcher ended from those that somebody else did."""
        ended = [state for state in self._watch.ranks.values() if state.terminated_at and not state.by_launcher]
        if not ended or self._plan.request.launcher in ("direct", "shell"):
            return
        told = blame.ended_by_launcher(log_tail(self._folder, "launcher.log", limit=1 << 16))
        for state in ended:
            state.by_launcher = self._plan.request.launcher == "spawn" or state.pid in told

    def _has_settled(self, failed: Sequence[int], failed_at: float, now: float) -> bool:
        """Whether the ranks that have not failed had time to say so."""
        states = self._watch.ranks
        known = all(states[rank].gone_at or states[rank].failed for rank in failed)
        following = all(blame.follows(states[rank]) for rank in failed)
        settle = SETTLE_CARDS_S if self._plan.planned.device == "npu" else SETTLE_S
        settle = max(settle, SETTLE_FOLLOWING_S) if following or not known else settle
        if following and self._several_nodes:
            settle = SETTLE_NODES_S
        if any("launch" not in state.ended and not state.over for state in states.values()):
            settle = SETTLE_STARTING_S
            limit_s = self._plan.planned.deadlines_s["launch"]
            if self._work.goes_on(self._processes_of(failed)) and now < self._watch.began + limit_s:
                self._worked_at = now
        return now > max(failed_at, self._worked_at) + settle

    def _processes_of(self, failed: Sequence[int]) -> list[int]:
        """The processes of the ranks that have not failed, heard of or not."""
        assert self._launched is not None
        over = {self._watch.ranks[rank].pid for rank in failed}
        direct = {process.pid for rank, process in self._launched.processes.items() if rank is None or rank in failed}
        return [pid for pid in launch.marked_processes(self._launched.mark) if pid not in over | direct]

    def _codes(self) -> dict[int | None, int | None]:
        """Exit codes of ranks that are our children."""
        assert self._launched is not None
        return {rank: process.poll() for rank, process in self._launched.processes.items() if rank is not None}

    def _final_codes(self, failed: Sequence[int]) -> dict[int | None, int | None]:
        """The same after disconnected ranks have ended: a dying process closes its files first."""
        direct = self._plan.request.launcher == "direct"
        until = time.monotonic() + (REAP_S if direct else LAUNCHER_S)
        while True:
            codes = self._codes()
            if not direct:
                told = blame.exit_codes(log_tail(self._folder, "launcher.log", limit=1 << 16))
                pids = {rank: state.pid or 0 for rank, state in self._watch.ranks.items()}
                codes |= {rank: told.get(pid) for rank, pid in pids.items()}
            states = self._watch.ranks
            going = [rank for rank in failed if states[rank].gone_at and not states[rank].failed and rank in codes]
            if time.monotonic() > until or all(codes[rank] is not None for rank in going):
                return codes
            time.sleep(0.01)

    def _launcher_is_gone(self) -> bool:
        assert self._launched is not None
        launcher = self._launched.processes.get(None)
        return launcher is not None and launcher.poll() is not None

    def _wrong_world(self, world: str | None) -> bool:
        return world is not None and world != str(self._plan.planned.world_size)

    def _say_farewell(self) -> None:
        assert self._launched is not None
        until = time.monotonic() + FAREWELL_S
        while time.monotonic() < until and any(p.poll() is None for p in self._launched.processes.values()):
            time.sleep(0.005)

    def _look_at_cards(self) -> Iterator[Event]:
        """Read npu-smi while every rank holds its memory, then release the ranks."""
        states = self._watch.ranks.values()
        if not all(state.holding for state in states):
            return
        if self._sample is not None:
            during = self._sample()
            for card, (used, pids) in during.items():
                before = self._before[card][0] if card in self._before else None
                value = {"card": card, "before_mb": before, "during_mb": used, "pids": list(pids)}
                yield Measured(at_s=self._watch.now(), name="card-memory", value=value)
            self._sample = None
        self._watch.release()

    # Failures

    def _failures(self, failed: list[int]) -> Iterator[Event]:
        states, codes = self._watch.ranks, self._final_codes(failed)
        first = blame.firsts(failed, states, several_nodes=self._several_nodes)
        stacks: dict[int, str] = {}
        hung: list[int] = []
        if not first:
            running = [rank for rank, state in states.items() if not state.over and state.pid is not None]
            deaf = [rank for rank in running if rank not in failed] if self._several_nodes else []
            stacks = self._stacks((*failed, *deaf))
            hung = [*blame.hung_until_ended(failed, states, stacks), *deaf]
            first, failed = frozenset(hung), [*failed, *deaf]
        for rank in sorted(failed, key=lambda rank: (rank not in first, rank)):
            event = blame.describe(
                self._plan,
                states[rank],
                first=rank in first,
                at_s=self._watch.now(),
                folder=self._folder,
                code=codes.get(rank),
                stack=stacks.get(rank) if rank in hung else None,
                hung=rank in hung,
            )
            yield self._with_launcher_log(event)
        yield from self._waiting(failed)

    def _waiting(self, named: Sequence[int]) -> Iterator[Event]:
        """The healthy ranks, which wait for the failed ones."""
        for rank, state in self._watch.ranks.items():
            if rank not in named and not state.over:
                at_s = self._watch.now()
                yield blame.describe(self._plan, state, first=False, at_s=at_s, folder=self._folder, waited=True)

    def _with_launcher_log(self, event: RankFailed) -> RankFailed:
        """With a launcher, its log may say how the rank ended; what is known of its lines is no cause of this rank."""
        if event.cause not in (Cause.NO_START, Cause.EXIT) or self._plan.request.launcher == "direct":
            return event
        log = log_tail(self._folder, "launcher.log")
        return replace(event, last_line=event.last_line or blame.last_line(log))

    def _wrong_worlds(self, wrong: list[int]) -> Iterator[Event]:
        for rank in wrong:
            state, world = self._watch.ranks[rank], self._plan.planned.world_size
            event = blame.describe(self._plan, state, first=True, at_s=self._watch.now(), folder=self._folder)
            message = f"WORLD_SIZE mismatch: started with {state.world}, expected {world}"
            yield replace(event, cause=Cause.WORLD_SIZE, stage="rendezvous", message=message)
        yield from self._waiting(wrong)

    def _hangs(self, over: blame.Late) -> Iterator[Event]:
        what = f"stage {over.stage}" if over.stage else "the run"
        yield Said(at_s=self._watch.now(), text=f"{what} timed out after {over.limit_s:g} s; collecting stacks")
        states = self._watch.ranks
        stacks = self._stacks(over.ranks)
        first = blame.hung_first(over.ranks, states, stacks, stage=over.stage, several_nodes=self._several_nodes)
        if not over.stage:  # the run's time limit does not blame a rank that was working until then
            first = frozenset(rank for rank in first if self._silent_s(states[rank]) > QUIET_S)
        for rank in sorted(over.ranks, key=lambda rank: (rank not in first, rank)):
            yield blame.describe(
                self._plan,
                states[rank],
                first=rank in first,
                at_s=self._watch.now(),
                folder=self._folder,
                stack=stacks.get(rank),
                hung=True,
            )
        yield from self._waiting(over.ranks)

    def _silent_s(self, state: RankState) -> float:
        return time.monotonic() - (self._watch.began if state.heard is None else state.heard)

    def _stacks(self, ranks: tuple[int, ...]) -> dict[int, str]:
        """The stacks of the ranks: faulthandler writes them on SIGUSR1, even if the interpreter hangs."""
        for rank in ranks:
            if pid := self._watch.ranks[rank].pid:
                launch.signal_process(pid, signal.SIGUSR1, self._launched.uid if self._launched else None)
        time.sleep(0.2)
        return {rank: log_tail(self._folder, f"rank-{rank}.stack", limit=32768) for rank in ranks}
