"""`npudoctor healthcheck`: one line, 0 or 1, from the daemon's state or from a look of its own."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.cli import healthcheck, main
from npudoctor.daemon import state
from npudoctor.daemon.state import CardState, State
from npudoctor.sim import scenarios

Check = Callable[..., tuple[int, str]]
FIT = {"seed-910b1", "healthy-a3", "healthy-910a", "duo-310p", "new-node", "in-service"}


@pytest.fixture
def check(capfd: pytest.CaptureFixture[str]) -> Check:
    """Run it in this process; its exit code and its line."""

    def run(*argv: str) -> tuple[int, str]:
        capfd.readouterr()
        code = main(["healthcheck", *argv])
        out = capfd.readouterr().out
        assert out.count("\n") == 1
        assert len(out.encode()) <= 200
        assert code == (0 if out.startswith("healthy") else 1)
        return code, out.rstrip("\n")

    return run


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The root of a container with four cards."""
    (tmp_path / "dev").mkdir()
    for name in ("davinci0", "davinci1", "davinci4", "davinci5", "davinci_manager"):
        (tmp_path / "dev" / name).write_text("", encoding="utf-8")
    return tmp_path


def written(folder: Path, **changes: Any) -> str:
    """A daemon's state of an eight-card node, fresh and well unless told otherwise."""
    told = State(
        boot_id=state.boot_id(),
        written_s=state.now_s(),
        interval_s=60.0,
        cards=tuple(CardState(number, None) for number in range(8)),
    )
    path = str(folder / "state.json")
    state.write(path, told._replace(**changes))
    return path


def test_the_health_checks_are_those_with_the_tag() -> None:
    tagged = {check.id for check in plugins.load().checks.values() if "health" in check.tags}
    assert tagged == set(healthcheck.HEALTH)


@pytest.mark.parametrize("scenario", scenarios())
def test_it_judges_the_cards_and_nothing_else(check: Check, scenario: str) -> None:
    code, line = check("--simulate", scenario, "--no-daemon")
    assert code == (0 if scenario in FIT else 1), line


def test_the_line_names_the_chip_once(check: Check) -> None:
    line = check("--simulate", "sick-cards", "--no-daemon")[1]
    assert line.startswith("unhealthy: NPU 5 (0000:02:00.0) is listed")


def test_a_container_without_npu_smi_is_judged_by_its_device_nodes_and_says_so(check: Check, tmp_path: Path) -> None:
    (tmp_path / "inside.toml").write_text(
        'about = "a container without npu-smi"\nproduct = "atlas-800t-a2-910b3"\nhostname = "inside"\n'
        "container = { devices = [0, 1] }\n",
        encoding="utf-8",
    )
    inside = tmp_path / "inside"
    assert main(["sim", "tools", str(inside), str(tmp_path / "inside.toml")]) == 0
    for tool in inside.rglob("npu-smi"):
        tool.unlink()
    argv = ["--root", str(inside), "--no-daemon"]
    assert check(*argv) == (0, "healthy (limited): 2 chips by device nodes; npu-smi is missing in this container")
    code, line = check(*argv, "--require", "npu.health")
    assert (code, line.startswith("unhealthy: npu.health is required but unknown")) == (1, True)


def test_the_daemon_answers_for_the_cards_of_this_container(check: Check, node: Path) -> None:
    sick = tuple(CardState(number, "Alarm" if number == 7 else None) for number in range(8))
    code, line = check("--state", written(node, cards=sick), "--root", str(node))
    assert (code, line.startswith("healthy: 4 chips, checked by the daemon")) == (0, True)
    sick = tuple(CardState(number, "Alarm" if number == 4 else None) for number in range(8))
    assert check("--state", written(node, cards=sick), "--root", str(node)) == (1, "unhealthy: davinci4: Alarm")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"written_s": -500}, "stale: last daemon run"),
        ({"written_s": 500}, "stale"),
        ({"boot_id": "another"}, "of another machine"),
        ({"undetermined": "npu-smi did not answer"}, "could not determine: npu-smi did not answer"),
        ({"problem": "the driver is gone"}, "the driver is gone"),
    ],
)
def test_a_state_that_proves_nothing_is_unhealthy(check: Check, node: Path, changes: dict[str, Any], said: str) -> None:
    if "written_s" in changes:
        changes = {"written_s": state.now_s() + changes["written_s"]}
    code, line = check("--state", written(node, **changes), "--root", str(node))
    assert code == 1
    assert said in line


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": "other/1"}', '{"schema": "npudoctor.state/1"}', "\xff", "[" * 100_000]
)
def test_a_state_that_is_not_the_daemons_is_unhealthy(check: Check, node: Path, text: str) -> None:
    path = node / "state.json"
    path.write_text(text, encoding="latin-1")
    code, line = check("--state", str(path), "--root", str(node))
    assert (code, "is not a state file of the daemon" in line) == (1, True)


def test_a_state_with_a_changed_field_is_refused(check: Check, node: Path) -> None:
    said = json.loads(Path(written(node)).read_text(encoding="utf-8"))
    for name, value in [("cards", 3), ("cards", [{"device": "0", "problem": None}]), ("written_s", None)]:
        (node / "state.json").write_text(json.dumps({**said, name: value}), encoding="utf-8")
        assert check("--state", str(node / "state.json"), "--root", str(node))[0] == 1


def test_a_state_that_others_could_have_written_is_refused_by_name(check: Check, node: Path) -> None:
    path = written(node)
    os.chmod(path, 0o666)
    assert "refused: other" in check("--state", path, "--root", str(node))[1]
    os.chmod(path, 0o644)
    os.chmod(node, 0o777)
    assert "refused: other" in check("--state", path, "--root", str(node))[1]
    os.chmod(node, 0o755)
    (node / "link.json").symlink_to(path)
    assert "must be a regular file" in check("--state", str(node / "link.json"), "--root", str(node))[1]
    os.mkfifo(node / "pipe.json", 0o600)
    assert "must be a regular file" in check("--state", str(node / "pipe.json"), "--root", str(node))[1]


def test_without_a_state_it_looks_itself_unless_the_daemon_is_required(check: Check, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.json")
    assert check("--state", nowhere, "--simulate", "seed-910b1") == (0, "healthy: 8 chips")
    code, line = check("--state", nowhere, "--simulate", "seed-910b1", "--require", "daemon")
    assert (code, line) == (1, f"unhealthy: no answer of the daemon: {nowhere} does not exist")


def test_a_required_daemon_that_does_not_know_the_npus_here_is_told_from_a_missing_one(
    check: Check, node: Path
) -> None:
    path = written(node)
    here = ("--state", path, "--require", "daemon")
    empty = node / "empty"
    empty.mkdir()
    assert f"no answer of the daemon: no NPU device in {empty}/dev" in check(*here, "--root", str(empty))[1]
    (node / "dev" / "davinci63").touch()
    assert "state.json has no davinci63" in check(*here, "--root", str(node))[1]


@pytest.mark.parametrize("wrong", [["--bogus"], ["--require", "nothing"], ["--timeout", "0"], ["--timeout", "x"]])
def test_a_mistake_is_unhealthy_too(check: Check, wrong: list[str]) -> None:
    assert check(*wrong)[0] == 1


def test_an_answer_from_the_daemon_loads_neither_pydantic_nor_psutil(node: Path) -> None:
    code = (
        "import sys; from npudoctor.cli import main; "
        f"code = main(['healthcheck', '--state', {written(node)!r}, '--root', {str(node)!r}]); "
        "print(code, sorted({'pydantic', 'psutil', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_a_hanging_npu_smi_does_not_outlast_the_deadline(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "npudoctor", "sim", "tools", tmp_path, "seed-910b1"], check=True)
    argv = [sys.executable, "-m", "npudoctor", "healthcheck", "--no-daemon", "--root", str(tmp_path), "--timeout", "2"]
    began = time.monotonic()
    done = subprocess.run(
        argv,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "NPUDOCTOR_FAKE_DELAY_S": "600"},
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout.startswith("unhealthy: could not determine")) == (1, True)
    assert time.monotonic() - began < 60


def test_the_line_says_how_many_more_errors_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["healthcheck", "--no-daemon", "--simulate", "sick-cards"]) == 1
    line = capsys.readouterr().out
    assert re.search(r"\((npu\.\w+)\) and [1-9]\d* more$", line.strip()), line


@pytest.mark.parametrize("length", [100, 185, 186, 190, 199, 200, 300])
def test_a_line_that_is_cut_still_says_how_many_more_there_are(length: int) -> None:
    line = healthcheck._line_with_count("x" * length, 12)
    assert line.endswith(" and 12 more") and len(line) < healthcheck.LINE_BYTES
