"""Processes, the jobs that they form, and how they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.facts.system import processes
from npudoctor.findings import Because
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Unavailable


def row(pid: int, ppid: int, name: str, *cmdline: str, **more: Any) -> dict[str, Any]:
    return {"pid": pid, "ppid": ppid, "name": name, "cmdline": list(cmdline), **more}


TREE = [
    row(1, 0, "systemd"),
    row(10, 1, "sshd"),
    row(11, 10, "bash"),
    row(20, 11, "torchrun", "torchrun", "train.py"),
    row(21, 20, "python3"),
    row(22, 20, "python3"),
    row(23, 22, "pt_data_worker"),
    row(30, 11, "vim"),
    row(40, 1, "python3"),
]


@pytest.mark.parametrize("pid", [20, 21, 22, 23])
def test_a_job_reaches_from_its_launcher_to_the_last_worker_and_no_further(pid: int) -> None:
    found = processes.processes(FakeHost(measures={"processes": TREE}))
    assert found.job_of(pid) == {20, 21, 22, 23}


def test_an_orphan_and_an_invisible_process_are_jobs_of_their_own() -> None:
    found = processes.parse(TREE)
    assert found.job_of(40) == {40}
    assert found.job_of(99) == {99}


def test_a_launcher_that_is_the_first_process_of_a_container_belongs_to_its_job() -> None:
    found = processes.parse([row(1, 0, "torchrun"), row(7, 1, "python3")])
    assert found.job_of(7) == {1, 7}


def test_a_circle_of_parents_ends() -> None:
    assert processes.parse([row(5, 6, "a"), row(6, 5, "b")]).job_of(5) == {5, 6}


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["python3", "train.py", "--lr", "0.1"], "python3 train.py (+2 arguments)"),
        (["x", "--api-key", "s3cr3t", "--lr", "1"], "x (+4 arguments)"),
        (["x", "HF_TOKEN=s3cr3t"], "x (+1 argument)"),
        (["sh", "-c", "export TOKEN=s3cr3t && run"], "sh (+2 arguments)"),
        (["python3", "-c", "login('s3cr3t')", "s3cr3t"], "python3 -c (+2 arguments)"),
        (["python3", "-m", "app", "s3cr3t"], "python3 -m app (+1 argument)"),
        (["python3", "-", "s3cr3t"], "python3 (+2 arguments)"),
        (["token=s3cr3t"], "x (+1 argument)"),
        (["curl", "s3cr3t"], "curl (+1 argument)"),
        (
            ["torchrun", "--rdzv-id", "s3cr3t", "--nproc_per_node=8", "--nnodes", "1:4", "train.py", "--key", "s3cr3t"],
            "torchrun --nproc_per_node=8 --nnodes 1:4 train.py (+4 arguments)",
        ),
        (
            ["python3", "-u", "-m", "torch.distributed.run", "--nproc-per-node", "8", "/x/train.py", "s3cr3t"],
            "python3 -u -m torch.distributed.run --nproc-per-node 8 /x/train.py (+1 argument)",
        ),
        (["nginx:", "master", "process"], "nginx: (+2 arguments)"),
    ],
)
def test_a_command_is_shown_without_credentials(words: list[str], shown: str) -> None:
    assert processes.parse([row(5, 1, "x", *words)]).by_pid[5].command == shown


def test_a_long_command_is_cut_and_a_missing_one_is_its_name() -> None:
    found = processes.parse([row(5, 1, "x", "/" + "w" * 120), row(6, 1, "kworker")])
    assert len(found.by_pid[5].command) == 100
    assert found.by_pid[6].command == "kworker"


def test_a_zombie_is_dead() -> None:
    found = processes.parse([row(5, 1, "x", status="zombie"), row(6, 1, "y", status="sleeping")])
    assert [found.by_pid[pid].dead for pid in (5, 6)] == [True, False]


def test_without_the_measurement_the_processes_are_unknown() -> None:
    with pytest.raises(Unavailable) as why:
        processes.processes(FakeHost())
    assert why.value.because is Because.NOT_RECORDED
