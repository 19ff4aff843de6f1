"""No thread and no descriptor left is npudoctor's own trouble; a text of megabytes is shown cut."""

import errno
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import plugins, sim
from npudoctor.cli import main
from npudoctor.findings import Severity, Status
from npudoctor.host import Host, measures, tools
from npudoctor.host.bundle import open_bundle
from npudoctor.host.local import LocalHost
from npudoctor.schedule import Schedule
from npudoctor.sdk import Finding, check
from npudoctor.testing import FakeHost, run
from tests.plain_user import as_root


def no_descriptor(*_: object, **__: object) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_work_goes_on_with_one_thread_where_the_first_begins_before_it_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first thread wanted a second one while it had not been counted yet: its error left the run waiting."""
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)
        time.sleep(0.2)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    graph: dict[int, set[int]] = {number: set() for number in range(20)}
    events = list(Schedule(graph, lambda number: number).run(deadline=time.monotonic() + 60))
    assert sorted(node for kind, node, _ in events if kind == "done") == list(range(20))


def test_a_file_for_which_no_descriptor_is_left_does_not_count_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim.write_bundle(sim.simulate("seed-910b1"), str(tmp_path / "node"))
    host = open_bundle(str(tmp_path / "node"))
    assert host.exists("/etc/os-release")
    monkeypatch.setattr(os, "open", no_descriptor)
    try:
        with pytest.raises(OSError, match="Too many open files"):
            host.read("/etc/os-release")
    finally:
        monkeypatch.undo()


@pytest.mark.parametrize("after_a_finding", [False, True])
def test_a_check_for_which_no_descriptor_is_left_has_not_crashed(after_a_finding: bool) -> None:
    @check("test.files")
    def files(_: Host) -> Iterator[Finding]:
        """Files can be opened."""
        if after_a_finding:
            yield Finding(severity=Severity.INFO, subject="host", summary="a finding")
        no_descriptor()

    report = run(FakeHost(), "test.files", catalog=plugins.Catalog(checks={files.id: files}, probes={}))
    [result] = report.results
    assert result.status is (Status.OK if after_a_finding else Status.SKIPPED)
    assert result.reason == "no more files may be opened (ulimit -n)"
    assert report.exit_code == (0 if after_a_finding else 3)


def test_a_measurement_for_which_no_descriptor_is_left_is_no_fact_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measures._MEASURES, "memory", no_descriptor)
    with pytest.raises(OSError, match="Too many open files"):
        LocalHost().measure("memory")


@as_root
def test_a_tool_that_cannot_be_judged_for_want_of_descriptors_does_not_count_as_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tools, "foreign_writer", no_descriptor)
    with pytest.raises(OSError, match="Too many open files"):
        tools.find("sh")


def test_a_host_name_of_megabytes_is_cut_in_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = tmp_path / "node"
    sim.write_bundle(sim.simulate("seed-910b1"), str(node))
    about = json.loads((node / "bundle.json").read_text()) | {"hostname": "x" * (1 << 20)}
    (node / "bundle.json").write_text(json.dumps(about))
    assert main(["check", "--replay", str(node), "--profile", "quick"]) == 0
    assert len(capsys.readouterr().out) < 1 << 16
