"""The content of an upload, as bytes that can be read at an offset.

A path, bytes and a file that can seek are read again from any offset. Any other file keeps the last part that was read: after a
broken connection, the server has at least everything before that part.
"""

from __future__ import annotations

import io
import os
from typing import IO, Any, Optional, Union

from .errors import UploadError

#: What can be uploaded: a path, bytes, or a file that is open for reading bytes.
Content = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, IO[bytes]]


class Source:
    """A content. Offsets count from the position that the file had at first."""

    def __init__(self, content: Content, size: Optional[int] = None) -> None:
        """`size` is the size of a file that cannot seek, if it is known. The file ends there."""
        self._owned = isinstance(content, (str, os.PathLike, bytes, bytearray, memoryview))
        self._file: Any = _opened(content)
        self.is_seekable = _is_seekable(self._file)
        self._start: int = self._file.tell() if self.is_seekable else 0
        self.size: Optional[int] = _rest(self._file) if self.is_seekable else size
        # Of a file that cannot seek: the last part, and the offset of its first byte.
        self._kept = b""
        self._kept_at = 0

    def close(self) -> None:
        """Closes the file, if this object has opened it."""
        if self._owned:
            self._file.close()

    def read_at(self, offset: int, length: int) -> bytes:
        """The next bytes from an offset: `length` bytes, or fewer at the end.

        Raises UploadError if the offset is gone, if the file has become shorter, or if a file that cannot seek is longer than its size.
        """
        if self.size is not None:
            length = max(0, min(length, self.size - offset))
        if self.is_seekable:
            part = self._seek_and_read(offset, length)
        else:
            # One more byte at the end tells whether the file really ends there.
            part = self._read_on(offset, length + 1 if offset + length == self.size else length)
        if len(part) > length:
            raise UploadError("the file is longer than its size")
        if self.size is not None and len(part) < length:
            raise UploadError("the file is shorter than its size")
        return part

    def _seek_and_read(self, offset: int, length: int) -> bytes:
        self._file.seek(self._start + offset)
        return self._read(length)

    def _read_on(self, offset: int, length: int) -> bytes:
        if offset < self._kept_at:
            raise UploadError("the server asks for bytes that were read long ago, and the file cannot seek")
        while offset > self._kept_at + len(self._kept):
            self._kept_at += len(self._kept)
            self._kept = self._read(min(1 << 20, offset - self._kept_at))
            if not self._kept:
                raise UploadError("the server has more bytes than the file")
        kept = self._kept[offset - self._kept_at :]
        self._kept = kept + self._read(length - len(kept))
        self._kept_at = offset
        return self._kept[:length]

    def _read(self, length: int) -> bytes:
        """A raw file may return fewer bytes than there are."""
        pieces = []
        while length > 0:
            piece = self._file.read(length)
            if isinstance(piece, str):
                raise TypeError("the file is open for text; open it with mode 'rb'")
            if not piece:
                break
            pieces.append(bytes(piece))
            length -= len(piece)
        return b"".join(pieces)


def _opened(content: Content) -> Any:
    if isinstance(content, (bytes, bytearray, memoryview)):
        return io.BytesIO(content)
    if isinstance(content, (str, os.PathLike)):
        return open(content, "rb")
    return content


def _is_seekable(file: Any) -> bool:
    seekable = getattr(file, "seekable", None)
    return bool(seekable is not None and seekable())


def _rest(file: Any) -> int:
    start: int = file.tell()
    end: int = file.seek(0, os.SEEK_END)
    file.seek(start)
    return max(0, end - start)
