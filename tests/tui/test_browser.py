"""In a real browser: Debian's chromium, driven by Playwright, on what `npudoctor web` serves."""

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli import main
from tests.security.served import Served, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """The interface on a simulated new node; a test may give further options as its parameter."""
    pytest.importorskip("textual_serve", reason="textual-serve is not installed")
    with serving(tmp_path, *getattr(request, "param", ())) as found:
        yield found


class Page:
    """The terminal in the page, as lines of text; it is drawn on a canvas, so its own memory is read."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.route("**/textual.js", self._with_a_name_for_the_terminal)

    def _with_a_name_for_the_terminal(self, route: Any) -> None:
        answer = route.fetch()
        named = answer.text().replace("this.terminal=new ", "window.terminal=this.terminal=new ", 1)
        route.fulfill(response=answer, body=named)

    @property
    def lines(self) -> list[str]:
        rows = "[...Array(terminal.rows).keys()].map(row => terminal.buffer.active.getLine(row).translateToString())"
        found: list[str] = self.page.evaluate(f"window.terminal ? {rows} : []")
        return found

    def shows(self, *words: str, limit_s: float = 60) -> list[str]:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            lines = self.lines
            if all(any(word in line for line in lines) for word in words):
                return lines
            self.page.wait_for_timeout(200)
        raise AssertionError("it never came; the page:\n" + "\n".join(self.lines))

    def click(self, word: str) -> None:
        """Click on a word where it stands in the terminal."""
        lines = self.shows(word)
        row = next(number for number, line in enumerate(lines) if word in line)
        box = self.page.locator(".xterm-screen").bounding_box()
        columns = max(map(len, lines))
        across = lines[row].index(word) + len(word) / 2
        self.page.mouse.click(
            box["x"] + box["width"] * across / columns, box["y"] + box["height"] * (row + 0.5) / len(lines)
        )


@contextlib.contextmanager
def chromium(*arguments: str) -> Iterator[Any]:
    """A new profile of a real browser, without what it does by itself on the network."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = ["--no-sandbox", "--disable-quic", "--disable-background-networking", *arguments]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=quiet)
        try:
            yield browser.new_context(viewport={"width": 1280, "height": 800})
        finally:
            browser.close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("served", [("--allow-changes",)], indirect=True)
def test_the_overview_is_seen_in_a_browser_and_a_fix_applied_by_mouse(served: Served) -> None:
    with chromium() as context:
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        window = Page(page)
        page.goto(served.url)
        try:
            assert page.url == f"{served.address}/"
            window.shows("PROBLEMS", "CANN environment not loaded", "SIMULATED")
            page.keyboard.press("2")  # without a click
            window.shows("AI Core")
            page.keyboard.press("1")
            window.click("hccl.ports-reserved")
            window.shows("Fix  hccl.reserve-ports")
            window.click("Fix  hccl.reserve-ports")
            window.shows("60000-60031", "Apply")
            window.click("Apply")
            window.shows("applied and verified")
            window.click("Close")
            window.shows("✔ hccl.ports-reserved")
            page.keyboard.press("6")
            window.shows("hccl.reserve-ports", "applied")
        finally:
            if place := os.environ.get("BROWSER_PICTURE"):
                page.screenshot(path=place)
        assert not [text for text in complaints if "Content Security Policy" in text or text.startswith("script: ")]


FOREIGN_PAGE = """<!doctype html><title>foreign</title><script>
const own = new URLSearchParams(location.search).get("own");
const wait = (work) => Promise.race([work, new Promise(done => setTimeout(() => done("silence"), 10000))]);
const open = () => new Promise(done => {
    const socket = new WebSocket(own.replace("http", "ws") + "/ws?width=120&height=40");
    socket.onopen = () => { socket.send('["stdin","F"]'); done("open"); };
    socket.onmessage = () => done("open");
    socket.onerror = () => done("refused");
});
const load = (kind, path) => new Promise(done => {
    const made = document.createElement(kind);
    made.onload = () => done("loaded"); made.onerror = () => done("refused");
    made.src = own + path;
    document.body.append(made);
});
const read = (options) => fetch(own + "/", options).then(
    async answer => answer.type == "opaque" ? "opaque" : (await answer.text()).slice(0, 200), () => "refused");
async function attack() {
    return {
        websocket: await wait(open()),
        cors: await wait(read({credentials: "include"})),
        opaque: await wait(read({credentials: "include", mode: "no-cors"})),
        script: await wait(load("script", "/static/js/textual.js")),
    };
}
</script><body></body>"""
"""What a page of somebody else tries: to open the websocket, to read the page, to run its script."""


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[int]:
    """The port of another server of this machine, which serves the foreign page."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "index.html").write_text(FOREIGN_PAGE, encoding="utf-8")
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing of it."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("served", [("--allow-changes",)], indirect=True)
def test_a_foreign_page_in_the_same_browser_gets_nothing(served: Served, foreign: int) -> None:
    """The person has the page open, and so the cookie; the foreign page is another port, another name, or rebound."""
    port = served.port
    resolved = "--host-resolver-rules=MAP *.test 127.0.0.1"
    local = "--disable-features=LocalNetworkAccessChecks,PrivateNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"
    with chromium(resolved, local) as context:
        page = context.new_page()
        page.goto(served.url)
        page.locator("body.-first-byte").wait_for()
        sessions = served.sessions()
        assert len(sessions) == 1
        for origin, own in (
            (f"http://127.0.0.1:{foreign}", served.address),
            (f"http://localhost:{foreign}", served.address),
            (f"http://evil.test:{foreign}", served.address),
            (f"http://evil.test:{foreign}", f"http://rebound.test:{port}"),
            (f"http://evil.test:{foreign}", f"http://localhost:{port}"),
        ):
            attacker = context.new_page()
            attacker.goto(f"{origin}/?own={own}")
            said = attacker.evaluate("attack()")
            attacker.close()
            assert said["websocket"] == "refused", (origin, own, said)
            assert said["cors"] == "refused", (origin, own, said)
            assert said["opaque"] in ("refused", "opaque"), (origin, own, said)
            assert said["script"] == "refused", (origin, own, said)
            assert served.sessions() == sessions
        rebound = context.new_page()
        answer = rebound.goto(f"http://rebound.test:{port}/?token={served.token}")
        assert answer.status == 403  # also with the token: the name is not this machine's
        framing = context.new_page()
        framing.goto(f"http://127.0.0.1:{foreign}/")
        framing.evaluate(f"document.body.innerHTML = '<iframe src=\"{served.address}/\"></iframe>'")
        framing.wait_for_timeout(2000)
        assert served.sessions() == sessions


def test_no_address_but_this_machine_s_own_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--host", "0.0.0.0", "--port", "9000"]) == 2
    assert "ssh -L 9000:127.0.0.1:9000 NODE" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("textual_serve", reason="textual-serve is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["web", "--port", str(taken.getsockname()[1])]) == 2
    assert "Address already in use; name another one with --port" in capsys.readouterr().err


def test_the_page_loads_nothing_from_elsewhere() -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    from npudoctor.web.server import PAGE

    page = Path(PAGE).read_text(encoding="utf-8")
    assert "//" not in page and all(name in page for name in ("{websocket}", "{font-size}", "-first-byte"))
