"""`npudoctor web` as a process of its own, and what a client needs to know of it."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

CONSOLE = (sys.executable, "-I", "-c", "from npudoctor.cli import console; console()")
"""What the console script does, where there may be none."""

PATIENCE_S = 90


@dataclass(frozen=True)
class Served:
    """A running server: what it has printed, where it listens, and its token."""

    process: subprocess.Popen[str]
    said: Path
    port: int
    token: str
    socket: str | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.address}/?token={self.token}"

    def client(self, *, token: bool = True) -> aiohttp.ClientSession:
        """A client that speaks to it, with the token as a cookie unless it shall have none."""
        connector = aiohttp.UnixConnector(self.socket) if self.socket else None
        cookies = {self.cookie: self.token} if token else None
        jar = aiohttp.CookieJar(unsafe=True)
        return aiohttp.ClientSession(connector=connector, cookie_jar=jar, cookies=cookies)

    @property
    def cookie(self) -> str:
        import hashlib

        return f"npudoctor-{hashlib.sha256(self.token.encode()).hexdigest()[:8]}"

    def sessions(self) -> list[int]:
        """The processes that it has started and that have not ended."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in path.read_text(encoding="utf-8").split()]


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def serving(
    folder: Path,
    *words: str,
    command: Sequence[str] = CONSOLE,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    node: Sequence[str] = ("--simulate", "new-node"),
) -> Iterator[Served]:
    """The server with its home in a folder; it has ended on leaving."""
    port, said = free_port(), folder / f"said-{time.monotonic_ns()}"
    socket_path = words[words.index("--socket") + 1] if "--socket" in words else None
    environ = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), **(env or {})}
    with said.open("w") as file:
        process = subprocess.Popen(
            [*command, "web", "--port", str(port), *node, *words],
            cwd=cwd or folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            encoding="utf-8",
        )
    try:
        wait_for(lambda: "token=" in said.read_text(encoding="utf-8") or process.poll() is not None)
        found = re.search(r"token=([\w-]+)\n", said.read_text(encoding="utf-8"))
        assert found, said.read_text(encoding="utf-8")
        absolute = os.path.join(cwd or folder, socket_path) if socket_path else None
        yield Served(process, said, port, found[1], absolute)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def wait_for(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
