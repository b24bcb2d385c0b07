"""When a request is sent again, and after how long. Pure: randomness is a parameter, and the caller sleeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional

from .errors import ApiError, IdempotencyInProgressError, MailprobeError, TransportError

#: The statuses of answers that mean "later": too slow, rate limit, and faults of the server or of a proxy before it.
_LATER = (408, 429, 502, 503, 504)
#: A rate limit refuses a request before the server does anything.
_REFUSED_UNDONE = 429
#: Clients that wait for the same second would come back at once. So each adds up to this share of Retry-After.
_SPREAD = 0.1


@dataclass(frozen=True)
class Retries:
    """How often a request is sent again, and the waits in between.

    The wait doubles from `first_wait` to `longest_wait`, and is then drawn from its upper half. A Retry-After of the server
    replaces a shorter wait. If it is longer than `retry_after_max`, the error is raised at once.
    """

    #: The number of repetitions after the first attempt; 0: none.
    repetitions: int = 4
    #: Seconds.
    first_wait: float = 0.5
    #: Seconds.
    longest_wait: float = 30.0
    #: Seconds. The limits of the API count requests in windows of 60 seconds.
    retry_after_max: float = 120.0

    def wait(self, done: int, error: MailprobeError, *, repeatable: bool, random: Callable[[], float]) -> Optional[float]:
        """The seconds before the next attempt after `done` repetitions; None if there is no next attempt.

        `repeatable` means that the request may arrive twice without harm. `random` returns a number from 0 to 1.
        """
        if done >= self.repetitions or not may_repeat(error, repeatable):
            return None
        wait = min(self.longest_wait, self.first_wait * 2.0 ** min(done, 30)) * (0.5 + random() / 2)
        named = error.retry_after if isinstance(error, ApiError) else None
        if named is None:
            return wait
        if named > self.retry_after_max:
            return None
        return max(wait, named * (1 + _SPREAD * random()))


def may_repeat(error: MailprobeError, repeatable: bool) -> bool:
    """Whether a request that failed in this way can be repeated."""
    if isinstance(error, TransportError):
        return repeatable or not error.sent
    if isinstance(error, IdempotencyInProgressError):
        return repeatable
    if isinstance(error, ApiError):
        return error.status in _LATER and (repeatable or error.status == _REFUSED_UNDONE)
    return False


class Attempts:
    """Counts the failed attempts of one request."""

    def __init__(self, retries: Retries, random: Callable[[], float]) -> None:
        self._retries = retries
        self._random = random
        self._done = 0

    def next_wait(self, error: MailprobeError, *, repeatable: bool) -> Optional[float]:
        """Counts a failed attempt. The result is the seconds before the next one; None if the error is final."""
        wait = self._retries.wait(self._done, error, repeatable=repeatable, random=self._random)
        self._done += 1
        return wait

    def on_progress(self) -> None:
        """Forgets the failures, because the server has accepted a part."""
        self._done = 0
