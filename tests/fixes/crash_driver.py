"""Kills, or fails, a fix at each of its operations, and says what is left after `fix --recover`.

Run by `main(SCENE, FAULT, FOLDER, FIRST, STEP)` in a process of its own. What the parent prints is one JSON line a
point, after one about the scene. FAULT is

- `kill`, `kill-undo`, `kill-recover`: SIGKILL while applying, undoing or recovering, at each journal and file operation
  of npudoctor; at point N just before the operation, or, for even N, just after;
- the name of an errno: the operation fails with it;
- `tool`, `tool-undo`: SIGKILL for npudoctor and for the tool that it runs, at each file operation of the tool;
- `tool-interrupt`: Ctrl-C while the tool is at that operation;
- `tool-alone`: SIGKILL for the tool only; `tool-ENOSPC` and the like: the tool's operation fails;
- `race`: two at once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import Request
from npudoctor.host.live import process_tree
from npudoctor.plugins import Catalog
from tests.fixes import scenes
from tests.fixes.scenes import Scene, Where

CHANGING = ("mkdir", "rmdir", "rename", "unlink", "write", "fsync", "fchmod", "fchown", "chmod", "setxattr", "symlink")
NEVER = 1 << 30
RACES = 10


class Point:
    """Counts the operations, and strikes at one of them."""

    def __init__(self, number: int, strike: Callable[[], None], *, after: bool) -> None:
        self.count = 0
        self.number = number
        self.strike = strike
        self.after = after

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            self.count += 1
            here = self.count == self.number
            if here and not self.after:
                self.strike()
            try:
                return call(*args, **named)
            finally:
                if here and self.after:
                    self.strike()

        return called


def armed(number: int, fault: str) -> Point:
    """Let every operation of this process count, and the one with this number be struck."""
    end = os.kill

    def kill() -> None:
        end(os.getpid(), signal.SIGKILL)

    def fail() -> None:
        code = getattr(errno, fault)
        raise OSError(code, os.strerror(code))

    killing = fault.startswith("kill")
    point = Point(
        (number + 1) // 2 if killing else number, kill if killing else fail, after=killing and number % 2 == 0
    )
    for name in (*CHANGING, "kill") if killing else CHANGING:
        setattr(os, name, point.wrap(getattr(os, name)))
    if killing:
        subprocess.Popen = point.wrap(subprocess.Popen)  # type: ignore[assignment, misc]
    return point


class Play:
    """A scene that is played over and over."""

    def __init__(self, name: str, folder: str) -> None:
        self.scene: Scene = scenes.SCENES[name]
        self.folder = folder
        self.root = f"{folder}/node"
        self.catalog: Catalog = scenes.catalog_of(self.scene)
        self.late = 0
        self.made: plan.FixPlan | None = None
        os.environ["SCENE_ROOT"] = self.root
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        if self.scene.where is Where.BELOW:
            os.environ["PATH"] = f"{self.root}.tools:/usr/bin:/bin"
        if self.scene.where is Where.ALONE:
            scenes.namespace()

    def anew(self) -> None:
        """The node as it was."""
        scenes.node(self.root, self.scene)

    def snapshot(self) -> dict[str, Any]:
        return scenes.snapshot(self.scene, self.root)

    def planned(self) -> plan.FixPlan:
        """What is shown to the person: always the same on the same node, but for the numbers of its processes."""
        if self.made is None or self.scene.begin is scenes.with_sleepers:
            self.made = self._plan()
        return self.made

    def _plan(self) -> plan.FixPlan:
        options = scenes.options_of(self.scene, self.root)
        request = Request(self.scene.fix, scenes.params_of(self.scene, self.root))
        return plan.make(self.catalog, scenes.host_of(self.scene, self.root), request, options)

    def act(self, what: str, gate: int = -1) -> str:
        """Apply, undo or recover; what the last event says. `gate` is a pipe that is waited for in front of it."""
        host, state = scenes.host_of(self.scene, self.root), scenes.state_of(self.scene, self.root)
        if what == "apply":
            options, made = scenes.options_of(self.scene, self.root), self.planned()
            if gate >= 0:
                os.read(gate, 1)
            events = runner.apply(self.catalog, host, made, options, irreversible=self.scene.irreversible, state=state)
        elif what == "undo":
            events = runner.undo(host, state=state)
        else:
            events = runner.recover(host, state=state)
        last = list(events)[-1]
        assert isinstance(last, runner.Ended)
        return f"{last.outcome.value}: {last.reason}"

    def begin(self, what: str, number: int = 0, fault: str = "", gate: int = -1) -> tuple[int, int]:
        """A forked process that does it, and the pipe that it speaks into."""
        reading, writing = os.pipe()
        write = os.write
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            point = None
            try:
                if fault.startswith("tool"):
                    self._arm_tools(number, fault)
                elif number:
                    point = armed(number, fault)
                said = self.act(what, gate)
            except KeyboardInterrupt:
                said = "interrupted"
            except BaseException as problem:
                said = f"crashed: {type(problem).__name__}: {problem}"
            write(writing, json.dumps([said, point.count if point else 0]).encode())
            os._exit(0)
        os.close(writing)
        return pid, reading

    def _arm_tools(self, number: int, fault: str) -> None:
        how = fault.rpartition("-")[2]
        os.environ["SCENE_COUNT"] = f"{self.folder}/count"
        os.environ["SCENE_AT"] = str(number)
        os.environ["SCENE_HOW"] = "-1" if how == "interrupt" else str(getattr(errno, how, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
        os.environ["SCENE_FIXER"] = "0" if how == "alone" else str(os.getpid())
        os.environ["LD_PRELOAD"] = os.environ["SCENE_STRIKER"]

    def operations_of_tools(self) -> int:
        try:
            return os.stat(f"{self.folder}/count").st_size
        except FileNotFoundError:
            return 0

    @staticmethod
    def end(begun: tuple[int, int]) -> tuple[str, int]:
        """What a forked process has said, `killed` where it was, and how many operations it has counted."""
        pid, reading = begun
        with open(reading, "rb") as file:
            told = file.read().decode()
        _, status = os.waitpid(pid, 0)
        said, count = json.loads(told) if told else ("", 0)
        return ("killed" if os.WIFSIGNALED(status) else said), count

    def child(self, what: str, number: int = 0, fault: str = "") -> tuple[str, int]:
        if os.path.exists(f"{self.folder}/count"):
            os.unlink(f"{self.folder}/count")
        return self.end(self.begin(what, number, fault))

    def settled(self) -> None:
        """Wait for what a killed process had started: it holds the lock, and gpasswd's own until it is reaped."""
        path = f"{self.root}{scenes.STATE}/lock"
        until = time.monotonic() + 20
        while os.path.exists(path) and time.monotonic() < until:
            with open(path, encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.01)
        until = time.monotonic() + 0.2
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] or time.monotonic() < until:
                time.sleep(0.002)

    def one(self, fault: str, number: int) -> dict[str, Any]:
        """Strike at one point, and recover."""
        self.anew()
        struck = "apply"
        if fault.endswith("-undo"):
            struck = "undo"
            self.child("apply")
        elif fault.endswith("-recover"):
            struck = "recover"
            self._cut_off()
        said, _ = self.child(struck, number, fault)
        self.settled()
        recovered, _ = self.child("recover")
        return {"point": number, "said": said, "recovered": recovered, "node": self.snapshot()}

    def _cut_off(self) -> None:
        """Kill it as late as it goes while it is still being applied."""
        if self.late:
            self.child("apply", self.late, "kill")
            self.settled()
            return
        self.late = 2 * self.child("apply", NEVER, "kill")[1]
        while True:
            self.anew()
            killed = self.child("apply", self.late, "kill")[0] == "killed"
            self.settled()
            if killed and self._is_applying():
                return
            self.late -= 1
            assert self.late > 0, "it is nowhere cut off"

    def _is_applying(self) -> bool:
        runs = f"{self.root}{scenes.STATE}/runs"
        with open(f"{runs}/{os.listdir(runs)[0]}/status.json", encoding="utf-8") as file:
            return '"applying"' in file.read()

    def race(self, number: int) -> dict[str, Any]:
        """Two that have shown the same plan, and are let go at once."""
        self.anew()
        waiting, gate = os.pipe()
        both = [self.begin("apply", gate=waiting) for _ in range(2)]
        time.sleep(0.3 if number % 2 else 1.0)
        os.write(gate, b"go")
        said = sorted(self.end(one)[0] for one in both)
        os.close(waiting)
        os.close(gate)
        return {"point": number, "said": said[0], "other": said[1], "node": self.snapshot()}


def main(name: str, fault: str, folder: str, first: str, step: str) -> None:
    """Play a scene and print what is left, point by point."""
    process_tree.adopt_orphans()  # whoever runs the tests may be a subreaper, and reap nobody
    play = Play(name, folder)
    play.anew()
    made = play.planned()
    steps = [one for each in made.steps for one in (each.step, each.inverse) if one is not None]
    before = play.snapshot()
    said, _ = play.child("apply")
    head = {"said": said, "kinds": [type(one).__name__ for one in steps], "before": before, "after": play.snapshot()}
    last = NEVER
    if fault == "race":
        last = RACES
    elif fault.startswith("tool"):
        undoing = fault.endswith("-undo")
        if not undoing:
            play.anew()
        play.child("undo" if undoing else "apply", NEVER, fault)
        last = play.operations_of_tools()
    print(json.dumps({**head, "last": last}), flush=True)
    if not said.startswith("applied"):
        return
    for number in range(int(first), last + 1, int(step)):
        row = play.race(number) if fault == "race" else play.one(fault, number)
        print(json.dumps(row), flush=True)
        ended = fault.startswith("kill") and row["said"] != "killed"
        if ended or (hasattr(errno, fault) and number > 12 and row["said"].startswith("applied")):
            break
    scenes.end_sleepers()
