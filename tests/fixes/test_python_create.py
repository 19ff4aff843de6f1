"""python.create with real environments, from wheels made here: exactly what was listed, and all of it back."""

from __future__ import annotations

import ensurepip
import glob
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.explain.causes import causes_in
from npudoctor.fixer import handover, plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Event, Outcome
from npudoctor.host.live.local import LocalHost
from npudoctor.packages.folder import read_folders
from npudoctor.sdk import Options
from npudoctor.steps.environments import MARKER
from tests.fixes.test_install import CPU, wheel
from tests.installing.known_failures import examples
from tests.plain_user import ALICE, as_root, give

CATALOG = plugins.load(folder="")


def last(events: Iterator[Event]) -> Ended:
    *_, ended = events
    assert isinstance(ended, Ended)
    return ended


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has pip and nothing else."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    wheel(folder, "torch", f"2.6.0{CPU}", {"torch/__init__.py": "x = 1\n"}, ("helper",))
    wheel(folder, "torch_npu", "2.6.0", {"torch_npu/__init__.py": ""}, (f"torch=={'2.6.0' + CPU}",))
    wheel(folder, "helper", "1.0", {"helper.py": "one = 1\n"})
    wheel(folder, "later", "1.0", {"later.py": "one = 1\n"})
    return folder


class Site:
    """A folder for the new environment, and the Python and the wheels to make it with."""

    def __init__(self, folder: Path, base: Path, wheels: Path) -> None:
        self.path = folder / "all envs" / "train"
        self.state = str(folder / "state")
        self.params: dict[str, Any] = {
            "path": str(self.path),
            "python": str(base),
            "torch": "2.6.0",
            "torch_npu": "2.6.0",
            "offline": str(wheels),
        }
        self.options = Options(python=str(base))

    def plan(self, **params: Any) -> FixPlan:
        return plan.make(CATALOG, LocalHost(), Request("python.create", {**self.params, **params}), self.options)

    def apply(self, **params: Any) -> Ended:
        made = self.plan(**params)
        assert (made.refused, made.obstacle) == (None, None)
        return last(runner.apply(CATALOG, LocalHost(), made, self.options, state=self.state))

    def undo(self) -> Ended:
        return last(runner.undo(LocalHost(), state=self.state))

    def run(self, *words: str) -> None:
        subprocess.run([str(self.path / "bin/python"), *words], check=True, capture_output=True)


@pytest.fixture
def site(tmp_path: Path, base: Path, wheels: Path) -> Site:
    return Site(tmp_path, base, wheels)


@pytest.mark.slow  # a real environment with a pip of its own
def test_the_environment_has_what_was_listed_and_undo_removes_it(site: Site, wheels: Path) -> None:
    made = site.plan()
    shown = [line for line in made.preview.splitlines() if " → " in line]
    assert shown == [
        "helper: not installed → 1.0",
        f"torch: not installed → 2.6.0{CPU}",
        "torch-npu: not installed → 2.6.0",
    ]
    assert f"-m venv '{site.path}'" in made.preview
    assert "--no-index" in made.preview
    assert not site.path.parent.exists()
    ended = site.apply()
    assert (ended.outcome, ended.reversible) == (Outcome.APPLIED, True), ended
    site.run("-c", "import torch, torch_npu, helper")
    assert site.plan().empty
    site.run("-m", "pip", "install", "-q", "--no-index", "--find-links", str(wheels), "later")
    refused = site.undo()
    assert (refused.outcome, "later" in refused.reason) == (Outcome.REFUSED, True)
    site.run("-m", "pip", "uninstall", "-q", "-y", "later")
    assert site.undo().outcome is Outcome.UNDONE
    assert not site.path.parent.exists()


def test_an_environment_in_use_is_not_removed(site: Site) -> None:
    from npudoctor.steps.environments import RemoveEnvironment

    library = site.path / "lib/python3.11/site-packages/used.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"x" * 4096)
    (site.path / MARKER).write_text("", encoding="utf-8")
    step = RemoveEnvironment(path=str(site.path), packages=())
    holding = (
        "import mmap, sys\nfile = open(sys.argv[1], 'rb')\n"
        "held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\nprint('holds', flush=True)\nsys.stdin.read()"
    )
    argv = [sys.executable, "-c", holding, str(library)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        obstacle = step.obstacle(LocalHost())
        assert obstacle is not None
        assert f"process {process.pid} " in obstacle.reason
        assert process.stdin is not None
        process.stdin.close()
    assert step.obstacle(LocalHost()) is None
    (site.path / MARKER).unlink()
    assert step.holds(LocalHost()), "without the marker it is not npudoctor's"


@pytest.mark.slow  # real environments
def test_a_pip_in_the_folder_serves_a_python_that_has_none(site: Site, wheels: Path, tmp_path: Path) -> None:
    """As on systems whose Python comes without pip and ensurepip, or with a pip that is too old."""
    bundled = glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
    if not bundled:
        pytest.skip("this Python bundles no wheel of pip")
    bare, folder = tmp_path / "bare", tmp_path / "with pip"
    venv.create(bare, with_pip=False, symlinks=True)
    assert "pip" in str(site.plan(python=str(bare / "bin/python")).refused)
    shutil.copytree(wheels, folder)
    shutil.copy(bundled[0], folder)
    params = {"python": str(bare / "bin/python"), "offline": str(folder)}
    made = site.plan(**params)
    if made.refused is not None and "22.2" in str(made.refused):
        pytest.skip("the pip that this Python bundles cannot say what it would install")
    assert "--without-pip" in made.preview
    assert site.apply(**params).outcome is Outcome.APPLIED
    site.run("-m", "pip", "--version")
    assert site.undo().outcome is Outcome.UNDONE
    assert not site.path.exists()


def test_the_folders_of_packages_are_where_wheels_come_from(site: Site, wheels: Path) -> None:
    site.options = Options(python=site.params["python"], packages=read_folders(LocalHost(), [str(wheels)]))
    made = site.plan(offline="")
    assert made.refused is None
    assert f"--no-index --find-links {wheels} " in made.preview


def test_conda_makes_the_environment_that_pip_fills(
    site: Site, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in: conda create with the options that are given to it, over a copy of the real venv."""
    tools = tmp_path / "tools"
    tools.mkdir()
    script = f'#!/bin/sh\necho "$*" >"{tmp_path}/said"\nmkdir -p "${{6%/*}}"; exec cp -a "{base.parents[1]}/." "$6"\n'
    (tools / "conda").write_text(script, encoding="utf-8")
    (tools / "conda").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    assert site.apply(conda=True).outcome is Outcome.APPLIED
    series = "{}.{}".format(*sys.version_info)
    said = (tmp_path / "said").read_text(encoding="utf-8")
    assert said == f"create --yes --quiet --offline --prefix {site.path} python={series} pip\n"
    assert site.plan(conda=True).empty
    assert site.undo().outcome is Outcome.UNDONE
    assert not site.path.parent.exists()
    monkeypatch.setenv("PATH", "/nowhere")
    assert "conda" in str(site.plan(conda=True, path=f"{site.path}-2").refused)


@pytest.mark.slow  # real environments
def test_an_installer_that_fails_leaves_nothing(site: Site, wheels: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(wheels, folder)
    wheel(folder, "helper", "1.0", {"helper.py": "", "../../../../../outside.py": ""})
    ended = site.apply(offline=str(folder))
    assert ended.outcome is Outcome.ROLLED_BACK, ended
    assert not site.path.parent.exists()


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"packages": ["nowhere-to-be-found"]}, "nowhere-to-be-found"),
        ({"packages": ["--index-url=x"]}, "not a requirement"),
        ({"path": "relative"}, "not an absolute path"),
        ({"path": "/opt/../etc/x"}, "not an absolute path"),
        ({"path": "/opt/$(id)"}, "not an absolute path"),
        ({"torch": "2;1"}, "not a version"),
        ({"python": "/bin/true"}, "not a working Python"),
        ({"python": "no-such-python-here"}, "no-such-python-here"),
        ({"torch": "", "torch_npu": ""}, "no known torch and torch_npu"),
        ({"offline": "wheels"}, "absolute path"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(site: Site, params: dict[str, Any], said: str) -> None:
    assert said in str(site.plan(**params).refused)
    assert not site.path.parent.exists()


def test_a_folder_that_is_there_is_left_alone(site: Site) -> None:
    site.path.mkdir(parents=True)
    (site.path / "mine").write_text("x", encoding="utf-8")
    assert "exists" in str(site.plan().refused)


def test_a_link_that_leads_nowhere_is_left_alone(site: Site) -> None:
    site.path.parent.mkdir()
    site.path.symlink_to("nowhere")
    assert "exists" in str(site.plan().refused)


@as_root
def test_root_makes_none_where_a_user_can_write(site: Site, open_folder: Path) -> None:
    theirs = open_folder / "theirs"
    theirs.mkdir()
    give(theirs, ALICE)
    made = site.plan(path=str(theirs / "env"))
    assert made.obstacle is not None, made.refused
    shared = open_folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert site.plan(path=str(shared / "env")).obstacle is not None


@as_root
def test_root_uses_no_wheels_and_no_python_of_a_user(site: Site, wheels: Path, open_folder: Path) -> None:
    theirs = open_folder / "theirs"
    shutil.copytree(wheels, theirs)
    give(theirs, ALICE)
    assert "root does not install" in str(site.plan(offline=str(theirs)).refused)
    python = open_folder / "python"
    venv.create(python, with_pip=False, symlinks=True)
    give(python, ALICE)
    assert site.plan(python=str(python / "bin/python")).refused is not None


def test_the_owner_gets_both_commands(site: Site) -> None:
    text = handover.render(site.plan(), LocalHost(), "shell")
    assert text.index(f"-m venv '{site.path}'") < text.index("--no-deps")


@pytest.mark.parametrize("text", examples("python"))
def test_what_pip_says_of_a_known_failure_is_the_reason_and_nothing_is_made(
    site: Site, tmp_path: Path, text: str
) -> None:
    venv.create(tmp_path / "base", symlinks=True)
    pip = next((tmp_path / "base/lib").glob("python3*/site-packages")) / "pip"
    pip.mkdir()
    (pip / "__init__.py").touch()
    (pip / "__main__.py").write_text(f"import sys\nsys.exit({text!r})\n", encoding="utf-8")
    refused = site.plan(python=str(tmp_path / "base/bin/python")).refused
    assert refused is not None
    assert text.removeprefix("ERROR: ") in refused.reason
    assert causes_in(refused.reason)
    assert not site.path.parent.exists()
