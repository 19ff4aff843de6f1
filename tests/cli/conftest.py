"""The command line as a user runs it: in this process where that is enough, as a real process where it matters."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli import main


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def status(self, check: str) -> str:
        return str(next(result["status"] for result in self.json["results"] if result["check"] == check))

    def worse(self) -> dict[str, str]:
        """The checks that ended in warning, error or crashed."""
        bad = ("warning", "error", "crashed")
        return {result["check"]: result["status"] for result in self.json["results"] if result["status"] in bad}


Command = Callable[..., Ran]


@pytest.fixture
def npudoctor(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""

    def run(*argv: str) -> Ran:
        capfd.readouterr()
        try:
            code = main(list(argv))
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Command:
    """Run a command as a process of its own, with variables added."""

    def run(*argv: str, environment: dict[str, str] | None = None, timeout: float = 120) -> Ran:
        command: Sequence[str] = [sys.executable, "-m", "npudoctor", *argv]
        variables = {**os.environ, **(environment or {})}
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", env=variables, timeout=timeout, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
