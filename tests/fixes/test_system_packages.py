"""system.packages with stand-ins for the package managers: exactly what is missing, and exactly that back."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from npudoctor import plugins
from npudoctor.facts.node.container import Container
from npudoctor.facts.system.platform import Platform
from npudoctor.fixer import handover, plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Event, Outcome
from npudoctor.host import Refused
from npudoctor.host.live.local import LocalHost
from npudoctor.records import replace
from npudoctor.sdk import Options, SystemPackages, installed_packages
from tests.packages.managers import managers
from tests.plain_user import as_root

CATALOG = plugins.load(folder="")
OPTIONS = Options(python="/nowhere")
APT: dict[str, Any] = {
    "dkms": {"version": "3.0.10-8", "needs": ["lsb-release", "gcc"]},
    "lsb-release": {"version": "12.0-1"},
    "gcc": {"version": "4:12.2.0-3"},
    "site-tool": {"version": "1.0", "needs": ["dkms"]},
    "greedy": {"version": "2.0", "upgrades": ["libc6"]},
}
RPM: dict[str, Any] = {
    "dkms": {"version": "3.0.3-1.oe2203.noarch", "needs": ["kernel-devel-and-a-long-name"]},
    "kernel-devel-and-a-long-name": {"version": "1:5.10.0-216.x86_64"},
    "gcc": {"version": "10.3.1-20.x86_64"},
    "site-tool": {"version": "1.0-1.noarch", "needs": ["dkms"]},
    "greedy": {"version": "2.0-1.noarch", "upgrades": ["glibc"]},
}


class Site:
    """A machine whose package manager is a stand-in: nothing else is in PATH."""

    def __init__(self, base: Path, kind: str) -> None:
        self.base, self.kind = base, kind
        self.db = base / "db"
        managers(base / "tools", base, APT if kind == "apt" else RPM, kind=kind)
        for name in ("env", "sh"):
            (base / "tools" / name).symlink_to(f"/usr/bin/{name}")

    def have(self, name: str, version: str = "") -> None:
        repo: Any = APT if self.kind == "apt" else RPM
        (self.db / name).write_text(f"{version or repo[name]['version']} installed", encoding="utf-8")

    @property
    def there(self) -> list[str]:
        return sorted(path.name for path in self.db.iterdir())

    def plan(self, *names: str) -> FixPlan:
        return plan.make(CATALOG, LocalHost(), Request("system.packages", {"packages": list(names)}), OPTIONS)

    def apply(self, *names: str) -> Ended:
        made = self.plan(*names)
        assert (made.refused, made.obstacle) == (None, None)
        return last(runner.apply(CATALOG, LocalHost(), made, OPTIONS, state=str(self.base / "state")))

    def undo(self) -> Ended:
        return last(runner.undo(LocalHost(), state=str(self.base / "state")))


def last(events: Iterator[Event]) -> Ended:
    *_, ended = events
    assert isinstance(ended, Ended)
    return ended


@pytest.fixture(params=["apt", "rpm"])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, request.param)
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    return made


@as_root
def test_what_is_missing_is_installed_and_only_that_removed(site: Site) -> None:
    site.have("gcc")
    made = site.plan("dkms", "gcc")
    dependency = "lsb-release" if site.kind == "apt" else "kernel-devel-and-a-long-name"
    (planned,) = made.steps
    assert isinstance(planned.step, SystemPackages)
    assert [name for name, _ in planned.step.packages] == sorted(["dkms", dependency])
    assert "gcc" not in [name for name, _ in planned.step.packages]
    ended = site.apply("dkms", "gcc")
    assert ended.outcome is Outcome.APPLIED, ended
    assert site.there == sorted(["dkms", dependency, "gcc"])
    assert site.plan("dkms", "gcc").empty
    assert site.undo().outcome is Outcome.UNDONE
    assert site.there == ["gcc"]


@as_root
def test_undo_refuses_where_it_would_take_more(site: Site) -> None:
    site.apply("dkms")
    site.have("site-tool")
    ended = site.undo()
    assert ended.outcome is Outcome.REFUSED, ended
    assert "site-tool depends on" in ended.reason
    assert "dkms" in site.there
    (site.db / "site-tool").unlink()
    assert site.undo().outcome is Outcome.UNDONE


@as_root
def test_a_package_that_was_upgraded_since_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, "apt")
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    site.apply("gcc")
    site.have("gcc", "4:13.1-1")
    ended = site.undo()
    assert ended.outcome is Outcome.REFUSED, ended
    assert site.there == ["gcc"]


def test_what_would_change_others_is_refused(site: Site) -> None:
    assert "libc6" in str(site.plan("greedy").refused) or "glibc" in str(site.plan("greedy").refused)


def test_a_package_that_no_repository_has_is_named(site: Site) -> None:
    assert "nowhere" in str(site.plan("nowhere").refused)


@pytest.mark.parametrize("name", ["--allow-downgrades", "a b", "../x", "gcc=1", ""])
def test_what_is_no_name_is_refused(site: Site, name: str) -> None:
    assert "not the name of a package" in str(site.plan(name).refused)


def test_without_a_package_manager_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    made = plan.make(CATALOG, LocalHost(), Request("system.packages", {"packages": ["gcc"]}), OPTIONS)
    assert "not found" in str(made.refused)


def test_the_owner_gets_tasks_and_a_script(site: Site) -> None:
    made = site.plan("gcc")
    (task,) = yaml.safe_load(handover.render(made, LocalHost(), "ansible"))
    name = "gcc=4:12.2.0-3" if site.kind == "apt" else "gcc-10.3.1-20.x86_64"
    assert task["ansible.builtin.package"] == {"name": [name], "state": "present"}
    assert name in handover.render(made, LocalHost(), "shell")


def test_the_preview_says_what_is_there_before_and_after(site: Site) -> None:
    (planned,) = site.plan("gcc").steps
    version = "4:12.2.0-3" if site.kind == "apt" else "10.3.1-20.x86_64"
    installs, removes = planned.step, planned.step.inverse(LocalHost())
    assert isinstance(removes, SystemPackages)
    assert f"gcc: not installed → {version}" in installs.preview(LocalHost())
    assert f"gcc: {version} → " in removes.preview(LocalHost())
    gone = "dpkg --purge" if site.kind == "apt" else "rpm -e"
    assert gone in removes.preview(LocalHost()) and gone not in installs.preview(LocalHost())


def test_of_a_package_that_was_removed_its_settings_may_be_there(site: Site) -> None:
    if site.kind == "rpm":
        pytest.skip("rpm keeps no settings of a package that is removed")
    (site.db / "gcc").write_text("4:12.2.0-3 config-files", encoding="utf-8")
    (site.db / "dkms").write_text("half-installed", encoding="utf-8")
    assert installed_packages(LocalHost(), "apt-get", ["gcc", "dkms"]) == {("dkms", ""): False}


def needed(platform: Platform | None, container: Container | None = None) -> str:
    known = importlib.import_module("npudoctor.fixes.system_packages")
    with pytest.raises(Refused) as refused:
        list(known.install_system_packages(known.OsPackages(), LocalHost(), platform, container))
    return refused.value.reason


def test_without_names_it_is_what_the_driver_s_installer_needs_here(site: Site) -> None:
    there = Platform(machine="x86_64", os_id="debian" if site.kind == "apt" else "openEuler", kernel="6.1.0-9")
    for name in ("dkms", "gcc"):
        site.have(name)
    names = "make", "linux-headers-6.1.0-9", "kernel-devel-6.1.0-9", "net-tools", "pciutils"
    assert any(name in needed(there) for name in names)
    assert "built on the host" in needed(there, Container(runtime="docker"))
    unknown = "operating system needs are not known"
    for platform in (None, replace(there, os_id="plan9"), replace(there, os_id=None), replace(there, kernel=None)):
        assert unknown in needed(platform)


TABLE = """Last metadata expiration check: 0:01:02 ago
Dependencies resolved.
================================================================================
 Package             Architecture  Version                 Repository      Size
================================================================================
Installing:
 dkms                noarch        3.0.3-1.oe2203sp4       everything      60 k
 kernel-devel-with-a-name-that-is-long
                     aarch64       5.10.0-216.0.0.115      update          23 M
Installing dependencies:
 elfutils-libelf-devel aarch64     0.185-1                 OS              21 k
"""
MORE = """Upgrading:
 libfoo              aarch64       1:2.34-2                update         3.0 M
     replacing  libfoo-old.aarch64 2.33-1
Removing dependent packages:
 old-tool            noarch        1-1                     @anaconda       1 k
"""
END = """
Transaction Summary
================================================================================
Install  3 Packages
 ignored  aarch64  1  2  3 k
"""


@pytest.mark.parametrize("more", ["", MORE])
def test_the_table_of_dnf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    site = Site(tmp_path, "rpm")
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    (tmp_path / "tools" / "dnf").write_text(f"#!/bin/sh\necho '{TABLE}{more}{END}'\nexit 1\n", encoding="utf-8")
    made = site.plan("dkms")
    if more:
        assert "libfoo" in str(made.refused)
        assert "old-tool" in str(made.refused)
        return
    (planned,) = made.steps
    assert isinstance(planned.step, SystemPackages)
    assert planned.step.packages == (
        ("dkms", "3.0.3-1.oe2203sp4.noarch"),
        ("elfutils-libelf-devel", "0.185-1.aarch64"),
        ("kernel-devel-with-a-name-that-is-long", "5.10.0-216.0.0.115.aarch64"),
    )
