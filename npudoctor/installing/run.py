"""Carries out an installation: each step once, in its own process, verified before the next; nothing is rolled back.

Every function returns the last line: READY, NOT READY: …, or INTERRUPTED at step N: …. `Caller.say` gets the lines
before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence

from npudoctor.fixer import control, serialise
from npudoctor.fixer.journal import DONE, REPLACED, RUNNING, STOPPED, WAITING, Journal, now
from npudoctor.host import Refused, Unavailable, hands_off
from npudoctor.host.apart import ApartHost
from npudoctor.installing import apart, conditions, holders, proof, state, validity
from npudoctor.installing.opening import copy_of, drop_copies
from npudoctor.installing.state import Begun, Node, Step
from npudoctor.records import record
from npudoctor.steps import StepFailed
from npudoctor.steps.installers import compare_copy

HANDS_OFF = hands_off.PATH
LET_GO_S = 5.0
"""Every reader of npudoctor has released the driver before this, usually within 2 s."""
POLL_S = 0.2
QUIET_POLLS = 3
"""So often in a row no process of a step is seen before it counts as ended: one that forks may be missed once."""
VENDOR_LOGS = "/var/log/ascend_seclog"
LARGEST_LOG_BYTES = 4 << 20
READY = "READY"
REMOVED = "NOT READY: the driver is removed, as it was before"
AT_BOOT = "/etc/systemd/system/multi-user.target.wants/npudoctor-setup.service"
"""There where the first-boot service is enabled."""
NOT_STARTED = "its installer was not started"

Table = tuple[tuple[str, ...], tuple[str, ...]]
"""The NPUs on the PCI bus, and their serial numbers, as `Node` has them."""


@record(frozen=True, kw_only=True)
class Caller:
    """What the command that goes on with a run asks and shows: `say` gets each line, `wrong` says what is wrong with
    the node now (empty where driver, firmware and NPUs are verified), `free` raises Refused where an NPU is held,
    `causes` are known causes of the failure in an installer's log, `table` are the NPUs now, `containers` those that
    use NPUs or the driver, by id with their names."""

    say: Callable[[str], None]
    wrong: Callable[[], list[str]]
    free: Callable[[], None]
    causes: Callable[[str], list[str]]
    table: Callable[[], Table]
    containers: Callable[[], dict[str, str]]


class Installation:
    """One run, under the lock of the journal."""

    def __init__(self, host: ApartHost, journal: Journal, run: str, caller: Caller) -> None:
        self.host, self.journal, self.run, self.caller = host, journal, run, caller
        self.say = caller.say
        self.number = 1
        """The step that runs, or is next."""
        self.shown = 0
        """How many lines of the log of the step that runs were shown already."""
        self.node, self.steps = state.plan_of(journal, run)
        self.holders, self.containers = state.holders(journal, run)

    def go_on(self) -> str:
        """Take the steps that were not begun, verify each, and say what is next.

        A step that was begun is never begun again. An exception leaves its installer running, and the file of
        HANDS_OFF, which the installer's process removes.
        """
        for number, step in enumerate(self.steps, 1):
            self.number = number
            done = state.read_end(self.journal, self.run, number)
            if done is None:
                try:
                    if state.read_beginning(self.journal, self.run, number) is None:
                        self._start(number, step)
                except (Refused, Unavailable, OSError) as problem:
                    folder = self._folder(number)
                    if apart.was_started(self.host, folder) or apart.running_pid(self.host, folder) is not None:
                        raise
                    lift_leftover(self.host, self.journal)
                    return self._stop_at(number, f"{problem}; it was not begun")
                if began_here(self.host, self.journal, self.run, number):
                    follow(self.host, self._folder(number), self.say, self.shown)
                self.shown = 0
                done = self._verify_step(number, step)
                lift_leftover(self.host, self.journal)
            if done.problem:
                return self._stop_at(number, done.problem)
        return self._end()

    @property
    def _rebooted(self) -> bool:
        return self.host.boot_id() != self.node.boot_id

    def _folder(self, number: int) -> str:
        return self.journal.archive(self.run, f"step-{number}")

    def _stop_holders(self) -> None:
        """Stop what the person has named; raises Refused where it does not stop."""
        if self.holders:
            state.note_stopping(self.journal, self.run)
        for one in self.holders:
            self.say(f"stopping {one.name}, as consented: {' '.join(one.stop)}")
            if problem := holders.run_command(self.host, one.stop):
                raise Refused(f"{one.name} was not stopped: {problem}")

    def _start_holders(self) -> list[str]:
        """Start again exactly what was stopped; what did not start."""
        wrong = []
        for one in self.holders:
            self.say(f"starting {one.name} again: {' '.join(one.start)}")
            if problem := holders.run_command(self.host, one.start):
                wrong.append(f"{one.name}, which was stopped for the installation, does not start: {problem}")
        return wrong

    def _start(self, number: int, step: Step) -> None:
        if self._rebooted:
            raise Refused(f"the node was rebooted before step {number}, which is not begun on another boot")
        validity.must_be_recent(self.journal.record(self.run).started_at)
        service = conditions.out_of_service(self.host.fresh(), unmanaged=self.node.unmanaged)
        refuse_maintenance(self.host, self.journal)
        self.host.make_folder("/run/npudoctor")
        what = f"{step.then} is being installed" if step.then else "is being removed"
        said = f"{step.title} {what} (run {self.run})\n"
        self.host.write_file(HANDS_OFF, said.encode(), mode=0o644)
        self._stop_holders()
        self._let_go()
        unit = f"npudoctor-install-{self.run}-{number}"
        folder, package = self._folder(number), copy_of(self.journal, self.run, step)
        command = apart.command(self.host, unit, folder, HANDS_OFF, package, step.options)
        self.journal.make(self.run, f"step-{number}")
        self.journal.make(self.run, f"step-{number}/{apart.TEMPORARY}")
        shown = ("bash", step.file or step.source, *step.options)
        before = proof.traces(self.host)
        noted = Begun(at=now(), boot_id=self.node.boot_id, command=shown, service=service, before=before)
        self._must_be_the_copy(step)
        self.journal.keep(self.run, f"step-{number}/begun.json", serialise.write_form(noted))
        self.say(f"step {number} of {len(self.steps)}: {step.title} {step.now or 'none'} → {step.then or 'none'}")
        try:
            self.host.start_apart(command, apart.variable(self.host, folder))
        except Unavailable as problem:  # it may have been started nevertheless, which its pid tells
            self.say(f"  {problem}")
        self.say(f"  $ {' '.join(shown)}")
        self.say("  it goes on if npudoctor ends; then: npudoctor setup --attach")

    def _must_be_the_copy(self, step: Step) -> None:
        copy = self.host.outside(copy_of(self.journal, self.run, step))
        try:
            compare_copy(self.host, copy, copy, step.sha256)
        except StepFailed as problem:
            raise Refused(f"the copy of {step.file} is not the file of the preview: {problem}") from problem

    def _let_go(self) -> None:
        """Wait until no process holds an NPU; npudoctor's own readers release them within LET_GO_S."""
        until = time.monotonic() + LET_GO_S
        while time.monotonic() < until and self.host.holding(conditions.DEVICES):
            time.sleep(POLL_S)
        self.caller.free()

    def _verify_step(self, number: int, step: Step) -> state.Ended:
        folder = self._folder(number)
        if not apart.was_started(self.host, folder):
            apart.give_up(self.host, folder)
            follow(self.host, folder, self.say)  # it may have been started just before
        code, log = apart.exit_code(self.host, folder), apart.log_of(self.host, folder)
        if not apart.was_started(self.host, folder) or apart.gave_up(self.host, folder):
            found = state.Ended(at=now(), exit_code=None, proof="", problem=NOT_STARTED, reboot=False)
        else:
            found = proof.of_step(self.host, step, self.node, code, log, now())
        self._copy_logs(number)
        self.journal.keep(self.run, f"step-{number}/ended.json", serialise.write_form(found))
        self.journal.note_commands(
            self.run, number - 1, [(("bash", step.file or step.source, *step.options), found.exit_code)]
        )
        shown = "not known" if found.exit_code is None else str(found.exit_code)
        self.say(f"  exit code {shown}; {found.problem or found.proof}")
        if found.problem:
            for line in self.caller.causes(log):
                self.say(f"  {line}")
        return found

    def _copy_logs(self, number: int) -> None:
        """The ends of the vendor's logs as they are after a step."""
        with contextlib.suppress(Unavailable, Refused, OSError):
            for name in self.host.fresh().list_dir(VENDOR_LOGS):
                size = self.host.stat(f"{VENDOR_LOGS}/{name}").size
                start = max(0, size - LARGEST_LOG_BYTES)
                with contextlib.suppress(Unavailable):
                    content = self.host.read_part(f"{VENDOR_LOGS}/{name}", start, LARGEST_LOG_BYTES)
                    self.host.write_file(f"{self._folder(number)}/vendor-{name}", content, mode=0o600)

    def _take_place(self) -> None:
        """Mark the runs whose place this one takes: not before it has begun, since until then they say what is so."""
        if state.read_beginning(self.journal, self.run, 1) is None:
            return
        for older, words in state.replaced_by(self.journal, self.run).items():
            status = self.journal.status(older)
            if status is not None and status.status != REPLACED:
                self.journal.mark(older, REPLACED, f"{words} {self.run}")

    def _stop_at(self, number: int, problem: str) -> str:
        self._take_place()
        line = f"INTERRUPTED at step {number}: {problem}"
        self.journal.mark(self.run, STOPPED, line)
        control.log(self.journal, self.run, "stopped", problem)
        different = self._changes_since(number)
        self._note_ending(line, different)
        for one in different:
            self.say(f"  {one}")
        self.say(f"  log: {self.host.outside(self._folder(number))}/log; npudoctor rolls nothing back")
        drop_copies(self.journal, self.run, self.steps)
        return line

    def _changes_since(self, last: int) -> list[str]:
        """What each step that was begun has left, as far as it can be known."""
        lines = []
        for number, step in enumerate(self.steps[:last], 1):
            begun = state.read_beginning(self.journal, self.run, number)
            if begun is None:
                continue
            done = state.read_end(self.journal, self.run, number)
            changed = proof.changed_files(begun.before, proof.traces(self.host))
            left = f"not verified; it has changed {', '.join(changed)}"
            if not changed:
                left = "not verified; the vendor's files and modules are as they were"
            if step.component == "firmware":
                left += "; how many chips were flashed is not known"
            found = done.proof if done and not done.problem else left
            lines.append(f"step {number}, {step.component} {step.then}: {found}; way back: {step.way_back}")
        if state.were_stopped(self.journal, self.run):
            commands = "; ".join(" ".join(one.start) for one in self.holders)
            lines.append(f"stopped, and started again only after the proof: {commands}")
        return lines or ["nothing was changed"]

    def _note_ending(self, line: str, different: Sequence[str]) -> None:
        """The table of NPUs before and after, the boots, and what is different: the end of the journal of this run."""
        cards, serials = self.caller.table()
        before = {"npus": list(self.node.cards), "serials": list(self.node.serials), "boot_id": self.node.boot_id}
        after = {"npus": list(cards), "serials": list(serials), "boot_id": self.host.boot_id()}
        data = {"at": now(), "line": line, "before": before, "after": after, "different": list(different)}
        self.journal.keep(self.run, state.ENDING, data)

    def _end(self) -> str:
        self._take_place()
        done = [state.read_end(self.journal, self.run, number) for number in range(1, len(self.steps) + 1)]
        if any(one is not None and one.reboot for one in done):
            line = "NOT READY: reboot the node, then npudoctor setup --resume"
            self._note_ending(line, self._changes_since(len(self.steps)))
            self.journal.mark(self.run, WAITING, "all steps are verified; the node has to be rebooted")
            if not self._rebooted:
                self.say("a reboot is due; npudoctor does not reboot:")
                self.say("  $ systemctl reboot")
                by_itself = ", which npudoctor-setup.service does at the boot" if self.host.exists(AT_BOOT) else ""
                self.say(f"  $ npudoctor setup --resume   # after it, within {validity.VALID_H} hours{by_itself}")
            return line
        return self.verify()

    def verify(self) -> str:
        """Verify the node as a whole, start the holders, and end the run."""
        lift_leftover(self.host, self.journal)
        wrong = self.caller.wrong() or self._start_holders()
        different = self._changes_since(len(self.steps))
        if wrong:
            for line in wrong:
                self.say(f"  {line}")
            more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            last = f"NOT READY: {wrong[0]}{more}"
        elif not all(step.then for step in self.steps):
            last = REMOVED
        else:
            last = READY
        self._say_older()
        self._note_ending(last, different)
        if wrong:
            self.journal.mark(self.run, STOPPED, last)
        else:
            said = "driver, firmware and NPUs are verified" if last == READY else last
            self.journal.mark(self.run, DONE, said)
            drop_copies(self.journal, self.run, self.steps)
        control.log(self.journal, self.run, "stopped" if wrong else "done", last)
        return last

    def _say_older(self) -> None:
        """The containers that were made before the new driver: their copies and mounts are of the old one."""
        there = self.caller.containers()
        older = [name for id, name in self.containers.items() if id in there]
        if older and any(step.component == "driver" for step in self.steps):
            self.say(f"older than this driver, and to be recreated: {', '.join(older)}")

    # After a reboot

    def resume(self, again: Node) -> str:
        """Prove the steps after the reboot; raises Refused where this is not the node, or not the boot, for it.

        Where npudoctor or the node went down in the middle, it is first found out how far the steps came; none begins.
        """
        status = self.journal.status(self.run)
        if status is not None and status.status == RUNNING and self._rebooted and self.host.boot_id():
            validity.must_be_the_node(self.journal, self.run, again)
            try:
                self._must_be_unchanged(self._last_beginning())
            except Refused as why:
                line = self._stop_at(self.number, why.reason)
            else:
                line = self.go_on()
            status = self.journal.status(self.run)
            if status is None or status.status != WAITING:
                return line if line == READY else f"NOT READY: {line.removeprefix('NOT READY: ')}"
        proved_at = state.verified_at(self.journal, self.run, len(self.steps))
        if status is None or status.status not in (WAITING, STOPPED) or proved_at is None:
            raise Refused(f"run {self.run} does not wait for a reboot")
        validity.must_be_the_node(self.journal, self.run, again)
        if not self.host.boot_id() or not self._rebooted:
            raise Refused("the node was not rebooted since")
        self._must_be_unchanged(proved_at)
        return self.verify()

    def _last_beginning(self) -> str:
        """When the last step was begun, or the run where none was."""
        at = self.journal.record(self.run).started_at
        for number in range(1, len(self.steps) + 1):
            if begun := state.read_beginning(self.journal, self.run, number):
                self.number, at = number, begun.at
        return at

    def _must_be_unchanged(self, at: str) -> None:
        validity.must_be_recent(at)
        for step in self.steps:
            if step.file:
                self._must_be_the_copy(step)


def began_here(host: ApartHost, journal: Journal, run: str, number: int) -> bool:
    """Whether a step was begun on this boot: a pid of another boot is one of another process."""
    begun = state.read_beginning(journal, run, number)
    return begun is not None and begun.boot_id == host.boot_id()


def follow(host: ApartHost, folder: str, say: Callable[[str], None], shown: int = 0) -> int:
    """Show the log of a step, without its first lines, until its process has ended; how many lines there are.

    An interrupt leaves the process running.
    """
    quiet = 0
    while True:
        running = apart.running_pid(host, folder) is not None
        quiet = 0 if running else quiet + 1
        lines = apart.log_of(host, folder).splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n") or not running]
        for line in whole[shown:]:
            say(f"  | {line.rstrip()}")
        shown = max(shown, len(whole))
        if quiet == QUIET_POLLS:
            return shown
        time.sleep(POLL_S)


def lift_leftover(host: ApartHost, journal: Journal) -> None:
    """Remove the hands-off file of a run of this journal whose installers have all ended; another file stays.

    Called under the lock of the journal, which the npudoctor that writes the file holds, too.
    """
    run = re.search(r"\(run ([\w.-]+)\)", hands_off.reason(host.outside(HANDS_OFF)) or "")
    if run is None or run[1] not in journal.runs():
        return
    folders = [name for name in host.list_dir(journal.archive(run[1], "")) if name.startswith("step-")]
    if all(apart.running_pid(host, journal.archive(run[1], name)) is None for name in folders):
        host.remove(HANDS_OFF)


def refuse_maintenance(host: ApartHost, journal: Journal) -> None:
    """Raise Refused where the driver is changed by another: a person, or an installation with another journal."""
    lift_leftover(host, journal)
    if why := hands_off.reason(host.outside(HANDS_OFF)):
        raise Refused(why)


def plan_digest(node: Node, steps: Sequence[Step]) -> str:
    """A digest of a plan, for the journal and the preview."""
    data = {"node": serialise.write_form(node), "steps": [serialise.write_form(step) for step in steps]}
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=list).encode()).hexdigest()
