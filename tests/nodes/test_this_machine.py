"""The machine that runs the tests, live: no card, as a container or as a host, without and with the real torch_npu."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npudoctor.data import to_json
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.rooted import open_root
from npudoctor.testing import run


def check(*argv: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "npudoctor", "check", "--json", *argv],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def errors(report: Any) -> list[str]:
    return [result["check"] for result in report["results"] for one in result["findings"] if one["severity"] == "error"]


def cause_here() -> str:
    return "npu.present" if LocalHost().measure("container") is None else "container.devices"


def no_card_here() -> bool:
    return not list(Path("/dev").glob("davinci[0-9]*"))


pytestmark = pytest.mark.skipif(not no_card_here(), reason="this machine has a card")


def test_without_a_card_that_is_the_one_error() -> None:
    code, report = check()
    assert errors(report) == [cause_here()]
    assert code == 1
    assert report["summary"]["crashed"] == 0
    assert report["summary"]["warning"] == 0


def test_what_is_skipped_stands_behind_the_cause_or_does_not_apply() -> None:
    _, report = check()
    for result in report["results"]:
        if result["status"] == "skipped":
            assert result["skip"] in ("blocked", "not-applicable"), result
            assert result["blocked_by"] in (cause_here(), None)


@pytest.mark.parametrize(("container", "cause"), [(False, "npu.present"), (True, "container.devices")])
def test_a_host_and_a_container_without_a_card_have_one_error_each(tmp_path: Path, container: bool, cause: str) -> None:
    for folder in ("dev", "proc", "etc", "sys/bus/pci/devices"):
        (tmp_path / folder).mkdir(parents=True)
    if container:
        (tmp_path / ".dockerenv").touch()
    report = json.loads(to_json(run(open_root(str(tmp_path)))))
    assert errors(report) == [cause]
    assert report["exit_code"] == 1


@pytest.mark.torch
def test_with_the_real_torch_npu_the_missing_cann_is_the_one_more_error(real_torch_npu: Path) -> None:
    code, report = check("--python", str(real_torch_npu))
    assert sorted(errors(report)) == sorted([cause_here(), "cann.installed"])
    assert report["summary"]["warning"] == 0
    assert report["host"]["python"] == str(real_torch_npu)
    assert code == 1
    statuses = {result["check"]: result["status"] for result in report["results"]}
    for name in ("python.torch", "python.torch-npu", "python.pairing"):
        assert statuses[name] == "ok"
