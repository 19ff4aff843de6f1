"""The HTTP interface: read-only, answered from memory; no request ever runs a tool, reads a file by name, or writes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from npudoctor.daemon import answers, metrics
from npudoctor.daemon.publisher import Board
from npudoctor.data import to_json
from npudoctor.sdk import PROFILES

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_CHANGES = 1000
HEAD_BYTES = 16 << 10
MOST_HEADERS = 100
_PLAIN = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Wrong(Exception):
    """An invalid request; the text is a clause."""


def api(board: Board) -> App:
    """The whole API, for the Unix socket and loopback."""
    page = _Pages(board)
    routes = [
        Route("/livez", page.livez),
        Route("/readyz", page.readyz),
        Route("/v1/report", page.report),
        Route("/v1/issues", page.issues),
        Route("/v1/history", page.history),
        Route("/v1/cards", page.cards),
        Route("/metrics", page.metrics),
    ]
    return _Bounded(_Scraped(_app(routes), board))


def metrics_alone(board: Board) -> App:
    """/metrics only, for other addresses."""
    return _Bounded(_Scraped(_app([Route("/metrics", _Pages(board).metrics)]), board))


def _app(routes: list[Route]) -> Starlette:
    known = ", ".join(route.path for route in routes)

    async def _not_found(_: Request, __: Exception) -> Response:
        return _problem(f"no such path; known are {known}", 404)

    handlers: dict[Any, Any] = {404: _not_found, 405: _not_allowed, Wrong: _answer_error}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


class _Pages:
    def __init__(self, board: Board) -> None:
        self.board = board

    async def livez(self, _: Request) -> Response:
        """200 while the scheduler is alive."""
        said = self.board.live()
        return _json(to_json(said).encode(), 200 if said.alive else 503)

    async def readyz(self, _: Request) -> Response:
        """200 while the NPUs of this node are known to be healthy."""
        said = self.board.ready()
        return _json(to_json(said).encode(), 200 if said.ready else 503)

    async def report(self, request: Request) -> Response:
        """The newest report."""
        profile = _word(request, "profile", PROFILES[:2])
        _only(request, "profile")
        said = self.board.report(profile)
        if said is None:
            return _problem("no such report yet: the first run has not ended", 503)
        return _json(said)

    def issues(self, request: Request) -> Response:
        """Open issues; a plain function, so that a slow disk delays no other request."""
        everything = _word(request, "all", ("true", "false")) == "true"
        _only(request, "all")
        return _json(self.board.issues(all_of_them=everything))

    def history(self, request: Request) -> Response:
        """Changes; a plain function, too."""
        limit = _number(request, "limit", 1, MOST_CHANGES)
        before = _number(request, "before", 1, 1 << 53)
        _only(request, "limit", "before")
        return _json(self.board.changes(100 if limit is None else limit, before))

    async def cards(self, _: Request) -> Response:
        """Every chip."""
        return _json(self.board.cards())

    async def metrics(self, _: Request) -> Response:
        """The metrics rendered for the published snapshot."""
        return Response(self.board.metrics, headers={"content-type": metrics.CONTENT_TYPE, **_PLAIN})


def _word(request: Request, name: str, known: tuple[str, ...]) -> str | None:
    said = request.query_params.get(name)
    if said is not None and said not in known:
        raise Wrong(f"{name} must be one of {', '.join(known)}")
    return said


def _number(request: Request, name: str, least: int, most: int) -> int | None:
    said = request.query_params.get(name)
    if said is None:
        return None
    if not (said.isascii() and said.isdigit() and len(said) < 18 and least <= int(said) <= most):
        raise Wrong(f"{name} must be a number from {least} to {most}")
    return int(said)


def _only(request: Request, *names: str) -> None:
    if any(name not in names for name in request.query_params):
        raise Wrong(f"unknown parameter; known are {', '.join(names)}")


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, headers={"content-type": "application/json", **_PLAIN})


def _problem(error: str, status: int, **headers: str) -> Response:
    response = _json(to_json(answers.Problem(error=error)).encode(), status)
    response.headers.update(headers)
    return response


async def _not_allowed(_: Request, __: Exception) -> Response:
    return _problem("only GET and HEAD are allowed: the API is read-only", 405, allow="GET, HEAD")


async def _answer_error(_: Request, problem: Exception) -> Response:
    return _problem(str(problem), 400)


_LOOPBACK = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)


class _Bounded:
    """Refuses requests with a body, which no answer needs, and requests with a long head."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        headers = scope.get("headers", ())
        if scope["type"] == "http" and (len(headers) > MOST_HEADERS or _head_bytes(scope) > HEAD_BYTES):
            said = f"request head too large: at most {HEAD_BYTES >> 10} KiB and {MOST_HEADERS} headers"
            await _problem(said, 431, connection="close")(scope, receive, send)
            return
        if scope["type"] == "http" and any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers
        ):
            await _problem("request bodies are not allowed", 413, connection="close")(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _head_bytes(scope: Scope) -> int:
    """The size of a request head in bytes, without its method and version."""
    line = len(scope["raw_path"]) + len(scope["query_string"])
    return line + sum(len(name) + len(value) + len(b": \r\n") for name, value in scope.get("headers", ()))


class _Scraped:
    """Answers GET /metrics, by far the most frequent request, without routing."""

    def __init__(self, app: App, board: Board) -> None:
        self.app = app
        self.board = board
        said = {"content-type": metrics.CONTENT_TYPE, **_PLAIN}
        self.headers = [(name.encode(), value.encode()) for name, value in said.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] == "http" and scope["path"] == "/metrics" and scope["method"] == "GET":
            body = self.board.metrics
            headers = [*self.headers, (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await self.app(scope, receive, send)


class OnThisMachine:
    """Refuses Host names of other hosts on loopback: a web page in a local browser must not read the answers."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        hosts = [value for name, value in scope.get("headers", ()) if name == b"host"]
        if scope["type"] == "http" and not all(map(_LOOPBACK.fullmatch, hosts)):
            await _problem("unknown host: only 127.0.0.1 and localhost are allowed", 421)(scope, receive, send)
            return
        await self.app(scope, receive, send)
