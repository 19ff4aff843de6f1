"""Keys are handled strictly in order: text typed after `/` goes into the field that it opens.

Textual sends all keys that arrive at once, as over a slow connection, to the widget focused before the first of them.
Here each key waits until the one before has been handled.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from textual import events
from textual.app import App
from textual.message import Message

LOST_S = 0.3
"""Seconds to wait for a key whose widget was removed."""


class KeyHandled(Message):
    """Follows a key from the widget up to the application, and once more behind the messages that the key caused."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again


class KeyQueue(App[int]):
    """An application that handles keys in order."""

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[events.Key] = deque()
        self._under_way: events.Key | None = None

    async def on_event(self, event: events.Event) -> None:
        """Queue a key while another is being handled."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        self._typed.append(event)
        if self._under_way is None:
            await self._send()
        else:
            self.set_timer(LOST_S, partial(self._report_lost, self._under_way))

    async def on_key_handled(self, message: KeyHandled) -> None:
        """Send the next key after one was handled."""
        message.stop()
        if not (message.again and (self.focused or self.screen).post_message(KeyHandled(again=False))):
            await self._send()

    async def _send(self) -> None:
        self._under_way = None
        while self._typed and self._under_way is None:
            event = self._typed.popleft()
            target = self.focused or self.screen
            await super().on_event(event)
            if event.is_forwarded and target.post_message(KeyHandled(again=True)):
                self._under_way = event

    async def _report_lost(self, key: events.Key) -> None:
        if self._under_way is key:
            await self._send()
