"""What strikes inside of the tools that a fix runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def striker(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library that strikes inside of tools, compiled here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("there is no C compiler here")
    made = tmp_path_factory.mktemp("striker") / "striker.so"
    source = Path(__file__).with_name("striker.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(source), "-ldl"], check=True)
    return str(made)
