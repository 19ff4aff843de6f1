"""Plug-ins: a real second distribution, single files, and strangers that misbehave."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.findings import Status
from npudoctor.host.recording.canned import FakeHost
from npudoctor.testing import run
from tests.cli.conftest import Command
from tests.cli.conftest import npudoctor as npudoctor

DATA = Path(__file__).parent / "data" / "plugin"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the second distribution was built and installed."""
    source = tmp_path_factory.mktemp("source") / "site"
    shutil.copytree(DATA, source)
    target = tmp_path_factory.mktemp("target")
    argv = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--target",
    ]
    done = subprocess.run([*argv, str(target), str(source)], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return target


def ask(target: Path, *argv: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-m", "npudoctor", *argv], capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_a_second_distribution_adds_a_check_a_fact_and_a_fix(installed: Path, tmp_path: Path) -> None:
    assert "site.owner" in [entry["id"] for entry in ask(installed, "list", "--json")]
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "motd").write_text("welcome\n", encoding="utf-8")
    report = ask(installed, "check", "site", "--json", "--root", str(tmp_path))
    finding = report["results"][0]["findings"][0]
    assert finding["summary"] == "owner missing in /etc/motd"
    assert finding["fix"] == {"id": "site.name-owner", "params": {}}
    facts = ask(installed, "facts", "--json", "motd.motd", "--root", str(tmp_path))
    assert facts["motd.motd"]["value"] == {"text": "welcome\n"}


def own(path: Path) -> Path:
    """A folder that nobody else can write, on a machine whose umask may allow more."""
    path.mkdir(mode=0o755, exist_ok=True)
    path.chmod(0o755)
    return path


def plugin(tmp_path: Path, text: str, name: str = "mine.py") -> Path:
    path = own(tmp_path / "checks.d") / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path


CHECK = """
from collections.abc import Iterator
from npudoctor.sdk import Finding, Options, check

@check("{id}")
def it(given: Options) -> Iterator[Finding]:
    \"\"\"It is well.\"\"\"
    {body}
"""
NOTHING = "yield from ()"


def problem_of(catalog: plugins.Catalog) -> str:
    assert len(catalog.broken) == 1
    assert catalog.broken[0].status is Status.CRASHED
    assert catalog.broken[0].reason
    assert "npu.present" in catalog.checks, "all else is there as ever"
    return catalog.broken[0].reason


def test_a_single_file_adds_a_check(tmp_path: Path) -> None:
    path = plugin(tmp_path, CHECK.format(id="site.mine", body=NOTHING))
    assert "site.mine" in plugins.load([str(path)]).checks
    assert "site.mine" in plugins.load([str(path.parent)]).checks
    assert "site.mine" in plugins.load(folder=str(path.parent)).checks
    assert "site.mine" not in plugins.load(folder=str(tmp_path / "absent")).checks


@pytest.mark.parametrize("command", [["check", "--json"], ["list"], ["list", "--fixes"], ["facts"]])
def test_what_npudoctor_itself_brings_must_load(npudoctor: Command, command: list[str]) -> None:
    """A check of its own that is missing is no smaller report: it is an internal error, with its reason."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [*sys.modules]:
            if name.startswith("npudoctor.checks"):
                patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "npudoctor.checks.npu", None)
        ran = npudoctor(*command)
    assert (ran.code, ran.out, ran.err.count("\n")) == (4, "", 1)
    assert "npudoctor.checks cannot be loaded: ModuleNotFoundError: import of npudoctor.checks.npu halted" in ran.err


def test_the_page_about_plug_ins_teaches_what_works(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8"), re.DOTALL)
    catalog = plugins.load([str(plugin(tmp_path, blocks[0]))])
    assert not catalog.broken
    report = run(FakeHost(files={"/etc/motd": "welcome\n"}), "site.owner", catalog=catalog)
    assert report.results[0].findings[0].summary == "owner missing in /etc/motd"
    assert run(FakeHost(), "site.owner", catalog=catalog).results[0].reason == "/etc/motd does not exist"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no luck')", "cannot be loaded: RuntimeError: no luck"),
        ("import sys; sys.exit(5)", "cannot be loaded: SystemExit: 5"),
        ("this is no Python", "cannot be loaded: SyntaxError"),
        ("import no_such_module_at_all", "cannot be loaded: ModuleNotFoundError"),
        (CHECK.format(id="site", body=NOTHING), "cannot be loaded: ValueError: expected an id such as npu.health"),
        (CHECK.format(id="npu.health", body=NOTHING), "the check npu.health is defined twice"),
    ],
)
def test_one_that_does_not_load_is_a_reported_result(tmp_path: Path, text: str, said: str) -> None:
    assert said in problem_of(plugins.load([str(plugin(tmp_path, text))]))


def test_the_built_in_check_is_the_one_that_stays(tmp_path: Path) -> None:
    catalog = plugins.load([str(plugin(tmp_path, CHECK.format(id="npu.health", body=NOTHING)))])
    assert catalog.checks["npu.health"].function.__module__ == "npudoctor.checks.npu"


def test_one_that_takes_forever_to_import_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "LOADING_TIME_S", 0.3)
    began = time.monotonic()
    reason = problem_of(plugins.load([str(plugin(tmp_path, "import time; time.sleep(600)"))]))
    assert "import timed out after 0.3 s" in reason
    assert time.monotonic() - began < 60


@pytest.mark.thorough
def test_a_check_that_takes_forever_is_left_at_the_deadline(tmp_path: Path) -> None:
    body = "import time; time.sleep(600); yield from ()"
    path = plugin(tmp_path, CHECK.format(id="site.slow", body=body))
    argv = ["check", "site.slow", "system.shm", "--json", "--timeout", "5", "--plugin", str(path)]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "npudoctor", *argv], capture_output=True, encoding="utf-8", check=False
    )
    assert time.monotonic() - began < 60
    assert done.returncode == 3
    statuses = {result["check"]: result["status"] for result in json.loads(done.stdout)["results"]}
    assert statuses == {"system.shm": "ok", "site.slow": "skipped"}


def test_a_check_of_a_stranger_that_raises_is_a_crash_of_its_own(tmp_path: Path) -> None:
    path = plugin(tmp_path, CHECK.format(id="site.raises", body="raise KeyError('x'); yield"))
    report = run(FakeHost(), "site.raises", catalog=plugins.load([str(path)]))
    assert (report.results[0].status, report.exit_code) == (Status.CRASHED, 3)


def test_a_file_or_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = plugin(tmp_path, CHECK.format(id="site.mine", body=NOTHING))
    path.chmod(0o666)
    assert problem_of(plugins.load([str(path)])) == (
        f"{path} is refused: other users can write {path}; chmod go-w {path}"
    )
    path.chmod(0o644)
    path.parent.chmod(0o777)
    assert f"other users can write {path.parent}" in problem_of(plugins.load([str(path)]))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = plugin(tmp_path, CHECK.format(id="site.mine", body=NOTHING))
    os.chown(path, 65534, 65534)
    assert "belongs to another user" in problem_of(plugins.load([str(path)]))


def test_a_plug_in_that_is_not_there_is_a_reported_result(tmp_path: Path) -> None:
    assert "absent.py: No such file" in problem_of(plugins.load([str(tmp_path / "absent.py")]))


def test_the_names_of_0_1_still_work_and_warn() -> None:
    from npudoctor import sdk

    with pytest.warns(DeprecationWarning, match="untrusted_writer"):
        assert sdk.others_hand is sdk.untrusted_writer
    with pytest.warns(DeprecationWarning, match="write `resolves` instead of `mends`"):

        @sdk.fix("site.old", mends=("site.owner",))
        def old(asked: sdk.Parameters) -> Any:
            """Name the owner."""
            yield from ()

    assert old.resolves == ("site.owner",)
    with pytest.warns(DeprecationWarning, match="resolves"):
        assert old.mends == old.resolves
    with pytest.raises(TypeError, match="requires resolves"):
        sdk.fix("site.none")


def test_a_folder_that_could_not_be_opened_once_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([[], importlib.metadata.entry_points(group=plugins.ENTRY_POINTS)])
    monkeypatch.setattr(plugins, "entry_points", lambda **_: next(answers))
    assert plugins.load(folder="").checks
