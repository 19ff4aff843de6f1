"""Which start-up files source CANN's script, and what the findings make of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.cann import startup_files
from npudoctor.facts.cann.startup_files import LEFT_OUT, parse
from npudoctor.findings import Finding, Result
from npudoctor.host.recording import bundle_writer
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.host.recording.recorder import RecordingHost
from npudoctor.privacy import recording_policy
from npudoctor.testing import run

Nodes = Callable[..., Any]
SCRIPT = "/usr/local/Ascend/ascend-toolkit/set_env.sh"
SOURCING = f"# mine\nexport TOKEN=s3cr3t\n[ -f {SCRIPT} ] && . {SCRIPT}\n"
UNSOURCED = {"version": "8.2.RC1", "sourced": False}


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


@pytest.mark.parametrize(
    ("line", "script"),
    [
        (f"source {SCRIPT}", SCRIPT),
        (f'  . "{SCRIPT}"  # CANN', SCRIPT),
        (f"[ -f {SCRIPT} ] && source {SCRIPT};", SCRIPT),
        ("source ~/Ascend/cann/set_env.sh", "/home/dev/Ascend/cann/set_env.sh"),
        ("source ${HOME}/Ascend/cann/set_env.sh --quiet", "/home/dev/Ascend/cann/set_env.sh"),
        ("(. /opt/x/bin/setenv.bash)", "/opt/x/bin/setenv.bash"),
        (f"# source {SCRIPT}", None),
        (f"echo {SCRIPT}", None),
        (f"resource {SCRIPT}", None),
        ("source /etc/bashrc", None),
    ],
)
def test_the_line_that_sources_a_script_is_found(line: str, script: str | None) -> None:
    found = parse(f"\n{line}\n", "/home/dev/.bashrc", "/home/dev")
    assert [(one.line_number, one.script) for one in found] == ([(2, script)] if script else [])


@given(st.text())
def test_a_recorded_file_says_the_same_and_nothing_else(text: str) -> None:
    kept = startup_files.reduce_startup_file(text + "\nsource /a/set_env.sh\n")
    assert parse(kept, "/etc/profile", "") == parse(text + "\nsource /a/set_env.sh\n", "/etc/profile", "")
    assert all(line in ("", LEFT_OUT) or "env" in line for line in kept.splitlines())


def test_without_any_such_line_the_finding_says_so(node: Nodes) -> None:
    finding = only(node(cann=UNSOURCED).check("cann.environment"))
    assert finding.evidence[-1].actual == "no set_env.sh is sourced"
    assert finding.commands[-1].endswith(">> ~/.bashrc")


@pytest.mark.parametrize("path", ["/root/.bashrc", "/etc/profile.d/cann.sh", "/opt/env/etc/conda/activate.d/cann.sh"])
def test_a_job_that_did_not_go_through_its_shell_is_told_which_file_has_the_line(node: Nodes, path: str) -> None:
    said = {"files": {path: SOURCING}, "environ": {"CONDA_PREFIX": "/opt/env"}}
    finding = only(node(cann=UNSOURCED, **said).check("cann.environment"))
    assert finding.hint is not None and finding.hint.startswith(f"{path} sources the script, but this environment")
    assert finding.commands == (f"source {SCRIPT}",)
    assert finding.evidence[-1].source == f"{path}:3"


def test_what_replaces_the_variable_is_behind_that_line(node: Nodes) -> None:
    said = {"files": {"/root/.bashrc": SOURCING}, "environ": {"LD_LIBRARY_PATH": "/opt/lib"}}
    finding = only(node(cann={"version": "8.2.RC1"}, **said).check("cann.environment"))
    assert finding.hint is not None and "in line 3, but a later line" in finding.hint


def test_two_scripts_that_are_sourced_are_named(node: Nodes) -> None:
    usual = node(cann={"version": "8.2.RC1"}).host.environ["LD_LIBRARY_PATH"]
    other = "/opt/Ascend/cann-8.5.0"
    mixed = node(
        cann={"version": "8.2.RC1"},
        environ={"LD_LIBRARY_PATH": f"{usual}:{other}/lib64"},
        files={
            f"{other}/aarch64-linux/ascend_toolkit_install.info": "package_name=x\nversion=8.5.0\narch=aarch64\n",
            f"{other}/lib64/libhccl.so": "",
            "/root/.bashrc": f"source {other}/set_env.sh\nsource {SCRIPT}\n",
        },
    )
    finding = only(mixed.check("cann.single"))
    assert [one.source for one in finding.evidence[-2:]] == ["/root/.bashrc:1", "/root/.bashrc:2"]


def test_a_recording_holds_none_of_a_person_s_other_lines(node: Nodes, tmp_path: Path) -> None:
    recording = RecordingHost(node(cann=UNSOURCED, files={"/root/.bashrc": SOURCING}).host)
    first = run(recording, "cann.environment").results
    notes, _ = recording_policy.reduce_notes(recording.notes)
    assert b"s3cr3t" not in b"".join(notes.files.values())
    bundle_writer.write_folder(bundle_writer.files_of(notes), str(tmp_path / "node"))
    second = run(open_bundle(str(tmp_path / "node")), "cann.environment").results
    assert [one.findings for one in second] == [one.findings for one in first]
