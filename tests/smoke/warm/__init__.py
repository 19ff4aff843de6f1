"""A Python that has imported torch already, so that a rank is there in milliseconds; else it is a process as any."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
MODULES = ("torch", "torch.distributed", "torch._dynamo", "torch.utils.data.distributed")

STAND_IN = """#!/bin/sh
''''exec {python} -SE "$0" "$@" #'''
import sys
sys.path.insert(0, {here!r})
import client
client.main({socket!r})
"""
"""A script for the shell and for Python, because the path in a first line `#!` can hold no spaces (execve(2))."""


@contextlib.contextmanager
def interpreter(python: Path, folder: Path, *more: str, environ: Mapping[str, str] | None = None) -> Iterator[Path]:
    """What to run instead of `python`; `more` names further modules to import, `environ` what that needs."""
    socket, stand_in = folder / "warm.socket", folder / "python"
    stand_in.write_text(
        STAND_IN.format(python=shlex.quote(sys.executable), here=str(HERE), socket=str(socket)), encoding="utf-8"
    )
    stand_in.chmod(0o755)
    server = subprocess.Popen(
        [str(python), str(HERE / "server.py"), str(socket), *MODULES, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1", **(environ or {})},
    )
    with server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert any(line == b"ready\n" for line in server.stdout), "the server has ended"  # libraries print before it
        yield stand_in
        server.stdin.close()
