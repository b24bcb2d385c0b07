"""Waiting, and work on files beside the event loop. `_sync_io` has the same functions for the synchronous client."""

from __future__ import annotations

from typing import AsyncIterator, Callable, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


async def sleep(seconds: float) -> None:
    """Pauses the task."""
    await anyio.sleep(seconds)


async def run(function: Callable[[], T]) -> T:
    """Runs a function that may block in another thread."""
    return await anyio.to_thread.run_sync(function)


async def pieces(read_at: Callable[[int, int], bytes], length: int) -> AsyncIterator[bytes]:
    """A content from its start to its end, in pieces."""
    offset = 0
    while True:
        at = offset
        piece = await run(lambda: read_at(at, length))
        if not piece:
            return
        yield piece
        offset += len(piece)
