"""The daemon under attack: slow and many connections, hostile requests, files and limits, and too many signals."""

import asyncio
import contextlib
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli import main
from npudoctor.daemon import asking, listening, state, web
from npudoctor.daemon.listening import MOST_CONNECTIONS, Listening, tcp_socket, unix_socket
from npudoctor.daemon.timetable import RunKind
from npudoctor.daemon.web import OnThisMachine, api, metrics_alone
from tests.daemon.conftest import Running, Watch, _every_store_is_closed, catalog, daemon, watch
from tests.daemon.test_service import FAST, a_config, kinds
from tests.plain_user import ALICE, as_root

__all__ = ["_every_store_is_closed", "catalog", "daemon", "watch"]
Start = Callable[..., Running]
FLOOD = 260
ASKED = 40
DEADLINE_S = 120
TRIES = 3
"""As often as a kubelet asks before it calls a container unhealthy (failureThreshold)."""


class Served:
    """The daemon's three listeners over a node that was looked at."""

    def __init__(self, watch: Watch, folder: Path) -> None:
        watched = watch("seed-910b1")
        watched.run(RunKind.QUICK)
        everything = api(watched.board)
        self.path = folder / "s.sock"
        self.loopback, self.outside = tcp_socket("127.0.0.1", 0), tcp_socket("127.0.0.1", 0)
        self.listening = Listening(
            [
                (unix_socket(str(self.path), None), everything),
                (self.loopback, OnThisMachine(everything)),
                (self.outside, metrics_alone(watched.board)),
            ]
        )
        self.listening.start()

    def address(self, listener: str) -> str | tuple[str, int]:
        if listener == "unix":
            return str(self.path)
        found: tuple[str, int] = getattr(self, listener).getsockname()
        return found


@pytest.fixture
def served(watch: Watch, tmp_path: Path) -> Iterator[Served]:
    made = Served(watch, tmp_path)
    yield made
    end = time.monotonic() + DEADLINE_S
    while any(server.server_state.connections for server in made.listening._servers):
        assert time.monotonic() < end, "connections of nobody stay"
        time.sleep(0.05)
    assert made.listening.answers()
    made.listening.close()


def connected(address: str | tuple[str, int]) -> socket.socket:
    made = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    made.settimeout(DEADLINE_S)
    made.connect(address)
    return made


def said(address: str | tuple[str, int], request: bytes) -> bytes:
    """All that is answered until the connection is closed."""
    with connected(address) as talking:
        answer = b""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            talking.sendall(request)
            while piece := talking.recv(65536):
                answer += piece
        return answer


def get(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", *(headers or ("Host: localhost",)), "Connection: close", "", ""]
    return "\r\n".join(lines).encode()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@contextlib.contextmanager
def flooded(address: str | tuple[str, int], request: bytes = b"GET /li") -> Iterator[None]:
    """As many slow connections as in the review, opened anew as soon as one is cut."""
    over, full = threading.Event(), threading.Event()

    def flood() -> None:
        with selectors.DefaultSelector() as held:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    while len(held.get_map()) < FLOOD and not over.is_set():
                        slow = connected(address)
                        slow.sendall(request)
                        held.register(slow, selectors.EVENT_READ)
                full.set()
                for key, _ in held.select(0.01):
                    assert isinstance(key.fileobj, socket.socket)
                    held.unregister(key.fileobj)
                    key.fileobj.close()
            for key in list(held.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        assert full.wait(DEADLINE_S)
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(("listener", "path"), [("loopback", "/livez"), ("outside", "/metrics"), ("unix", "/livez")])
def test_slow_connections_keep_nobody_else_out(served: Served, listener: str, path: str) -> None:
    address = served.address(listener)
    with flooded(address):
        assert [status(said(address, get(path))) for _ in range(ASKED)] == [200] * ASKED


def test_connections_that_ask_and_do_not_read_keep_nobody_out(served: Served) -> None:
    address = served.address("loopback")
    with flooded(address, b"GET /v1/report HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20):
        for _ in range(ASKED // 4):
            assert any(said(address, get("/livez")).startswith(b"HTTP/1.1 200 ") for _ in range(TRIES))


def test_a_new_connection_is_not_cut_for_older_ones_whose_answer_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request is on the way; on a busy machine others come in before it."""
    asked = threading.Semaphore(0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            asked.release()
            await asyncio.sleep(DEADLINE_S)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 4)
    sock = tcp_socket("127.0.0.1", 0)
    serving = Listening([(sock, app)])
    serving.start()
    address = sock.getsockname()
    with contextlib.ExitStack() as stack:
        stack.callback(serving.close)

        def ask_slowly() -> None:
            stack.enter_context(connected(address)).sendall(get("/slow"))
            assert asked.acquire(timeout=DEADLINE_S)

        ask_slowly()
        ask_slowly()
        ask_slowly()
        late = stack.enter_context(connected(address))
        ask_slowly()
        late.sendall(get("/livez"))
        assert status(late.recv(65536)) == 200


def test_a_thousand_idle_connections_keep_nobody_out(served: Served) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("requires 4096 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(1000):
                stack.enter_context(connected(served.address("loopback")))
            assert status(said(served.address("loopback"), get("/livez"))) == 200
            assert status(said(served.address("unix"), get("/livez"))) == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@as_root
def test_one_user_does_not_take_the_connections_of_another(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the Unix socket the peer is a user: where one holds most connections, his own make room for his new ones."""
    monkeypatch.setattr(listening, "HEAD_S", 600.0)
    mine = connected(served.address("unix"))
    code = (
        "import os, socket, sys\n"
        f"os.setgroups([]); os.setresgid({ALICE}, {ALICE}, {ALICE}); os.setresuid({ALICE}, {ALICE}, {ALICE})\n"
        "os.chdir('/proc/self/fd/' + sys.argv[1])\n"
        f"held = [socket.socket(socket.AF_UNIX) for _ in range({2 * MOST_CONNECTIONS})]\n"
        "for one in held:\n    one.connect('s.sock')\n"
        "print(flush=True); sys.stdin.read()\n"
    )
    os.chown(served.path, 0, ALICE)
    folder = os.open(served.path.parent, os.O_PATH)
    served.path.parent.chmod(0o755)
    argv = [sys.executable, "-c", code, str(folder)]
    other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[folder])
    try:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"\n"
        mine.sendall(get("/livez"))
        assert status(mine.recv(65536)) == 200
    finally:
        other.communicate()
        os.close(folder)
        mine.close()


def test_a_long_head_and_many_headers_are_refused(served: Served) -> None:
    address = served.address("loopback")
    many = [f"X-{number}: y" for number in range(3000)]
    assert status(said(address, get("/livez", "Host: localhost", *many))) in (400, 431)
    assert status(said(address, get("/livez", "Host: localhost", f"X: {'y' * 40000}"))) in (400, 431)
    assert status(said(address, get(f"/{'a' * 20000}"))) in (400, 431)
    assert status(said(address, get("/livez", "Host: localhost", *many[:90]))) == 200
    assert status(said(address, get("/livez", "Host: localhost", f"X: {'y' * (web.HEAD_BYTES - 500)}"))) == 200


FOREIGN = (
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "[::1].evil",
    "10.0.0.1",
    "node-1",
    "a b",
)
REFUSED = {
    **{f"Host {name}": get("/livez", f"Host: {name}") for name in FOREIGN},
    "two Host headers": get("/livez", "Host: localhost", "Host: evil.example"),
    "the foreign one first": get("/livez", "Host: evil.example", "Host: localhost"),
    "no Host": get("/livez", "X: y"),
    "absolute URI": get("http://evil.example/v1/report"),
    "CL and TE": get("/livez", "Host: localhost", "Content-Length: 5", "Transfer-Encoding: chunked"),
    "two lengths": get("/livez", "Host: localhost", "Content-Length: 5, 6"),
    "space before the colon": get("/livez", "Host: localhost", "Content-Length : 5"),
    "a path above": get("/../../etc/passwd"),
    "an encoded path above": get("/%2e%2e/%2e%2e/etc/passwd"),
    "NUL": get("/v1/history?limit=%00"),
    **{
        method: get("/livez").replace(b"GET", method.encode(), 1)
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")
    },
}


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
def test_a_hostile_request_is_refused_and_learns_nothing(served: Served, request_: bytes) -> None:
    answer = said(served.address("loopback"), request_)
    assert 400 <= status(answer) < 500
    assert answer.count(b"HTTP/1.1 ") == 1, "one response to one request"
    assert b"access-control" not in answer.lower()
    assert b"root:" not in answer


def test_the_outside_listener_answers_metrics_alone(served: Served) -> None:
    for path in ("/v1/report", "/v1/issues", "/livez", "/readyz", "/v1/cards"):
        assert status(said(served.address("outside"), get(path))) == 404


def test_an_upgrade_is_not_made(served: Served) -> None:
    upgrade = ("Host: localhost", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13")
    answer = said(served.address("loopback"), get("/livez", *upgrade).replace(b": close", b": Upgrade, close"))
    assert status(answer) == 200


# The probe


def test_a_probe_asks_the_daemon_over_its_socket(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(what: str, path: Path) -> tuple[int, str]:
        code = main(["healthcheck", "--ask", what, "--socket", str(path), "--timeout", "60"])
        return code, capsys.readouterr().out

    assert ask("livez", served.path) == (0, "healthy: daemon is alive\n")
    code, line = ask("livez", tmp_path / "no-such")
    assert (code, "no daemon answers on" in line) == (1, True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        with pytest.raises(asking.NoAnswer, match="no answer on"):
            asking.ask(str(tmp_path / "silent"), "livez", timeout_s=0.2)


# The process


def limited(**limits: int) -> Callable[[], None]:
    def set_limits() -> None:
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    return set_limits


class Limited(Running):
    """A daemon under resource limits."""

    def start_with(self, limits: Callable[[], None]) -> "Limited":
        with open(self.folder / "log", "ab") as log:
            argv = [sys.executable, "-m", "npudoctor", "daemon", *self.words]
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, preexec_fn=limits)
        return self


@pytest.mark.parametrize("descriptors", [20, pytest.param(32, marks=pytest.mark.slow)])
def test_a_lack_of_descriptors_is_told_once_and_over_when_there_are_some(tmp_path: Path, descriptors: int) -> None:
    running = Limited(tmp_path, "--simulate", "seed-910b1", "--listen", "127.0.0.1:0", *a_config(tmp_path))
    running.start_with(limited(NOFILE=descriptors))
    try:
        running.until_looked()
        with contextlib.ExitStack() as stack:
            for _ in range(2 * descriptors):
                slow = stack.enter_context(socket.socket(socket.AF_UNIX))
                slow.setblocking(False)
                with contextlib.suppress(OSError):
                    slow.connect(str(running.socket))
            running.until(lambda: "connections cannot be accepted" in running.log)
            time.sleep(1)
        running.until(lambda: running.get("/livez").status_code == 200)
        running.until(lambda: running.get("/readyz").json()["troubles"] == [])
        assert running.log.count("npudoctor: connections cannot be accepted") <= 2
        assert running.log.count("Traceback") <= 1
        assert len(running.log) < 20_000
        assert running.end() == 0
    finally:
        running.end(signal.SIGKILL)


@pytest.mark.parametrize(
    "limits", [{"AS": 400 << 20}, {"AS": 250 << 20}, {"FSIZE": 1024}], ids=["400 MiB", "250 MiB", "files of 1 KiB"]
)
def test_a_daemon_with_little_of_everything_answers(tmp_path: Path, limits: dict[str, int]) -> None:
    running = Limited(tmp_path, "--simulate", "seed-910b1", *a_config(tmp_path)).start_with(limited(**limits))
    try:
        running.until(lambda: running.get("/livez").status_code == 200)
        time.sleep(0.5)
        assert running.get("/livez").status_code == 200
    finally:
        running.end(signal.SIGKILL)


def test_the_modes_of_its_files_do_not_depend_on_the_umask(daemon: Start, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        running = daemon("--simulate", "seed-910b1", "--state", str(tmp_path / "state.json"))
    finally:
        os.umask(before)
    running.until_looked()
    running.until((tmp_path / "state.json").exists)
    modes = {path.name: oct(path.stat().st_mode & 0o7777) for path in tmp_path.iterdir()}
    assert (modes["s.sock"], modes["state.json"], modes["history.sqlite"]) == ("0o660", "0o644", "0o600"), modes


def test_many_signals_end_it_once_and_properly(daemon: Start, tmp_path: Path) -> None:
    running = daemon("--simulate", "seed-910b1", *a_config(tmp_path))
    running.until_looked()
    for _ in range(60):
        os.kill(running.pid, signal.SIGHUP)
        time.sleep(0.01)
    running.until(lambda: "configured" in kinds(running))
    assert running.get("/livez").status_code == 200
    for _ in range(5):
        os.kill(running.pid, signal.SIGTERM)
        time.sleep(0.001)
    assert running.process is not None
    assert running.process.wait(DEADLINE_S) == 0
    assert not running.socket.exists()


HOSTILE = ("random", "cut", "empty", "link", "fifo")


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_history_is_set_aside_or_refused(tmp_path: Path, kind: str) -> None:
    history = tmp_path / "history.sqlite"
    if kind == "link":
        (tmp_path / "target").write_text("mine", encoding="utf-8")
        history.symlink_to(tmp_path / "target")
    elif kind == "fifo":
        os.mkfifo(history, 0o600)
    else:
        history.write_bytes({"random": os.urandom(9000), "cut": b"SQLite format 3\0", "empty": b""}[kind])
        history.chmod(0o600)
    running = Running(tmp_path, "--simulate", "seed-910b1", *a_config(tmp_path)).start()
    try:
        assert running.process is not None
        end = time.monotonic() + DEADLINE_S
        while running.process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError):
                if running.get("/livez").status_code == 200:
                    break
            time.sleep(0.05)
        assert running.process.poll() in (None, 2), running.log
        assert "Traceback" not in running.log
        if kind == "link":
            assert (tmp_path / "target").read_text(encoding="utf-8") == "mine"
    finally:
        running.end(signal.SIGKILL)


def test_a_state_that_is_a_link_is_replaced_and_its_target_stays(daemon: Start, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine", encoding="utf-8")
    (tmp_path / "state.json").symlink_to(tmp_path / "target")
    running = daemon("--simulate", "seed-910b1", *a_config(tmp_path))
    running.until_looked()
    running.until(lambda: not (tmp_path / "state.json").is_symlink())
    assert state.read(str(tmp_path / "state.json")) is not None
    assert (tmp_path / "target").read_text(encoding="utf-8") == "mine"
    assert running.end() == 0


def test_the_health_check_does_not_wait_for_a_daemon_that_is_stopped(daemon: Start, tmp_path: Path) -> None:
    running = daemon("--simulate", "seed-910b1", *a_config(tmp_path, FAST))
    running.until_looked()
    os.kill(running.pid, signal.SIGSTOP)
    try:
        argv = [sys.executable, "-m", "npudoctor", "healthcheck", "--state", str(tmp_path / "state.json"), "--simulate"]
        done = subprocess.run([*argv, "seed-910b1"], capture_output=True, timeout=DEADLINE_S, check=False)
        assert done.returncode in (0, 1)
    finally:
        os.kill(running.pid, signal.SIGCONT)
