"""The line that says how far a run is."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from npudoctor import engine
from npudoctor.cli.progress import Progress

NAME = b"npu_smi.npu_sm"


def shown(columns: int, tmp_path: Path) -> str:
    """What a run writes on a terminal of so many columns, with a tool that ends once its fact is named there."""
    tool, named = tmp_path / "npu-smi", tmp_path / "named"
    tool.write_text(f"#!/bin/sh\nuntil [ -e '{named}' ]; do sleep 0.05; done\n", encoding="utf-8")
    tool.chmod(0o755)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    argv = [sys.executable, "-m", "npudoctor", "check", "driver.npu-smi", "system.disk"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    variables = {**os.environ, "TERM": "xterm", "PATH": path}
    run = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=theirs, env=variables)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        text += piece
        if NAME in text:
            named.touch()
    run.wait()
    os.close(ours)
    return text.decode()


@pytest.mark.parametrize("columns", [0, 40])
def test_a_run_names_the_fact_that_it_waits_for_whatever_the_terminal_says_of_its_width(
    columns: int, tmp_path: Path
) -> None:
    lines = shown(columns, tmp_path).split("\r\x1b[K")
    assert any(NAME.decode() in line for line in lines)
    assert lines[-1] == ""


def test_a_slow_fact_is_shown_with_its_time_and_an_estimate() -> None:
    progress = Progress(10, color=False)
    began = time.monotonic()
    progress.show(engine.Asked("npu_smi.boards"))
    assert progress._waiting(began) == " npu_smi.boards"
    assert progress._waiting(began + 7.2) == " npu_smi.boards 7 s"
    for _ in range(5):
        progress._ended += 1
    assert progress._waiting(began + 30.1) == " npu_smi.boards 30 s, about 30 s left"
    progress._ended = 10
    assert progress.left_s(began + 31) is None


def test_without_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(3, color=True) as progress:
        progress.show(engine.Asked("npu_smi.npu_smi_answer"))
    assert capsys.readouterr() == ("", "")
