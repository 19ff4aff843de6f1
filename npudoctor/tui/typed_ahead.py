"""Keys act one after the other, however fast they come: what is typed after `/` is typed into the field it opens.

Textual hands all keys that arrive at once, as over a slow connection, to the widget that has the focus before the first
of them; here each waits until the one before has come through.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from textual import events
from textual.app import App
from textual.message import Message

LOST_S = 0.3
"""How long to wait for a key whose widget went away with it."""


class Through(Message):
    """Travels behind a key, from the widget up to the application; and once more, behind what the key led to."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again


class TypedAhead(App[int]):
    """An application whose keys keep their order."""

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[events.Key] = deque()
        self._under_way: events.Key | None = None

    async def on_event(self, event: events.Event) -> None:
        """Hold a key back while another is under way."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        self._typed.append(event)
        if self._under_way is None:
            await self._send()
        else:
            self.set_timer(LOST_S, partial(self._lost, self._under_way))

    async def on_through(self, message: Through) -> None:
        """The key has been acted upon."""
        message.stop()
        if not (message.again and (self.focused or self.screen).post_message(Through(again=False))):
            await self._send()

    async def _send(self) -> None:
        self._under_way = None
        while self._typed and self._under_way is None:
            event = self._typed.popleft()
            target = self.focused or self.screen
            await super().on_event(event)
            if event.is_forwarded and target.post_message(Through(again=True)):
                self._under_way = event

    async def _lost(self, key: events.Key) -> None:
        if self._under_way is key:
            await self._send()
