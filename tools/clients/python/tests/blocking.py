"""An asynchronous object behind a synchronous face, so that each test runs with both kinds of clients."""

from __future__ import annotations

import inspect
from typing import Any, AsyncIterator, Iterator

from anyio.from_thread import BlockingPortal

from mailprobe import AsyncBatches, AsyncLists, AsyncWebhooks


class Blocking:
    """Runs coroutines and asynchronous iterators to their end."""

    def __init__(self, inner: Any, portal: BlockingPortal) -> None:
        self._inner = inner
        self._portal = portal

    def __repr__(self) -> str:
        return repr(self._inner)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if isinstance(found, (AsyncBatches, AsyncLists, AsyncWebhooks)):
            return Blocking(found, self._portal)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            result = found(*arguments, **named)
            if inspect.isawaitable(result):
                return self._portal.call(_awaited, result)
            if hasattr(result, "__anext__"):
                return self._iterate(result)
            return result

        return call

    def _iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._portal.call(_next, items)
                except StopAsyncIteration:
                    return
        finally:
            self._portal.call(_closed, items)


async def _closed(items: Any) -> None:
    await items.aclose()


async def _next(items: AsyncIterator[Any]) -> Any:
    return await items.__anext__()


async def _awaited(result: Any) -> Any:
    return await result
