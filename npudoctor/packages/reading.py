"""A file that is read in bounded parts through the host, as a file object for zipfile and tarfile."""

from __future__ import annotations

import io
from collections.abc import Callable

from npudoctor.host import Host

BLOCK = 1 << 16
BUDGET_BYTES = 12 << 20
"""Of one file at most this is read; a header that needs more is not one."""


class OverBudget(Exception):
    """More would have to be read than any sound header needs."""


class Parts(io.RawIOBase):
    """Random access to a file of `size` bytes; raises OverBudget, and what `read_part` raises."""

    def __init__(self, read_part: Callable[[int, int], bytes], size: int, *, budget: int = BUDGET_BYTES) -> None:
        super().__init__()
        self._read_part = read_part
        self.size = size
        self._place = 0
        self._left = budget
        self._blocks: dict[int, bytes] = {}

    def part(self, offset: int, length: int) -> bytes:
        """Some bytes, fewer at the end."""
        end = min(offset + length, self.size)
        pieces = [self._block(number) for number in range(offset // BLOCK, -(-end // BLOCK))] if end > offset else []
        start = offset % BLOCK
        return b"".join(pieces)[start : start + max(0, end - offset)]

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            self._left -= BLOCK
            if self._left < 0:
                raise OverBudget
            if len(self._blocks) >= 64:
                self._blocks.clear()
            self._blocks[number] = self._read_part(number * BLOCK, BLOCK)
        return self._blocks[number]

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def readinto(self, buffer: object) -> int:
        """Fill a buffer from here."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        found = self.part(self._place, len(view))
        view[: len(found)] = found
        self._place += len(found)
        return len(found)


def of_host(host: Host, path: str, size: int) -> Parts:
    """A file of a node."""
    return Parts(lambda offset, length: host.read_part(path, offset, length), size)
