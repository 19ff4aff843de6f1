"""Carries out an installation: each step once, in its own process, verified before the next; nothing is rolled back.

Every function returns the last line: READY, NOT READY: …, or INTERRUPTED at step N: …. `say` gets the lines before.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from npudoctor import clock
from npudoctor.fixer import control, serialise
from npudoctor.fixer.journal import DONE, RUNNING, STOPPED, WAITING, Journal, RunRecord, now
from npudoctor.host import Refused, Unavailable, hands_off
from npudoctor.host.apart import ApartHost
from npudoctor.installing import apart, conditions, proof, state
from npudoctor.installing.state import Begun, Node, Step

HANDS_OFF = hands_off.PATH
LET_GO_S = 5.0
"""Every reader of npudoctor has released the driver before this, usually within 2 s."""
POLL_S = 0.2
QUIET_POLLS = 3
"""So often in a row no process of a step is seen before it counts as ended: one that forks may be missed once."""
VALID_H = 24
LARGEST_BYTES = 2 << 30
CHUNK = 4 << 20
READY = "READY"

Say = Callable[[str], None]
Judge = Callable[[], list[str]]
"""What is wrong with the node now, one line a problem; empty where driver, firmware and NPUs are verified."""


def digest_of(host: ApartHost, path: str) -> str:
    """The SHA-256 of a file; raises Unavailable."""
    digest, place = hashlib.sha256(), 0
    while piece := host.read_part(path, place, CHUNK):
        digest.update(piece)
        place += len(piece)
    return digest.hexdigest()


def open_run(
    journal: Journal, record: RunRecord, node: Node, steps: Sequence[Step], content_of: Callable[[Step], bytes]
) -> None:
    """Write the plan and the copies of its packages; nothing of the node has been changed when this returns.

    A run that cannot be opened is stopped: its plan is the last thing that is written.
    """
    run = record.id
    journal.begin(record, status=RUNNING)
    try:
        journal.make(run, "packages")
        for step in steps:
            content = content_of(step)
            if hashlib.sha256(content).hexdigest() != step.sha256:
                raise Refused(f"{step.source} has changed since the preview")
            journal.host.write_file(journal.archive(run, f"packages/{step.file}"), content, mode=0o600)
        data = {"node": serialise.written(node), "steps": [serialise.written(step) for step in steps]}
        journal.keep(run, state.PLAN, data)
    except (Refused, OSError, Unavailable) as problem:
        journal.mark(run, STOPPED, f"INTERRUPTED before step 1: {problem}")
        raise


class Installation:
    """One run, under the lock of the journal."""

    def __init__(self, host: ApartHost, journal: Journal, run: str, say: Say, judge: Judge) -> None:
        self.host, self.journal, self.run, self.say, self.judge = host, journal, run, say, judge
        self.node, self.steps = state.plan_of(journal, run)

    def go_on(self) -> str:
        """Take the steps that were not begun, verify each, and say what is next.

        A step that was begun is never begun again. An exception leaves its installer running, and the file of
        HANDS_OFF, which the installer's process removes.
        """
        for number, step in enumerate(self.steps, 1):
            done = state.ended(self.journal, self.run, number)
            if done is None:
                try:
                    if state.begun(self.journal, self.run, number) is None:
                        self._start(number, step)
                except (Refused, Unavailable, OSError) as problem:
                    folder = self._folder(number)
                    if apart.was_started(self.host, folder) or apart.alive(self.host, folder) is not None:
                        raise
                    self.host.remove(HANDS_OFF)
                    return self._stopped(number, f"{problem}; it was not begun")
                follow(self.host, self._folder(number), self.say)
                self.host.remove(HANDS_OFF)
                done = self._judged(number, step)
            if done.problem:
                return self._stopped(number, done.problem)
        return self._end()

    def _folder(self, number: int) -> str:
        return self.journal.archive(self.run, f"step-{number}")

    def _start(self, number: int, step: Step) -> None:
        if self.host.boot_id() != self.node.boot_id:
            raise Refused(f"the node was rebooted before step {number}, which is not begun on another boot")
        service = conditions.out_of_service(self.host.fresh(), unmanaged=self.node.unmanaged)
        self.host.make_folder("/run/npudoctor")
        self.host.write_file(HANDS_OFF, f"{step.title} {step.then} is being installed\n".encode(), mode=0o644)
        self._let_go()
        folder, package = self._folder(number), self.journal.archive(self.run, f"packages/{step.file}")
        if digest_of(self.host, package) != step.sha256:
            raise Refused(f"the copy of {step.file} is not the file of the preview")
        unit = f"npudoctor-install-{self.run}-{number}"
        command = apart.command(self.host, unit, folder, HANDS_OFF, package, step.options)
        self.journal.make(self.run, f"step-{number}")
        self.journal.make(self.run, f"step-{number}/{apart.TEMPORARY}")
        shown = ("bash", step.file, *step.options)
        noted = Begun(at=now(), boot_id=self.node.boot_id, command=shown, service=service)
        self.journal.keep(self.run, f"step-{number}/begun.json", serialise.written(noted))
        self.say(f"step {number} of {len(self.steps)}: {step.title} {step.now or 'none'} → {step.then}")
        try:
            self.host.start_apart(command, apart.variable(self.host, folder))
        except Unavailable as problem:  # it may have been started nevertheless, which its pid tells
            self.say(f"  {problem}")
        self.say(f"  $ {' '.join(shown)}")
        self.say("  it goes on if npudoctor ends; then: npudoctor setup --attach")

    def _let_go(self) -> None:
        """Wait until no process holds an NPU; npudoctor's own readers release them within LET_GO_S."""
        until = time.monotonic() + LET_GO_S
        while time.monotonic() < until and self.host.holding(conditions.DEVICES):
            time.sleep(POLL_S)
        conditions.free(self.host)

    def _judged(self, number: int, step: Step) -> state.Ended:
        folder = self._folder(number)
        if not apart.was_started(self.host, folder):
            found = state.Ended(
                at=now(), exit_code=None, proof="", problem="its installer was not started", reboot=False
            )
        else:
            code, log = apart.exit_code(self.host, folder), apart.log_of(self.host, folder)
            found = proof.of_step(self.host, step, self.node, code, log, now())
        self.journal.keep(self.run, f"step-{number}/ended.json", serialise.written(found))
        self.journal.ran(self.run, number - 1, [(("bash", step.file, *step.options), found.exit_code)])
        shown = "not known" if found.exit_code is None else str(found.exit_code)
        self.say(f"  exit code {shown}; {found.problem or found.proof}")
        return found

    def _stopped(self, number: int, problem: str) -> str:
        self.journal.mark(self.run, STOPPED, f"INTERRUPTED at step {number}: {problem}")
        control.log(self.journal, self.run, "stopped", problem)
        self._say_what_is_different(number)
        return f"INTERRUPTED at step {number}: {problem}"

    def _say_what_is_different(self, last: int) -> None:
        """What each step that was begun has left, as far as it can be known."""
        for number, step in enumerate(self.steps[:last], 1):
            done = state.ended(self.journal, self.run, number)
            found = done.proof if done and not done.problem else "not verified; it may have changed the node in part"
            self.say(f"  step {number}, {step.component} {step.then}: {found}; way back: {step.way_back}")
        self.say(f"  log: {self.host.outside(self._folder(last))}/log; npudoctor rolls nothing back")

    def _end(self) -> str:
        done = [state.ended(self.journal, self.run, number) for number in range(1, len(self.steps) + 1)]
        if any(one is not None and one.reboot for one in done):
            self.journal.mark(self.run, WAITING, "all steps are verified; the node has to be rebooted")
            self.say("a reboot is due; npudoctor does not reboot:")
            self.say("  $ systemctl reboot")
            self.say(f"  $ npudoctor setup --resume   # after it, within {VALID_H} hours")
            return "NOT READY: reboot the node, then npudoctor setup --resume"
        return self._verified()

    def _verified(self) -> str:
        self.host.remove(HANDS_OFF)
        wrong = self.judge()
        if wrong:
            for line in wrong:
                self.say(f"  {line}")
            self.journal.mark(self.run, STOPPED, f"NOT READY: {wrong[0]}")
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            return f"NOT READY: {wrong[0]}{more}"
        self.journal.mark(self.run, DONE, "driver, firmware and NPUs are verified")
        control.log(self.journal, self.run, "done", READY)
        return READY

    # After a reboot

    def resume(self, cards: Sequence[str], serials: Sequence[str]) -> str:
        """Prove the steps after the reboot; raises Refused where this is not the node, or not the boot, for it."""
        status = self.journal.status(self.run)
        if status is None or status.status != WAITING:
            raise Refused(f"run {self.run} does not wait for a reboot")
        if not self.node.machine_id or self.journal.machine_id != self.node.machine_id:
            raise Refused("this is another node than the one of the installation: /etc/machine-id differs")
        if tuple(cards) != self.node.cards:
            raise Refused("this is another node than the one of the installation: its NPUs on the PCI bus differ")
        if self.node.serials and tuple(serials) != self.node.serials:
            raise Refused("this is another node than the one of the installation: serial numbers of NPUs differ")
        if not self.host.boot_id() or self.host.boot_id() == self.node.boot_id:
            raise Refused("the node was not rebooted since")
        age_s = (clock.now() - _time(status.at)).total_seconds()
        if not 0 <= age_s <= VALID_H * 3600:
            raise Refused(f"the installation is of {status.at}, not of the last {VALID_H} hours")
        for step in self.steps:
            if digest_of(self.host, self.journal.archive(self.run, f"packages/{step.file}")) != step.sha256:
                raise Refused(f"the copy of {step.file} is not the file of the installation")
        return self._verified()


def follow(host: ApartHost, folder: str, say: Say) -> None:
    """Show the log of a step until its process has ended; an interrupt leaves it running."""
    shown = quiet = 0
    while True:
        running = apart.alive(host, folder) is not None
        quiet = 0 if running else quiet + 1
        lines = apart.log_of(host, folder).splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n") or not running]
        for line in whole[shown:]:
            say(f"  | {line.rstrip()}")
        shown = max(shown, len(whole))
        if quiet == QUIET_POLLS:
            return
        time.sleep(POLL_S)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def plan_digest(node: Node, steps: Sequence[Step]) -> str:
    """A digest of a plan, for the journal and the preview."""
    data = {"node": serialise.written(node), "steps": [serialise.written(step) for step in steps]}
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=list).encode()).hexdigest()
