"""Starts the ranks of a smoke run, each a fresh process, with the launcher of the user's job.

Every process carries the mark of the run in its environment, so that leftover processes can be found.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping

from npudoctor.host import Unavailable
from npudoctor.host.live import processes
from npudoctor.host.live.identity import Start, call_as
from npudoctor.records import record
from npudoctor.smoke.plan import WORKER, Plan, Refused

MARK = "NPUDOCTOR_SMOKE"
PLOG = "plog"
"""Subfolder for CANN's log of each process."""

LOGS = "logs"
"""Subfolder for ranks that run as another user; the rest of the folder stays npudoctor's own."""

TERM_S, KILL_S = 2.0, 2.0
"""Seconds for processes to end after SIGTERM, and after SIGKILL."""

_FILES = {
    "torchrun": ("torch", "distributed/run.py"),
    "torch.distributed.launch": ("torch", "distributed/launch.py"),
    "torch_npu_run": ("torch_npu", "distributed/run.py"),
    "accelerate": ("accelerate", "commands/launch.py"),
    "zero2": ("deepspeed", "__init__.py"),
    "zero3": ("deepspeed", "__init__.py"),
}
"""The package of a launcher or a strategy, and a file in it."""

_LOOK = """import importlib.machinery as m, os, sys
s = m.PathFinder.find_spec(sys.argv[1])
places = list(s.submodule_search_locations or ()) if s else []
sys.exit(0 if any(os.path.exists(os.path.join(p, sys.argv[2])) for p in places) else 9)
"""


@record(frozen=True, kw_only=True)
class Launched:
    """The started processes by rank, or the launcher alone under None. `mark` is in their environment.

    `uid` is the user of the ranks where it is not ours: only processes of that user are killed.
    """

    processes: Mapping[int | None, subprocess.Popen[bytes]]
    mark: str
    uid: int | None = None

    def end(self, pids: tuple[int, ...] = ()) -> tuple[int, ...]:
        """End all of them, and `pids` too: TERM, then KILL; the pids of survivors."""
        own = {process.pid for process in self.processes.values()}
        for number, patience_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
            left = self._remaining_pids(pids)
            if not left:
                break
            for pid in left:
                with contextlib.suppress(OSError):
                    os.killpg(pid, number) if pid in own else signal_process(pid, number, self.uid)
                signal_process(pid, signal.SIGCONT, None if pid in own else self.uid)
            until = time.monotonic() + patience_s
            while time.monotonic() < until and self._remaining_pids(pids):
                time.sleep(0.02)
        return tuple(sorted(self._remaining_pids(pids)))

    def _remaining_pids(self, pids: tuple[int, ...]) -> set[int]:
        own = {process.pid for process in self.processes.values() if process.poll() is None}
        others = {*marked_processes(self.mark), *(pid for pid in pids if is_alive(pid))}
        return {*own, *(pid for pid in others if self.uid is None or is_of(pid, self.uid))}


def logs_of(plan: Plan, folder: str) -> str:
    """The folder in which ranks write: the user's own where they run as another user."""
    return os.path.join(folder, LOGS) if is_foreign(plan) else folder


def is_foreign(plan: Plan) -> bool:
    """Whether the ranks run as another user than npudoctor."""
    return plan.user is not None and plan.user.uid != os.geteuid()


def lacks(plan: Plan) -> str | None:
    """Why the target cannot be used as requested, as a clause; None where it can. Imports nothing heavy."""
    python = plan.planned.python
    if is_foreign(plan):
        _ask(plan, [python, "-c", ""])
    for wanted in (plan.request.launcher, plan.request.strategy):
        if wanted not in _FILES:
            continue
        package, path = _FILES[wanted]
        if _ask(plan, [python, "-c", _LOOK, package, path]):
            name = f"DeepSpeed, required by {wanted}," if package == "deepspeed" else wanted
            return f"{name} is missing in the Python {python} ({package}/{path} not found)"
    return None


def _ask(plan: Plan, command: list[str]) -> int:
    """The exit status of a short command run like a rank; raises Refused where it cannot be started."""
    start = Start(plan.user, command, plan.environ)
    done = subprocess.run(
        start.argv,
        env=start.environ,
        cwd=start.cwd,
        pass_fds=start.descriptors,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    try:
        start.must_have_started()
    except (Unavailable, OSError) as why:
        raise Refused(f"cannot start the ranks: {why}") from why
    return done.returncode


def prepare(plan: Plan, folder: str) -> str:
    """Prepare the folder of a run for its ranks; the path of their worker."""
    if not is_foreign(plan):
        return WORKER
    assert plan.user is not None
    os.mkdir(logs := logs_of(plan, folder), 0o700)
    os.chown(logs, plan.user.uid, plan.user.gid)
    os.chown(os.path.join(folder, "socket"), plan.user.uid, plan.user.gid)
    worker = os.path.join(folder, os.path.basename(WORKER))
    shutil.copyfile(WORKER, worker)
    os.chmod(worker, 0o644)
    os.chmod(folder, 0o711)  # noqa: S103 - the user must traverse it to reach the user's own folder
    return worker


def start(plan: Plan, folder: str) -> Launched:
    """Start the ranks with their files in `folder`. Raises Refused where nothing can be started."""
    worker, logs = prepare(plan, folder), logs_of(plan, folder)
    told = os.path.join(folder, "told.json")
    with open(told, "w", encoding="utf-8") as file:
        json.dump({**plan.told, "socket": os.path.join(folder, "socket"), "logs": logs}, file)
    os.chmod(told, 0o644)
    common = {
        **plan.environ,
        MARK: told,
        "NPUDOCTOR_SMOKE_PARENT": str(os.getpid()),
        "MASTER_ADDR": plan.master_addr,
        "MASTER_PORT": str(plan.master_port),
        "WORLD_SIZE": str(plan.planned.world_size),
        "LOCAL_WORLD_SIZE": str(len(plan.planned.ranks)),
    }
    if plan.planned.device == "npu":
        common["ASCEND_PROCESS_LOG_PATH"] = os.path.join(logs, PLOG)
    uid = plan.user.uid if plan.user is not None and is_foreign(plan) else None
    if plan.request.launcher == "direct":
        processes: dict[int | None, subprocess.Popen[bytes]] = {}
        for one in plan.planned.ranks:
            own = {"RANK": str(one.rank), "LOCAL_RANK": str(one.local_rank)}
            try:
                command = [plan.planned.python, worker]
                log = os.path.join(logs, f"rank-{one.rank}.log")
                processes[one.rank] = _start(plan, command, {**common, **own}, log)
            except Refused:
                Launched(processes=processes, mark=told, uid=uid).end()
                raise
        return Launched(processes=processes, mark=told, uid=uid)
    command = [plan.planned.python, worker, "launcher", *_command(plan, folder, worker)]
    if plan.request.launcher not in ("spawn", "shell"):
        common = {key: value for key, value in common.items() if key not in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    launcher = _start(plan, command, common, os.path.join(logs, "launcher.log"))
    return Launched(processes={None: launcher}, mark=told, uid=uid)


def _start(plan: Plan, command: list[str], environ: Mapping[str, str], log: str) -> subprocess.Popen[bytes]:
    start = Start(plan.user, command, environ)
    try:
        with open(_log(plan, log), "ab") as file:
            return processes.start(
                start.argv,
                env=start.environ,
                cwd=start.cwd,
                pass_fds=start.descriptors,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as problem:
        raise Refused(f"cannot start {command[0]}: {problem.strerror}") from problem


def _log(plan: Plan, path: str) -> int:
    """Create a log with the permissions of its folder's owner, so that a link gives access to nothing more."""

    def make() -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    return call_as(plan.user, make, path) if plan.user is not None else make()


def _command(plan: Plan, folder: str, worker: str) -> list[str]:
    """The launcher's command line for this job.

    With several nodes torchrun's rendezvous is the static one: c10d numbers the ranks by the nodes' addresses and not
    by their node rank, so that a report would name another node's rank.
    """
    python, ranks, kind = plan.planned.python, str(len(plan.planned.ranks)), plan.request.launcher
    address = [f"--master_addr={plan.master_addr}", f"--master_port={plan.master_port}"]
    nodes = [f"--nnodes={plan.planned.nnodes}", f"--node_rank={plan.planned.node_rank}", f"--nproc_per_node={ranks}"]
    if kind in ("torchrun", "torch_npu_run", "torch.distributed.launch"):
        module = {"torchrun": "torch.distributed.run", "torch_npu_run": "torch_npu.distributed.run"}.get(kind, kind)
        extra = ["--use_env"] if kind == "torch.distributed.launch" else ["--max_restarts=0"]
        return [python, "-m", module, *nodes, *address, *extra, worker]
    if kind == "accelerate":
        where = ["--multi_gpu"] if int(ranks) > 1 else []
        plain = ["--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no"]
        port = f"--main_process_port={plan.master_port}"
        return [
            python,
            "-m",
            "accelerate.commands.launch",
            *where,
            f"--num_processes={ranks}",
            *plain,
            port,
            worker,
        ]
    if kind == "spawn":
        return [python, worker, "spawn"]
    script = os.path.join(folder, "launch.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write(
            f"first={plan.planned.ranks[0].rank}\n"
            f"for ((local_rank = 0; local_rank < {ranks}; local_rank++)); do\n"
            f"    LOCAL_RANK=$local_rank RANK=$((first + local_rank)) {shlex.join([python, worker])} &\n"
            "done\nwait\n"
        )
    os.chmod(script, 0o644)
    return ["bash", script]


def marked_processes(mark: str) -> list[int]:
    """The processes, zombies aside, that carry the run's mark."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/environ", "rb") as file:
                    ours = needle in file.read(processes.LONGEST_BYTES).split(b"\0")
                if ours and is_alive(int(entry)):
                    found.append(int(entry))
    return found


class Work:
    """Whether processes work: they run, wait for a disk, or have used processor time since the last question."""

    def __init__(self) -> None:
        self._ticks: dict[int, int] = {}

    def goes_on(self, pids: Iterable[int]) -> bool:
        """Whether any of them does."""
        goes_on = False
        for pid in pids:
            fields = _fields_of(pid)
            if fields is None:
                continue
            ticks = int(fields[11]) + int(fields[12])
            goes_on |= fields[0] in ("R", "D") or ticks > self._ticks.get(pid, ticks)
            self._ticks[pid] = ticks
        return goes_on


def is_of(pid: int, uid: int) -> bool:
    """Whether a process runs as this user only."""
    with contextlib.suppress(OSError, StopIteration), open(f"/proc/{pid}/status", "rb") as file:
        line = next(line for line in file if line.startswith(b"Uid:"))
        return {int(one) for one in line.split()[1:]} == {uid}
    return False


def signal_process(pid: int, number: int, uid: int | None) -> None:
    """Send a signal; where `uid` is given, only to a process of that user, because a rank may report any pid."""
    with contextlib.suppress(OSError):
        if uid is None:
            os.kill(pid, number)
            return
        handle = os.pidfd_open(pid)
        try:
            if is_of(pid, uid):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    return state_of(pid) not in (None, "Z", "X")


def state_of(pid: int) -> str | None:
    """The kernel's letter for the state of a process: R, S, D, T, Z; None without one."""
    fields = _fields_of(pid)
    return fields[0] if fields else None


def _fields_of(pid: int) -> list[str] | None:
    """What the kernel says of a process, from its state on (proc_pid_stat(5)); None without one."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split() or None
    except OSError:
        return None
