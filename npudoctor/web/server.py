"""The server: one page, xterm.js, a websocket a session. Everything is bounded; nothing is served without a token."""

from __future__ import annotations

import asyncio
import html
import importlib.util
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import WSCloseCode, web

from npudoctor.web.access import Access, add_headers
from npudoctor.web.report import Report
from npudoctor.web.session import Session, bound_size

MOST_SESSIONS = 4
MOST_SILENT = 100
"""As many connections as may be open without a complete request."""

MESSAGE_BYTES = 64 << 10
"""As much as one paste into the terminal may be."""

HEAD_S = 5.0
"""How long a connection may take until its first request is complete."""

HEARTBEAT_S = 15.0
"""How often a browser is asked whether it is still there; it has half of that to answer."""

TOO_MANY = f"too many sessions: {MOST_SESSIONS} are open; close one of them and load this page again"
NO_REPORT = "the checks have printed no report in time; load this page again"
FOCUS = os.path.join(os.path.dirname(__file__), "focus.js")
PAGE = os.path.join(os.path.dirname(__file__), "page.html")
"""A page that loads nothing from anywhere else: nodes have no way out, and textual-serve's own asks for a font."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """What is served, and its users. `command` starts one terminal interface, `report` prints a page of HTML."""

    def __init__(
        self, command: Sequence[str], access: Access, *, screens: Sequence[str] = (), report: Sequence[str] = ()
    ) -> None:
        self._command = command
        self._screens = screens
        self._report = Report(report)
        self._access = access
        self._sessions: set[web.WebSocketResponse] = set()
        self._silent: dict[asyncio.BaseProtocol, None] = {}

    def app(self) -> web.Application:
        """The routes, behind the one door."""
        app = web.Application(middlewares=[self._guard], client_max_size=1)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/report", self._static_page),
                web.get("/focus.js", self._focus),
                web.get("/ws", self._websocket, allow_head=False),
                web.get("/ws/{screen}", self._websocket, allow_head=False),
                web.static("/static", _static_files()),
            ]
        )
        app.on_response_prepare.append(add_headers)
        app.on_shutdown.append(self._close)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse, or exchange the token for a cookie, or answer."""
        self._silent.pop(request.protocol, None)
        if why := self._access.refusal(request, is_websocket=request.match_info.handler == self._websocket):
            refused = _line(403, why)
            refused.force_close()
            return refused
        if request.method == "GET" and request.path in ("/", "/report") and "token" in request.query:
            query = {name: value for name, value in request.query.items() if name != "token"}
            moved = web.Response(status=303, headers={"Location": str(request.rel_url.with_query(query))})
            moved.set_cookie(self._access.cookie, self._access.token, path="/", httponly=True, samesite="Strict")
            return moved
        return await handler(request)

    async def _page(self, request: web.Request) -> web.Response:
        if len(self._sessions) >= MOST_SESSIONS:
            return _line(503, TOO_MANY)
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        screen = request.query.get("screen", "")
        address = f"ws://{request.host}/ws" + (f"/{screen}" if screen in self._screens else "")
        values = {"font-size": _number(request, "fontsize", 16, 6, 72), "websocket": address}
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", html.escape(str(value)))
        return web.Response(text=text, content_type="text/html")

    async def _focus(self, _: web.Request) -> web.Response:
        with open(FOCUS, encoding="utf-8") as file:
            return web.Response(text=file.read(), content_type="text/javascript")

    async def _static_page(self, _: web.Request) -> web.Response:
        page = await self._report.page()
        return web.Response(text=page, content_type="text/html") if page else _line(503, NO_REPORT)

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        screen = request.match_info.get("screen", "")
        if screen and screen not in self._screens:
            return _line(404, f"unknown screen; known are {', '.join(self._screens)}")
        if len(self._sessions) >= MOST_SESSIONS:
            return _line(503, TOO_MANY)
        browser = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MESSAGE_BYTES)
        self._sessions.add(browser)
        try:
            await browser.prepare(request)
            size = bound_size(_number(request, "width", 80, 1, 1000), _number(request, "height", 24, 1, 1000))
            chosen = [f"--screen={screen}"] if screen else []
            await Session([*self._command, *chosen], browser, size).run()
        finally:
            self._sessions.discard(browser)
        return browser

    async def _close(self, _: web.Application) -> None:
        """End all sessions: each ends its process when its websocket is closed."""
        await self._report.close()
        await asyncio.gather(*(one.close(code=WSCloseCode.GOING_AWAY) for one in self._sessions))
        while self._sessions:
            await asyncio.sleep(0.05)

    def accept(self, made: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        """Note a new connection; it is cut where it sends no request, the oldest at once where there are too many."""
        self._silent[made] = None
        if len(self._silent) > MOST_SILENT:
            self._cut(next(iter(self._silent)))
        asyncio.get_running_loop().call_later(HEAD_S, self._cut, made)
        return made

    def _cut(self, made: asyncio.BaseProtocol) -> None:
        if made in self._silent:
            del self._silent[made]
            if (transport := getattr(made, "transport", None)) is not None:
                transport.abort()


def _static_files() -> str:
    """The folder with xterm.js, which textual-serve has put together for Textual."""
    spec = importlib.util.find_spec("textual_serve")
    assert spec is not None and spec.origin is not None
    return os.path.join(os.path.dirname(spec.origin), "static")


def _line(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"npudoctor: {text}\n")


def _number(request: web.Request, name: str, default: int, least: int, most: int) -> int:
    said = request.query.get(name, "")
    return min(max(int(said), least), most) if said.isascii() and said.isdigit() and len(said) < 6 else default


def serve(listening: socket.socket, server: Server, *, debug: bool = False) -> None:
    """Answer on a listening socket until SIGINT, SIGTERM or SIGHUP; all processes have ended on return."""
    if not debug:
        logging.disable()  # a client could fill the terminal of the user who started it
    asyncio.run(_serve(listening, server))


async def _serve(listening: socket.socket, server: Server) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told.set)
    runner = web.AppRunner(server.app(), access_log=None, keepalive_timeout=HEAD_S, shutdown_timeout=1.0)
    await runner.setup()
    protocols = runner.server
    assert protocols is not None
    accepting = await loop.create_server(lambda: server.accept(protocols()), sock=listening)
    try:
        await told.wait()
    finally:
        accepting.close()
        await runner.cleanup()
