"""Whoever decides what a Python executes is who runs it: ways in which that is another user than root."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from npudoctor.host import Unavailable
from npudoctor.host.live.python_owner import python_user
from tests.plain_user import ALICE, as_root, give

PYTHON = "/usr/bin/python3"
pytestmark = [as_root, pytest.mark.skipif(not os.path.exists(PYTHON), reason=f"{PYTHON} is not installed")]


@pytest.fixture
def hers(open_folder: Path) -> Path:
    """A folder of alice with the libraries of a Python."""
    folder = open_folder / "hers"
    (folder / "lib/python3.11/site-packages").mkdir(parents=True)
    return give(folder, ALICE)


def _owner(python: str, variables: dict[str, str]) -> int:
    found = python_user(python, variables)
    return found.uid if found else 0


def _linked(name: str) -> Callable[[Path, Path], str]:
    """A folder of root in which a link leads to alice's."""

    def make(folder: Path, hers: Path) -> str:
        (folder / "roots" / name).parent.mkdir(parents=True)
        (folder / "roots" / name).symlink_to(hers / "lib" if name.endswith("lib") else hers)
        return str(folder / "roots")

    return make


NAMED: dict[str, tuple[str, Callable[[Path, Path], str]]] = {
    "libraries separated by semicolons": ("LD_LIBRARY_PATH", lambda _, hers: f"/usr/lib;{hers}"),
    "a library below root's folder": ("LD_LIBRARY_PATH", _linked("libascendcl.so")),
    "a package below root's folder": ("PYTHONPATH", _linked("torch")),
    "a relative path": ("PYTHONPATH", lambda _, hers: os.path.relpath(hers, "/")),
    "the library of another Python": ("PYTHONHOME", _linked("lib")),
    "a base of users' packages": ("PYTHONUSERBASE", _linked("lib")),
    "root's own packages": ("HOME", _linked(".local/lib")),
    "compiled kernels": ("ASCEND_WORK_PATH", lambda _, hers: str(hers)),
}


@pytest.mark.parametrize("case", NAMED)
def test_what_a_variable_of_root_makes_python_load_from_a_user_runs_as_that_user(
    case: str, open_folder: Path, hers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    name, make = NAMED[case]
    assert _owner(PYTHON, {}) == 0
    assert _owner(PYTHON, {name: make(open_folder, hers)}) == ALICE


def test_a_python_in_a_folder_where_all_can_put_a_pyvenv_cfg_is_not_run_by_root(open_folder: Path) -> None:
    shared = open_folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "python").symlink_to(PYTHON)
    with pytest.raises(Unavailable, match="other users can add files"):
        python_user(str(shared / "python"), {})


def test_a_script_runs_as_the_user_of_the_program_that_it_names(open_folder: Path) -> None:
    (open_folder / "bin").mkdir()
    with tempfile.TemporaryDirectory() as folder:  # a #! line names no path with spaces
        program = Path(folder, "bin/it")
        program.parent.mkdir()
        program.write_text("", encoding="utf-8")
        give(program.parent, ALICE)
        (open_folder / "bin/python3").write_text(f"#!{program} -x\n", encoding="utf-8")
        assert _owner(str(open_folder / "bin/python3"), {}) == ALICE


@pytest.mark.parametrize(("place", "key"), [("bin/pyvenv.cfg", "home"), ("pyvenv.cfg", "HOME")])
def test_the_home_of_a_venv_counts_wherever_python_finds_it(
    place: str, key: str, open_folder: Path, hers: Path
) -> None:
    (open_folder / "venv/bin").mkdir(parents=True)
    (open_folder / "venv/bin/python").symlink_to(PYTHON)
    assert _owner(str(open_folder / "venv/bin/python"), {}) == 0
    (open_folder / "venv" / place).write_text(f"{key} = {hers}/bin\n", encoding="utf-8")
    assert _owner(str(open_folder / "venv/bin/python"), {}) == ALICE
