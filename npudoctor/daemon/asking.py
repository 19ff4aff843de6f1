"""One request to a daemon on its Unix socket, for cheap probes: standard library only."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

SOCKET = "/run/npudoctor/npudoctor.sock"
LARGEST_BYTES = 1 << 16


class NoAnswer(Exception):
    """The daemon gave no answer; the text is a clause that says why."""


def ask(path: str, what: str, *, timeout_s: float) -> tuple[bool, dict[str, Any]]:
    """Ask `/livez` or `/readyz`: whether the status is 200, and the document. Raises NoAnswer."""
    until = time.monotonic() + timeout_s
    request = f"GET /{what} HTTP/1.1\r\nHost: npudoctor\r\nConnection: close\r\n\r\n"
    said = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talking:
            talking.settimeout(timeout_s)
            talking.connect(path)
            talking.sendall(request.encode())
            while len(said) < LARGEST_BYTES:
                talking.settimeout(max(0.001, until - time.monotonic()))
                piece = talking.recv(LARGEST_BYTES)
                if not piece:
                    break
                said += piece
        head, _, body = said.partition(b"\r\n\r\n")
        return head.split(b" ", 2)[1] == b"200", json.loads(body)
    except TimeoutError:
        raise NoAnswer(f"no answer on {path} within {timeout_s:g} s") from None
    except OSError as problem:
        raise NoAnswer(f"no daemon answers on {path}: {problem.strerror or problem}") from problem
    except (ValueError, IndexError) as problem:
        raise NoAnswer(f"the server on {path} is not npudoctor's daemon") from problem
