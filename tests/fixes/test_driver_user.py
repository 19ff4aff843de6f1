"""driver.user with stand-ins for the tools of accounts: the user that the driver's installer asks for, no other."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Event, Outcome
from npudoctor.host import Completed, Unavailable
from npudoctor.host.live.local import LocalHost
from npudoctor.records import replace
from npudoctor.sdk import LocalUser, Note, Options, Step
from tests.fixes import scenes
from tests.fixes.scenes import SCENES, STATE, Below
from tests.plain_user import as_root

SCENE = replace(SCENES["user"], proved=True)
ROOT = "root:x:0:0:root:/root:/bin/bash\n"


def last(events: Iterator[Event]) -> Ended:
    *_, ended = events
    assert isinstance(ended, Ended)
    return ended


class Site:
    def __init__(self, root: str) -> None:
        self.root = root
        self.catalog = scenes.catalog_of(SCENE)
        self.options = Options(python="/nowhere", packages=StagedPackages(folders=("/repo",)))

    @property
    def host(self) -> LocalHost:
        return Below(self.root)

    def put(self, path: str, text: str) -> None:
        scenes.put(self.root, path, text)

    def read(self, name: str) -> list[str]:
        return Path(self.root, "etc", name).read_text(encoding="utf-8").splitlines()

    def plan(self, **params: Any) -> FixPlan:
        return plan.make(self.catalog, self.host, Request("driver.user", params or None), self.options)

    def apply(self, **params: Any) -> Ended:
        made = self.plan(**params)
        assert (made.refused, made.obstacle) == (None, None)
        return last(runner.apply(self.catalog, self.host, made, self.options, state=STATE))

    def undo(self) -> Ended:
        return last(runner.undo(self.host, state=STATE))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    root = str(tmp_path / "a node")
    monkeypatch.setenv("SCENE_ROOT", root)
    monkeypatch.setenv("PATH", f"{root}.tools:/usr/bin:/bin")
    scenes.node(root, SCENE)
    return Site(root)


@as_root
def test_user_and_group_come_with_the_numbers_of_images_and_the_finding_goes(site: Site) -> None:
    made = site.plan()
    assert [aim.check for aim in made.aims] == ["install.user"]
    commands = [line.removeprefix("$ ") for line in made.preview.splitlines()]
    assert commands == [
        "groupadd -g 1000 HwHiAiUser",
        "useradd -u 1000 -g 1000 -M -d /home/HwHiAiUser -s /bin/bash HwHiAiUser",
        "install -d -m 0750 -o 1000 -g 1000 /home/HwHiAiUser",
    ]
    ended = site.apply()
    assert (ended.outcome, ended.reason) == (Outcome.APPLIED, "applied and verified"), ended
    assert site.read("passwd")[-1] == "HwHiAiUser:x:1000:1000::/home/HwHiAiUser:/bin/bash"
    assert site.read("group")[-1] == "HwHiAiUser:x:1000:"
    assert site.plan().empty
    assert site.undo().outcome is Outcome.UNDONE
    assert (site.read("passwd"), site.read("group")) == ([ROOT.strip()], ["root:x:0:"])
    assert not Path(site.root, "home/HwHiAiUser").exists()


@as_root
def test_without_its_main_step_the_finding_stays_and_all_is_undone(site: Site) -> None:
    fix = site.catalog.fixes["driver.user"]

    @functools.wraps(fix.function)
    def planner(*facts: Any, **named: Any) -> Iterator[Step | Note]:
        yield from (one for one in fix.function(*facts, **named) if not isinstance(one, LocalUser))

    changed = replace(fix, function=planner)
    vars(changed)["needs"] = fix.needs
    site.catalog = replace(site.catalog, fixes={**site.catalog.fixes, fix.id: changed})
    assert site.apply().outcome is Outcome.ROLLED_BACK
    assert site.read("group") == ["root:x:0:"]


@as_root
def test_a_group_that_was_there_stays_when_the_user_goes(site: Site) -> None:
    site.put("/etc/group", "root:x:0:\nHwHiAiUser:x:1001:\n")
    assert site.apply(uid=1001).outcome is Outcome.APPLIED
    assert site.read("passwd")[-1].startswith("HwHiAiUser:x:1001:1001:")
    assert site.undo().outcome is Outcome.UNDONE
    assert site.read("group")[-1] == "HwHiAiUser:x:1001:"


@as_root
def test_only_the_group_comes_where_the_user_is_there(site: Site) -> None:
    site.put("/etc/passwd", f"{ROOT}HwHiAiUser:x:1000:1000::/home/HwHiAiUser:/bin/bash\n")
    assert site.plan().preview == "$ groupadd -g 1000 HwHiAiUser\n"
    assert site.apply().outcome is Outcome.APPLIED


@as_root
def test_a_home_with_files_is_neither_handed_over_nor_removed(site: Site) -> None:
    site.put("/home/HwHiAiUser/kept", "mine\n")
    made = site.plan()
    assert any("/home/HwHiAiUser exists and stays" in note for note in made.notes)
    assert "install -d" not in made.preview
    assert site.apply().outcome is Outcome.APPLIED
    assert site.undo().outcome is Outcome.UNDONE
    assert Path(site.root, "home/HwHiAiUser/kept").exists()


@as_root
def test_files_that_came_into_the_home_stay(site: Site) -> None:
    assert site.apply().outcome is Outcome.APPLIED
    site.put("/home/HwHiAiUser/later", "x\n")
    assert site.undo().outcome is Outcome.UNDONE
    assert Path(site.root, "home/HwHiAiUser/later").exists()


@as_root
def test_the_user_of_an_installed_driver_is_not_removed(site: Site) -> None:
    assert site.apply().outcome is Outcome.APPLIED
    site.put("/etc/ascend_install.info", "UserName=HwHiAiUser\n")
    ended = site.undo()
    assert (ended.outcome, "the driver is installed" in ended.reason) == (Outcome.REFUSED, True)
    assert len(site.read("passwd")) == 2


@as_root
def test_an_account_that_somebody_changed_since_is_not_removed(site: Site) -> None:
    assert site.apply().outcome is Outcome.APPLIED
    site.put("/etc/passwd", f"{ROOT}HwHiAiUser:x:1007:1000::/home/HwHiAiUser:/bin/bash\n")
    assert site.undo().outcome is Outcome.REFUSED


@as_root
@pytest.mark.parametrize("row", ["HwHiAiUser:x:1007:", "HwHiAiUser:x:1000:ada"])
def test_a_group_that_somebody_changed_since_is_not_removed_and_nor_is_its_user(site: Site, row: str) -> None:
    assert site.apply().outcome is Outcome.APPLIED
    site.put("/etc/group", f"root:x:0:\n{row}\n")
    ended = site.undo()
    assert (ended.outcome, "another number or members" in ended.reason) == (Outcome.REFUSED, True)
    assert (len(site.read("passwd")), site.read("group")[-1]) == (2, row)


@as_root
def test_a_user_that_runs_processes_is_not_removed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.apply().outcome is Outcome.APPLIED
    running = ({"pid": 7, "username": "ada"}, {"pid": 4711, "username": "HwHiAiUser"})
    measure = Below.measure
    monkeypatch.setattr(
        Below, "measure", lambda self, key: running if key == "processes" else measure(self, key), raising=True
    )
    ended = site.undo()
    assert (ended.outcome, "such as 4711" in ended.reason) == (Outcome.REFUSED, True)
    assert len(site.read("passwd")) == 2


def test_the_user_of_the_last_installation_is_the_one(site: Site) -> None:
    site.put("/etc/ascend_install.info", "UserName=ascend\nUserGroup=ascend\n")
    assert "useradd -u 1000 -g 1000 -M -d /home/ascend -s /bin/bash ascend" in site.plan().preview


@pytest.mark.parametrize(
    ("files", "params", "said"),
    [
        ({"/etc/passwd": f"{ROOT}ada:x:1000:100::/:/bin/sh\n"}, {}, "uid 1000 belongs to ada"),
        ({"/etc/group": "root:x:0:\nteam:x:1000:ada\n"}, {}, "gid 1000 belongs to team"),
        ({"/etc/group": "root:x:0:\nHwHiAiUser:x:1001:\n"}, {"gid": 1005}, "group 1001 belongs to HwHiAiUser"),
        ({}, {"uid": -1}, "not a number"),
        ({}, {"gid": 65534}, "not a number"),
        ({"/etc/ascend_install.info": "UserName=a b\n"}, {}, "not a valid user"),
    ],
)
def test_what_would_change_another_account_is_refused(
    site: Site, files: dict[str, str], params: dict[str, int], said: str
) -> None:
    for path, text in files.items():
        site.put(path, text)
    made = plan.make(site.catalog, site.host, Request("driver.user", params), site.options)
    assert said in str(made.refused)


class Directory(Below):
    """A node whose accounts come from a directory service as well."""

    rows: dict[str, str] | None = None

    def run(self, argv: Any, **how: Any) -> Completed:
        if argv[0] != "getent":
            return super().run(argv, **how)
        if self.rows is None:
            raise Unavailable("getent is not installed")
        found = self.rows.get(" ".join(argv[1:]))
        return Completed(returncode=0 if found else 2, stdout=found or "")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"passwd HwHiAiUser": "HwHiAiUser:*:5000:5000::/home/H:/bin/bash\n"}, "comes from a directory service (sss)"),
        ({"passwd 1000": "ada:*:1000:100::/home/ada:/bin/bash\n"}, "uid 1000 belongs to ada"),
        ({"group 1000": "team:*:1000:\n"}, "gid 1000 belongs to team"),
        ({"group HwHiAiUser": "HwHiAiUser:*:7000:\n"}, "gid 7000 belongs to HwHiAiUser"),
        (None, "getent is not installed"),
        ({}, ""),
    ],
)
def test_numbers_of_a_directory_service_are_never_taken(
    site: Site, monkeypatch: pytest.MonkeyPatch, rows: dict[str, str] | None, said: str
) -> None:
    site.put("/etc/nsswitch.conf", "passwd: files sss\ngroup: files sss\n")
    monkeypatch.setattr(Directory, "rows", rows)
    made = plan.make(site.catalog, Directory(site.root), Request("driver.user", {}), site.options)
    assert said in str(made.refused)
    assert (made.refused is None) is (said == "")


def test_only_root_creates_users(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from npudoctor.host import User

    monkeypatch.setattr(Below, "user", property(lambda _: User(uid=1007, gid=1007, name="dev")))
    obstacle = site.plan().obstacle
    assert obstacle is not None
    assert obstacle.root


@as_root
@pytest.mark.parametrize("tool", ["useradd", "groupadd"])
def test_a_missing_tool_is_said_before_the_first_step(site: Site, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(f"{site.root}.tools", tool).unlink()
    monkeypatch.setenv("PATH", f"{site.root}.tools")
    obstacle = site.plan().obstacle
    assert obstacle is not None
    assert f"{tool} not found" in obstacle.reason
