"""The examples of docs/clients.md and README.md. Each runs in a process of its own, with the scripted and with the real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from http.server import HTTPServer
from pathlib import Path
from typing import Any, Dict, List, Tuple

import httpx
import pytest
from conftest import ROOT, Scripted, require

import mailprobe

PAGES = ["docs/clients.md", "tools/clients/python/README.md"]
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
LIMIT_S = 120

#: What an example prints, by a text of the example.
PRINTED = {
    'client.verify("deliverable@example.com")': "True mailbox_exists",
    "asyncio.gather": "catch_all@example.com catch_all",
    "row.email, row.reason": "deliverable@example.com mailbox_exists",
    'row["name"]': "Alice True mailbox_exists",
    "interrupted.list_id": "20890",
    "pandas": "Carol",
    "delivery.type": "webhook.test",
    "error.invalid": "not an address",
}


def examples(language: str) -> List[Tuple[str, str]]:
    """The blocks of a language, each with its page and line."""
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in re.finditer(rf"^```{language}\n(.*?)^```$", text, flags=re.S | re.M):
            found.append((f"{page}:{text.count(chr(10), 0, block.start()) + 1}", block[1]))
    return found


EXAMPLES = examples("python")


def run(code: str, folder: Path, url: str, key: str) -> str:
    environment = {**os.environ, "MAILPROBE_URL": url, "MAILPROBE_KEY": key, "MAILPROBE_WEBHOOK_SECRET": SECRET}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text, printed in PRINTED.items():
        assert text not in code or printed in done.stdout, done.stdout
    return done.stdout


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 9
    assert all(any(text in code for _, code in EXAMPLES) for text in PRINTED)


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[place for place, _ in EXAMPLES])
def test_example_with_the_scripted_server(scripted: Scripted, tmp_path: Path, code: str) -> None:
    run(code, tmp_path, scripted.url, "key")


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[place for place, _ in EXAMPLES])
def test_example_with_the_real_server(real: Dict[str, str], tmp_path: Path, code: str) -> None:
    for path in ("/v1/lists", "/v1/webhooks"):
        if f".{path[4:]}." in code:
            require(real, path)
    run(code, tmp_path, real["url"], real["live_key" if ".webhooks." in code else "test_key"])


def test_the_frame_keeps_its_rows(scripted: Scripted, tmp_path: Path) -> None:
    (code,) = [code for _, code in EXAMPLES if "pandas" in code]
    rows = run(code, tmp_path, scripted.url, "key").splitlines()[1:]
    assert [row.split()[-1] for row in rows] == ["mailbox_exists", "invalid_syntax", "catch_all"]


def test_the_receiver(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [code for _, code in EXAMPLES if "BaseHTTPRequestHandler" in code]
    monkeypatch.setenv("MAILPROBE_WEBHOOK_SECRET", SECRET)
    names: Dict[str, Any] = {}
    exec(code, names)
    server = HTTPServer(("127.0.0.1", 0), names["Receiver"])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    body = b'{"type": "list.completed", "timestamp": "2026-11-25T12:00:00Z", "data": {"list_id": "lst_1"}}'
    headers = mailprobe.sign_webhook(SECRET, "msg_1", int(time.time()), body)
    url = f"http://127.0.0.1:{server.server_port}/"
    assert httpx.post(url, content=body, headers=headers).status_code == 204
    assert httpx.post(url, content=body + b" ", headers=headers).status_code == 400
    server.shutdown()
    server.server_close()
    assert "msg_1 list.completed lst_1" in capsys.readouterr().out
