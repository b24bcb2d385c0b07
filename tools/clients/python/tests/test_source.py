"""The rules of the source tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mailprobe

ROOT = Path(__file__).parent.parent


def test_the_synchronous_client_is_up_to_date() -> None:
    subprocess.run([sys.executable, str(ROOT / "scripts/unasync.py"), "--check"], check=True)


def test_public_names_are_documented() -> None:
    for name in mailprobe.__all__:
        found = getattr(mailprobe, name)
        if isinstance(found, type):
            assert found.__doc__, name


def test_it_runs_on_python_3_9() -> None:
    command = [str(Path(sys.executable).with_name("vermin")), "-t=3.9-", "--no-tips", "--eval-annotations", str(ROOT / "src")]
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
