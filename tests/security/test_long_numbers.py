"""Numbers of thousands of digits, and digits that are no ASCII, in what users of the node write."""

import contextlib
import json
import re
from pathlib import Path

import pytest

from fixes import _installing
from npudoctor import engine, knowledge, plugins, sim
from npudoctor.facts.network.hccl import parse_base_port, parse_port_list
from npudoctor.facts.network.ports import PortRanges
from npudoctor.facts.numbers import shorten_numbers
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.findings import Status
from npudoctor.host.live import job_environment, local
from npudoctor.host.recording import recorded_node
from npudoctor.sdk import Options, ParseError
from npudoctor.selection import Selection
from npudoctor.smoke.coverage import visible_devices

LONG = "9" * 5000
VALUES = (LONG, f"1-{LONG}", f"{LONG},{LONG}", "²", "1-²", f"0x{LONG}", "٣" * 5000)
NAMES = {variable.name for variable in knowledge.environment().variables}
VERSIONS = (LONG, f"2.{LONG}", f"2.6.0+{LONG}", f"2.6.0.post{LONG}", "²")


def crashes(node: Path) -> list[str]:
    with contextlib.closing(recorded_node.open_bundle(str(node))) as host:
        for event in engine.run(plugins.load(), host, Selection(options=Options(profile="full"))):
            if isinstance(event, engine.Done):
                return [f"{one.check}: {one.reason}" for one in event.report.results if one.status is Status.CRASHED]
    raise AssertionError("it did not end")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    sim.write_bundle(sim.simulate("sick-cards"), str(tmp_path / "node"))
    return tmp_path / "node"


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_no_variable_crashes_a_check(node: Path, value: str) -> None:
    path = node / "environ.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | dict.fromkeys(NAMES - {"HOME"}, value)))
    assert crashes(node) == []


@pytest.mark.parametrize("value", VERSIONS, ids=range(len(VERSIONS)))
@pytest.mark.parametrize("name", ["torch", "torch-npu", "numpy"])
def test_no_version_of_a_package_crashes_a_check(node: Path, name: str, value: str) -> None:
    path = node / "commands/python environment/stdout"
    told = json.loads(path.read_text())
    told["distributions"][name] = {"version": value, "requires": [f"numpy<{value}", f"torch=={value}"]}
    path.write_text(json.dumps(told))
    assert crashes(node) == []


def test_numbers_of_a_usual_length_stay_as_they_are() -> None:
    text = f"a{'1' * 1000} {'2' * 999},{'3' * 1001}b"
    assert shorten_numbers(text) == f"a{'1' * 1000} {'2' * 999},{'3' * 1000}b"
    assert re.sub(r"\d+", "", shorten_numbers(f"x{LONG}-{LONG}y")) == "x-y"


@pytest.mark.parametrize("value", [LONG, f"1-{LONG}", "²"], ids=range(3))
def test_a_list_of_ports_is_refused(value: str) -> None:
    for parse in (parse_base_port, parse_port_list, PortRanges.parse):
        with pytest.raises(ParseError):
            parse(value)


def test_a_smoke_run_passes_over_what_is_no_device() -> None:
    assert visible_devices({"ASCEND_RT_VISIBLE_DEVICES": f"²,{LONG}, 1,0"}, 8) == (1, 0)


@pytest.mark.parametrize("value", ["²", LONG], ids=range(2))
def test_a_process_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(job_environment.BadEnvironment, match="expected"):
        job_environment.resolve(f"pid:{value}", local.LocalHost())


def test_a_damaged_list_of_installed_files_does_not_end_the_planning(tmp_path: Path) -> None:
    folder = tmp_path / "lib/python3.11/site-packages/torch-2.6.0.dist-info"
    folder.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3.11").touch()
    (folder / "RECORD").write_text(f"no comma\n\ntorch/a.py,sha256=x,²\ntorch/b.py,,{LONG}\ntorch/c.py,,7\n")
    python = PythonEnvironment(executable=str(tmp_path / "bin/python3.11"), version="3.11.2")
    _installing._room(local.LocalHost(), python, ["torch"])
