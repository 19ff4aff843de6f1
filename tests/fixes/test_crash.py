"""Killed, or failed by the disk, at any operation, a fix leaves the old node or the new one, and never a mixture."""

from __future__ import annotations

import errno
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.fixer import serialise
from npudoctor.steps import (
    accounts,
    card_addresses,
    environments,
    files,
    installers,
    os_packages,
    packages,
    system,
    units,
)
from tests.fixes import scenes
from tests.fixes.scenes import SCENES, Where

REPOSITORY = Path(__file__).resolve().parents[2]
STARTED = (
    f"import sys; sys.path.append({str(REPOSITORY)!r})\n"
    "from tests.fixes import crash_driver\ncrash_driver.main(*sys.argv[1:])"
)
ERRORS = ("ENOSPC", "EROFS", "EIO")
KILLS = ("kill", "kill-undo", "kill-recover")
REVERSIBLE = [name for name, scene in SCENES.items() if not scene.irreversible]
OF_STEPS = {
    "Run",
    "SystemdUnit",
    "KeepPackages",
    "GroupMember",
    "Remount",
    "InstallPackage",
    "SystemPackages",
    "CreateEnvironment",
}
WITH_TOOLS = [name for name, scene in SCENES.items() if OF_STEPS & set(scene.kinds)]
SOME = (
    "reserve",
    "kinds",
    "service-again",
    "tls",
    "logs",
    "release",
    "command",
    "pair",
    "system",
    "switch",
    "install",
    "os-packages",
    "create",
    "user",
    "address",
)
"""Scenes that together take every kind of step."""

IN_TOOLS = ("tool", "tool-undo", "tool-alone", "tool-interrupt", "tool-ENOSPC", "tool-EIO")


def struck(
    name: str, fault: str, folder: Path, *, first: int, step: int, striker: str = ""
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    scene = SCENES[name]
    alone = scene.where is Where.ALONE
    if alone and (os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "usermod", "gpasswd", "mount")))):
        pytest.skip("only root, with the system's own tools, can play this scene")
    argv = [sys.executable, "-c", STARTED, name, fault, str(folder), str(first), str(step)]
    done = subprocess.run(
        ["unshare", "-m", *argv] if alone else argv,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=3000,
        cwd=folder,
        env={**os.environ, "SCENE_STRIKER": striker},
    )
    assert done.returncode == 0, done.stderr
    head, *rows = map(json.loads, done.stdout.splitlines())
    if os.geteuid() != 0 and head["said"].startswith("refused"):
        pytest.skip(f"only root can play this scene: {head['said']}")
    assert head["said"].startswith("applied")
    assert head["before"] != head["after"]
    assert set(scene.kinds) <= set(head["kinds"])
    return head, rows


def side(head: dict[str, Any], node: dict[str, Any], *, in_parts: bool) -> str:
    """Whether a node is the old or the new one; what cannot be undone may be half done, but each part old or new."""
    before, after = head["before"], head["after"]
    if node in (before, after):
        return "old" if node == before else "new"
    parts = {*before, *after, *node}
    odd = {part: node.get(part) for part in parts if node.get(part) not in (before.get(part), after.get(part))}
    mixed = {part: node.get(part) for part in parts if before.get(part) != after.get(part)}
    return "half" if in_parts and not odd else f"a mixture: {odd or mixed}"


def judge(name: str, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert rows
    half = SCENES[name].irreversible
    for row in rows:
        which = side(head, row["node"], in_parts=half)
        assert which in ("old", "new", "half"), f"point {row['point']}: {row['said']}; {row['recovered']}; {which}"
        assert not row["said"].startswith(("crashed", "stuck")), row["said"]
        assert row["recovered"].startswith(("undone", "nothing")), row["recovered"]
        if row["said"].startswith("applied"):
            assert which == "new", row
        elif row["said"] != "killed" and not half:
            assert which == "old", row


def test_every_fix_and_every_kind_of_step_is_struck_in_a_scene() -> None:
    catalog = plugins.load(folder="")
    struck_here = {scene.fix for scene in SCENES.values()}
    assert set(catalog.fixes) - struck_here == set(scenes.WITHOUT_STEPS)
    assert all("It changes nothing." in catalog.fixes[id].why for id in scenes.WITHOUT_STEPS)
    there = {
        name
        for module in (accounts, card_addresses, environments, files, installers, os_packages, packages, system, units)
        for name, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__ and hasattr(one, "apply")
    }
    for of in (SCENES, SOME):
        assert there == set(serialise.KINDS) == {kind for name in of for kind in SCENES[name].kinds}


@pytest.mark.parametrize("scene", SOME)
def test_a_kill_at_some_operations_leaves_the_old_node_or_the_new_one(scene: str, tmp_path: Path) -> None:
    judge(scene, *struck(scene, "kill", tmp_path, first=2, step=31))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scene", "fault"),
    [(scene, fault) for scene in SCENES for fault in KILLS if fault != "kill-undo" or scene in REVERSIBLE],
)
def test_a_kill_at_every_operation_leaves_the_old_node_or_the_new_one(scene: str, fault: str, tmp_path: Path) -> None:
    head, rows = struck(scene, fault, tmp_path, first=1, step=1)
    judge(scene, head, rows)
    assert len(rows) > 10
    counted(scene, fault, rows)


@pytest.mark.parametrize("fault", ["kill-undo", "kill-recover"])
def test_a_kill_while_undoing_is_made_good_by_the_next_recovery(fault: str, tmp_path: Path) -> None:
    judge("kinds", *struck("kinds", fault, tmp_path, first=1, step=13))


@pytest.mark.parametrize(
    ("scene", "fault"), [("pair", "tool"), ("pair", "tool-interrupt"), ("system", "tool-undo"), ("tls", "tool-alone")]
)
def test_a_kill_in_the_midst_of_a_tool_leaves_the_old_node_or_the_new_one(
    scene: str, fault: str, tmp_path: Path, striker: str
) -> None:
    judge(scene, *struck(scene, fault, tmp_path, first=3, step=14, striker=striker))


@pytest.mark.slow
@pytest.mark.parametrize("fault", IN_TOOLS)
@pytest.mark.parametrize("scene", WITH_TOOLS)
def test_a_tool_struck_at_every_operation_leaves_the_old_node_or_the_new_one(
    scene: str, fault: str, tmp_path: Path, striker: str
) -> None:
    head, rows = struck(scene, fault, tmp_path, first=1, step=1, striker=striker)
    judge(scene, head, rows)
    counted(scene, fault, rows)


@pytest.mark.parametrize("name", ERRORS)
def test_a_disk_that_fails_at_some_operations_leaves_the_old_node(name: str, tmp_path: Path) -> None:
    assert hasattr(errno, name)
    judge("kinds", *struck("kinds", name, tmp_path, first=2, step=9))


@pytest.mark.slow
@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("scene", SCENES)
def test_a_disk_that_fails_at_any_operation_leaves_the_old_node(scene: str, name: str, tmp_path: Path) -> None:
    head, rows = struck(scene, name, tmp_path, first=1, step=1)
    judge(scene, head, rows)
    assert len(rows) > 10
    counted(scene, name, rows)


def race(scene: str, folder: Path, *, step: int) -> None:
    head, rows = struck(scene, "race", folder, first=1, step=step)
    for row in rows:
        assert row["said"].startswith("applied"), row["said"]
        late = ("refused: another fix is under way", "refused: the node has changed since the preview")
        assert row["other"].startswith(late), row["other"]
        assert row["node"] == head["after"]
    counted(scene, "race", rows)


@pytest.mark.parametrize("scene", ["kinds", "service-again"])
def test_of_two_that_apply_at_once_exactly_one_does(scene: str, tmp_path: Path) -> None:
    race(scene, tmp_path, step=7)


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_of_two_fixers_of_every_kind_exactly_one_wins_each_time(scene: str, tmp_path: Path) -> None:
    race(scene, tmp_path, step=1)


def counted(scene: str, fault: str, rows: list[Any]) -> None:
    """Say how many points there were, for docs/validation.md; -rP shows it."""
    print(f"points: {scene} {fault} {len(rows)}")


def test_a_full_disk_is_said_and_leaves_what_was_there(small_disk: Path, tmp_path: Path) -> None:
    from npudoctor.fixer import runner
    from npudoctor.fixer.plan import FixPlan, Planned
    from npudoctor.host.live.local import LocalHost
    from npudoctor.plugins import Catalog
    from npudoctor.sdk import Options, WriteFile, fix

    host = LocalHost()
    old = small_disk / "settings"
    old.write_text("old\n", encoding="utf-8")

    @fix("test.large", resolves=())
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
    assert (old.read_text(encoding="utf-8"), [one.name for one in small_disk.iterdir()]) == ("old\n", ["settings"])
