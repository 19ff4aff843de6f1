"""Slurm's scripts, run by bash beside a scontrol that keeps a node's state as Slurm would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from npudoctor.cli import main
from npudoctor.sim import scenarios

SLURM = Path(__file__).resolve().parents[2] / "npudoctor" / "deploy" / "slurm"
LIMIT_S = 60
"""After so many seconds Slurm kills a HealthCheckProgram."""

SCONTROL = """#!/bin/bash
# State and reason of one node in $SLURM_FAKE/node; what was asked for in $SLURM_FAKE/log; the job in $SLURM_FAKE/job.
printf '%s\\n' "$*" >>"$SLURM_FAKE/log"
. "$SLURM_FAKE/node"
case $* in
    '-o show node '*) echo "NodeName=${4} CPUTot=192 Gres=$gres State=$state Weight=1 Reason=$reason" ;;
    'show hostnames '*) case $3 in node\\[1-2\\]) printf 'node1\\nnode2\\n' ;; *) echo "$3" ;; esac ;;
    '-d show job '*) cat "$SLURM_FAKE/job" ;;
    'update NodeName='*' State=RESUME') printf 'gres=%q state=IDLE reason=\\n' "$gres" >"$SLURM_FAKE/node" ;;
    'update NodeName='*' State=DRAIN Reason='*)
        printf 'gres=%q state=IDLE+DRAIN reason=%q\\n' "$gres" "${4#Reason=} [root@2026-11-21T10:00:00]" \\
            >"$SLURM_FAKE/node" ;;
    *) exit 1 ;;
esac
"""


class Slurm:
    """A node of a cluster; `scenario` is what is wrong with it; `says` what npudoctor prints, in the place of that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scenario = "seed-910b1"
        self.says: tuple[str, int] | None = None
        folder.mkdir()
        (folder / "scontrol").write_text(SCONTROL, encoding="utf-8")
        (folder / "scontrol").chmod(0o755)
        self.set()

    def set(self, state: str = "IDLE", reason: str = "", gres: str = "(null)") -> None:
        (self.folder / "node").write_text(f"gres='{gres}' state={state} reason='{reason}'\n", encoding="utf-8")
        (self.folder / "log").write_text("", encoding="utf-8")

    def run(self, script: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = f"'{sys.executable}' -m npudoctor"
        doctor = self.folder / "npudoctor"
        where = "--root" if Path(self.scenario).is_dir() else "--simulate"
        look = f'cd /\nexec {command} "$@" {where} {self.scenario}'
        doctor.write_text(
            "#!/bin/sh\n" + (f"echo '{self.says[0]}'\nexit {self.says[1]}\n" if self.says else look), encoding="utf-8"
        )
        doctor.chmod(0o755)
        said = {"NPUDOCTOR": str(doctor), "SLURM_FAKE": str(self.folder), "SLURMD_NODENAME": "node1"}
        said["PATH"] = f"{self.folder}:{os.environ['PATH']}"
        said |= {"XDG_CONFIG_HOME": str(self.folder), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        began = time.monotonic()
        done = subprocess.run(
            [str(SLURM / script)],
            capture_output=True,
            encoding="utf-8",
            env={**said, **(environment or {})},
            check=False,
        )
        assert time.monotonic() - began < LIMIT_S
        return done

    @property
    def node(self) -> str:
        return (self.folder / "node").read_text(encoding="utf-8")

    @property
    def updates(self) -> list[str]:
        return [
            line for line in (self.folder / "log").read_text(encoding="utf-8").splitlines() if line.startswith("update")
        ]


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path / "slurm")


SICK = {"sick-cards", "bare-host", "container-broken"}
OFTEN = {"sick-cards", "in-service"}
FIT, UNFIT, UNKNOWN = ("all is well", 0), ("npu:2: Alarm", 1), ("could not determine: why", 2)


@pytest.mark.parametrize(
    "scenario", [pytest.param(name, marks=[] if name in OFTEN else pytest.mark.slow) for name in scenarios()]
)
def test_a_node_is_drained_for_its_cards_and_for_nothing_else(slurm: Slurm, scenario: str) -> None:
    slurm.scenario = scenario
    done = slurm.run("healthcheck.sh")
    assert done.returncode == 0, done.stderr
    assert bool(slurm.updates) is (scenario in SICK), slurm.updates
    for update in slurm.updates:
        reason = update.partition("Reason=")[2]
        assert reason.startswith("npudoctor-health: ")
        assert len(reason.encode()) <= 99
    assert done.stderr == ""


def test_it_resumes_what_it_has_drained_and_nothing_else(slurm: Slurm) -> None:
    slurm.says = UNFIT
    slurm.run("healthcheck.sh")
    assert slurm.updates == ["update NodeName=node1 State=DRAIN Reason=npudoctor-health: npu:2: Alarm"]
    slurm.run("healthcheck.sh")
    assert len(slurm.updates) == 1, "it is drained once"
    slurm.says = FIT
    slurm.run("healthcheck.sh")
    assert slurm.updates[1:] == ["update NodeName=node1 State=RESUME"]
    for reason in (
        "ticket State=IDLE Reason=npudoctor-health: [kim@2026-11-21T10:00:00]",
        "npudoctor-fleet run1: fleet.tls",
        "npudoctor-setup x: y",
    ):
        slurm.set("IDLE+DRAIN", reason)
        for said in (FIT, UNFIT):
            slurm.says = said
            slurm.run("healthcheck.sh")
            assert slurm.updates == [], "what a person or another part has drained is not its own"


@pytest.mark.parametrize(("state", "reason"), [("IDLE", ""), ("IDLE+DRAIN", "npudoctor-health: npu:2: Alarm")])
def test_where_it_cannot_look_it_neither_drains_nor_resumes(slurm: Slurm, state: str, reason: str) -> None:
    slurm.set(state, reason)
    slurm.says = UNKNOWN
    done = slurm.run("healthcheck.sh")
    assert (done.returncode, slurm.updates) == (0, [])
    assert done.stderr == "npudoctor: could not determine: why\n"


def test_a_tool_that_hangs_drains_the_node_within_the_time_that_slurm_gives(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "hangs.toml").write_text(
        'about = "npu-smi hangs"\nproduct = "atlas-800t-a2-910b3"\nhostname = "h"\ndriver = { fault = "hang" }\n',
        encoding="utf-8",
    )
    slurm.scenario = str(tmp_path / "hangs.toml")
    slurm.run("healthcheck.sh")
    assert "driver.npu-smi" in slurm.updates[0]


@pytest.mark.slow
def test_real_tools_that_never_answer_are_not_waited_for(slurm: Slurm, tmp_path: Path) -> None:
    assert main(["sim", "tools", str(tmp_path / "node"), "seed-910b1"]) == 0
    slurm.scenario = str(tmp_path / "node")
    for script, job in (("healthcheck.sh", {}), ("prolog.sh", {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"})):
        slurm.set()
        done = slurm.run(script, {"NPUDOCTOR_FAKE_DELAY_S": "600", **job})
        assert done.returncode == (script == "prolog.sh")
        assert "driver.npu-smi" in slurm.updates[0]


def test_a_job_starts_on_free_cards_only(slurm: Slurm) -> None:
    (slurm.folder / "job").write_text("JobId=7 JobName=x\n", encoding="utf-8")
    slurm.scenario = "in-service"
    busy = slurm.run("prolog.sh", {"SLURM_JOB_ID": "7"})
    assert busy.returncode == 1
    assert re.match(r"npudoctor: npu:0\b.*: chips? in use by ", busy.stderr)
    assert re.search(r"State=DRAIN Reason=npudoctor-health: npu:0\b.*: chips? in use by ", slurm.updates[0])


@pytest.mark.parametrize(("cards", "code"), [("0,1,3", 0), ("2", 1)])
def test_what_is_wrong_with_other_cards_stops_no_job(slurm: Slurm, cards: str, code: int) -> None:
    slurm.scenario = "sick-cards"
    if "," in cards:
        assert slurm.run("prolog.sh", {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": cards}).returncode == code
        return
    (slurm.folder / "job").write_text(
        "JobId=7 JobName=x\n   JOB_GRES=npu:3\n"
        "     Nodes=node2 CPU_IDs=0-3 Mem=0 GRES=npu:1(IDX:2)\n"
        f"     Nodes=node[1-2] CPU_IDs=0-3 Mem=0 GRES=npu:2(IDX:{cards})\n",
        encoding="utf-8",
    )
    assert slurm.run("prolog.sh", {"SLURM_JOB_ID": "7"}).returncode == code


def test_a_job_without_cards_is_not_held_up_by_them(slurm: Slurm) -> None:
    slurm.says = UNFIT
    slurm.set(gres="npu:8")
    (slurm.folder / "job").write_text("JobId=7 JobName=x\n     Nodes=node1 CPU_IDs=0-3 Mem=0 GRES=\n", encoding="utf-8")
    assert slurm.run("prolog.sh", {"SLURM_JOB_ID": "7"}).returncode == 0
    assert slurm.updates == []


def test_what_could_not_be_judged_stops_a_job_only_where_the_site_wants_it(slurm: Slurm) -> None:
    slurm.says = UNKNOWN
    (slurm.folder / "job").write_text("", encoding="utf-8")
    job = {"SLURM_JOB_ID": "7"}
    assert slurm.run("prolog.sh", job).returncode == 0
    assert slurm.run("prolog.sh", {**job, "NPUDOCTOR_STRICT": "1"}).returncode == 1
    assert slurm.updates == []


@pytest.mark.parametrize(
    ("line", "stands"),
    [("alice: cables", True), ("bob: memory, until 9999-12-31", True), ("alice: cables, until 2020-01-01", False)],
)
def test_the_state_of_a_node_on_hold_is_left_as_it_is(slurm: Slurm, tmp_path: Path, line: str, stands: bool) -> None:
    hold = tmp_path / "hold"
    hold.write_text(f"{line}\n", encoding="utf-8")
    told = {"NPUDOCTOR_HOLD": f"{tmp_path / 'none'} {hold}", "SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "2"}
    told["NPUDOCTOR_HOLD"] = str(hold) if " " in str(tmp_path) else told["NPUDOCTOR_HOLD"]
    hold.chmod(0o644)
    for script, code in (("healthcheck.sh", 0), ("prolog.sh", 1)):
        slurm.set()
        slurm.says = UNFIT
        assert slurm.run(script, told).returncode == code
        assert bool(slurm.updates) is not stands
    slurm.set("IDLE+DRAIN", "npudoctor-health: npu:2: Alarm [root@2026-11-21T10:00:00]")
    slurm.says = FIT
    assert slurm.run("healthcheck.sh", told).returncode == 0
    assert bool(slurm.updates) is not stands
    hold.chmod(0o664)
    for script in ("healthcheck.sh", "prolog.sh"):
        slurm.set()
        slurm.says = UNFIT
        assert "does not count as a hold" in slurm.run(script, told).stderr
        assert slurm.updates
