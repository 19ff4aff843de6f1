"""`npudoctor setup --packages`: it plans, and changes nothing."""

import hashlib
import os
import shlex
from pathlib import Path

import pytest

from tests.packages import build
from tests.packages.installers import installer

from .conftest import Command

DRIVER = "Ascend-hdk-910b-npu-driver_25.5.2_linux-aarch64.run"


def test_the_plan_is_a_table_on_stdout(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    before = sorted(os.listdir(tmp_path))
    ran = npudoctor("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert "firmware.install (firmware)  7.7.0.6.236 → 7.8.0.7.220" in ran.out
    assert "NO WAY BACK: firmware, driver" in ran.out
    assert hashlib.sha256((tmp_path / DRIVER).read_bytes()).hexdigest() in ran.out
    assert ran.out.endswith("nothing was changed\n")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("content", "node", "said"),
    [
        ("", "new-node", "no package in it"),
        ("", "bare-host", "driver and firmware are planned on a node with NPUs, or from its recording"),
        ("other", "new-node", "for chips 310p; this node has A2"),
        ("cut", "new-node", "truncated: "),
    ],
)
def test_a_plan_without_a_set_says_why_and_ends_with_its_verdict(
    npudoctor: Command, tmp_path: Path, content: str, node: str, said: str
) -> None:
    if content == "other":
        build.driver(tmp_path, "Ascend-hdk-310p-npu-driver_25.5.2_linux-aarch64.run", "25.5.2", chip="310P")
    if content == "cut":
        build.driver(tmp_path, DRIVER, "25.5.2", cut=9)
    ran = npudoctor("setup", "--packages", str(tmp_path), "--simulate", node, "--dry-run")
    assert ran.code == 1
    assert said in ran.out
    *_, verdict, last = ran.out.splitlines()
    assert verdict.startswith("the plan is not complete: no package fits this node; ")
    assert last == "nothing was changed"


def test_the_verdict_names_the_checks_that_have_no_answer(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    ran = npudoctor("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run")
    verdict = ran.out.splitlines()[-2]
    unknown = [line.split()[2].rstrip(":") for line in ran.out.splitlines() if line.startswith("  not known: ")]
    assert unknown and verdict == f"the plan is complete; not known: {', '.join(unknown)}"
    assert "  does not apply: install.tools: " in ran.out
    ran = npudoctor("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run", "--image", "site/x:1")
    assert ran.out.splitlines()[-3:-1] == ["proof: also the smoke run in site/x:1, with all NPUs", verdict]


def test_the_json_of_a_plan(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    ran = npudoctor("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run", "--json")
    assert ran.json["schema"] == "npudoctor.setup-plan/1"
    assert ran.json["complete"] is True
    assert [step["id"] for step in ran.json["steps"]][:3] == ["firmware.install", "driver.install", "cann.install"]
    assert "kernel-devel-" in " ".join(ran.json["system_packages"])


@pytest.mark.parametrize("more", [(), ("--yes",), ("--yes", "--json"), ("--allow", "python.install-pair", "--yes")])
def test_without_dry_run_it_refuses_in_one_line(npudoctor: Command, tmp_path: Path, more: tuple[str, ...]) -> None:
    build.a2_release(tmp_path)
    ran = npudoctor("setup", "--packages", str(tmp_path), "--simulate", "new-node", *more)
    assert (ran.code, ran.out) == (7, "")
    assert ran.err == (
        "npudoctor: refused: packages are installed on the node itself only; add --dry-run. Nothing was changed\n"
    )


def test_a_wrong_checksum_file_makes_the_plan_incomplete(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    words = ("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run")
    digest = hashlib.sha256((tmp_path / DRIVER).read_bytes()).hexdigest()
    (tmp_path / f"{DRIVER}.sha256").write_text(f"{digest}  {DRIVER}\n", encoding="utf-8")
    ran = npudoctor(*words)
    assert ran.code == 0
    assert "(as in its checksum file)" in ran.out
    (tmp_path / f"{DRIVER}.sha256").write_text(f"{'0' * 64}  {DRIVER}\n", encoding="utf-8")
    ran = npudoctor(*words)
    assert ran.code == 1
    assert "NOT as in its checksum file" in ran.out
    (tmp_path / f"{DRIVER}.sha256").unlink()
    os.mkfifo(tmp_path / f"{DRIVER}.sha256")
    ran = npudoctor(*words)
    assert ran.code == 1
    assert f"{digest}  {DRIVER}  ({tmp_path}/{DRIVER}.sha256 is not a regular file)\n" in ran.out
    assert f"the plan is not complete: checksum of {DRIVER} not known\n" in ran.out


@pytest.mark.parametrize("words", [("packages",), ("setup", "--dry-run", "--packages"), ("check", "--packages")])
def test_an_empty_name_is_no_folder(npudoctor: Command, words: tuple[str, ...]) -> None:
    ran = npudoctor(*words, "")
    assert (ran.code, ran.out) == (2, "")
    assert "expected a folder with package files" in ran.err


@pytest.mark.parametrize("name", ["renamed.run", f"below/{DRIVER}"])
def test_two_files_of_one_version_are_not_chosen_from(npudoctor: Command, tmp_path: Path, name: str) -> None:
    build.a2_release(tmp_path)
    other = tmp_path / name
    other.parent.mkdir(exist_ok=True)
    other.write_bytes((tmp_path / DRIVER).read_bytes().replace(b"echo", b"ECHO"))
    ran = npudoctor("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run")
    assert ran.code == 1
    assert f"NPU driver: 2 files are 25.5.2 ({tmp_path}/" in ran.out
    assert "the plan is not complete: refused: NPU driver: 2 files are 25.5.2" in ran.out


def test_two_sets_are_a_choice_and_expect_makes_it(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    build.driver(tmp_path, DRIVER.replace("25.5.2", "25.5.0"), "25.5.0")
    words = ("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run")
    ran = npudoctor(*words)
    assert ran.code == 1
    assert "2 matching sets; choose one:" in ran.out
    assert "--expect driver=25.5.0,firmware=7.8.0.7.220,cann=8.5.0" in ran.out
    assert "--expect driver=25.5.2,firmware=7.8.0.7.220\n" in npudoctor(*words, "--for", "containers").out
    ran = npudoctor(*words, "--expect", "driver=25.5.0")
    assert ran.code == 0
    assert "25.2.0 → 25.5.0" in ran.out


def test_versions_that_are_not_there_are_said(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    words = ("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run")
    ran = npudoctor(*words, "--expect", "driver=25.9.0")
    assert ran.code == 1
    assert "--expect driver=25.9.0: no matching set has it; there is 25.5.2\n" in ran.out
    ran = npudoctor(*words, "--cann", "9.0.0")
    assert ran.code == 1
    assert "no CANN 9.0.0 that fits this node is in these folders\n" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "drivers"), "--only drivers: expected some of"),
        (("--expect", "driver"), "--expect driver: expected PART=VERSION"),
        (("--expect", "kernel=1"), "--expect kernel=1: expected PART=VERSION"),
    ],
)
def test_wrong_options_are_one_line(npudoctor: Command, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = npudoctor("setup", "--packages", str(tmp_path), "--dry-run", *words)
    assert ran.code == 2
    assert said in ran.err


def test_options_of_the_plan_require_a_folder(npudoctor: Command) -> None:
    ran = npudoctor("setup", "--for", "bare", "--dry-run", "--simulate", "new-node")
    assert (ran.code, ran.err) == (2, "npudoctor: --for requires --packages FOLDER\n")


def test_the_plan_names_the_fix_that_installs_cann(npudoctor: Command, tmp_path: Path) -> None:
    build.a2_release(tmp_path)
    ran = npudoctor("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run", "--for", "bare")
    assert f"npudoctor fix cann.install --packages {shlex.quote(str(tmp_path))} --set cann=" in ran.out
    assert f"npudoctor fix python.create --packages {shlex.quote(str(tmp_path))}\n" in ran.out


def test_without_a_folder_cann_install_says_the_option(npudoctor: Command) -> None:
    ran = npudoctor("fix", "cann.install", "--simulate", "new-node", "--dry-run")
    assert (ran.code, "--packages FOLDER" in ran.out + ran.err) == (7, True)


@pytest.mark.parametrize("id", ["cann.install", "python.create"])
def test_a_folder_of_this_machine_is_not_one_of_a_simulated_node(npudoctor: Command, tmp_path: Path, id: str) -> None:
    build.a2_release(tmp_path)
    ran = npudoctor("fix", id, "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run")
    assert (ran.code, ran.out) == (7, "")
    plan = f"npudoctor setup --packages {tmp_path} --simulate new-node --dry-run"
    assert ran.err == f"npudoctor: refused: {tmp_path} is on this machine, not on that node; its plan: {plan}\n"
    assert npudoctor("sim", "bundle", str(tmp_path / "recorded"), "new-node").code == 0
    ran = npudoctor("fix", id, "--packages", str(tmp_path), "--replay", str(tmp_path / "recorded"), "--dry-run")
    assert (ran.code, "not on that node" in ran.err) == (7, True)


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="CANN has packages for two architectures")
def test_the_preview_of_cann_install_has_each_file_with_its_checksum(npudoctor: Command, tmp_path: Path) -> None:
    files = [installer(tmp_path / "repo", part, "8.5.0", os.uname().machine) for part in ("toolkit", "nnal")]
    words = ("--packages", str(tmp_path / "repo"), "--set", f"prefix={tmp_path}/Ascend", "--dry-run")
    ran = npudoctor("fix", "cann.install", *words)
    assert ran.code == 0, ran
    for file in files:
        assert hashlib.sha256(file.read_bytes()).hexdigest() in ran.out
    assert not (tmp_path / "Ascend").exists()
    assert not (tmp_path / "repo.ran").exists()


def test_a_mixed_folder_is_understood_or_refused_line_by_line(npudoctor: Command, tmp_path: Path) -> None:
    """Two products, two versions, another architecture, truncated, renamed, sparse, a link, a pipe, and other files."""
    build.a2_release(tmp_path)
    build.driver(tmp_path, "Ascend-hdk-310p-npu-driver_25.5.2_linux-aarch64.run", "25.5.2", chip="310P")
    build.driver(tmp_path, "Ascend-hdk-910b-npu-driver_25.5.3_linux-aarch64.run", "25.5.3", cut=9)
    build.driver(tmp_path, "Ascend-hdk-910b-npu-driver_25.5.2_linux-x86-64.run", "25.5.2")
    build.cann(tmp_path, "toolkit-from-the-web.run", "8.3.RC1")
    build.cann(tmp_path, "Ascend-cann-toolkit_9.9.0_linux-aarch64.run", "9.0.0")
    (tmp_path / "latest.run").symlink_to(DRIVER)
    os.mkfifo(tmp_path / "Ascend-cann-nnal_9.0.0_linux-aarch64.run")
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    sparse = "Ascend-hdk-910b-npu-driver_25.5.4_linux-aarch64.run"
    try:
        build.driver(tmp_path, sparse, "25.5.4", hole=3 << 40)
    except OSError:
        (tmp_path / sparse).unlink()
    words = ("setup", "--packages", str(tmp_path), "--simulate", "new-node", "--dry-run", "--expect", "driver=25.5.2")
    ran = npudoctor(*words, "--expect", "cann=8.5.0", "--json")
    paths = [os.path.basename(path) for step in ran.json["steps"] for path in step["paths"]]
    assert {"Ascend-cann-toolkit_8.5.0_linux-aarch64.run", DRIVER} <= set(paths)
    for name in os.listdir(tmp_path):
        if any(mark in name for mark in ("310p", "25.5.3", "25.5.4", "x86", "web", "9.9", "latest", "notes", "nnal_9")):
            assert name not in paths, name
    listed = npudoctor("packages", str(tmp_path), "--simulate", "new-node")
    for name, said in (
        ("25.5.3_linux-aarch64.run", "truncated"),
        ("nnal_9.0.0_linux-aarch64.run", "not a regular file (fifo)"),
        ("latest.run", f"a link to {DRIVER}, which is here too"),
        *(((sparse, "larger than any package"),) if (tmp_path / sparse).exists() else ()),
    ):
        assert any(name in line and said in line for line in listed.out.splitlines()), (name, listed.out)
