"""`npudoctor web` serves who has the token, from its own page, under a name of this machine, and nobody else."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import config
from npudoctor.cli import main, parser_of
from npudoctor.cli import web as command
from tests.plain_user import ALICE, as_root, give, run_as
from tests.security.served import PATIENCE_S, Served, serving, wait_for

aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
pytest.importorskip("textual_serve", reason="textual-serve is not installed")

from npudoctor.web import session  # noqa: E402
from npudoctor.web.server import MESSAGE_BYTES, MOST_SESSIONS  # noqa: E402

PATHS = (
    "/",
    "/report",
    "/focus.js",
    "/ws",
    "/ws/npus",
    "/static/js/textual.js",
    "/static/",
    "/download/key",
    "/nothing",
    "/../etc/passwd",
)
PLAIN_PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home")) as found:
        yield found


def asked(served: Served, path: str, headers: dict[str, str] | None = None, **options: Any) -> tuple[int, str, Any]:
    """Status, text and headers of one answer."""

    async def ask() -> tuple[int, str, Any]:
        async with (
            served.client(token=options.pop("token", False)) as client,
            client.get(served.address + path, headers=headers, allow_redirects=False) as answer,
        ):
            return answer.status, await answer.text(), answer.headers

    return asyncio.run(ask())


def handshake(served: Served, *, token: bool = True, query: str = "", **headers: Any) -> int:
    """The status of an attempt to open the websocket; 101 where it opens."""

    async def attempt() -> int:
        async with served.client(token=token) as client:
            try:
                address = f"{served.address}/ws?width=120&height=40{query}"
                async with client.ws_connect(address, headers=headers) as opened:
                    await opened.close()
                    return 101
            except aiohttp.WSServerHandshakeError as refused:
                return int(refused.status)

    return asyncio.run(attempt())


# Finding 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("secret", ["", "?token=", "?token=wrong", "?token=%C3%A9%ff%00", "?token=a&token=b"])
def test_without_the_token_every_address_is_refused_in_one_line(served: Served, path: str, secret: str) -> None:
    status, text, _ = asked(served, path + secret, {"Origin": served.address})
    assert (status, text.count("\n")) == (403, 1)
    assert "token missing or wrong" in text


def test_a_wrong_cookie_is_refused(served: Served) -> None:
    for value in ("wrong", served.token[:-1], served.token + "a", ""):
        assert asked(served, "/", {"Cookie": f"{served.cookie}={value}"})[0] == 403


def test_a_websocket_needs_token_origin_and_host(served: Served) -> None:
    own, other = served.address, "http://evil.example"
    assert handshake(served, Origin=own) == 101
    for path in ("/%77s", "//ws", "/ws/", "/WS", "/./ws"):
        assert asked(served, path, {"Connection": "Upgrade", "Upgrade": "websocket"}, token=True)[0] in (403, 404), path
    assert handshake(served, token=False, query=f"&token={served.token}", Origin=own) == 101
    refused: list[dict[str, Any]] = [
        {"token": False, "Origin": own},
        {"token": False, "Origin": own, "query": "&token=wrong"},
        {"Origin": other},
        {"Origin": "null"},
        {},
        {"Origin": ""},
        {"Origin": own.replace("http", "https")},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": own.replace("127.0.0.1", "localhost")},
        {"Origin": f"{own}.evil.example"},
        {"Origin": other, "Host": "rebind.attacker.example:8765"},
        {"Origin": f"http://rebind.example:{served.port}", "Host": f"rebind.example:{served.port}"},
        {"Origin": "http://127.0.0.1", "Host": "127.0.0.1"},
        {"Origin": "http://127.0.0.1:1", "Host": "127.0.0.1:1"},
        {"Origin": f"http://0.0.0.0:{served.port}", "Host": f"0.0.0.0:{served.port}"},
    ]
    for attempt in refused:
        assert handshake(served, **attempt) == 403, attempt
    wait_for(lambda: not served.sessions())


def test_a_foreign_host_or_origin_gets_no_page_and_no_file(served: Served) -> None:
    for path in PATHS[:3]:
        for headers in (
            {"Host": "rebind.attacker.example:8765"},
            {"Host": f"127.0.0.1.evil.example:{served.port}"},
            {"Host": f"127.0.0.1:{served.port}@evil.example"},
            {"Host": "127.0.0.1:99999"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
        ):
            status, text, _ = asked(served, path, headers, token=True)
            assert (status, text.count("\n")) == (403, 1), (path, headers)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_the_names_of_this_machine_are_served(served: Served, host: str) -> None:
    assert asked(served, "/", {"Host": f"{host}:{served.port}"}, token=True)[0] == 200


@pytest.mark.parametrize(
    "hosts",
    [
        b"Host: 127.0.0.1:%d\r\nHost: evil.example\r\n",
        b"",
        b"Host: 127.0.0.1:%d\r\nOrigin: http://127.0.0.1:%d\r\nOrigin: null\r\n",
    ],
)
def test_no_or_two_names_are_refused(served: Served, hosts: bytes) -> None:
    port = str(served.port).encode()
    secret = f"Cookie: {served.cookie}={served.token}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n" + hosts.replace(b"%d", port) + secret)
        assert re.match(rb"HTTP/1\.[01] 40[03] ", sock.recv(4096))


@as_root
@pytest.mark.skipif(PLAIN_PYTHON is None, reason="no Python that plain users can run")
def test_another_user_of_this_machine_is_refused(served: Served) -> None:
    script = f"""if 1:
        import socket
        s = socket.create_connection(("127.0.0.1", {served.port}))
        s.sendall(b"GET /ws?width=120&height=40 HTTP/1.1\\r\\nHost: 127.0.0.1:{served.port}\\r\\n"
                  b"Origin: {served.address}\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
                  b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n")
        print(s.recv(4096).decode())
        """
    done = run_as(ALICE, [str(PLAIN_PYTHON), "-c", script])
    assert done.stdout.startswith("HTTP/1.1 403 "), done


def test_the_token_becomes_a_cookie_and_leaves_the_address(served: Served) -> None:
    status, _, headers = asked(served, f"/?token={served.token}&fontsize=20")
    assert status == 303 and headers["Location"] == "/?fontsize=20"
    cookie = headers["Set-Cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/"))
    status, page, _ = asked(served, "/?fontsize=20", {"Cookie": cookie.split(";")[0]})
    assert status == 200 and 'data-font-size="20"' in page and served.token not in page
    assert asked(served, f"/report?token={served.token}")[2]["Location"] == "/report"


def test_what_a_query_says_does_not_get_into_the_page(served: Served) -> None:
    for text in ('"><script>alert(1)</script>', "9" * 3000, "-1", "1e9", "NaN", "٣"):
        status, page, _ = asked(served, f"/?fontsize={text}&{text}", token=True)
        assert status == 200 and 'data-font-size="16"' in page and "alert" not in page


def test_an_address_names_a_screen_and_only_a_known_one(served: Served) -> None:
    for name, leads in (
        ("npus", "/ws/npus"),
        ("history", "/ws/history"),
        ("x", "/ws"),
        ('"><b>', "/ws"),
        ("../x", "/ws"),
    ):
        _, page, _ = asked(served, f"/?screen={name}", token=True)
        assert f'websocket-url="ws://127.0.0.1:{served.port}{leads}"' in page
    assert asked(served, "/ws/nothing", {"Origin": served.address}, token=True)[0] == 404


def test_a_session_begins_with_the_screen_of_its_address(tmp_path: Path) -> None:
    async def acts(terminal: Terminal) -> None:
        await terminal.shows("No changes by npudoctor on this node.")

    with serving(tmp_path) as one:
        in_session(one, acts, path="/ws/history", first="No changes")


def test_a_phone_gets_the_diagnosis_as_one_page_without_a_script(served: Served) -> None:
    status, page, headers = asked(served, "/report", token=True)
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert "python.pairing" in page and "width=device-width" in page and "<script" not in page
    assert asked(served, "/report", {"Origin": served.address})[0] == 403
    assert "/report" in asked(served, "/", token=True)[1]


def test_the_terminal_takes_keys_without_a_click(served: Served) -> None:
    assert '<script src="/focus.js">' in asked(served, "/", token=True)[1]
    script = asked(served, "/focus.js", token=True)[1]
    assert "focus()" in script and ".-first-byte " in script  # before, its report of the focus cannot be sent


def test_no_answer_is_kept_framed_or_shared(served: Served) -> None:
    for path in ("/", f"/?token={served.token}", "/static/js/textual.js", "/nothing"):
        for token in (True, False):
            headers = asked(served, path, token=token)[2]
            assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
            assert headers["X-Frame-Options"] == "DENY" and "default-src 'none'" in headers["Content-Security-Policy"]
            assert "Access-Control-Allow-Origin" not in headers


def test_there_is_no_list_of_files_and_nothing_beside_them(served: Served) -> None:
    for path in ("/static/", "/static/js/", "/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd"):
        assert asked(served, path, token=True)[0] in (403, 404), path


def test_only_get_is_answered(served: Served) -> None:
    async def post() -> list[int]:
        async with served.client() as client:
            return [
                (await client.request(method, served.address + "/", data="x" * 100)).status
                for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT")
            ]

    assert set(asyncio.run(post())) <= {400, 404, 405}


def test_a_token_is_new_for_each_start_and_not_told_to_sessions(served: Served, tmp_path: Path) -> None:
    assert len(served.token) >= 32

    async def acts(_: Any) -> None:
        for pid in served.sessions():
            for name in ("cmdline", "environ"):
                assert served.token.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
        assert served.token.encode() not in Path(f"/proc/{served.process.pid}/cmdline").read_bytes()

    in_session(served, acts)
    with serving(tmp_path) as another:
        assert another.token != served.token


def test_who_has_no_token_cannot_fill_the_terminal_of_who_started_it(served: Served) -> None:
    before = served.said.read_text(encoding="utf-8")
    for sent in (b"\x1b]0;PWN\x07\r\n\r\n", b"GET /\x1b[31m HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 50_000, b"\x00" * 99):
        with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as sock:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
    assert served.said.read_text(encoding="utf-8") == before


def test_a_connection_that_sends_nothing_is_cut_and_many_keep_nobody_out(served: Served) -> None:
    silent = [socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) for _ in range(300)]
    try:
        silent[-1].sendall(b"GET /li")
        assert asked(served, "/", token=True)[0] == 200
        for one in silent:
            with contextlib.suppress(ConnectionError):
                assert one.recv(1) == b""
    finally:
        for one in silent:
            one.close()


# What a session may do


class Terminal:
    """One open session, as a page sees it."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened
        self.drawn = b""

    async def follow(self) -> None:
        async for message in self.opened:
            if message.type is aiohttp.WSMsgType.BINARY:
                self.drawn += message.data

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.opened.send_str(json.dumps(["stdin", key]))
            await asyncio.sleep(0.2)

    async def press_until(self, keys: str, word: str, done: Callable[[], bool] = lambda: False) -> None:
        """Press keys, and again: a busy machine may show a dialog without focus, or still be in its first run.

        It is `done` even where a note was gone before the machine drew it.
        """
        for _ in range(PATIENCE_S // 10):
            await self.press(*keys)
            for _ in range(200):
                if self.has_shown(word) or done():
                    return
                await asyncio.sleep(0.05)
        raise AssertionError(f"{word} never came: {self.drawn[-3000:]!r}")

    async def shows(self, word: str) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not self.has_shown(word):
            assert asyncio.get_running_loop().time() < end, f"{word} never came: {self.drawn[-3000:]!r}"
            await asyncio.sleep(0.05)

    def has_shown(self, word: str) -> bool:
        return word in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.drawn.decode("utf-8", "replace"))


def in_session(
    served: Served,
    acts: Callable[[Terminal], Awaitable[None]],
    *,
    path: str = "/ws",
    first: str = "hccl.ports-reserved",
) -> None:
    """Open a session, wait for its first run, and act."""

    async def run() -> None:
        async with served.client() as client:
            address = f"{served.address}{path}?width=150&height=40"
            async with client.ws_connect(address, origin=served.address, max_msg_size=0) as opened:
                terminal = Terminal(opened)
                following = asyncio.create_task(terminal.follow())
                try:
                    await terminal.shows(first)
                    await acts(terminal)
                finally:
                    following.cancel()

    asyncio.run(run())
    wait_for(lambda: not served.sessions())


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_a_session_is_read_only_and_says_so(tmp_path: Path) -> None:
    async def acts(terminal: Terminal) -> None:
        await terminal.shows("read-only: started without --allow-changes")
        before = files_below(tmp_path)
        await terminal.press("F", "\r", "f", "\r", "w", "\r", "t", "5", "g", "6", "u", "\x1a", "\x13", "1", "?")
        await terminal.shows("Keys of Overview")
        assert files_below(tmp_path) == before
        assert "Apply" not in terminal.drawn.decode() and "applied" not in terminal.drawn.decode()

    with serving(tmp_path) as found:
        in_session(found, acts)


def test_with_allow_changes_a_report_is_saved_at_home_and_a_fix_applied(tmp_path: Path) -> None:
    async def acts(terminal: Terminal) -> None:
        await terminal.press_until("w\r", "Saved", lambda: any(tmp_path.glob("npudoctor-*.md")))
        await terminal.press("F")
        await terminal.shows("Apply")
        await terminal.press_until("\r", "applied")

    with serving(tmp_path, "--allow-changes") as found:
        in_session(found, acts)
    assert list(tmp_path.glob("npudoctor-*.md"))


def test_sessions_are_bounded_and_an_ended_one_makes_room(served: Served) -> None:
    async def acts() -> None:
        address = f"{served.address}/ws"
        async with served.client() as client:
            opened = [await client.ws_connect(address, origin=served.address) for _ in range(MOST_SESSIONS)]
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(address, origin=served.address)
            assert refused.value.status == 503
            async with client.get(served.address) as page:
                assert page.status == 503
                text = await page.text()
                assert "too many sessions" in text and text.count("\n") == 1
            await opened.pop().close()
            while (await client.get(served.address)).status != 200:
                await asyncio.sleep(0.1)
            for one in opened:
                await one.close()

    asyncio.run(asyncio.wait_for(acts(), PATIENCE_S))
    wait_for(lambda: not served.sessions())


def test_a_message_that_is_too_long_ends_the_session_and_one_that_means_nothing_does_not(served: Served) -> None:
    async def acts(terminal: Terminal) -> None:
        for text in (
            "",
            "[",
            "[" * 60_000,
            "{}",
            "[]",
            "1",
            '["stdin"]',
            '["stdin", 7]',
            '["stdin", "\\ud800"]',
            "[1]",
        ):
            await terminal.opened.send_str(text)
        await terminal.opened.send_str('["resize", {"width": 1e99, "height": "x"}]')
        await terminal.opened.send_str('["quit"]')
        await terminal.opened.send_bytes(b"M\x00\x00\x00\x0f" + b'{"type":"quit"}')
        await terminal.press("?")
        await terminal.shows("Keys of Overview")
        await terminal.opened.send_str(json.dumps(["stdin", "a" * MESSAGE_BYTES]))
        while not terminal.opened.closed:
            await asyncio.sleep(0.05)

    in_session(served, acts)


def test_a_message_that_unpacks_to_too_much_ends_the_session(served: Served) -> None:
    async def send() -> int | None:
        async with (
            served.client() as client,
            client.ws_connect(f"{served.address}/ws", origin=served.address, compress=15) as opened,
        ):
            await opened.send_str(json.dumps(["stdin", "a" * (64 << 20)]))
            async for _ in opened:
                pass
            return int(opened.close_code or 0)

    assert asyncio.run(asyncio.wait_for(send(), PATIENCE_S)) == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
    wait_for(lambda: not served.sessions())


@pytest.mark.slow
def test_a_process_that_hangs_is_killed_when_its_browser_goes_or_types_on(served: Served) -> None:
    async def stop(terminal: Terminal) -> None:
        for pid in served.sessions():
            os.kill(pid, signal.SIGSTOP)

    async def stop_and_type(terminal: Terminal) -> None:
        await stop(terminal)
        with contextlib.suppress(ConnectionError):
            while not terminal.opened.closed:
                await terminal.opened.send_str(json.dumps(["stdin", "j" * 30_000]))

    for acts in (stop, stop_and_type):
        in_session(served, acts)  # returns when the process has gone


def test_a_message_becomes_one_packet_and_a_size_is_bounded() -> None:
    assert session.packet('["stdin", "ab"]') == b"D\x00\x00\x00\x02ab"
    assert session.packet('["focus"]') == b'M\x00\x00\x00\x11{"type": "focus"}'
    sent = session.packet('["resize", {"width": 999999999, "height": -5}]') or b""
    assert json.loads(sent[5:]) == {"type": "resize", "width": session.LARGEST_SIZE[0], "height": 1}
    for kind in ("exit", "quit", "deliver_chunk_request", "open_url"):
        assert session.packet(json.dumps([kind, {"key": "x", "size": 1}])) is None


def test_a_browser_that_vanishes_takes_its_session_with_it(served: Served) -> None:
    request = (
        f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nOrigin: {served.address}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Cookie: {served.cookie}={served.token}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as sock:
        sock.sendall(request.encode())
        assert b" 101 " in sock.recv(200)
        wait_for(served.sessions)
    wait_for(lambda: not served.sessions())


@pytest.mark.slow
def test_a_browser_that_no_longer_answers_is_given_up(served: Served) -> None:
    request = (
        f"GET /ws?token={served.token} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nOrigin: {served.address}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as sock:
        sock.sendall(request.encode())
        wait_for(served.sessions)
        wait_for(lambda: not served.sessions())  # it neither reads nor answers the heartbeat


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_sessions_and_removes_the_socket(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, "--socket", "web.sock") as found:
        pids: list[int] = []

        async def acts() -> None:
            async with (
                found.client() as client,
                client.ws_connect(f"{found.address}/ws", origin=found.address) as opened,
            ):
                await opened.receive()
                pids.extend(found.sessions())
                found.process.send_signal(number)
                async for _ in opened:
                    pass

        asyncio.run(asyncio.wait_for(acts(), PATIENCE_S))
        assert found.process.wait(PATIENCE_S) == 0
        assert pids and not any(Path(f"/proc/{pid}").exists() for pid in pids)
        assert not (tmp_path / "web.sock").exists()
        assert "Traceback" not in found.said.read_text(encoding="utf-8")


# The Unix socket


def test_the_unix_socket_is_its_owners_alone_and_still_wants_the_token(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        with serving(tmp_path, "--socket", "web.sock") as found:
            said = (tmp_path / "web.sock").stat()
            assert stat.S_IMODE(said.st_mode) == 0o600 and said.st_uid == os.geteuid()
            assert asked(found, "/")[0] == 403
            assert asked(found, "/", {"Host": "evil.example"}, token=True)[0] == 403
            for port in (1, 9000, 65535):  # ssh -L listens wherever it was told to
                assert asked(found, "/", {"Host": f"localhost:{port}"}, token=True)[0] == 200
            own: dict[str, Any] = {"Host": "localhost:9000", "Origin": "http://localhost:9000"}
            assert handshake(found, **own) == 101
            assert handshake(found, **{**own, "Origin": "http://localhost:9001"}) == 403
            assert f"ssh -L {found.port}:{tmp_path}/web.sock NODE" in found.said.read_text(encoding="utf-8").replace(
                "'", ""
            )
    finally:
        os.umask(umask)


@as_root
@pytest.mark.skipif(PLAIN_PYTHON is None, reason="no Python that plain users can run")
def test_another_user_cannot_connect_to_the_unix_socket(open_folder: Path) -> None:
    with serving(open_folder, "--socket", "web.sock"):
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(open_folder / 'web.sock')!r})"
        done = run_as(ALICE, [str(PLAIN_PYTHON), "-c", script])
        assert "PermissionError" in done.stderr


def test_a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "web.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with serving(tmp_path, "--socket", "web.sock") as found:
        assert asked(found, "/", token=True)[0] == 200
        assert main(["web", "--socket", str(path)]) == 2
        assert "is in use: another process listens on it" in capsys.readouterr().err
        assert path.exists()
    assert not path.exists()


def test_a_socket_where_others_can_write_is_refused(open_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, mode in (("open", 0o777), ("sticky", 0o1777), ("group", 0o770), ("group sticky", 0o1770)):
        folder = open_folder / name
        folder.mkdir()
        if name.startswith("group") and os.geteuid() == 0:
            os.chown(folder, 0, ALICE)
        elif name == "group":
            continue  # his own group is nobody else
        folder.chmod(mode)
        assert main(["web", "--socket", str(folder / "web.sock")]) == 2
        assert "needs a folder that no other user can write" in capsys.readouterr().err
        assert main(["web", "--socket", str(folder / "below" / "web.sock")]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not list(folder.iterdir())


@as_root
def test_a_socket_in_a_folder_of_another_user_or_through_his_link_is_refused(
    open_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, his = open_folder / "own", open_folder / "his"
    own.mkdir()
    his.mkdir()
    (his / "link").symlink_to(own)
    give(his, ALICE)
    for path in (his / "web.sock", his / "link" / "web.sock"):
        assert main(["web", "--socket", str(path)]) == 2
        assert f"belongs to another user ({ALICE})" in capsys.readouterr().err
    assert not list(own.iterdir())


def test_what_is_not_a_socket_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link"):
        assert main(["web", "--socket", str(tmp_path / name)]) == 2
        assert "exists and is not a socket" in capsys.readouterr().err
    assert main(["web", "--socket", str(tmp_path / ("x" * 200))]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


# Finding 3


@pytest.mark.parametrize("start", [None, (sys.executable, "-m", "npudoctor")], ids=["console", "python -m"])
def test_nothing_of_the_working_folder_is_executed(tmp_path: Path, start: tuple[str, ...] | None) -> None:
    folder = tmp_path / "a user's folder"
    folder.mkdir()
    for name in ("rich", "json", "textual", "aiohttp", "psutil", "sitecustomize", "usercustomize", "npudoctor_local"):
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'EXECUTED')!r}, 'a').write({name!r})\nraise SystemExit", encoding="utf-8"
        )

    async def acts(_: Terminal) -> None:
        for pid in found.sessions():
            assert os.readlink(f"/proc/{pid}/cwd") == "/"

    environment = {"PYTHONPATH": str(folder), "PYTHONSTARTUP": str(folder / "rich.py")} if start is None else None
    with serving(tmp_path, cwd=folder, env=environment, **({"command": start} if start else {})) as found:
        in_session(found, acts)
    assert not (tmp_path / "EXECUTED").exists()


def test_no_argument_reaches_a_shell_and_relative_paths_are_found(tmp_path: Path) -> None:
    name = "a node; touch EXECUTED $(touch EXECUTED) 'x.toml"
    scenario = Path(command.__file__).parents[1] / "sim" / "scenarios" / "new-node.toml"
    (tmp_path / name).write_text(scenario.read_text(encoding="utf-8"), encoding="utf-8")

    async def acts(_: Terminal) -> None:
        assert not list(tmp_path.rglob("EXECUTED"))

    with serving(tmp_path, node=["--simulate", name]) as found:
        in_session(found, acts)
    assert not Path("/EXECUTED").exists() and not list(tmp_path.rglob("EXECUTED"))


def test_every_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPUDOCTOR_CONFIG", "site/config.toml")
    for name in ("p.py", "q"):
        (tmp_path / name).touch()
    words = ["--root", "r", "--python", "venv/bin/python", "--environment", "file:vars", "--config", "c.toml"]
    made = command.session_command(
        parser_of("web").parse_args([*words, "--plugin", "p.py", "--plugin", f"{tmp_path}/q"])
    )
    assert made[1:3] == ["-I", "-c"] and made[-1] == "--read-only"
    options = made[made.index("tui") + 1 : -1]
    assert options == [
        f"--root={tmp_path}/r",
        f"--python={tmp_path}/venv/bin/python",
        f"--environment=file:{tmp_path}/vars",
        f"--config={tmp_path}/c.toml",
        f"--plugin={tmp_path}/p.py",
        f"--plugin={tmp_path}/q",
    ]
    assert os.environ["NPUDOCTOR_CONFIG"] == f"{tmp_path}/site/config.toml"
    for words in (["--replay", "n.tar.gz"], ["--simulate", "n.toml"]):
        assert f"{words[0]}={tmp_path}/{words[1]}" in command.session_command(parser_of("web").parse_args(words))
    for words in (["--simulate", "new-node"], ["--python", "python3"], ["--environment", "login:root"]):
        assert "=".join(words) in command.session_command(parser_of("web").parse_args(words))


# A site that wants no page


def test_a_site_turns_it_off_and_no_other_file_turns_it_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site, own = tmp_path / "site.toml", tmp_path / "home" / "npudoctor" / "config.toml"
    own.parent.mkdir(parents=True)
    site.write_text("[web]\nenabled = false\n", encoding="utf-8")
    own.write_text("[web]\nenabled = true\n", encoding="utf-8")
    monkeypatch.setattr(config, "SYSTEM", str(site))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for words, variable in (([], None), (["--config", str(own)], None), ([], str(own)), (["--socket", "s"], None)):
        if variable:
            monkeypatch.setenv("NPUDOCTOR_CONFIG", variable)
        assert main(["web", *words]) == 2
        said = capsys.readouterr().err
        assert said == f"npudoctor: npudoctor web is disabled on this machine: [web] enabled = false in {site}\n"


def test_a_user_turns_it_off_for_himself_and_a_mistake_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "config.toml"
    monkeypatch.setattr(config, "SYSTEM", str(tmp_path / "none"))
    own.write_text("[web]\nenabled = false\n", encoding="utf-8")
    assert main(["web", "--config", str(own)]) == 2
    assert str(own) in capsys.readouterr().err
    monkeypatch.setattr(config, "SYSTEM", str(own))
    for text, problem in (
        ("[web]\nenable = true\n", "in [web]: unknown key 'enable'; did you mean enabled?"),
        ("[web]\nenabled = 'perhaps'\n", "in [web]: enabled: "),
        ("web = false\n", "web: "),
        ("[web\n", "not valid TOML"),
    ):
        own.write_text(text, encoding="utf-8")
        for name in ("web", "check"):
            assert main([name, "--config", str(own)]) == 2
            said = capsys.readouterr().err
            assert problem in said and said.count("\n") == 1
