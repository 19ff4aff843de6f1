"""The script that runs inside the examined Python, under every interpreter that this machine has."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import time
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from npudoctor.facts.python.target_python import parse_environment

SCRIPT = Path(__file__).resolve().parents[2] / "npudoctor" / "in_target" / "environment.py"


def interpreters() -> list[str]:
    """One interpreter of each minor version from 3.6 on that can be found, this one among them."""
    found = {"this": sys.executable}
    for path in [*sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))), "/usr/bin/python3"]:
        if os.access(path, os.X_OK):
            answer = subprocess.run(
                [path, "-c", "import sys; print(sys.version[:4])"], capture_output=True, encoding="utf-8"
            )
            if answer.returncode == 0:
                found.setdefault(answer.stdout.strip(), path)
    return list(found.values())


def ask(python: str, *, cwd: Path | None = None, **environ: str) -> dict[str, Any]:
    keep = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-B", str(SCRIPT)], capture_output=True, encoding="utf-8", check=True, env={**keep, **environ}, cwd=cwd
    )
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert isinstance(said, dict)
    return said


def wheel(folder: Path, name: str, metadata: str | bytes, *, record: bool = True) -> Path:
    info = folder / f"{name}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_bytes(metadata if isinstance(metadata, bytes) else metadata.encode())
    if record:
        (info / "RECORD").write_text("", encoding="utf-8")
    return info


@pytest.mark.parametrize("python", interpreters())
def test_every_interpreter_says_who_it_is_and_what_it_holds(python: str, tmp_path: Path) -> None:
    wheel(
        tmp_path,
        "torch_npu-2.5.1.post1",
        "Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.5.1.post1\nRequires-Dist: torch==2.5.1\n\ntext\n",
    )
    found = parse_environment(json.dumps(ask(python, PYTHONPATH=str(tmp_path))))
    version = subprocess.run([python, "-V"], capture_output=True, encoding="utf-8", check=True).stdout.split()[1]
    assert found.version == version
    assert found.implementation == "CPython"
    assert found.machine == os.uname().machine
    assert found.torch_npu is not None
    assert (found.torch_npu.version, found.torch_npu.requires) == ("2.5.1.post1", ("torch==2.5.1",))


def test_what_is_found_is_what_importlib_metadata_finds() -> None:
    said = ask(sys.executable, PYTHONPATH=os.environ.get("PYTHONPATH", ""))["distributions"]
    expected = {
        one.metadata["Name"].lower().replace("_", "-").replace(".", "-"): one.version for one in distributions()
    }
    assert {name: about["version"] for name, about in said.items()} == expected


def test_the_first_on_the_path_wins_as_import_does(tmp_path: Path) -> None:
    wheel(tmp_path / "first", "numpy-1.26.4", "Name: numpy\nVersion: 1.26.4\n\n")
    wheel(tmp_path / "second", "numpy-2.1.0", "Name: NumPy\nVersion: 2.1.0\n\n")
    path = f"{tmp_path}/first:{tmp_path}/second"
    assert ask(sys.executable, PYTHONPATH=path)["distributions"]["numpy"]["version"] == "1.26.4"


def test_of_two_in_one_folder_the_one_installed_last_counts(tmp_path: Path) -> None:
    old = wheel(tmp_path, "torch-2.9.0", "Name: torch\nVersion: 2.9.0\n\n")
    wheel(tmp_path, "torch-2.5.1", "Name: torch\nVersion: 2.5.1\n\n")
    os.utime(old / "METADATA", (1, 1))
    assert ask(sys.executable, PYTHONPATH=str(tmp_path))["distributions"]["torch"]["version"] == "2.5.1"


def test_broken_metadata_is_survived(tmp_path: Path) -> None:
    wheel(tmp_path, "empty-1.0", b"")
    wheel(tmp_path, "binary-1.0", bytes(range(256)) * 40)
    wheel(tmp_path, "no_name-3.0", "Version: 3.0\n\n")
    wheel(tmp_path, "~orch-2.0", "Name: ~orch\nVersion: 2.0\n\n")
    wheel(tmp_path, "folded-1.0", "Name: folded\nVersion: 1.0\nRequires-Dist: one\n >=1\n\nName: text\n")
    (tmp_path / "left-1.0.dist-info").mkdir()
    (tmp_path / "folder-1.0.dist-info" / "METADATA").mkdir(parents=True)
    (tmp_path / "dangling-1.0.dist-info").symlink_to("/nowhere")
    (tmp_path / "single.egg-info").write_text("Name: single\nVersion: 0.1\n", encoding="utf-8")
    egg = tmp_path / "An_Egg.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Name: An.Egg\nVersion: 1.2\n", encoding="utf-8")
    (egg / "requires.txt").write_text(
        "torch>=2\n\n[:python_version < '3']\nold\n\n[extra]\nnot_this\n", encoding="utf-8"
    )
    said = ask(sys.executable, PYTHONPATH=str(tmp_path))["distributions"]
    versions = {"empty": "1.0", "binary": "1.0", "no-name": "3.0", "folded": "1.0", "single": "0.1", "an-egg": "1.2"}
    assert {name: said[name]["version"] for name in versions} == versions
    assert said["folded"]["requires"] == ["one >=1"]
    assert said["an-egg"]["requires"] == ["torch>=2", "old ; python_version < '3'"]
    assert not {"orch", "left", "folder", "dangling"} & set(said)


def test_copies_of_torch_and_torch_npu_are_told_the_one_that_is_imported_first(tmp_path: Path) -> None:
    for folder, version in (("first", "2.6.0"), ("second", "2.5.1.post1")):
        wheel(tmp_path / folder, f"torch_npu-{version}", f"Name: torch-npu\nVersion: {version}\n\n")
        wheel(tmp_path / folder, "other-1.0", "Name: other\nVersion: 1.0\n\n")
    first, second = (str(tmp_path / name) for name in ("first", "second"))
    said = ask(sys.executable, PYTHONPATH=f"{first}:{second}:{first}")
    assert said["distributions"]["torch-npu"]["version"] == "2.6.0"
    assert said["copies"]["torch-npu"] == [
        {"version": "2.6.0", "folder": os.path.realpath(first)},
        {"version": "2.5.1.post1", "folder": os.path.realpath(second)},
    ]
    assert "other" not in said["copies"]
    assert "torch-npu" not in ask(sys.executable, PYTHONPATH=first)["copies"]


def test_a_source_tree_that_hides_torch_npu_is_named(tmp_path: Path) -> None:
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    assert ask(sys.executable, cwd=tmp_path)["shadows"] == {"torch_npu": str(tmp_path / "torch_npu")}
    (tmp_path / "torch_npu" / "_C.cpython-311-aarch64-linux-gnu.so").write_bytes(b"")
    assert ask(sys.executable, cwd=tmp_path)["shadows"] == {}


def test_the_build_of_torch_is_read_and_torch_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    (tmp_path / "torch" / "version.py").write_text(
        "from typing import Optional\n__version__ = '2.5.1+cu124'\ndebug = False\ncuda: Optional[str] = '12.4'\n",
        encoding="utf-8",
    )
    said = ask(sys.executable, PYTHONPATH=str(tmp_path))
    assert said["torch_build"] == {"version": "2.5.1+cu124", "cuda": "12.4"}


def test_nothing_but_the_standard_library_is_loaded(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.argv = ['x']; exec(compile(open({str(SCRIPT)!r}).read(), {str(SCRIPT)!r}, 'exec'), "
        "{'__file__': " + repr(str(SCRIPT)) + "}); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path
    )
    loaded = set(json.loads(done.stderr.strip().splitlines()[-1].replace("'", '"')))
    assert not {"importlib.metadata", "email", "torch", "numpy", "typing", "subprocess"} & loaded


def test_three_hundred_distributions_cost_less_than_eight_bare_starts(tmp_path: Path) -> None:
    for number in range(300):
        requires = "".join(f"Requires-Dist: package{other}>=1.0\n" for other in range(20))
        wheel(tmp_path, f"package{number}-1.0", f"Name: package{number}\nVersion: 1.0\n{requires}\n{'text ' * 400}\n")

    def seconds(*words: str) -> float:
        began = time.monotonic()
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        subprocess.run([sys.executable, "-B", *words], capture_output=True, env=environment, check=True)
        return time.monotonic() - began

    both = [(seconds(str(SCRIPT)), seconds("-c", "import json, re")) for _ in range(9)]
    assert min(own for own, _ in both) <= 8 * min(bare for _, bare in both)
