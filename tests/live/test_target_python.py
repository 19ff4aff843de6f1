"""Real interpreters as targets: the real torch_npu, without CANN and on stubs of it, and targets that misbehave."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from npudoctor.findings import Severity, Status
from tests.fake_cann import build
from tests.fake_cann.target import metadata, packages_of
from tests.live.conftest import Diagnose, blocked, errors

NO_CANN = {"cann": {"installed": False}}
IN_USE = ("python.import-torch", "python.import-torch-npu", "python.devices", "python.device-math")


# The real torch_npu


@pytest.mark.torch
def test_on_a_healthy_cann_all_is_well_to_the_product_on_each_card(
    diagnose: Diagnose, real_torch_npu: Path, cann_libraries: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "calls"
    there = {"FAKE_CANN_TRACE": str(trace), "FAKE_CANN_VERSION": "9.1.0"}
    report = diagnose(real_torch_npu, libraries=cann_libraries, variables=there)
    assert errors(report) == {}
    assert {result.check: result.status for result in report.results if result.check in IN_USE[:3]} == dict.fromkeys(
        IN_USE[:3], Status.OK
    )
    calls = {line.split()[1] for line in trace.read_text(encoding="utf-8").splitlines()}
    assert "aclrtGetDeviceCount" in calls
    assert not calls & {"aclrtSetDevice", "aclrtMalloc", "aclrtMallocAlign32"}, "profile standard opens no device"


@pytest.mark.torch
def test_without_a_cann_that_is_the_one_cause_of_every_import(diagnose: Diagnose, real_torch_npu: Path) -> None:
    report = diagnose(real_torch_npu, said=NO_CANN)
    assert list(errors(report)) == ["cann.installed"]
    assert {check: blocked(report)[check] for check in IN_USE[:3]} == dict.fromkeys(IN_USE[:3], "cann.installed")
    reasons = {result.check: result.reason or "" for result in report.results}
    assert "libhccl.so" in reasons["python.import-torch"]


@pytest.mark.torch
def test_a_card_that_computes_wrongly_is_named_in_profile_full(
    diagnose: Diagnose, real_torch_npu: Path, cann_libraries: Path
) -> None:
    there = {"FAKE_CANN_WRONG": "aclnnMatmul@1=1", "ASCEND_RT_VISIBLE_DEVICES": "0,1"}
    said = {"environ": {"ASCEND_RT_VISIBLE_DEVICES": "0,1"}}
    report = diagnose(
        real_torch_npu, "python.device-math", libraries=cann_libraries, variables=there, said=said, profile="full"
    )
    (result,) = [result for result in report.results if result.check == "python.device-math"]
    assert [finding.subject for finding in result.findings] == ["npu:1"]
    assert "wrong result on device" in result.findings[0].summary


@pytest.mark.torch
@pytest.mark.slow
def test_the_cards_that_do_not_compute_are_named_in_profile_full(
    diagnose: Diagnose, real_torch_npu: Path, cann_libraries: Path
) -> None:
    there = {
        "FAKE_CANN_FAIL": "aclnnMatmul@1=507015",
        "FAKE_CANN_WRONG": "aclnnMatmul@2=1",
        "FAKE_CANN_CRASH": "aclrtSetDevice@0=11",
        "ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3",
    }
    said = {"environ": {"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3"}}
    report = diagnose(real_torch_npu, "python", libraries=cann_libraries, variables=there, said=said, profile="full")
    result = next(result for result in report.results if result.check == "python.device-math")
    found = {finding.subject: finding for finding in result.findings}
    assert set(found) == {"npu:0", "npu:1", "npu:2"}
    assert "signal 11" in found["npu:0"].summary
    assert found["npu:1"].pitfall == "P056"
    assert "wrong result on device" in found["npu:2"].summary
    assert list(errors(report)) == ["python.device-math"]


@pytest.mark.torch
@pytest.mark.slow
def test_a_missing_symbol_of_cann_is_named(
    diagnose: Diagnose, real_torch_npu: Path, tmp_path: Path, cann_libraries: Path
) -> None:
    libraries = build.build(packages_of(real_torch_npu), tmp_path, without=["aclrtGetSocName"])
    report = diagnose(real_torch_npu, libraries=libraries)
    assert list(errors(report)) == ["python.import-torch-npu"]
    assert "undefined symbol: aclrtGetSocName" in errors(report)["python.import-torch-npu"][0]
    finding = next(r.findings[0] for r in report.results if r.check == "python.import-torch-npu")
    assert finding.pitfall == "P012"
    assert blocked(report)["python.import-torch"] == "python.import-torch-npu"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "check", "words"),
    [
        ({"FAKE_CANN_DEVICE_COUNT": "6"}, "python.devices", "finds 6 of 8 devices"),
        ({"FAKE_CANN_FAIL": "aclrtGetDeviceCount=507033"}, "python.devices", "finds 0 of 8 devices"),
        ({"FAKE_CANN_SOC": "Ascend999"}, "python.devices", "Unsupported soc version: Ascend999"),
        ({"FAKE_CANN_CRASH": "aclsysGetCANNVersion"}, "python.import-torch-npu", "crashed with SIGSEGV"),
    ],
)
def test_what_the_runtime_answers_leads_to_one_error(
    diagnose: Diagnose, real_torch_npu: Path, cann_libraries: Path, variables: dict[str, str], check: str, words: str
) -> None:
    report = diagnose(real_torch_npu, libraries=cann_libraries, variables=variables)
    assert list(errors(report)) == [check]
    assert words in errors(report)[check][0]


@pytest.mark.torch
@pytest.mark.slow
def test_a_torch_of_another_release_is_a_wrong_pair(
    diagnose: Diagnose, real_torch_npu: Path, cann_libraries: Path, tmp_path: Path
) -> None:
    report = diagnose(real_torch_npu, libraries=cann_libraries, folder=metadata(tmp_path, torch="2.12.0"))
    assert list(errors(report)) == ["python.pairing"]
    finding = next(result.findings[0] for result in report.results if result.check == "python.pairing")
    assert "install torch 2.13.0 and keep torch_npu" in (finding.hint or "")
    assert blocked(report)["python.import-torch-npu"] == "python.pairing"


@pytest.mark.torch
@pytest.mark.slow
def test_numpy_2_does_not_go_with_cann_8_1(
    diagnose: Diagnose, real_torch_npu: Path, cann_libraries: Path, tmp_path: Path
) -> None:
    said = {"cann": {"version": "8.1.RC1"}, "driver": {"version": "25.2.0"}}
    folder = metadata(tmp_path, torch="2.5.1", torch_npu="2.5.1.post1")
    report = diagnose(real_torch_npu, libraries=cann_libraries, folder=folder, said=said)
    assert list(errors(report)) == ["python.packages"]
    assert "needs numpy 1.x" in errors(report)["python.packages"][0]


# Targets that misbehave, of any Python


def target(folder: Path, torch_npu: str) -> Path:
    """Packages torch and torch_npu whose import does what the text says."""
    for name, text in (("torch", "__version__ = '2.4.0'\n"), ("torch_npu", torch_npu)):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text, encoding="utf-8")
        (folder / name / "_C.so").touch()
    return metadata(folder, torch="2.4.0", torch_npu="2.4.0.post4", numpy="1.26.4", pyyaml="6.0")


OLD = {"cann": {"version": "8.2.RC1"}, "driver": {"version": "25.2.0"}}


def test_a_target_that_crashes_is_named_by_its_signal(diagnose: Diagnose, tmp_path: Path) -> None:
    crash = "import os, sys\nprint('about to load', file=sys.stderr, flush=True)\nos.kill(os.getpid(), 11)\n"
    report = diagnose(folder=target(tmp_path, crash), said=OLD)
    text = errors(report)["python.import-torch-npu"][0]
    assert "crashed with SIGSEGV" in text
    finding = next(r.findings[0] for r in report.results if r.check == "python.import-torch-npu")
    assert "about to load" in (finding.detail or "")
    assert blocked(report)["python.devices"] == "python.import-torch-npu"


def test_a_target_that_hangs_is_ended(diagnose: Diagnose, tmp_path: Path) -> None:
    settings = {"python_import_timeout_s": 2}
    report = diagnose(folder=target(tmp_path, "import time\ntime.sleep(600)\n"), said=OLD, settings=settings)
    assert "timed out after 2 s" in errors(report)["python.import-torch-npu"][0]


def test_a_megabyte_on_stderr_does_not_hide_the_error(diagnose: Diagnose, tmp_path: Path) -> None:
    loud = (
        "import sys\nsys.stderr.write('noise ' * 200000)\nraise ImportError('libatb.so: cannot open shared object')\n"
    )
    report = diagnose(folder=target(tmp_path, loud), said=OLD)
    finding = next(r.findings[0] for r in report.results if r.check == "python.import-torch-npu")
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P013")


def python_3_9() -> Path | None:
    found = [Path(path) for path in (shutil.which("python3.9"),) if path]
    found += sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python3"))
    for path in found:
        done = subprocess.run(
            [str(path), "-c", "import sys; print(sys.version)"], capture_output=True, encoding="utf-8"
        )
        if done.stdout.startswith("3.9."):
            return path
    return None


@pytest.mark.skipif(python_3_9() is None, reason="there is no Python 3.9 here")
def test_a_target_of_python_3_9_is_examined_and_found_too_old(diagnose: Diagnose, tmp_path: Path) -> None:
    folder = metadata(tmp_path, torch="2.13.0", torch_npu="2.13.0", numpy="1.26.4", pyyaml="6.0")
    report = diagnose(python_3_9() or Path(), folder=folder)
    assert "Python 3.9." in errors(report)["python.version"][0]
