"""No code runs as root that another user could have put there: as a plug-in, beside one, or in a Python path."""

import importlib.util
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from npudoctor import plugins
from tests.plain_user import ALICE, as_root, give
from tests.security.test_configuration import written

CHECK = '''
from npudoctor.sdk import Options, check

@check("site.mine")
def mine(given: Options):
    """Something of this site."""
    yield from ()
'''


def marking(mark: Path) -> str:
    return f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"


def everybody(path: Path) -> None:
    path.chmod(0o666)


def of_another_group(path: Path) -> None:
    os.chown(path, 0, ALICE)
    path.chmod(0o664)


def alices(path: Path) -> None:
    give(path, ALICE)


def in_an_open_folder(path: Path) -> None:
    path.parent.chmod(0o777)


def below_an_open_folder(path: Path) -> None:
    path.parent.parent.chmod(0o777)


def a_link_to_her_file(path: Path) -> None:
    hers = path.rename(path.parent.parent / "hers.py")
    give(hers, ALICE)
    path.symlink_to(hers)


def a_link_into_her_folder(path: Path) -> None:
    hers = path.parent.parent / "hers"
    hers.mkdir()
    path.rename(hers / "mine.py")
    os.chown(hers, ALICE, ALICE)
    path.symlink_to(hers / "mine.py")


@as_root
@pytest.mark.parametrize(
    "way",
    [
        everybody,
        of_another_group,
        alices,
        in_an_open_folder,
        below_an_open_folder,
        a_link_to_her_file,
        a_link_into_her_folder,
    ],
)
def test_a_plug_in_that_others_can_write_is_not_run(open_folder: Path, way: Callable[[Path], None]) -> None:
    mark = open_folder / "mark"
    path = written(open_folder / "etc" / "checks.d" / "mine.py", marking(mark) + CHECK)
    way(path)
    for catalog in (plugins.load([str(path)]), plugins.load(folder=str(path.parent))):
        assert [" is refused: " in (one.reason or "") for one in catalog.broken] == [True]
        assert "site.mine" not in catalog.checks
    assert not mark.exists()


def test_bytecode_beside_a_plug_in_is_neither_read_nor_written(open_folder: Path) -> None:
    mark = open_folder / "mark"
    path = written(open_folder / "checks.d" / "mine.py", CHECK)
    cache = path.parent / "__pycache__"
    cache.mkdir()
    cache.chmod(0o777)
    evil = written(open_folder / "evil.py", marking(mark) + CHECK)
    planted = importlib.util.cache_from_source(str(path))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH  # it counts whatever the source is
    py_compile.compile(str(evil), planted, doraise=True, invalidation_mode=unchecked)
    bare = py_compile.compile(str(evil), str(path.with_suffix(".pyc")), doraise=True, invalidation_mode=unchecked)
    assert bare
    assert "site.mine" in plugins.load(folder=str(path.parent)).checks
    assert not mark.exists()
    os.unlink(planted)
    assert "site.mine" in plugins.load([str(path)]).checks
    assert list(cache.iterdir()) == []


@as_root
@pytest.mark.parametrize("kind", ["fifo", "zero", "large", "text"])
def test_what_is_no_plug_in_is_a_reported_result(open_folder: Path, kind: str) -> None:
    path = open_folder / "mine.py"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"#" * (2 << 20) if kind == "large" else b"\xff\0\xff")
    catalog = plugins.load([str(path)])
    assert len(catalog.broken) == 1
    assert "npu.present" in catalog.checks


def distribution(folder: Path, mark: Path) -> Path:
    """What pip puts into a folder for a distribution with a plug-in."""
    written(folder / "site_plugin" / "__init__.py", "")
    written(folder / "site_plugin" / "checks.py", marking(mark) + CHECK)
    told = folder / "site_plugin-1.0.dist-info"
    written(told / "METADATA", "Metadata-Version: 2.1\nName: site-plugin\nVersion: 1.0\n")
    written(told / "entry_points.txt", "[npudoctor.plugins]\nsite = site_plugin\n")
    return folder


def listed(folder: Path) -> str:
    environ = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-m", "npudoctor", "check", "npu.present", "--simulate", "seed-910b1", "-vv"]
    done = subprocess.run(argv, env=environ, capture_output=True, encoding="utf-8", check=False, cwd="/")
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@as_root
def test_an_installed_plug_in_of_root_is_loaded(open_folder: Path) -> None:
    mark = open_folder / "mark"
    assert "refused" not in listed(distribution(open_folder / "packages", mark))
    assert mark.exists()


@as_root
@pytest.mark.parametrize("part", [".", "site_plugin", "site_plugin/checks.py", "site_plugin/__pycache__"])
def test_an_installed_plug_in_that_others_can_write_is_not_run(open_folder: Path, part: str) -> None:
    mark = open_folder / "mark"
    folder = distribution(open_folder / "packages", mark)
    if part.endswith("__pycache__"):
        (folder / part).mkdir()
    (folder / part).chmod(0o777 if (folder / part).is_dir() else 0o666)
    assert "refused: other users can write" in listed(folder)
    assert not mark.exists()


@as_root
def test_a_distribution_in_a_users_home_is_not_run_by_root(open_folder: Path) -> None:
    mark = open_folder / "mark"
    folder = give(distribution(open_folder / "home", mark), ALICE)
    assert "belongs to another user" in listed(folder)
    assert not mark.exists()
