"""Every node that was expected has an outcome, whatever came back of it, and none can hurt the head."""

import os
import sys
from pathlib import Path

import pytest

from npudoctor.data import to_json
from npudoctor.fleet import gather, intake, line, sim
from npudoctor.fleet.engines import Answer, Plan, processes, slurm
from npudoctor.fleet.outcomes import KINDS, without_digest
from npudoctor.fleet.store import Run

SAID = {
    "ssh: Could not resolve hostname n1: Name or service not known": (255, "name"),
    "ssh: connect to host n1 port 22: No route to host": (255, "route"),
    "ssh: connect to host n1 port 22: Connection refused": (255, "route"),
    "Host key verification failed.": (255, "host-key"),
    "root@n1: Permission denied (publickey).": (255, "permission"),
    "kex_exchange_identification: Connection closed by remote host": (255, "banner"),
    "something else": (255, "ssh"),
    "bash: line 1: npudoctor: command not found": (127, "no-npudoctor"),
    "npudoctor: unknown command 'node'; see npudoctor --help": (2, "old-version"),
    "sudo: a password is required": (1, "sudo"),
    "ops is not in the sudoers file.": (1, "sudo"),
    "Terminated": (124, "timed-out"),
    "Killed": (137, "killed"),
    "": (0, "silent"),
    "Traceback": (1, "failed"),
}


@pytest.mark.parametrize("text", SAID)
def test_what_ssh_and_the_shell_say_is_classified(text: str) -> None:
    code, kind = SAID[text]
    assert without_digest(code, text)[0] == kind


def test_each_kind_without_an_answer_has_a_next_step() -> None:
    assert all(one.hint for one in KINDS.values() if not one.answered)


SCRIPTS = {
    "flood": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "error flood": "import os\nwhile True: os.write(2, b'x' * 65536)",
    "hang": "import time\ntime.sleep(600)",
    "half": f"print('{line.MARK} ' + 'a' * 64 + ' QUJD')",
    "nothing": "",
    "left behind": "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])",
}
EXPECTED = {
    "flood": "too-much",
    "error flood": "too-much",
    "hang": "timed-out",
    "half": "garbled",
    "nothing": "silent",
    "left behind": "silent",
}


def test_processes_that_misbehave_are_ended_and_each_is_an_outcome() -> None:
    jobs = [(name, (sys.executable, "-c", code)) for name, code in SCRIPTS.items() if name != "hang"]
    jobs.append(("missing", ("/no/such/program", "-c", "")))
    answers = {one.node: one for one in processes.run_all(jobs, timeout_s=60, fanout=3)}
    assert {name: intake.take(one)[0].kind for name, one in answers.items()} == {
        **{name: kind for name, kind in EXPECTED.items() if name != "hang"},
        "missing": "no-npudoctor",
    }
    assert all(len(one.stdout) + len(one.stderr) <= 2 * processes.MOST_OUTPUT for one in answers.values())


def test_a_process_that_hangs_is_ended_when_its_time_is_up() -> None:
    (answer,) = processes.run_all([("n1", (sys.executable, "-c", SCRIPTS["hang"]))], timeout_s=0.5, fanout=1)
    assert intake.take(answer)[0].kind == "timed-out"


def test_leaving_early_ends_what_still_runs(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, time\nopen({str(pid)!r} + '.part', 'w').write(str(os.getpid()))\n"
    code += f"os.rename({str(pid)!r} + '.part', {str(pid)!r})\ntime.sleep(600)"
    jobs = [
        ("n1", (sys.executable, "-c", f"import os, time\nwhile not os.path.exists({str(pid)!r}): time.sleep(0.01)"))
    ]
    running = processes.run_all([*jobs, ("n2", (sys.executable, "-c", code))], timeout_s=600, fanout=2)
    assert next(running).node == "n1"
    running.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text(encoding="utf-8")), 0)


def answers_of(names: list[str]) -> dict[str, Answer]:
    _, digests, _ = sim.fleet(len(names), {}, scenario="bare-host")
    return {
        name: Answer(node=name, code=0, stdout=line.line_of(digest), started=1.0, received=2.0)
        for name, digest in zip(names, digests.values(), strict=True)
    }


def test_a_run_that_was_interrupted_asks_only_what_is_missing(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(6)]
    said, asked = answers_of(names), []

    def dying(plan: Plan):  # type: ignore[no-untyped-def]
        for name in plan.names[:3]:
            asked.append(name)
            yield said[name]
        raise KeyboardInterrupt

    def working(plan: Plan):  # type: ignore[no-untyped-def]
        for name in plan.names:
            asked.append(name)
            yield said[name]

    run = Run(str(tmp_path / "a run"))
    run.begin(names)
    with pytest.raises(KeyboardInterrupt):
        gather.ask(run, Plan(names=tuple(names)), dying)
    fleet = gather.of_run(run)
    assert [one.name for one in fleet.members] == names[:3]
    assert len(fleet.missing) == 3
    gather.ask(run, Plan(names=tuple(names)), working)
    assert asked == names
    assert [one.name for one in gather.of_run(run).members] == names
    (tmp_path / "a run/nodes/n1.json.gz").unlink()
    (tmp_path / "a run/nodes/n4.json.gz").write_bytes(b"\x1f\x8b cut")
    gather.ask(run, Plan(names=tuple(names)), working)
    assert asked == [*names, "n1", "n4"]
    assert [one.name for one in gather.of_run(run).members] == names


def test_a_line_of_the_outcomes_that_was_not_completed_is_ignored(tmp_path: Path) -> None:
    run = Run(str(tmp_path / "run"))
    run.begin(["n1", "n2"])
    gather.ask(run, Plan(names=("n1",)), lambda plan: iter([answers_of(["n1"])["n1"]]))
    with open(run.path("outcomes.jsonl"), "a", encoding="utf-8") as file:
        file.write('{"node":"n2","kind":"answ')
    fleet = gather.of_run(run)
    assert [one.name for one in fleet.members] == ["n1"]
    assert fleet.outcomes["n2"].kind == "silent"


def test_a_node_of_which_the_engine_says_nothing_is_an_outcome(tmp_path: Path) -> None:
    run = Run(str(tmp_path / "run"))
    run.begin(["n1"])
    gather.ask(run, Plan(names=("n1",)), lambda _: iter(()))
    assert run.outcomes()["n1"].kind == "silent"


def test_the_run_folder_is_the_user_s_own(tmp_path: Path) -> None:
    run = Run(str(tmp_path / "run"))
    run.begin(["n1"])
    assert os.stat(run.folder).st_mode & 0o777 == 0o700


def test_a_stored_answer_that_was_damaged_is_an_outcome(tmp_path: Path) -> None:
    run = Run(str(tmp_path / "run"))
    run.begin(["n1"])
    gather.ask(run, Plan(names=("n1",)), lambda _: iter([answers_of(["n1"])["n1"]]))
    Path(run.path("nodes", "n1.json.gz")).write_bytes(b"\x1f\x8b")
    assert gather.of_run(run).outcomes["n1"].kind == "garbled"
    os.unlink(run.path("nodes", "n1.json.gz"))
    assert gather.of_run(run).outcomes["n1"].kind == "garbled"


def test_a_refusal_of_sudo_names_the_line_to_add(tmp_path: Path) -> None:
    run = Run(str(tmp_path / "run"))
    run.begin(["n1"])
    refused = Answer(node="n1", code=1, stderr="sudo: a password is required")
    gather.ask(run, Plan(names=("n1",), command=("/opt/bin/npudoctor",), sudo=True), lambda _: iter([refused]))
    assert "NOPASSWD: /opt/bin/npudoctor node" in (run.outcomes()["n1"].detail or "")


def test_the_remote_command_is_ended_on_the_remote_side() -> None:
    plan = Plan(names=("n1",), command=("/opt/npu doctor",), timeout_s=60, sudo=True)
    assert plan.line == "timeout -k 5 60 sudo -n '/opt/npu doctor' node --line --timeout 55 </dev/null"


def test_a_drop_folder_takes_every_form_of_an_answer(tmp_path: Path) -> None:
    names, digests, _ = sim.fleet(4, {}, scenario="bare-host")
    (tmp_path / "a.json.gz").write_bytes(line.pack(digests[names[0]]))
    (tmp_path / "b.json").write_text(to_json(digests[names[1]]), encoding="utf-8")
    text = f"banner\n{line.line_of(digests[names[2]])}\n{line.line_of(digests[names[3]])}\n"
    (tmp_path / "c.txt").write_text(text, encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.json")
    fleet = gather.of_files([str(tmp_path)], [*names, "n9"])
    assert [one.name for one in fleet.members] == names
    kinds = {name: one.kind for name, one in fleet.outcomes.items() if not one.answered}
    assert kinds == {"n9": "silent", "broken": "garbled", "pipe": "garbled"}


def test_the_states_of_sinfo_are_read_once_for_each_node() -> None:
    text = "n1|idle|none|Unknown|Unknown\nn1|idle|none|Unknown|Unknown\nn2|drained*|a | b|root|2026-11-22T10:00:00\n"
    assert slurm.parse_states(text) == [
        slurm.State("n1", "idle", "idle"),
        slurm.State("n2", "drained*", "drained*: a | b (by root, since 2026-11-22T10:00:00)"),
    ]


def test_lines_that_srun_folds_are_joined_again() -> None:
    _, digests, _ = sim.fleet(2, {}, scenario="bare-host")
    printed = []
    for task, (name, digest) in enumerate(digests.items()):
        for each in (f"NPUDOCTOR-NODE {name}", line.line_of(digest), "NPUDOCTOR-EXIT 1"):
            pieces = [each[place : place + 1024] for place in range(0, len(each), 1024)]
            printed.append([f"{task}: {piece}" for piece in pieces])
    lines = [row for pair in zip(printed[0:3], printed[3:6], strict=True) for rows in pair for row in rows]
    found = slurm.by_task("\n".join(["srun: a remark", *lines]))
    assert [line.find(text) for text in found.values()] == [line.pack(digest) for digest in digests.values()]
