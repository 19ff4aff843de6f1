"""Killed, or failed by the disk, at any operation, a fix leaves the old node or the new one, and never a mixture."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("crash_driver.py")
SCENES = ("reserve", "profile", "system-profile", "limits", "kinds", "command", "system")
ERRORS = ("ENOSPC", "EROFS", "EIO")


def struck(
    scene: str, fault: str, folder: Path, *, first: int, step: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    alone = scene == "system"
    if alone and (os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "usermod", "gpasswd", "mount")))):
        pytest.skip("only root, with the system's own tools, can play this scene")
    argv = [
        *(["unshare", "-m"] if alone else []),
        sys.executable,
        str(DRIVER),
        scene,
        fault,
        str(folder),
        str(first),
        str(step),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=540)
    assert done.returncode == 0, done.stderr
    head, *rows = map(json.loads, done.stdout.splitlines())
    assert head["said"].startswith("applied")
    assert head["before"] != head["after"]
    return head, rows


def judge(head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert len(rows) > 3
    for row in rows:
        assert not row["said"].startswith("crashed"), row["said"]
        assert row["recovered"].startswith(("undone", "nothing")), row["recovered"]
        which = "old" if row["node"] == head["before"] else "new" if row["node"] == head["after"] else "a mixture"
        assert which != "a mixture", f"point {row['point']}: {row['said']}; {row['recovered']}"
        if row["said"].startswith("applied"):
            assert which == "new", row
        elif row["said"] != "killed":
            assert which == "old", row


@pytest.mark.parametrize("scene", SCENES)
def test_a_kill_at_some_operations_leaves_the_old_node_or_the_new_one(scene: str, tmp_path: Path) -> None:
    judge(*struck(scene, "kill", tmp_path, first=2, step=23))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scene", "fault"),
    [
        (scene, fault)
        for scene in SCENES
        for fault in ("kill", "kill-undo", "kill-recover")[: 1 if scene == "system" else 3]
    ],
)
def test_a_kill_at_every_operation_leaves_the_old_node_or_the_new_one(scene: str, fault: str, tmp_path: Path) -> None:
    head, rows = struck(scene, fault, tmp_path, first=1, step=1)
    judge(head, rows)
    print(f"{scene}, {fault}: {len(rows)} points")


@pytest.mark.parametrize("fault", ["kill-undo", "kill-recover"])
def test_a_kill_while_undoing_is_made_good_by_the_next_recovery(fault: str, tmp_path: Path) -> None:
    judge(*struck("kinds", fault, tmp_path, first=1, step=7))


@pytest.mark.parametrize("name", ERRORS)
def test_a_disk_that_fails_at_some_operations_leaves_the_old_node(name: str, tmp_path: Path) -> None:
    assert hasattr(errno, name)
    judge(*struck("kinds", name, tmp_path, first=2, step=9))


@pytest.mark.slow
@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene != "system"])
def test_a_disk_that_fails_at_any_operation_leaves_the_old_node(scene: str, name: str, tmp_path: Path) -> None:
    judge(*struck(scene, name, tmp_path, first=1, step=1))


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A real tmpfs of two pages, where this user may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    if not shutil.which("mount"):
        pytest.skip("there is no mount here")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_said_and_leaves_what_was_there(small_disk: Path, tmp_path: Path) -> None:
    from npudoctor.fixer import runner
    from npudoctor.fixer.plan import FixPlan, Planned
    from npudoctor.host.local import LocalHost
    from npudoctor.plugins import Catalog
    from npudoctor.sdk import Options, WriteFile, fix

    host = LocalHost()
    old = small_disk / "settings"
    old.write_text("old\n")

    @fix("test.large", mends=())
    def large() -> Any:
        """Write more than fits."""
        yield WriteFile(str(old), "x" * 100_000)

    from npudoctor.fixer import plan

    catalog = Catalog(checks={}, probes={}, fixes={"test.large": large})
    made: FixPlan = plan.make(catalog, host, plan.Request("test.large", {}), Options())
    assert isinstance(made.steps[0], Planned)
    last = list(runner.apply(catalog, host, made, Options(), state=str(tmp_path / "state")))[-1]
    assert isinstance(last, runner.Ended)
    assert (last.outcome, "No space left" in last.reason) == (runner.Outcome.ROLLED_BACK, True)
    assert (old.read_text(), [one.name for one in small_disk.iterdir()]) == ("old\n", ["settings"])
