"""system.packages with the real dnf and rpm in an rpm root, and the real apt-get and dpkg, from repositories made here.

The packages are empty and built by the test; the roots lie below its folder. Only what the tools' wrappers name is
changed: nothing of this machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Event, Outcome
from npudoctor.sdk import Options, SystemPackages
from tests.fixes import scenes
from tests.fixes.scenes import SCENES, STATE, Below
from tests.plain_user import as_root

pytestmark = [pytest.mark.slow, as_root]
MACHINE = os.uname().machine
KERNEL = f"5.10.0-216.0.0.115.oe2203sp4.{MACHINE}"
SCENE = SCENES["os-packages"]
RPMS: dict[str, tuple[str, str, Sequence[str]]] = {
    "make": ("", "4.3-4", ()),
    "dkms": ("", "3.0.3-1.oe2203sp4", ("gcc", "elfutils-libelf-devel-with-a-long-name")),
    "gcc": ("", "10.3.1-20.oe2203sp4", ()),
    "elfutils-libelf-devel-with-a-long-name": ("1", "0.185-17.oe2203sp4", ()),
    "kernel-headers": ("", KERNEL.removesuffix(f".{MACHINE}"), ()),
    "kernel-devel": ("", KERNEL.removesuffix(f".{MACHINE}"), ()),
    "net-tools": ("2", "2.10-3", ()),
    "pciutils": ("", "3.7.0-3", ()),
    "site-tool": ("", "1-1", ("dkms",)),
    "greedy": ("", "1-1", ("make >= 5",)),
}
DEBS = {
    "make": ("4.3-4.1", ""),
    "dkms": ("3.0.10-8", "gcc, lsb-base (>= 1)"),
    "gcc": ("4:12.2.0-3", ""),
    "lsb-base": ("11.6", ""),
    f"linux-headers-{KERNEL.replace('_', '-')}": ("5.10.0-1", ""),
    "net-tools": ("2.10-0.1", ""),
    "pciutils": ("1:3.9.0-4", ""),
    "site-tool": ("1", "dkms"),
    "greedy": ("1", "make (>= 5)"),
}


def ran(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def last(events: Iterator[Event]) -> Ended:
    *_, ended = events
    assert isinstance(ended, Ended)
    return ended


def wrapper(root: str, name: str, *words: str) -> None:
    """A tool with these words before those that it is given; it finds what it needs itself."""
    scenes.tool(root, name, f'#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin exec {" ".join(words)} "$@"\n')


class Site:
    """A root with its own package manager."""

    def __init__(self, root: str, kind: str) -> None:
        self.root, self.kind = root, kind
        self.catalog = scenes.catalog_of(SCENE)

    @property
    def there(self) -> set[str]:
        if self.kind == "rpm":
            return set(ran("rpm", "--root", self.root, "-qa", "--qf", "%{NAME}\\n").split())
        query = ("dpkg-query", f"--admindir={self.root}/var/lib/dpkg", "-W", "-f", "${Package} ${db:Status-Status}\\n")
        return {row.split()[0] for row in ran(*query).splitlines() if row.endswith(" installed")}

    def install(self, name: str) -> None:
        ran(*(("dnf", "-y") if self.kind == "rpm" else ("apt-get", "-y")), "install", name)

    def plan(self, *names: str) -> FixPlan:
        request = Request("system.packages", {"packages": list(names)} if names else {})
        return plan.make(self.catalog, Below(self.root), request, Options(python="/nowhere"))

    def apply(self, *names: str) -> Ended:
        made = self.plan(*names)
        assert (made.refused, made.obstacle) == (None, None)
        return last(runner.apply(self.catalog, Below(self.root), made, Options(python="/nowhere"), state=STATE))

    def undo(self) -> Ended:
        return last(runner.undo(Below(self.root), state=STATE))


def lacking(*tools: str) -> None:
    if missing := [name for name in tools if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="module")
def rpms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lacking("dnf", "createrepo_c", "rpm", "rpmbuild")
    base = tmp_path_factory.mktemp("rpms")
    head = "Name: all\nVersion: 1\nRelease: 1\nSummary: x\nLicense: none\n%description\nx\n"
    for name, (epoch, version, needs) in RPMS.items():
        number, _, release = version.partition("-")
        lines = [f"Version: {number}", f"Release: {release}", "Summary: x", *(f"Requires: {one}" for one in needs)]
        lines += [f"Epoch: {epoch}"] if epoch else []
        lines += ["Recommends: weak"] if name == "gcc" else []
        head += f"%package -n {name}\n" + "".join(f"{line}\n" for line in lines)
        head += f"%description -n {name}\nx\n%files -n {name}\n"
    (base / "all.spec").write_text(head, encoding="utf-8")
    for name in ("make", "weak"):
        rest = "Release: 1\nSummary: x\nLicense: none\n%description\nx\n%files\n"
        (base / f"{name}.spec").write_text(f"Name: {name}\nVersion: 5\n{rest}", encoding="utf-8")
    for spec in ("all", "make", "weak"):
        ran("rpmbuild", "-bb", "--define", f"_topdir {base}/top", str(base / f"{spec}.spec"))
    repo = base / "repo"
    repo.mkdir()
    for file in (base / "top" / "RPMS").rglob("*.rpm"):
        shutil.move(str(file), repo)
    ran("createrepo_c", "-q", str(repo))
    return repo


def rpm_root(root: str, repo: Path) -> None:
    scenes.put(root, "/etc/os-release", 'ID="openEuler"\nVERSION_ID="22.03"\nPRETTY_NAME="openEuler 22.03 LTS"\n')
    scenes.put(f"{root}.repos", "/site.repo", f"[site]\nname=site\nbaseurl=file://{repo}\ngpgcheck=0\nenabled=1\n")
    folders = [f"--setopt={name}={root}.dnf/{name}" for name in ("cachedir", "logdir", "persistdir")]
    options = (f"--installroot={root}", f"--setopt=reposdir={root}.repos", "--releasever=22.03", *folders)
    scenes.put(f"{root}.repos", "/dnf.conf", "[main]\n")
    for name in ("cachedir", "logdir", "persistdir"):
        os.makedirs(f"{root}.dnf/{name}")
    wrapper(root, "dnf", str(shutil.which("dnf")), "-c", f"{root}.repos/dnf.conf", *options)
    wrapper(root, "rpm", str(shutil.which("rpm")), "--root", root)
    ran("rpm", "--root", root, "--initdb")
    ran("rpm", "--root", root, "-i", *map(str, repo.glob("make-4.3-*.rpm")))


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lacking("apt-get", "dpkg", "dpkg-deb", "dpkg-query")
    repo = tmp_path_factory.mktemp("debs")
    said = ""
    for name, (version, needs) in [*DEBS.items(), ("make", ("5-1", ""))]:
        tree, file = repo / "tree", repo / f"{name}_{version.replace(':', '')}.deb"
        control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\n"
        control += f"Depends: {needs}\n" if needs else ""
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN" / "control").write_text(f"{control}Description: x\n", encoding="utf-8")
        ran("dpkg-deb", "--build", "--root-owner-group", str(tree), str(file))
        shutil.rmtree(tree)
        data = file.read_bytes()
        said += f"{control}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        said += "Description: x\n\n"
    (repo / "Packages").write_text(said, encoding="utf-8")
    return repo


def apt_root(root: str, repo: Path) -> None:
    scenes.put(root, "/etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    for path in ("/var/lib/dpkg/status", "/var/lib/dpkg/available", "/var/lib/dpkg/info/format"):
        scenes.put(root, path, "1\n" if path.endswith("format") else "")
    for folder in ("updates", "triggers"):
        os.makedirs(f"{root}/var/lib/dpkg/{folder}")
    apt = f"{root}.apt"
    for folder in ("lists/partial", "cache/archives/partial", "etc", "log"):
        os.makedirs(f"{apt}/{folder}")
    scenes.put(apt, "/etc/sources.list", f"deb [trusted=yes] file:{repo} ./\n")
    parts = {
        "Dir::State::lists": f"{apt}/lists",
        "Dir::State::status": f"{root}/var/lib/dpkg/status",
        "Dir::State::extended_states": f"{apt}/extended_states",
        "Dir::Cache": f"{apt}/cache",
        "Dir::Log": f"{apt}/log",
        "Dir::Etc::sourcelist": f"{apt}/etc/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Bin::dpkg": f"{root}.tools/dpkg",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    settings = "".join(f'{name} "{value}";\n' for name, value in parts.items())
    scenes.put(apt, "/apt.conf", f"#clear DPkg::Pre-Install-Pkgs;\n#clear DPkg::Post-Invoke;\n{settings}")
    wrapper(root, "apt-get", "env", f"APT_CONFIG={apt}/apt.conf", str(shutil.which("apt-get")))
    wrapper(root, "dpkg", str(shutil.which("dpkg")), f"--root={root}", "--force-script-chrootless", f"--log={apt}/l")
    wrapper(root, "dpkg-query", str(shutil.which("dpkg-query")), f"--admindir={root}/var/lib/dpkg")
    ran(f"{root}.tools/apt-get", "-q", "update")
    ran(f"{root}.tools/dpkg", "-i", str(repo / "make_4.3-4.1.deb"))


@pytest.fixture(params=["rpm", "apt"])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    repo = request.getfixturevalue("rpms" if request.param == "rpm" else "debs")
    root = str(tmp_path / "root")
    kernel = KERNEL if request.param == "rpm" else KERNEL.replace("_", "-")
    scenes.put(root, "/proc/sys/kernel/osrelease", f"{kernel}\n")
    scenes.put(root, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")
    for folder in ("/var/lib", "/tmp", "/root"):
        os.makedirs(root + folder, exist_ok=True)
    (rpm_root if request.param == "rpm" else apt_root)(root, repo)
    tools = Path(f"{root}.tools")
    for name in ("sh", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tools))
    return Site(root, request.param)


def test_what_building_the_driver_needs_comes_and_goes(site: Site) -> None:
    """By the table for this system and kernel; make is there before, and stays."""
    before = site.there
    assert before == {"make"}
    made = site.plan()
    assert made.refused is None
    (planned,) = made.steps
    assert isinstance(planned.step, SystemPackages)
    names = {name for name, _ in planned.step.packages}
    ended = site.apply()
    assert ended.outcome is Outcome.APPLIED, ended
    assert site.there == before | names
    expected = set(RPMS if site.kind == "rpm" else DEBS) - {"site-tool", "greedy"}
    assert site.there == expected
    assert site.plan().empty
    assert site.undo().outcome is Outcome.UNDONE
    assert site.there == before


def test_undo_refuses_what_another_package_needs_by_then(site: Site) -> None:
    assert site.apply("dkms").outcome is Outcome.APPLIED
    site.install("site-tool")
    ended = site.undo()
    assert (ended.outcome, "site-tool" in ended.reason) == (Outcome.REFUSED, True), ended.reason
    assert {"dkms", "gcc", "site-tool"} <= site.there


def test_what_would_upgrade_another_package_is_refused(site: Site) -> None:
    said = str(site.plan("greedy").refused)
    assert ("would be upgraded" in said, said.endswith("make")) == (True, True), said
    assert site.there == {"make"}


def test_a_name_that_no_repository_has_is_said_in_the_tool_s_words(site: Site) -> None:
    assert "no-such-thing" in str(site.plan("no-such-thing").refused)
