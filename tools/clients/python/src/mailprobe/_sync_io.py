"""Waiting, and work on files, for the synchronous client. `_async_io` has the same functions for the asynchronous client."""

from __future__ import annotations

import time
from typing import Callable, Iterator, TypeVar

T = TypeVar("T")


def sleep(seconds: float) -> None:
    """Pauses the thread."""
    time.sleep(seconds)


def run(function: Callable[[], T]) -> T:
    """Runs a function in this thread."""
    return function()


def pieces(read_at: Callable[[int, int], bytes], length: int) -> Iterator[bytes]:
    """A content from its start to its end, in pieces."""
    offset = 0
    while True:
        piece = read_at(offset, length)
        if not piece:
            return
        yield piece
        offset += len(piece)
