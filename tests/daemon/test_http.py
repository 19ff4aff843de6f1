"""The sockets: who may use them, and that no request, however it is made, holds the daemon up or makes it fail."""

import contextlib
import grp
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.daemon import listening
from npudoctor.daemon.listening import CannotListen, Listening, tcp_socket, unix_socket
from npudoctor.daemon.timetable import RunKind
from npudoctor.daemon.web import api
from tests.security.served import wait_for

from .conftest import Watch, spoken_to


@pytest.fixture
def served(watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A socket on which a node that was looked at is answered."""
    monkeypatch.setattr(listening, "PATIENCE_S", 0.5)
    watched = watch("seed-910b1")
    watched.run(RunKind.STANDARD)
    path = tmp_path / "s.sock"
    server = Listening([(unix_socket(str(path), None), api(watched.board))])
    server.start()
    yield path
    assert server.answers()
    server.close()


def status(answer: bytes) -> int | None:
    """The status of the first response; None where the connection was closed without one."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


GOOD = b"GET /livez HTTP/1.1\r\nHost: x\r\n"

METHODS = st.sampled_from([b"GET", b"POST", b"HEAD", b"OPTIONS", b"CONNECT", b"get", b"G\0T", b"", b"A" * 300])
TARGETS = st.sampled_from(
    [
        *(b"/livez", b"/v1/report", b"/metrics", b"*", b"", b"//", b"http://evil.example/v1/report", b"/%", b"/%ff%fe"),
        *(b"/../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"/v1/..%2f..%2fetc/passwd", b"/v1/history?limit=%00"),
        *(b"/v1/history?limit=1e9", b"/v1/history?before=-1", b"/v1/issues?all=%ff", b"/" + b"a" * 20000, b"/\xff"),
        *(b"/v1/history?" + b"a=b&" * 2000, b"/v1/report?profile=../../etc", b"/readyz#x", b"evil.example:443"),
    ]
)
HEADERS = st.lists(
    st.sampled_from(
        [
            *(b"Host: x", b"Host: a\r\nHost: b", b"Host:", b"host: evil.example", b"Content-Length: 0"),
            *(
                b"Content-Length: -1",
                b"Content-Length: 99999999999999999999",
                b"Content-Length: 5\r\nContent-Length: 6",
            ),
            *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, gzip", b"Transfer-Encoding: \x0bchunked"),
            *(
                b"Upgrade: websocket\r\nConnection: Upgrade",
                b"Upgrade: h2c",
                b"Connection: close",
                b"Expect: 100-continue",
            ),
            *(b"X: " + b"y" * 30000, b"X-Forwarded-For: 1.2.3.4", b"X-Forwarded-Proto: https", b": empty", b"no colon"),
            *(b" folded: x", b"X\0Y: z", b"X: \xff\xfe", b"Accept: */*, " * 50, b"Range: bytes=0-", b"X: y\nZ: w"),
        ]
    ),
    max_size=5,
)
ENDS = st.sampled_from([b"\r\n", b"\n", b"\r\n5\r\nhello\r\n0\r\n\r\n", b"\r\nhello", b"", b"\r\n" + GOOD + b"\r\n"])
VERSIONS = st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9", b"", b"XTTP/1.1"])


def fuzz(path: Path, data: bytes) -> None:
    answer = spoken_to(path, data)
    assert b"HTTP/1.1 5" not in answer
    assert b"Traceback" not in answer
    assert b"root:" not in answer
    assert b'File "' not in answer


def test_whatever_is_sent_nothing_fails_and_nothing_leaks(served: Path) -> None:
    @given(METHODS, TARGETS, VERSIONS, HEADERS, ENDS)
    def requests(method: bytes, target: bytes, version: bytes, headers: list[bytes], end: bytes) -> None:
        fuzz(served, b" ".join((method, target, version)) + b"\r\n" + b"".join(h + b"\r\n" for h in headers) + end)

    @given(st.binary(max_size=300))
    def noise(data: bytes) -> None:
        fuzz(served, data)

    requests()
    noise()
    assert status(spoken_to(served, GOOD + b"\r\n")) == 200


def test_a_head_that_is_too_large_is_refused(served: Path) -> None:
    answer = spoken_to(served, GOOD + b"X: " + b"y" * (1 << 20) + b"\r\n\r\n")
    assert status(answer) in (400, 431, None)


@pytest.mark.parametrize(
    "body", [b"Content-Length: 1000000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nffffff\r\n"]
)
def test_a_body_is_not_waited_for(served: Path, body: bytes) -> None:
    assert status(spoken_to(served, GOOD + body)) == 413


def cut_after(path: Path, first: bytes, again: bytes = b"") -> float:
    """How long a connection lives that sends something, and then drop by drop, or nothing."""
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talking:
        talking.settimeout(0.1)
        talking.connect(str(path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            talking.sendall(first)
            while time.monotonic() - began < 20:
                if again:
                    talking.sendall(again)
                with contextlib.suppress(TimeoutError):
                    if not talking.recv(65536):
                        break
    return time.monotonic() - began


def test_whoever_is_silent_or_slow_is_cut_off(served: Path) -> None:
    assert cut_after(served, b"") < 10
    assert cut_after(served, GOOD, b"X: y\r\n") < 10
    assert cut_after(served, b"G") < 10


def test_whoever_does_not_read_is_cut_off(served: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talking:
        talking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        talking.connect(str(served))
        talking.settimeout(5)
        with contextlib.suppress(OSError):
            while True:
                talking.sendall(b"GET /v1/report HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        assert status(spoken_to(served, GOOD + b"\r\n")) == 200


def test_where_there_are_too_many_connections_the_oldest_makes_room(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 10)
    monkeypatch.setattr(listening, "HEAD_S", 600.0)
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(30):
            held.append(stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)))
            held[-1].connect(str(served))
        assert status(spoken_to(served, GOOD + b"\r\n", 60)) == 200
        held[0].settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            assert held[0].recv(1) == b"", "the oldest was cut"
        held[-1].settimeout(60)
        held[-1].sendall(GOOD + b"\r\n")
        assert held[-1].recv(12) == b"HTTP/1.1 200", "the newest is answered"


def test_many_may_ask_at_once(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "PATIENCE_S", 10)
    found: list[int | None] = []

    def ask() -> None:
        for path in (b"/metrics", b"/v1/history", b"/v1/report"):
            asked = b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            found.append(status(spoken_to(served, asked, 20, end=False)))

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 150


def test_the_socket_is_its_owner_s_and_the_group_s(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with unix_socket(str(path), None):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with unix_socket(str(path), None) as replaced:
        assert replaced.getsockname() == str(path)
    for own in [one for one in grp.getgrall() if one.gr_gid in (*os.getgroups(), os.getegid())]:
        with unix_socket(str(path), own.gr_name):
            assert (path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (own.gr_gid, 0o660)
    path.unlink()
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(CannotListen, match="exists and is not a socket"):
        unix_socket(str(path), None)
    assert path.read_text(encoding="utf-8") == "mine"
    with pytest.raises(CannotListen, match="there is no group 'nobody-has-this'"):
        unix_socket(str(tmp_path / "t.sock"), "nobody-has-this")
    with pytest.raises(CannotListen, match="too long"):
        unix_socket(str(tmp_path / ("x" * 120)), None)
    tmp_path.chmod(0o777)
    with pytest.raises(CannotListen, match=f"other users can write {tmp_path};"):
        unix_socket(str(tmp_path / "t.sock"), None)


def test_a_loop_that_stands_still_is_noticed(watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "PATIENCE_S", 0.2)
    server = Listening([(unix_socket(str(tmp_path / "s.sock"), None), api(watch("seed-910b1").board))])
    server.start()
    assert server.answers()
    go_on = threading.Event()
    server._loop.call_soon_threadsafe(go_on.wait, 600)
    wait_for(lambda: not server.answers())
    go_on.set()
    wait_for(server.answers)
    server.close()
    assert not server.answers()


def test_an_address_that_is_taken_is_told_in_one_line() -> None:
    with tcp_socket("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(CannotListen, match=r"^127\.0\.0\.1:\d+ cannot be bound: Address already in use$"):
            tcp_socket("127.0.0.1", first.getsockname()[1])


OUTSIDER = """
import os, socket, sys
os.setgroups([int(group) for group in sys.argv[2].split(",") if group]); os.setgid(65534); os.setuid(65534)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    print("refused")
else:
    print("let in")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_outside_the_group_gets_nothing(served: Path) -> None:
    folder = served.parent
    while folder != folder.parent:
        folder.chmod(folder.stat().st_mode | 0o011)
        folder = folder.parent
    os.chown(served, 0, 12345)

    def as_nobody(groups: str) -> str:
        argv = [sys.executable, "-c", OUTSIDER, str(served), groups]
        return subprocess.run(argv, capture_output=True, encoding="utf-8", check=True).stdout.strip()

    assert as_nobody("") == "refused"
    assert as_nobody("12345") == "let in"


@pytest.mark.parametrize("closed_after_s", [0.0, 0.02, 0.1])
def test_a_server_that_is_not_up_in_time_ends_before_its_socket_is_closed(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch, closed_after_s: float
) -> None:
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    monkeypatch.setattr(listening, "STARTING_S", closed_after_s)
    with unix_socket(str(tmp_path / "s.sock"), None) as bound:
        server = Listening([(bound, api(watch("seed-910b1").board))])
        with contextlib.suppress(CannotListen):
            server.start()
        server.close()
    assert not server._thread.is_alive()
    assert failures == []
