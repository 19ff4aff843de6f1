"""CANN's libraries on the path of the dynamic linker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.facts.cann.elf import Elf, build
from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status
from npudoctor.host.recording import bundle_writer
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.host.recording.recorder import RecordingHost
from npudoctor.privacy.recording_policy import reduce_notes
from npudoctor.sdk import Unavailable
from npudoctor.testing import FakeHost, run

Nodes = Callable[..., Any]
ID = "cann.libraries"
VERSION = {"version": "8.2.RC1"}
LIB = "/usr/local/Ascend/ascend-toolkit/8.2.RC1/aarch64-linux/lib64"
HAL = "/usr/local/Ascend/driver/lib64/driver/libascend_hal.so"
FOREIGN = build(Elf(machine="x86_64", end=0))


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


def with_path(node: Nodes, *before: str, **said: Any) -> Any:
    """A node whose LD_LIBRARY_PATH has further folders in front."""
    usual = node(cann=VERSION).host.environ["LD_LIBRARY_PATH"]
    return node(cann=VERSION, environ={"LD_LIBRARY_PATH": ":".join([*before, usual])}, **said)


@pytest.mark.parametrize("version", ["8.1.RC1", "8.3.RC1", "8.5.0"])
@pytest.mark.parametrize("product", ["atlas-800t-a2-910b3", "atlas-800-9010"])
def test_a_whole_cann_passes(node: Nodes, version: str, product: str) -> None:
    result = node(product=product, cann={"version": version}).check(ID)
    assert (result.status, result.findings) == (Status.OK, ())


@pytest.mark.parametrize("name", ["libhccl.so", "libascendcl.so", "libge_runner.so", "libhccl_plf.so", "libc_sec.so"])
def test_a_library_that_is_gone_is_named(node: Nodes, name: str) -> None:
    common = "/usr/local/Ascend/driver/lib64/common/libc_sec.so"
    finding = only(node(cann=VERSION, remove=[f"{LIB}/{name}", common]).check(ID))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P001")
    assert finding.code == "cann.libraries/missing"
    assert finding.summary == f"library not found on the library path: {name}"
    assert ("Required by libhccl.so." in str(finding.detail)) == (name == "libhccl_plf.so")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty file"),
        ("version https://git-lfs.github.com/spec/v1\n", "not an ELF library: starts with"),
        (
            build(Elf(machine="aarch64", end=0, needed=("libc.so.6",)))[:200].decode("latin-1"),
            "truncated: 200 bytes of 251",
        ),
    ],
)
def test_a_damaged_library_is_named_with_the_damage(node: Nodes, content: str, words: str) -> None:
    host = node(cann=VERSION).host
    host.write_file(f"{LIB}/libhccl.so", content.encode("latin-1"))
    finding = only(next(one for one in run(host, ID).results if one.check == ID))
    assert (finding.code, finding.severity) == ("cann.libraries/damaged", Severity.ERROR)
    assert finding.summary.startswith(f"damaged library: libhccl.so ({words}")


def test_a_damaged_library_of_a_cann_that_is_not_used_is_taken_off_the_path(node: Nodes) -> None:
    old = "/usr/local/Ascend/ascend-toolkit/8.0.0"
    info = "package_name=Ascend-cann-toolkit\nversion=8.0.0\narch=aarch64\nos=linux\n"
    files = {f"{old}/aarch64-linux/ascend_toolkit_install.info": info, f"{old}/lib64/libhccl.so": "old"}
    usual = node(cann=VERSION).host.environ["LD_LIBRARY_PATH"]
    host = node(cann=VERSION, files=files, environ={"LD_LIBRARY_PATH": f"{old}/lib64:{usual}"}).host
    finding = only(next(one for one in run(host, ID).results if one.check == ID))
    assert (finding.hint or "").startswith(f"Remove {old}/lib64 from LD_LIBRARY_PATH: it belongs to CANN 8.0.0")
    assert not any("--install" in line for line in finding.commands)


def test_a_library_for_another_machine_is_passed_over(node: Nodes) -> None:
    host = node(cann=VERSION).host
    host.write_file(f"{LIB}/libhccl.so", FOREIGN)
    finding = only(next(one for one in run(host, ID).results if one.check == ID))
    assert finding.code == "cann.libraries/wrong-architecture"
    assert finding.summary == "library for another architecture: libhccl.so"
    assert finding.evidence[0].actual is not None and "x86_64" in finding.evidence[0].actual
    beside = with_path(node, "/opt/x86", files={"/opt/x86/note": ""}).host
    beside.write_file("/opt/x86/libhccl.so", FOREIGN)
    assert next(one for one in run(beside, ID).results if one.check == ID).findings == ()


def test_the_driver_s_folders_may_stand_in_the_linker_s_files(node: Nodes) -> None:
    usual = node(cann=VERSION).host.environ["LD_LIBRARY_PATH"]
    without = ":".join(part for part in usual.split(":") if "driver" not in part)
    script = "/usr/local/Ascend/ascend-toolkit/set_env.sh"
    text = node(cann=VERSION).host.read(script)
    quiet = "\n".join(line for line in text.splitlines() if "/Ascend/driver/" not in line)
    said: dict[str, Any] = {"cann": VERSION, "environ": {"LD_LIBRARY_PATH": without}}
    lost = node(files={script: quiet}, remove=["/etc/ld.so.conf.d"], **said).check(ID)
    assert (only(lost).pitfall, only(lost).severity) == ("P037", Severity.ERROR)
    assert only(lost).code == "cann.libraries/driver-missing"
    assert only(lost).summary == "driver library libascend_hal.so not found on the library path"
    listed = {script: quiet, "/etc/ld.so.conf.d/ascend.conf": "/usr/local/Ascend/driver/lib64/driver\n"}
    assert node(files=listed, **said).check(ID).findings == ()


def test_where_no_driver_is_its_library_is_not_missed(node: Nodes) -> None:
    assert node(cann=VERSION, driver={"installed": False}).check(ID).findings == ()


def test_stubs_before_the_real_libraries_are_an_error(node: Nodes) -> None:
    devlib = "/usr/local/Ascend/ascend-toolkit/8.2.RC1/aarch64-linux/devlib"
    host = with_path(node, devlib, files={f"{devlib}/libhccl.so": ""}).host
    host.write_file(f"{devlib}/libhccl.so", build(Elf(machine="aarch64", end=0)))
    finding = only(next(one for one in run(host, ID).results if one.check == ID))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P037")
    assert finding.code == "cann.libraries/stubs"
    assert finding.summary == f"stub libraries in {devlib} come before the CANN libraries"


def test_a_copy_that_hides_cann_s_own_library_is_an_error(node: Nodes) -> None:
    host = with_path(node, "/opt/lib", files={"/opt/lib/note": ""}).host
    host.write_file("/opt/lib/libhccl.so", build(Elf(machine="aarch64", end=0)))
    finding = only(next(one for one in run(host, ID).results if one.check == ID))
    assert (finding.code, finding.pitfall) == ("cann.libraries/mixed", "P022")
    assert finding.summary.startswith("CANN libraries are loaded from different directories: ")
    assert "libhccl.so (/opt/lib)" in finding.params["libraries"]


def test_behind_an_environment_that_is_not_in_force_nothing_is_looked_for(node: Nodes) -> None:
    assert node(cann={**VERSION, "sourced": False}).check(ID).blocked_by == "cann.environment"
    assert node(cann={"installed": False}).check(ID).blocked_by == "cann.installed"


def test_without_a_job_environment_nothing_is_judged(node: Nodes) -> None:
    recording = RecordingHost(node(cann=VERSION).host)
    run(recording, ID)
    host = FakeHost(
        files=dict.fromkeys(recording.notes.files, "") | {f"{LIB}/libhccl.so": ""},
        environ=Unavailable("cron has none"),
        links={"/usr/local/Ascend/ascend-toolkit/latest": "8.2.RC1"},
    )
    result = next(one for one in run(host, ID, role="full").results if one.check == ID)
    assert (result.status, result.reason) == (Status.SKIPPED, "cron has none")


def test_libraries_that_were_not_recorded_are_no_verdict(node: Nodes, tmp_path: Path) -> None:
    recording = RecordingHost(node(cann=VERSION).host)
    run(recording, ID)
    notes, _ = reduce_notes(recording.notes)
    files = {
        name: content for name, content in bundle_writer.files_of(notes).items() if not name.endswith("libhccl.so")
    }
    known = json.loads(files["stat.json"])
    files["stat.json"] = json.dumps({path: row for path, row in known.items() if "libhccl.so" not in path}).encode()
    bundle_writer.write_folder(files, str(tmp_path / "node"))
    result = next(one for one in run(open_bundle(str(tmp_path / "node")), ID).results if one.check == ID)
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.NOT_RECORDED)


@pytest.mark.parametrize("damage", [None, "gone", "cut"])
def test_a_recording_says_the_same_as_the_node(node: Nodes, tmp_path: Path, damage: str | None) -> None:
    host = node(cann=VERSION, remove=[f"{LIB}/libhccl_plf.so"] if damage == "gone" else []).host
    if damage == "cut":
        host.write_file(f"{LIB}/libhccl.so", build(Elf(machine="aarch64", end=0, needed=("libc.so.6",)))[:200])
    recording = RecordingHost(host)
    first = [one for one in run(recording, ID).results if one.check == ID]
    notes, _ = reduce_notes(recording.notes)
    bundle_writer.write_folder(bundle_writer.files_of(notes), str(tmp_path / "node"))
    second = [one for one in run(open_bundle(str(tmp_path / "node")), ID).results if one.check == ID]
    assert [(one.status, one.findings) for one in second] == [(one.status, one.findings) for one in first]
