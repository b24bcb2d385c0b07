"""The servers of the tests, and clients of both kinds behind one face."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import httpx
import pytest
from blocking import Blocking
from anyio.from_thread import start_blocking_portal

import mailprobe

ROOT = Path(__file__).parents[4]
SERVERS = ROOT / "tools/clients/servers"
#: Many retries, and no long waits.
QUICK = mailprobe.Retries(repetitions=4, first_wait=0.01, longest_wait=0.02)


def _start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _end(process: "subprocess.Popen[str]") -> None:
    process.communicate(timeout=120)


class Scripted:
    """The scripted server, empty at the start of each test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client()

    def control(self, path: str, body: Any = None) -> Any:
        if body is None:
            return self.http.get(f"{self.url}/control/{path}").json()
        return self.http.post(f"{self.url}/control/{path}", json=body).json()

    def fault(self, method: str, path: str, **fault: Any) -> None:
        self.control("faults", [{"method": method, "path": path, **fault}])

    def journal(self) -> List[Dict[str, Any]]:
        return list(self.control("journal"))


@pytest.fixture(scope="session")
def scripted_process() -> Iterator[Scripted]:
    process = _start(str(SERVERS / "scripted.py"))
    assert process.stdout is not None
    server = Scripted(process.stdout.readline().split()[1])
    yield server
    server.http.close()
    _end(process)


@pytest.fixture
def scripted(scripted_process: Scripted) -> Scripted:
    scripted_process.control("reset", {})
    return scripted_process


@pytest.fixture(scope="session")
def real() -> Iterator[Dict[str, str]]:
    """`mailprobe serve` with mailnet: `url`, `live_key` and `test_key`."""
    folder = os.environ.get("MAILPROBE_BIN_DIR")
    if not folder:
        pytest.skip("MAILPROBE_BIN_DIR is not set: no server to test against")
    process = _start(str(SERVERS / "real.py"), folder)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())
    _end(process)


def require(real: Dict[str, str], path: str) -> None:
    """Skips a test whose endpoint the server does not have yet."""
    answer = httpx.get(real["url"] + path, headers={"Authorization": f"Bearer {real['live_key']}"})
    if answer.status_code in (404, 405):
        pytest.skip(f"the server has no {path} yet: GET {path} is answered {answer.status_code}")


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients that are closed after the test. An asynchronous one is used through Blocking."""
    clients: List[Any] = []
    with start_blocking_portal() as portal:

        def new(url: str, key: str = "key", **options: Any) -> Any:
            options = {"retries": QUICK, "timeout": 20.0, **options}
            if request.param == "sync":
                clients.append(mailprobe.Client(url, key, **options))
            else:
                clients.append(Blocking(mailprobe.AsyncClient(url, key, **options), portal))
            return clients[-1]

        yield new
        for client in clients:
            getattr(client, "close" if request.param == "sync" else "aclose")()


@pytest.fixture
def client(make: Callable[..., Any], scripted: Scripted) -> Any:
    """A client of the scripted server."""
    return make(scripted.url)
