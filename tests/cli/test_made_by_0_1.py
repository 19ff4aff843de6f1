"""What npudoctor 0.1 has written is read, undone and run: tests/made_by_0_1 was written by that version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from npudoctor import config, engine, plugins, sim
from npudoctor.daemon import state
from npudoctor.daemon.store import Store
from npudoctor.findings import Status
from npudoctor.fixer import runner
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.report import json as report_json
from npudoctor.selection import Selection
from npudoctor.sim import machine, scenario
from npudoctor.smoke import history
from npudoctor.tui.model import settings
from tests.cli.conftest import Command
from tests.smoke.test_history import planned

MADE = Path(__file__).resolve().parents[1] / "made_by_0_1"
JOURNALS = sorted(MADE.glob("journal-*.json"))


def after_the_fix(made: dict[str, Any]) -> SimulatedHost:
    """The simulated node as the fix of 0.1 has left it, with its journal."""
    host = machine.build(scenario.parse(made["scenario"], "test"), "test")
    for path, (mode, text) in made["files"].items():
        folder = Path(path).parent
        for part in (*reversed(folder.parents), folder):
            if not host.exists(str(part)):
                host.make_folder(str(part))
        host.write_file(path, text.encode("latin-1"), mode=mode)
    for key, value in made["sysctl"].items():
        host.set_sysctl(key, value)
    return host


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_a_fix_is_undone_from_its_journal(path: Path) -> None:
    made = json.loads(path.read_text(encoding="utf-8"))
    host = after_the_fix(made)
    pristine = machine.build(scenario.parse(made["scenario"], "test"), "test")
    assert [run["fix"] for run in runner.history(host)] == [made["fix"]]
    *_, last = runner.undo(host)
    assert isinstance(last, Ended)
    assert last.outcome is Outcome.UNDONE
    for name in made["files"]:
        if not name.startswith("/var/lib/npudoctor"):
            assert host.exists(name) is pristine.exists(name), name
            assert not pristine.exists(name) or host.read(name) == pristine.read(name)
    for key in made["sysctl"]:
        place = "/proc/sys/" + key.replace(".", "/")
        assert host.read(place) == pristine.read(place)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_a_fix_that_was_cut_off_is_recovered_from_its_journal(path: Path) -> None:
    made = json.loads(path.read_text(encoding="utf-8"))
    status = next(name for name in made["files"] if name.endswith("status.json"))
    made["files"][status][1] = made["files"][status][1].replace('"applied"', '"applying"')
    host = after_the_fix(made)
    *_, last = runner.recover(host)
    assert isinstance(last, Ended)
    assert runner.history(host)[0]["status"] == "rolled-back"


def test_a_recording_is_judged_as_the_node_that_it_was_made_of(npudoctor: Command) -> None:
    then = npudoctor("check", "--replay", str(MADE / "recording.tar.gz"), "--json")
    now = npudoctor("check", "--simulate", "sick-cards", "--json")
    assert then.code == now.code == 1
    assert broken(json.loads(then.out)) == broken(json.loads(now.out)) != set()


def broken(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["check"], found["subject"]) for one in report["results"] for found in one["findings"]}


def test_a_report_is_read() -> None:
    report = report_json.read((MADE / "report.json").read_text(encoding="utf-8"))
    assert report.exit_code == 1
    assert {finding.code for result in report.results for finding in result.findings} == {None}


def test_a_configuration_is_taken_with_its_names(npudoctor: Command) -> None:
    path = str(MADE / "config.toml")
    ran = npudoctor("check", "--simulate", "new-node", "--json", "--config", path)
    results = {one["check"]: one for one in json.loads(ran.out)["results"]}
    assert results["hccl.ports-reserved"]["status"] == "silenced"
    assert results["cann.environment"]["findings"][0]["severity"] == "warning"
    site = config.load(path)
    assert (site.for_daemon.quick_s, site.policy.per_hour) == (30, 2)


@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_a_plug_in_is_run() -> None:
    catalog = plugins.load([str(MADE / "plugin.py")], folder="")
    assert catalog.broken == ()
    host = sim.simulate("healthy-a3")
    *_, done = engine.run(catalog, host, Selection(names=("site.motd", "site.chips")))
    assert isinstance(done, engine.Done)
    assert [result.status for result in done.report.results] == [Status.SKIPPED, Status.OK]


def test_state_and_history_of_the_daemon_are_read(tmp_path: Path) -> None:
    copy = tmp_path / "state.json"
    shutil.copyfile(MADE / "state.json", copy)
    copy.chmod(0o644)
    found = state.read(str(copy))
    assert found is not None
    assert [card.device for card in found.cards if card.problem] == [2, 5]
    base = tmp_path / "history.sqlite"
    shutil.copyfile(MADE / "history.sqlite", base)
    base.chmod(0o600)
    store = Store(str(base))
    assert {(one.check, one.subject) for one in store.issues()} >= {("npu.health", "npu:2")}
    store.close()


def test_what_smoke_runs_reached_and_what_a_person_chose_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(MADE / "smoke-history.jsonl", tmp_path / history.FILE)
    assert history.usual_bus_gb_s(planned("npu:0", "npu:1"), str(tmp_path)) == 110.0
    (tmp_path / "npudoctor").mkdir()
    shutil.copyfile(MADE / "tui.json", tmp_path / "npudoctor" / "tui.json")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings.load() == settings.Settings(theme="npudoctor-light", skipped=False, interval_s=5.0)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_the_journal_of_a_later_version_is_undone_where_its_steps_are_known(path: Path) -> None:
    made = json.loads(path.read_text(encoding="utf-8"))

    def add(file: str, inside: str = "") -> None:
        [name] = [name for name in made["files"] if name.endswith(file)]
        data = json.loads(made["files"][name][1])
        (data[inside] if inside else data)["of_later"] = [1]
        made["files"][name][1] = json.dumps(data)

    add("run.json")
    add("status.json")
    host = after_the_fix(made)
    assert [run["fix"] for run in runner.history(host)] == [made["fix"]]
    *_, last = runner.undo(host)
    assert isinstance(last, Ended)
    assert last.outcome is Outcome.UNDONE
    add("000.json", "step")
    *_, last = runner.undo(after_the_fix(made))
    assert isinstance(last, Ended)
    assert last.outcome is Outcome.REFUSED
    assert "of_later" in last.reason
