"""Who broke a run, where a death and a complaint of it come at the same time."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.sdk import Options
from npudoctor.smoke import blame, launch, plan, runner
from npudoctor.smoke.session import Session
from npudoctor.smoke.watch import RankState, Watch
from npudoctor.testing import FakeHost


@pytest.mark.parametrize("dies", [0, 1])
def test_a_rank_that_died_is_blamed_before_one_that_complained_at_once(tmp_path: Path, dies: int) -> None:
    made = plan.make(plan.Request(device="cpu", ranks=2), plan.Known(python="python3"))
    watch = Watch(made, str(tmp_path / "socket"))
    ranks: list[socket.socket] = []
    for rank in (0, 1):
        ranks.append(socket.socket(socket.AF_UNIX))
        ranks[-1].connect(str(tmp_path / "socket"))
        say(ranks[-1], k="hello", rank=rank, pid=1, world="2", t=0.0)
        say(ranks[-1], k="begin", rank=rank, stage="training", t=0.0)
        list(watch.wait(1.0))
        list(watch.wait(1.0))
    complains = 1 - dies
    say(ranks[complains], k="failed", rank=complains, message="RuntimeError: error code is 4", t=0.0)
    ranks[dies].close()
    list(watch.wait(1.0))
    ranks[complains].close()
    watch.close()
    assert watch.ranks[dies].gone_at is not None
    assert blame.firsts([0, 1], watch.ranks) == frozenset({dies})


def say(to: socket.socket, **said: object) -> None:
    to.sendall((json.dumps(said) + "\n").encode())


@pytest.mark.parametrize(
    ("message", "pitfalls"),
    [
        ("ImportError: libhccl.so: cannot open shared object file: No such file or directory", ("P001",)),
        ("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory", ("P020",)),
        ("ImportError: libsomebody.so.1: cannot open shared object file: No such file or directory", ("P118",)),
        ("", ()),
    ],
)
def test_a_message_names_what_it_fits_best(message: str, pitfalls: tuple[str, ...]) -> None:
    assert blame.known_of("", message)[1] == pitfalls


GONE = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.7]:4711"
OWN = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB"


def state(rank: int, **known: Any) -> RankState:
    return RankState(rank=rank, pid=7000 + rank, stage="training", heard=100.0, **known)


def failed(rank: int, message: str, at_s: float = 101.0) -> RankState:
    return state(rank, failed={"message": message}, failed_at=at_s)


def ended(rank: int, *, by_launcher: bool = True, at_s: float = 101.0) -> RankState:
    return state(rank, terminated_at=at_s, by_launcher=by_launcher)


@pytest.mark.parametrize(
    ("states", "several_nodes", "first"),
    [
        ([failed(0, GONE), ended(1)], True, set()),
        ([failed(0, GONE), failed(1, GONE)], True, set()),
        ([failed(0, GONE), failed(1, GONE)], False, {0, 1}),
        ([failed(0, "RuntimeError: HcclAllReduce, error code is 9"), ended(1)], True, set()),
        ([failed(2, GONE), failed(3, OWN, at_s=102.0)], True, {3}),
        ([ended(0), ended(1)], False, set()),
        ([ended(0), state(1, gone_at=101.5)], False, {1}),
        ([ended(0), ended(1, by_launcher=False, at_s=103.0)], False, {1}),
        ([failed(4, OWN), failed(5, OWN), ended(6)], False, {4, 5}),
    ],
)
def test_a_rank_that_lost_a_peer_or_was_ended_is_no_cause(
    states: list[RankState], several_nodes: bool, first: set[int]
) -> None:
    """On one node a peer's loss is the best that is known; with several the cause is on another one."""
    known = {one.rank: one for one in states}
    assert blame.firsts(list(known), known, several_nodes=several_nodes) == first


IN_TORCH = (
    'Thread 1 (most recent call first):\n  File "/x/torch/distributed/distributed_c10d.py", line 9 in all_reduce\n'
)
ELSEWHERE = 'Thread 1 (most recent call first):\n  File "/job/train.py", line 70 in load\n'


@pytest.mark.parametrize(
    ("stacks", "stage", "first"),
    [
        ({0: IN_TORCH}, "training", set()),
        ({0: ELSEWHERE}, "training", {0}),
        ({0: IN_TORCH}, "launch", {0}),
        ({0: IN_TORCH, 1: IN_TORCH}, "collectives", set()),
        ({0: IN_TORCH, 1: ELSEWHERE}, "collectives", {1}),
        ({0: ELSEWHERE, 1: ELSEWHERE}, "collectives", {0, 1}),
    ],
)
def test_with_several_nodes_a_rank_inside_torch_waits(stacks: dict[int, str], stage: str, first: set[int]) -> None:
    known = {rank: RankState(rank=rank, pid=os.getpid(), number=4) for rank in stacks}
    assert blame.hung_first(list(known), known, stacks, stage=stage, several_nodes=True) == first


def test_a_rank_that_hung_until_its_launcher_ended_it_is_found() -> None:
    known = {0: failed(0, GONE), 1: ended(1, at_s=190.0), 2: ended(2, at_s=101.0), 3: ended(3, at_s=190.0)}
    stacks = {1: ELSEWHERE, 2: ELSEWHERE, 3: IN_TORCH}
    assert blame.hung_until_ended(list(known), known, stacks) == [1]


LAUNCHER_LOG = """W1122 elastic/multiprocessing/api.py:1028] Sending process 8276 closing signal SIGTERM
E1122 elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 8277) of binary
  exitcode  : -9 (pid: 8277)
  exitcode  : -15 (pid: 8276)
  exitcode  : 3 (pid: 8301)
"""


def test_torchruns_log_says_how_ranks_ended() -> None:
    assert blame.exit_codes(LAUNCHER_LOG) == {8277: -9, 8276: -15, 8301: 3}
    assert blame.ended_by_launcher(LAUNCHER_LOG) == {8276}


TAKEN = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)


def test_a_run_on_the_cpu_has_no_cause_that_only_an_npu_can_have(tmp_path: Path) -> None:
    """The words of CANN's operator compiler in a rank's log are no cause where no NPU takes part."""
    for rank, line in enumerate(("No module named 'decorator'", TAKEN)):
        (tmp_path / f"rank-{rank}.log").write_text(f"Traceback (most recent call last):\n{line}\n", encoding="utf-8")
    asked = plan.Request(device="cpu", ranks=2), plan.Request(device="npu", cards=(0, 1))
    on_cpu, on_npus = (plan.make(one, plan.Known(python="python3")) for one in asked)
    told = [
        blame.describe(made, state(rank), first=True, at_s=1.0, folder=str(tmp_path)).pitfalls
        for made in (on_npus, on_cpu)
        for rank in (0, 1)
    ]
    assert told == [("P006",), ("P018",), (), ("P018",)]


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that works for half a second and then sleeps."""
    work = "import time; until = time.process_time() + 0.5\nwhile time.process_time() < until: pass\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-S", "-c", work]) as process:
        yield process
        process.kill()


def test_a_process_that_works_is_told_from_one_that_sleeps(other: subprocess.Popen[bytes]) -> None:
    work, until = launch.Work(), time.monotonic() + 60
    while not work.goes_on([other.pid]):
        assert time.monotonic() < until
    while launch.state_of(other.pid) != "S":
        assert time.monotonic() < until
        time.sleep(0.05)
    work.goes_on([other.pid])
    assert not work.goes_on([other.pid])
    assert not work.goes_on([1 << 30])


def test_a_rank_that_still_starts_is_not_ended_before_it_has_said_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the machine is: it is at work, and neither rank has a torch."""
    monkeypatch.setattr(runner, "SETTLE_STARTING_S", 0.4)
    slow = "import os, sys, time; until = time.process_time() + 1.5\nwhile time.process_time() < until: pass"
    script = f"""#!/bin/sh
[ "$RANK" = 1 ] && {sys.executable} -S -c '{slow}'
exec {sys.executable} -S "$@"
"""
    (tmp_path / "python").write_text(script, encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    made = plan.make(
        plan.Request(device="cpu", ranks=2), plan.Known(python=str(tmp_path / "python"), environ=os.environ)
    )
    told = [event for event in runner.run(made) if event.event == "rank-failed"]
    assert [(event.rank, event.first) for event in told] == [(0, True), (1, True)]
    assert all("No module named 'torch'" in (event.message or "") for event in told)


@pytest.fixture
def sleeping(tmp_path: Path) -> plan.Plan:
    """A run of two ranks that never report."""
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    return plan.make(
        plan.Request(device="cpu", ranks=2), plan.Known(python=str(tmp_path / "python"), environ=os.environ)
    )


def test_a_run_is_ended_when_the_driver_is_to_be_changed(
    sleeping: plan.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[launch.Launched] = []
    start = launch.start

    def noted(*given: object) -> launch.Launched:
        started.append(start(*given))  # type: ignore[arg-type]
        (tmp_path / "hands-off").write_text("new driver\n", encoding="utf-8")
        return started[-1]

    monkeypatch.setattr(launch, "lacks", lambda _: None)
    monkeypatch.setattr(launch, "start", noted)
    with pytest.raises(plan.Refused, match=r"all ranks were stopped: maintenance: new driver"):
        list(runner.run(sleeping, hands_off=str(tmp_path / "hands-off")))
    assert started and all(process.poll() is not None for process in started[0].processes.values())


def test_no_run_on_npus_begins_while_the_driver_is_changed(tmp_path: Path) -> None:
    (tmp_path / "hands-off").write_text("new driver\n", encoding="utf-8")
    work = Session(
        catalog=plugins.load(),
        host=FakeHost(),
        request=plan.Request(),
        options=Options(),
        hands_off=str(tmp_path / "hands-off"),
    )
    with pytest.raises(plan.Refused, match="maintenance: new driver"):
        list(work.run())
