"""A server of this project, and mailnet, for the tests of the clients.

`python3 real.py BIN_DIR` starts `mailnet` and `mailprobe serve` from this folder on free ports of 127.0.0.1. It prints one line of JSON
with `url`, `live_key` and `test_key`, and serves until its standard input ends.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENARIO = Path(__file__).parent.parent.parent / "mailnet/scenarios/reasons.toml"
START_LIMIT_S = 60
END_LIMIT_S = 90
CREDITS = "100000"
LIMIT = "100000"


def wait_for(path, pattern, process):
    """The match of a pattern in a file that a process writes."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        found = re.search(pattern, path.read_text(errors="replace"))
        if found:
            return found
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit(f"{path.name}: no line like {pattern}\n{path.read_text(errors='replace')}")


class World:
    """The two processes."""

    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.running = binaries, folder, []

    def command(self, *arguments):
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder)}
        words = [str(self.binaries / "mailprobe"), *arguments, "--data", str(self.folder / "data")]
        return words, environment

    def start(self, name, words, environment=None):
        log = self.folder / f"{name}.log"
        with open(log, "wb") as out:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
        self.running.append(process)
        return process, log

    def serve(self):
        mailnet = [str(self.binaries / "mailnet"), "--scenario", str(SCENARIO), "--dns", "127.0.0.1:0", "--smtp-port", "0"]
        process, log = self.start("mailnet", mailnet)
        dns, port = wait_for(log, r"(?m)^dns (\S+) smtp-port (\d+)", process).groups()
        flags = ["--listen", "127.0.0.1:0", "--resolver", dns, "--smtp-port", port, "--allow-net", "127.0.0.0/8"]
        flags += ["--pace", "lab", "--ehlo", "probe.example", "--self-checks", "false"]
        process, log = self.start("serve", *self.command("serve", *flags))
        address = wait_for(log, r"(?m)^listening (?:on )?(?:http://)?(127\.0\.0\.1:\d+)", process)[1]
        keys = dict(line.split(" ", 1) for line in (self.folder / "data/first-keys").read_text().splitlines() if " " in line)
        for arguments in (["account", "grant", "default", CREDITS], ["account", "set-limits", "default", *self.limits()]):
            words, environment = self.command(*arguments)
            subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
        return {"url": f"http://{address}", "live_key": keys["live"], "test_key": keys["test"]}

    def limits(self):
        """All limits that the program knows, so that the tests never reach one."""
        words, environment = self.command("account", "set-limits", "--help")
        text = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
        names = sorted(set(re.findall(r"(?m)^ +--([a-z-]+) <N>", text)))
        return [word for name in names for word in (f"--{name}", LIMIT)]

    def end(self):
        for process in reversed(self.running):
            process.terminate()
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main():
    """Serves until standard input ends, so that no process stays behind after its tests."""
    binaries = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="clients-") as folder:
        world = World(binaries, Path(folder))
        try:
            print(json.dumps(world.serve()), flush=True)
            sys.stdin.read()
        finally:
            world.end()


if __name__ == "__main__":
    main()
