"""How long `wait` pauses between two requests."""

from __future__ import annotations

import time
from typing import Optional

from .errors import WaitTimeoutError

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0
_GROWTH = 1.5


class Polling:
    """The pauses of one wait: from half a second to five seconds, or a constant interval."""

    def __init__(self, what: str, timeout: Optional[float], interval: Optional[float]) -> None:
        self._what = what
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._interval = interval
        self._pause = _FIRST_PAUSE_S if interval is None else interval

    def next_pause(self) -> float:
        """The seconds until the next request. Raises WaitTimeoutError at the end of the timeout."""
        pause = self._pause
        if self._interval is None:
            self._pause = min(_LONGEST_PAUSE_S, self._pause * _GROWTH)
        if self._deadline is None:
            return pause
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise WaitTimeoutError(f"{self._what} did not end in time; it continues on the server")
        return min(pause, left)
