"""Lines of JSON from pieces of bytes. Only LF ends a line: a text of JSON may contain other separators, such as U+2028."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator

from .errors import UnexpectedAnswerError

#: More than a row of a list has.
LINE_BYTES_MAX = 16 << 20


class JsonLines:
    """Joins the pieces of one answer, and cuts them into rows."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def rows(self, piece: bytes) -> Iterator[Dict[str, Any]]:
        """The rows that end in the next piece."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._rest += line
            whole = bytes(self._rest)
            self._rest.clear()
            if whole.strip():
                yield _row(whole)
        self._rest += rest
        if len(self._rest) > LINE_BYTES_MAX:
            raise UnexpectedAnswerError("a row of the results is too long")

    def last_rows(self) -> Iterator[Dict[str, Any]]:
        """The row after the last LF, if there is one."""
        return self.rows(b"\n")


def _row(line: bytes) -> Dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UnexpectedAnswerError("a row of the results is not JSON") from error
    if not isinstance(row, dict):
        raise UnexpectedAnswerError("a row of the results is not an object")
    return row
