"""Who may use the page: who knows the token, from the page itself, under a name of this machine.

The token is in the URL that is printed. The first request exchanges it for a cookie, so that it does not stay in the
address bar. Host and Origin are compared too: another page in the same browser, also one whose name was made to resolve
to this machine (DNS rebinding), gets nothing by the cookie.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from aiohttp import hdrs, web

_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::(\d{1,5}))?", re.ASCII)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""xterm.js adds style elements of its own; older browsers do not count a websocket as 'self'."""


class Access:
    """What a request must bring. `port` is the one in its Host; None behind a Unix socket, where ssh chooses it."""

    def __init__(self, port: int | None) -> None:
        self.token = secrets.token_urlsafe(32)
        self.port = port
        self.cookie = f"npudoctor-{hashlib.sha256(self.token.encode()).hexdigest()[:8]}"

    def refusal(self, request: web.Request, *, is_websocket: bool) -> str | None:
        """Why a request is refused, in a sentence; None where it is not."""
        hosts = request.headers.getall(hdrs.HOST, [])
        if len(hosts) != 1 or not self._is_ours(hosts[0].lower()):
            port = f":{self.port}" if self.port else ""
            return f"the Host header must be 127.0.0.1{port} or localhost{port}; use the same port in ssh -L"
        origins = request.headers.getall(hdrs.ORIGIN, [])
        if any(one.lower() != f"http://{hosts[0].lower()}" for one in origins) or (is_websocket and len(origins) != 1):
            return "the request comes from another page: the Origin header must be the address of this page"
        if not self._is_known(request.query.get("token")) and not self._is_known(request.cookies.get(self.cookie)):
            return "token missing or wrong: open the URL that `npudoctor web` has printed"
        return None

    def _is_ours(self, host: str) -> bool:
        found = _LOOPBACK.fullmatch(host)
        return found is not None and self.port in (None, int(found[1] or 80))

    def _is_known(self, secret: str | None) -> bool:
        return secret is not None and secrets.compare_digest(
            secret.encode("utf-8", "surrogatepass"), self.token.encode()
        )


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Let no browser keep, frame, share or extend an answer."""
    response.headers.update(
        {
            "Cache-Control": "no-store",
            "Content-Security-Policy": _POLICY.format(host=_own_name(request)),
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Server": "npudoctor",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }
    )


def _own_name(request: web.Request) -> str:
    """The Host of the request where it is a name of this machine: nothing else may get into a header."""
    host = request.headers.get(hdrs.HOST, "").lower()
    return host if _LOOPBACK.fullmatch(host) else "127.0.0.1"
