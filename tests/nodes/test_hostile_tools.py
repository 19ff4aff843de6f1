"""`npudoctor check` as a process, on a node with cards whose npu-smi misbehaves in every way that has been seen."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim

TOOL_TIMEOUT_S = 2.0
LIMIT_S = 90.0
"""For a busy machine; a tool that hangs would take ten minutes. Whether it is asked again is counted, not timed."""


@dataclass(frozen=True)
class Outcome:
    code: int
    seconds: float
    report: Any

    def result(self, check: str) -> Any:
        return next(result for result in self.report["results"] if result["check"] == check)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nodes") / "node"
    sim.write_tools(sim.simulate("seed-910b1"), str(folder))
    return folder


def check(node: Path, script: str | bytes | None, tmp_path: Path) -> Outcome:
    """Run the check with this npu-smi; None is a broken link."""
    tool = node / "bin" / "npu-smi"
    tool.unlink(missing_ok=True)
    if script is None:
        tool.symlink_to("/nowhere/npu-smi")
    else:
        tool.write_bytes(script if isinstance(script, bytes) else script.format(tmp=tmp_path).encode())
        tool.chmod(0o755)
    config = tmp_path / "config.toml"
    config.write_text(f"tool_timeout_s = {TOOL_TIMEOUT_S}\n", encoding="utf-8")
    argv = [sys.executable, "-m", "npudoctor", "check", "--json", "--root", str(node), "--config", str(config)]
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False)
    seconds = time.monotonic() - began
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode
    return Outcome(done.returncode, seconds, report)


def asked(tmp_path: Path) -> int:
    """How often the tool was started that writes its process id down."""
    return len((tmp_path / "pids").read_text(encoding="utf-8").split())


def left_behind(tmp_path: Path) -> list[int]:
    """The processes whose pids the tool wrote down and that still run."""
    found = []
    for pid in (tmp_path / "pids").read_text(encoding="utf-8").split() if (tmp_path / "pids").exists() else []:
        until = time.monotonic() + 60
        while time.monotonic() < until and _runs(pid):
            time.sleep(0.05)
        found += [int(pid)] if _runs(pid) else []
    return found


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


HOSTILE: dict[str, str | bytes | None] = {
    "sleeps": "#!/bin/sh\necho $$ >> {tmp}/pids\nexec sleep 600\n",
    "ignores SIGTERM": "#!/bin/sh\ntrap '' TERM\necho $$ >> {tmp}/pids\nwhile :; do sleep 600; done\n",
    "is stopped": "#!/bin/sh\necho $$ >> {tmp}/pids\nkill -STOP $$\nsleep 600\n",
    "leaves a grandchild that keeps the pipe": "#!/bin/sh\nsleep 600 &\necho $! >> {tmp}/pids\nexit 0\n",
    "leaves a grandchild in another session": "#!/bin/sh\nsetsid sleep 600 &\necho $! >> {tmp}/pids\nexit 0\n",
    "prints a gigabyte": "#!/bin/sh\necho $$ >> {tmp}/pids\nexec head -c 1073741824 /dev/zero\n",
    "prints binary": b"#!/bin/sh\nhead -c 4096 /bin/ls\n",
    "exits by a signal": "#!/bin/sh\nkill -SEGV $$\n",
    "is a broken link": None,
    "is for another machine": b"\x7fELF" + bytes(60),
    "prints nothing": "#!/bin/sh\nexit 0\n",
    "prints an error of its own": "#!/bin/sh\necho 'dcmi module initialize failed. ret is -8005'\nexit 1\n",
    "prints half a table": "#!/bin/sh\necho '| NPU   Name                | Health '\n",
}
HANGING = ("sleeps", "ignores SIGTERM", "is stopped")
READ_NPU_SMI = ("npu.health", "npu.temperature", "npu.memory-free", "npu.uniform", "npu.topology")


@pytest.mark.parametrize("how", HOSTILE)
def test_the_run_ends_in_time_says_why_and_leaves_nothing(node: Path, tmp_path: Path, how: str) -> None:
    outcome = check(node, HOSTILE[how], tmp_path)
    assert outcome.seconds < LIMIT_S
    assert how not in HANGING or asked(tmp_path) == 1
    assert outcome.code in (1, 3)
    for name in READ_NPU_SMI:
        result = outcome.result(name)
        assert result["status"] in ("skipped", "crashed"), name
        assert result["reason"] or result["blocked_by"]
    for name in ("npu.present", "hccl.ports-free", "system.shm", "python.pairing", "cann.installed"):
        assert outcome.result(name)["status"] == "ok", "what needs no npu-smi is reported as ever"
    assert outcome.result("driver.npu-smi")["status"] == "error"
    assert left_behind(tmp_path) == []


def test_a_tool_that_takes_five_seconds_is_a_warning_and_not_a_hang(node: Path, tmp_path: Path) -> None:
    sim.write_tools(sim.simulate("seed-910b1"), str(tmp_path / "node"))
    argv = [sys.executable, "-m", "npudoctor", "check", "--json", "--profile", "quick", "--root", f"{tmp_path}/node"]
    slow = {**os.environ, "NPUDOCTOR_FAKE_DELAY_S": "5.1"}
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, env=slow)
    outcome = Outcome(done.returncode, 0.0, json.loads(done.stdout))
    assert outcome.code == 0
    assert outcome.result("driver.npu-smi")["status"] == "warning"
    assert outcome.result("npu.health")["status"] == "ok"


def test_one_card_that_hangs_is_asked_once_and_the_rest_is_known(tmp_path: Path) -> None:
    node = tmp_path / "node"
    sim.write_tools(sim.simulate("seed-910b1"), str(node))
    tool = node / "bin" / "npu-smi"
    hangs = f'#!/bin/sh\ncase $* in *"board -i 3"*) echo $$ >> {tmp_path}/pids; exec sleep 600 ;; esac\n'
    answers = tool.read_text(encoding="utf-8").replace("#!/bin/sh\n", hangs, 1)
    outcome = check(node, answers.replace("{", "{{").replace("}", "}}"), tmp_path)
    assert outcome.seconds < LIMIT_S
    assert asked(tmp_path) == 1
    assert outcome.result("npu.health")["status"] == "ok"
    assert outcome.code == 0, "the page of the board is a side question"
    assert "board -i 3` did not answer" in json.dumps(outcome.report["results"])
