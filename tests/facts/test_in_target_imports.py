"""The scripts that import torch inside a target, under every Python that is here, with packages made for the test."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from npudoctor.host.live.local import SCRIPTS
from tests.facts.test_in_target_environment import interpreters

TORCH = """
import os, sys
print("torch speaks on stdout")
__version__ = "2.4.0"
class version: cuda = None
class npu:
    device_count = staticmethod(lambda: 2)
    is_available = staticmethod(lambda: True)
    class utils:
        get_cann_version = staticmethod(lambda: "8.2.RC1")
if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") != "0" and "broken" in os.environ:
    try:
        raise ImportError("libhccl.so: cannot open shared object file")
    except ImportError as error:
        raise RuntimeError("Failed to load the backend extension: torch_npu. You can disable it.") from error
"""
NPU = "class _C: pass\n__version__ = '2.4.0.post4'\n"


def ask(python: str, script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch" / "__init__.py").write_text(TORCH, encoding="utf-8")
    (folder / "torch_npu").mkdir(exist_ok=True)
    (folder / "torch_npu" / "__init__.py").write_text(NPU, encoding="utf-8")
    return subprocess.run(
        [python, "-B", f"{SCRIPTS}/{script}.py"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "", **variables},
    )


def said(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout.count("\n") == 1, "nothing but the object stands on stdout"
    return json.loads(done.stdout)


@pytest.mark.parametrize("python", interpreters())
def test_every_interpreter_tells_how_its_imports_went(python: str, tmp_path: Path) -> None:
    done = ask(python, "import_torch", tmp_path)
    assert said(done)["version"] == "2.4.0"
    assert "torch speaks on stdout" in done.stderr
    found = said(ask(python, "import_torch_npu", tmp_path))
    assert (found["ok"], found["device_count"], found["cann"]) == (True, 2, "8.2.RC1")


@pytest.mark.parametrize("python", interpreters())
def test_a_failure_is_told_with_what_lies_below_it(python: str, tmp_path: Path) -> None:
    found = said(ask(python, "import_torch", tmp_path, broken="1"))
    assert found["exception"] == "RuntimeError"
    assert found["error"].endswith("(ImportError: libhccl.so: cannot open shared object file)")
    assert said(ask(python, "import_torch_without_autoload", tmp_path, broken="1"))["ok"] is True


@pytest.mark.parametrize("python", interpreters())
def test_every_interpreter_leaves_busy_cards_alone(python: str, tmp_path: Path) -> None:
    found = said(ask(python, "device-math", tmp_path, NPUDOCTOR_BUSY="0,3", NPUDOCTOR_CARDS=""))
    assert found == {"ok": True, "devices": {"0": {"skipped": "busy"}, "3": {"skipped": "busy"}}}


def test_a_card_that_hangs_is_given_up_and_leaves_nothing_behind(tmp_path: Path) -> None:
    python = interpreters()[0]
    (tmp_path / "scratch").mkdir()
    hang = {"NPUDOCTOR_CARDS": "1", "NPUDOCTOR_FIRST_S": "1", "TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\nif sys.argv[-1:] == ['1']: time.sleep(600)\n", encoding="utf-8"
    )
    found = said(ask(python, "device-math", tmp_path, **hang))
    assert "did not come back within 1 s" in found["devices"]["1"]["error"]
    assert list((tmp_path / "scratch").iterdir()) == []
