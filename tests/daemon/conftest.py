"""The daemon in pieces in this process, and as a real process where that is the point."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from npudoctor import plugins, sim
from npudoctor.config import Config
from npudoctor.daemon import state
from npudoctor.daemon.change_tracker import ChangeTracker
from npudoctor.daemon.history import History
from npudoctor.daemon.publisher import Board
from npudoctor.daemon.run_checks import run_checks
from npudoctor.daemon.snapshot import View
from npudoctor.daemon.store import Store
from npudoctor.daemon.timetable import RunKind
from npudoctor.daemon.web import App
from npudoctor.daemon.worker import names_of
from npudoctor.host import Host
from npudoctor.plugins import Catalog
from npudoctor.sdk import Options


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return plugins.load()


@pytest.fixture(autouse=True)
def _every_store_is_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file that a test leaves open is a warning, and warnings are errors."""
    made: list[Store] = []
    opened = Store.__init__

    def noted(self: Store, *args: Any, **rest: Any) -> None:
        opened(self, *args, **rest)
        made.append(self)

    monkeypatch.setattr(Store, "__init__", noted)
    yield
    for store in made:
        store.close()


@dataclass
class Watched:
    """Looks at a node and publishes what it saw, as the daemon does, but only when it is told to."""

    catalog: Catalog
    host: Host
    history: History
    said: list[str] = field(default_factory=list)
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self.witness = ChangeTracker(self.history, self.said.append)
        self.board = Board(View(interval_s=60.0), self.history, turned_s=lambda: 0.0, troubles=tuple)

    def run(self, kind: RunKind = RunKind.QUICK, host: Host | None = None) -> list[str]:
        """RunKind once; the kinds of what has changed."""
        seen = run_checks(self.catalog, host or self.host, kind, self.options, Config(), deadline_s=60)
        names = names_of(self.catalog)
        view, changes = self.witness.take(self.board.view, seen, names, written_s=state.now_s(), interval_s=60.0)
        self.board.publish(view)
        return [change.kind for change in changes]


Watch = Callable[..., Watched]


@pytest.fixture
def watch(catalog: Catalog, tmp_path: Path) -> Iterator[Watch]:
    """Makes a watched node of a scenario."""
    with contextlib.ExitStack() as stack:

        def made(scenario: str, **options: Any) -> Watched:
            history = History(str(tmp_path / "history.sqlite"), kept_days=30)
            stack.callback(history.close)
            return Watched(catalog, sim.simulate(scenario), history, options=Options(**options))

        yield made


class Running:
    """A daemon as a process of its own."""

    def __init__(self, folder: Path, *words: str, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.socket = folder / "s.sock"
        self.words = ["--socket", str(self.socket), "--state-dir", str(folder), *words]
        self.environment = {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Running":
        with open(self.folder / "log", "ab") as log:
            argv = [sys.executable, "-m", "npudoctor", "daemon", *self.words]
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=self.environment)
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def get(self, path: str) -> httpx.Response:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talking:
            talking.settimeout(60)
            talking.connect(str(self.socket))
            talking.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = http.client.HTTPResponse(talking)
            answer.begin()
            with answer:
                return httpx.Response(answer.status, content=answer.read())

    def until(self, true: Callable[[], object], seconds: float = 120) -> None:
        """Wait for something to become true; what cannot be asked is not."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(http.client.HTTPException, OSError, ValueError):
                if true():
                    return
            assert self.process is not None
            assert self.process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.05)

    def until_looked(self) -> None:
        self.until(lambda: json.loads(self.get("/readyz").text)["looked_at"])

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(120)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts daemons, and ends them."""
    started: list[Running] = []

    def start(*words: str, **rest: Any) -> Running:
        started.append(Running(tmp_path, *words, **rest).start())
        return started[-1]

    yield start
    for one in started:
        one.end(signal.SIGKILL)


class Asker:
    """Asks an app in this process."""

    def __init__(self, app: App) -> None:
        self.app = app

    def request(self, method: str, path: str, **rest: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://npudoctor") as client:
                return await client.request(method, path, **rest)

        return asyncio.run(ask())

    def get(self, path: str, **rest: Any) -> httpx.Response:
        return self.request("GET", path, **rest)


def spoken_to(path: Path, data: bytes, seconds: float = 5.0, *, end: bool = True) -> bytes:
    """What a Unix socket answers to some bytes, until it closes; `end` says that no more will come."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talking:
        talking.settimeout(seconds)
        talking.connect(str(path))
        answer = b""
        with contextlib.suppress(OSError):
            talking.sendall(data)
            if end:
                talking.shutdown(socket.SHUT_WR)
            while piece := talking.recv(65536):
                answer += piece
        return answer
