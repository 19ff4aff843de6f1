"""One browser and the terminal interface that it shows: a process of its own, in packets over its stdin and stdout.

The packets are those of Textual's web driver: a letter (D for what a terminal would get, M for JSON about it), the
size, the bytes. textual-serve has the same in its `AppService`, but starts a shell, waits for a process for as long as
that hangs, and passes on requests to open URLs and to deliver files, which npudoctor never makes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Sequence

from aiohttp import WSMsgType, web

LARGEST_SIZE = (500, 200)
"""In columns and lines; the memory of a session grows with it."""

LEAVING_S = 8.0
"""How long a process may take to end what it runs on the node before it is killed; it takes 3 s by itself."""

HANGING_S = 30.0
"""How long a process may take no keys; then it hangs, and its session is ended."""

_STARTED = b"__GANGLION__\n"
_PRELUDE_LINES = 10


class Session:
    """A process that draws for one websocket."""

    def __init__(self, command: Sequence[str], socket: web.WebSocketResponse, size: tuple[int, int]) -> None:
        self._command = command
        self._socket = socket
        self._size = size

    async def run(self) -> None:
        """Show the process until it ends or the browser goes; nothing of it is left on return."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd="/",
            env=_environment(self._size),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        shown = asyncio.create_task(self._show(process))
        try:
            await self._forward(process)
        finally:
            await end(process)
            shown.cancel()

    async def _forward(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError):  # the process has ended, or hangs
            async for message in self._socket:
                if message.type is WSMsgType.TEXT and (sent := packet(message.data)):
                    process.stdin.write(sent)
                    await asyncio.wait_for(process.stdin.drain(), HANGING_S)

    async def _show(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            for _ in range(_PRELUDE_LINES):
                if await process.stdout.readline() == _STARTED:
                    break
            while True:
                kind = await process.stdout.readexactly(1)
                size = int.from_bytes(await process.stdout.readexactly(4), "big")
                payload = await process.stdout.readexactly(size)
                if kind == b"D":
                    await self._socket.send_bytes(payload)
        except (EOFError, ValueError, ConnectionError):
            pass
        finally:
            await self._socket.close()


def packet(text: str) -> bytes | None:
    """What a process is told for a message of the page; None for one that is not understood."""
    try:
        message = json.loads(text)
        match message:
            case ["stdin", str(keys)]:
                return _pack(b"D", keys.encode())
            case ["resize", {"width": int(width), "height": int(height)}]:
                width, height = bound_size(width, height)
                return _pack(b"M", json.dumps({"type": "resize", "width": width, "height": height}).encode())
            case ["blur" | "focus" as kind, *_]:
                return _pack(b"M", json.dumps({"type": kind}).encode())
    except (ValueError, RecursionError):
        pass
    return None


def bound_size(width: int, height: int) -> tuple[int, int]:
    """A size that a process may be given."""
    return min(max(width, 1), LARGEST_SIZE[0]), min(max(height, 1), LARGEST_SIZE[1])


def _pack(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload


def _environment(size: tuple[int, int]) -> dict[str, str]:
    """Our own variables, without those that have Textual write logs and screenshots, and what its web driver reads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TEXTUAL")}
    return {
        **kept,
        "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "TERM_PROGRAM": "textual",
        "COLUMNS": str(size[0]),
        "ROWS": str(size[1]),
    }


async def end(process: asyncio.subprocess.Process) -> None:
    """Have the process end what it runs on the node; kill it where it hangs."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), LEAVING_S)
    except asyncio.TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
