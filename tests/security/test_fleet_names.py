"""Names of nodes that others write: in run folders, lists, drop folders and answers; they reach commands of root."""

import json
import time
from pathlib import Path

import pytest
import yaml

from npudoctor.cli import main
from npudoctor.data import to_data
from npudoctor.findings import Finding, FixOffer, Severity
from npudoctor.fleet import fixplan, gather, line, lists, sim, targets, verdict
from npudoctor.fleet.engines import Answer, Plan, processes, slurm
from npudoctor.fleet.store import Run
from npudoctor.records import replace
from npudoctor.selection import Selection

OPTION = "-oProxyCommand=touch${IFS}/tmp/x"
HOSTILE = (OPTION, "--all", "ALL", "all", "n1 slots=99", "n[0001-9999]", "n1,n2", "{{ lookup('pipe', 'id') }}", "$(id)")


def answers(folder: Path, *names: str, fix: str | None = None) -> None:
    """Files of nodes with these names and no others, as a drop folder has them."""
    own, digests, _ = sim.fleet(1, {}, seed=0)
    data = json.loads(line._unpack(line.pack(digests[own[0]])))
    if fix is not None:
        offer = to_data(Finding(severity=Severity.ERROR, subject="host", summary="x", hint="x", fix=FixOffer(id=fix)))
        data["report"]["results"].append({"check": "a.b", "title": "x", "status": "error", "findings": [offer]})
    folder.mkdir(exist_ok=True)
    for place, name in enumerate(names):
        (folder / f"a{place}.json").write_text(json.dumps({**data, "name": name}), encoding="utf-8")


def test_a_run_folder_of_somebody_else_gives_ssh_no_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(str(tmp_path / "run"))
    run.begin(["n1"])
    (tmp_path / "run" / "expected.txt").write_text(f"{OPTION}\n", encoding="utf-8")
    assert main(["fleet", "check", "--run", run.folder, "--engine", "slurm"]) == 2
    assert "expected a host name" in capsys.readouterr().err


def test_no_answer_and_no_file_puts_its_name_into_a_list_for_another_program(tmp_path: Path) -> None:
    answers(tmp_path / "drop", "n0001", *HOSTILE)
    for name in ("ALL", "--uid=root"):
        (tmp_path / "drop" / f"{name}.json").write_text("no answer", encoding="utf-8")
    fleet = gather.of_files([str(tmp_path / "drop")])
    report = verdict.judge_fleet(fleet, Selection())
    assert len(fleet.names) >= 5  # what is left out of the lists is on the page
    for kind in lists.KINDS:
        text = lists.render(kind, report, fleet)
        for name in (*HOSTILE, "--uid"):
            assert name not in text, (kind, text)
    assert lists.render("nodelist", report, fleet) == "n0001\n"


def test_a_second_answer_of_a_name_does_not_replace_the_first(tmp_path: Path) -> None:
    answers(tmp_path / "drop", "n0001", "n0001.evil", "n0001.evil", "n0001")
    fleet = gather.of_files([str(tmp_path / "drop")], ["n0001"])
    assert len(fleet.members) == 4
    report = verdict.judge_fleet(fleet, Selection())
    assert all("again" not in lists.render(kind, report, fleet) for kind in lists.KINDS)


def test_the_name_of_a_fix_reaches_no_template_and_no_shell(tmp_path: Path) -> None:
    for place, hostile in enumerate(("{{ lookup('pipe', 'id') }}", "--yes", "a b", "x;id")):
        answers(tmp_path / str(place), "n0001", fix=hostile)
        report = verdict.judge_fleet(gather.of_files([str(tmp_path / str(place))]), Selection())
        assert hostile not in fixplan.render(fixplan.plan(report), "ansible")
    answers(tmp_path / "good", "n0001", fix="hccl.reserve-ports")
    report = verdict.judge_fleet(gather.of_files([str(tmp_path / "good")]), Selection())
    (play,) = [
        one for one in yaml.safe_load(fixplan.render(fixplan.plan(report), "ansible")) if "hccl" in json.dumps(one)
    ]
    assert play["hosts"] == "n0001"


@pytest.mark.parametrize(
    "text",
    ["a[1-9]b[1-999999999]", "a[1]" * 5000, "[1-99999]," * 5000, "[0-9]" * 9, "a" + "," * 100_000 + "[", "[9-1]" * 16],
)
def test_a_list_that_stands_for_too_many_nodes_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(targets.BadTargets):
        targets.expand(text)
    assert time.process_time() - began < 5


def test_a_hostfile_that_names_the_same_nodes_for_ever_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("[1-99999]\n" * 2000, encoding="utf-8")
    with pytest.raises(targets.BadTargets, match="more than 100,000"):
        targets.of_file("hostfile", str(file))


def test_long_names_that_begin_alike_have_files_of_their_own() -> None:
    names = {line.file_name("n" * 250 + end) for end in ("a", "b")}
    assert len(names) == 2 and max(map(len, names)) <= 200


def test_sudo_is_asked_for_the_words_of_this_command_only() -> None:
    plan = Plan(names=("n1",), command=("/opt/npudoctor",), sudo=True)
    assert plan.argv[-len(plan.own) :] == plan.own and "*" not in " ".join(plan.own)


def test_a_task_that_answers_in_the_name_of_another_node_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "0: NPUDOCTOR-NODE n1\n0: NPUDOCTOR-EXIT 0\n1: NPUDOCTOR-NODE n1\n1: NPUDOCTOR-EXIT 0\n"
    said += "2: NPUDOCTOR-NODE n3\n2: NPUDOCTOR-EXIT 0\n"
    one = Answer(node="srun", code=0, stdout=said)
    monkeypatch.setattr(processes, "run_all", lambda *_, **__: iter([one]))
    plan = Plan(names=("n1", "n2", "n3"))
    found = {answer.node: answer for answer in slurm._step(replace(plan), list(plan.names), inside=True)}
    assert found["n1"].kind == "garbled" and "2 nodes" in found["n1"].stderr
    assert found["n3"].code == 0 and found["n3"].kind is None
