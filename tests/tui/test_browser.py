"""In a real browser: Debian's chromium, driven by Playwright, on what `npudoctor web` serves."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli import main
from npudoctor.cli.web import PAGE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where the interface on a simulated new node is served."""
    pytest.importorskip("textual_serve", reason="textual-serve is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "npudoctor", "web", "--port", str(port), "--simulate", "new-node"]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(300):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


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


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_overview_is_seen_in_a_browser_and_a_fix_applied_by_mouse(address: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        window = Page(page)
        page.goto(address)
        try:
            page.mouse.click(640, 400)  # the page wants a click before it takes keys
            window.shows("TO MEND", "CANN's environment is not in force", "SIMULATED")
            window.click("hccl.ports-reserved")
            window.shows("Fix  hccl.reserve-ports")
            window.click("Fix  hccl.reserve-ports")
            window.shows("60000-60031", "Apply")
            window.click("Apply")
            window.shows("applied and proved")
            window.click("Close")
            window.shows("✔ hccl.ports-reserved")
            page.keyboard.press("6")
            window.shows("hccl.reserve-ports", "applied")
        finally:
            if place := os.environ.get("BROWSER_PICTURE"):
                page.screenshot(path=place)
            browser.close()


def test_no_address_but_this_machine_s_own_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--host", "0.0.0.0", "--port", "9000"]) == 2
    assert "ssh -L 9000:127.0.0.1:9000 NODE" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("textual_serve", reason="textual-serve is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["web", "--port", str(taken.getsockname()[1])]) == 2
    assert "Address already in use; name another one with --port" in capsys.readouterr().err


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = Path(PAGE, "app_index.html").read_text()
    assert "//" not in page and all(name in page for name in ("app_websocket_url", "font_size", "-first-byte"))
