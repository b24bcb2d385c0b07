"""Writes the synchronous client from the asynchronous one: `unasync.py` writes the file, `unasync.py --check` compares it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src/mailprobe/_async_client.py"
TARGET = SOURCE.with_name("_sync_client.py")

HEAD = '"""The synchronous client. scripts/unasync.py writes this file from `_async_client.py`. Do not edit it."""'

RULES = [
    (r'\A""".*?"""', HEAD),
    (r"from \. import _async_io as io", "from . import _sync_io as io"),
    (r"httpx\.AsyncClient", "httpx.Client"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsync(Client|Batches|Lists|Webhooks)\b", r"\1"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"any number of tasks", "any number of threads"),
]


def synchronous(text: str) -> str:
    """The synchronous form of a file."""
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text, count=1 if pattern.startswith(r"\A") else 0, flags=re.S)
    names = re.search(r"from typing import \((.*?)\n\)", text, flags=re.S)
    if names:
        ordered = sorted(names[1].split(), key=lambda name: (not name.rstrip(",").isupper(), name))
        text = text.replace(names[1], "\n    " + "\n    ".join(ordered))
    return text


def main() -> int:
    """Writes or compares the file; the exit code is 1 if it differs."""
    wanted = synchronous(SOURCE.read_text(encoding="utf-8"))
    if "--check" in sys.argv[1:]:
        is_same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == wanted
        if not is_same:
            print(f"{TARGET} is not up to date: run {__file__}", file=sys.stderr)
        return 0 if is_same else 1
    TARGET.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
