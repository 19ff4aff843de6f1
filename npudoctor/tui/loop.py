"""The event loop of the interface."""

from __future__ import annotations

import asyncio
from typing import Any


class Loop(asyncio.SelectorEventLoop):
    """A loop whose tasks start lazily on every Python version.

    From Python 3.12 on, Textual asks for eager tasks. A screen of MODES is then mounted before it is on the stack, and
    an Input in it raises ScreenStackError (seen with textual 8.2.8 on Python 3.12 and 3.13).
    """

    def set_task_factory(self, factory: Any) -> None:
        """Keep lazy tasks."""
