"""Real ranks on the real torch with gloo: clean runs, launchers, strategies, other Pythons, and how a run is ended."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.smoke import launch, plan, runner
from npudoctor.smoke.events import Ended, Loss
from npudoctor.smoke.plan import Refused

pytestmark = pytest.mark.torch

Smoke = Callable[..., Any]
STAGES = ("launch", "rendezvous", "collectives", "training", "bandwidth", "in-sync", "parity", "scaling")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npudoctor-tests"


def ended(ran: Any) -> Ended:
    assert isinstance(ran.events[-1], Ended)
    return ran.events[-1]


def test_two_ranks_train_together_and_every_check_is_content(smoke: Smoke) -> None:
    ran = smoke(fresh=True)
    assert ran.failed == []
    assert ended(ran).left_behind == ()
    assert ran.left == []
    assert {check: result.status.value for check, result in ran.results.items()} == {
        **{f"smoke.{stage}": "ok" for stage in STAGES},
        "smoke.memory-seen": "skipped",
    }
    assert ran.outcome.tried > 40
    assert len([event for event in ran.events if isinstance(event, Loss)]) == 2 * 6
    assert ran.outcome.mean_losses() == pytest.approx(ran.outcome.reference(), rel=1e-4)
    assert [row.size_bytes for row in ran.outcome.bandwidth][:3] == [8, 32, 128]


# Launchers and strategies


def test_torchrun_starts_the_same_ranks_and_its_death_is_seen(smoke: Smoke) -> None:
    ran = smoke(fresh=True, launcher="torchrun", fault="rank:1,kind:kill,stage:rendezvous")
    assert ran.first == [(1, "rendezvous", "signal")]
    assert ended(ran).left_behind == ()
    assert ran.left == []


def test_the_loop_of_a_shell_starts_the_same_ranks(smoke: Smoke) -> None:
    ran = smoke(launcher="shell")
    assert ran.errors == {}
    assert ran.failed == []


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "spawn", "shell", "torch.distributed.launch"])
def test_every_launcher_starts_the_same_ranks(smoke: Smoke, launcher: str) -> None:
    ran = smoke(fresh=True, launcher=launcher)
    assert ran.errors == {}
    assert ran.failed == []
    assert ran.left == []


def test_a_launcher_that_the_target_lacks_is_named(smoke: Smoke) -> None:
    with pytest.raises(Refused, match="accelerate is missing"):
        smoke(fresh=True, launcher="accelerate")


@pytest.fixture(scope="session")
def accelerate_python(torch_python: Path) -> Path:
    """A Python with accelerate, beside the torch of `torch_python`; made once and kept."""
    folder = CACHE / f"accelerate-python{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "complete").exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        theirs, ours = (
            subprocess.check_output([str(one), "-c", where], encoding="utf-8") for one in (torch_python, python)
        )
        (Path(ours.strip()) / "torch.pth").write_text(theirs, encoding="utf-8")
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "accelerate"],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            pytest.skip(f"accelerate cannot be installed here: {done.stderr.strip()[-200:]}")
        (folder / "complete").touch()
    return python


@pytest.mark.slow
def test_accelerate_starts_the_same_ranks(smoke: Smoke, accelerate_python: Path) -> None:
    ran = smoke(python=accelerate_python, launcher="accelerate")
    assert ran.errors == {}
    assert ran.failed == []


@pytest.mark.slow
def test_a_rank_that_dies_under_accelerate_is_named(smoke: Smoke, accelerate_python: Path) -> None:
    ran = smoke(python=accelerate_python, launcher="accelerate", fault="rank:1,kind:kill,stage:training")
    assert ran.first == [(1, "training", "exit")]
    assert ran.left == []


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_other_numbers_of_ranks(smoke: Smoke, ranks: int, strategy: str) -> None:
    if (ranks, strategy) == (1, "fsdp"):
        pytest.skip("fsdp shards over ranks")
    ran = smoke(fresh=True, ranks=ranks, strategy=strategy)
    assert ran.errors == {}
    assert len(ran.outcome.stages) == ranks
    assert ran.outcome.mean_losses() == pytest.approx(ran.outcome.reference(), rel=1e-3)


@pytest.mark.parametrize("asked", [{"ranks": 1}, {"ranks": 4}, {"strategy": "fsdp"}], ids=str)
def test_one_rank_four_ranks_and_shards_come_to_the_same_losses_as_the_cpu(smoke: Smoke, asked: dict[str, Any]) -> None:
    ran = smoke(**asked)
    assert ran.errors == {}
    assert ran.outcome.mean_losses() == pytest.approx(ran.outcome.reference(), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_zero_shards_to_the_same_losses(smoke: Smoke, strategy: str) -> None:
    having = [python for python in other_torches() if list(python.parents[1].glob("lib/*/site-packages/deepspeed"))]
    if not having:
        pytest.skip("no Python with torch and DeepSpeed is kept here")
    ran = smoke(python=having[0], strategy=strategy)
    assert ran.errors == {}
    assert ran.outcome.mean_losses() == pytest.approx(ran.outcome.reference(), rel=1e-3)


@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_zero_without_deepspeed_says_what_is_missing(smoke: Smoke, strategy: str) -> None:
    with pytest.raises(Refused, match="DeepSpeed, required by"):
        smoke(fresh=True, strategy=strategy)


# Other Pythons


def interpreters() -> list[Path]:
    """One Python of each release from 3.7 on that pyenv has here, without torch."""
    found = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    return [path for path in found if int(path.parts[-3].split(".")[1]) >= 7]


def other_torches() -> list[Path]:
    """Further Pythons with torch: what $NPUDOCTOR_TEST_TORCHES lists, and what is kept beside the usual one."""
    listed = [Path(part) for part in os.environ.get("NPUDOCTOR_TEST_TORCHES", "").split(":") if part]
    return listed or sorted(CACHE.glob("other-torch-*/bin/python"))


def test_the_worker_is_written_for_python_3_7() -> None:
    import ast

    ast.parse(Path(plan.WORKER).read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.skipif(not interpreters(), reason="there is no other Python here")
@pytest.mark.parametrize("python", interpreters(), ids=lambda path: path.parts[-3])
def test_the_worker_reports_from_any_python_since_3_7(smoke: Smoke, python: Path) -> None:
    """Without a torch: the connection, the failure and its text are the standard library's part."""
    ran = smoke(python=python)
    assert list(ran.errors) == ["smoke.launch"]
    assert "all ranks failed in launch: ModuleNotFoundError: No module named 'torch'" in ran.errors["smoke.launch"]
    assert "--python" in (ran.results["smoke.launch"].findings[0].hint or "")


def test_a_rank_that_fails_while_another_hangs_in_its_import_is_named(smoke: Smoke) -> None:
    hung = smoke(python=(*interpreters(), Path(sys.executable))[0], fault="rank:0,kind:import-hang,stage:launch")
    assert "rank 1 failed in launch: ModuleNotFoundError: No module named 'torch'" in hung.errors["smoke.launch"]


@pytest.mark.slow
@pytest.mark.skipif(not other_torches(), reason="no other Python with torch is kept here")
@pytest.mark.parametrize("python", other_torches(), ids=lambda path: path.parts[-3])
def test_another_python_with_another_torch_trains_the_same(smoke: Smoke, python: Path) -> None:
    ran = smoke(python=python)
    assert ran.errors == {}
    assert ran.outcome.mean_losses() == pytest.approx(ran.outcome.reference(), rel=1e-3)


# How a run is ended


def started(torch_python: Path, *more: str, **environ: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "npudoctor", "smoke", "--device", "cpu", "--format", "jsonl", *more]
    return subprocess.Popen(
        [*command, "--python", str(torch_python), "--bandwidth-time", "0.2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, **environ},
    )


def ranks_of(process: "subprocess.Popen[str]") -> list[int]:
    """The processes of both ranks, as their events tell."""
    pids: list[int] = []
    assert process.stdout is not None
    while len(pids) < 2:
        event = json.loads(process.stdout.readline())
        if event["event"] == "rank-started":
            pids.append(event["pid"])
    return pids


def all_gone(pids: list[int], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(map(launch.is_alive, pids)):
        time.sleep(0.05)
    return not any(map(launch.is_alive, pids))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@pytest.mark.parametrize("launcher", ["direct", "shell"])
def test_whoever_ends_npudoctor_ends_its_ranks(torch_python: Path, number: int, code: int, launcher: str) -> None:
    fault = "rank:1,kind:import-hang,stage:launch"
    with started(torch_python, "--launcher", launcher, NPUDOCTOR_SMOKE_FAULT=fault) as process:
        pids = ranks_of(process)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == code, said
    assert all_gone(pids)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("launcher", ["spawn", "torchrun", "torch.distributed.launch"])
def test_whoever_ends_npudoctor_ends_its_launcher_too(torch_python: Path, number: int, launcher: str) -> None:
    fault = "rank:1,kind:hang-in,stage:training"
    with started(torch_python, "--launcher", launcher, NPUDOCTOR_SMOKE_FAULT=fault) as process:
        pids = ranks_of(process)
        time.sleep(2)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert all_gone(pids)


def test_the_folder_of_a_run_that_was_killed_goes_with_the_next_one(tmp_path: Path) -> None:
    dead, alive, other = (tmp_path / name for name in (f"{runner.FOLDER}dead", f"{runner.FOLDER}alive", "other"))
    listeners = []
    for folder in (dead, alive, other):
        folder.mkdir()
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(str(folder / "socket"))
    listeners[1].listen()
    listeners[0].close()
    listeners[2].close()
    (tmp_path / f"{runner.FOLDER}new").mkdir()
    runner.sweep(str(tmp_path))
    listeners[1].close()
    assert {path.name.removeprefix(runner.FOLDER) for path in tmp_path.iterdir()} == {"alive", "other", "new"}
