"""The diagnosis as one page without a terminal: for a phone, or a browser that runs no script."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence

from npudoctor.web.session import end

KEPT_S = 30.0
"""So long a page is shown again instead of running the checks once more."""

LIMIT_S = 400.0
"""After so many seconds the checks are killed; they end by themselves after 300."""

LARGEST_BYTES = 16 << 20


class Report:
    """Runs the command that prints the page, once for all who ask at the same time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._lock = asyncio.Lock()
        self._running: asyncio.subprocess.Process | None = None
        self._page: str | None = None
        self._made_at = 0.0

    async def page(self) -> str | None:
        """The page, at most `KEPT_S` old; None where the checks print none."""
        async with self._lock:
            if self._page is None or time.monotonic() - self._made_at > KEPT_S:
                self._page = await self._print()
                self._made_at = time.monotonic()
            return self._page

    async def _print(self) -> str | None:
        if not self._command:
            return None
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TEXTUAL")}
        self._running = process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd="/",
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            printed = await asyncio.wait_for(process.stdout.read(LARGEST_BYTES), LIMIT_S)
            while more := await asyncio.wait_for(process.stdout.read(LARGEST_BYTES), LIMIT_S):
                printed += more
                if len(printed) > LARGEST_BYTES:
                    return None
        except asyncio.TimeoutError:
            return None
        finally:
            self._running = None
            await end(process)
        text = printed.decode("utf-8", "replace")
        return text if text.startswith("<!doctype html>") else None

    async def close(self) -> None:
        """End the checks that run."""
        if self._running is not None:
            await end(self._running)
