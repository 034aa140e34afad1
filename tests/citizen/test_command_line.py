"""FastStream's own command line: `run`, with workers and reloads, and `publish`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SERVICE = """
import asyncio, os
from pathlib import Path
from faststream import FastStream
from faststream_sql import SQLBroker

VERSION = "one"
done = Path("done.txt")
broker = SQLBroker("sqlite:///jobs.db", poll_interval=0.05)
app = FastStream(broker)

def note(*words):
    with done.open("a") as file:
        print(VERSION, os.getpid(), *words, file=file, flush=True)

@app.on_startup
async def schema():
    await broker.create_tables()

@app.after_startup
async def started():
    note("started")

@app.after_shutdown
async def stopped():
    note("stopped")

@broker.subscriber("jobs")
async def handle(body: str) -> str:
    await asyncio.sleep(0.05)
    note(body)
    return body.upper()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(SERVICE)
    return tmp_path


def lines(folder: Path) -> list[list[str]]:
    """What the service noted: its version, its process, and a word."""
    done = folder / "done.txt"
    return [line.split() for line in done.read_text().splitlines()] if done.exists() else []


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < deadline, "what was waited for never came"
        time.sleep(0.02)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "faststream", *arguments]


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command("run", "service:app", *arguments), cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, (folder / "log.txt").read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def publish(folder: Path, body: str, *arguments: str) -> str:
    done = subprocess.run(
        command("publish", "service:app", body, *arguments), cwd=folder, capture_output=True, text=True, timeout=40, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_two_workers_share_the_rows_and_stop_in_order(folder: Path) -> None:
    with running(folder, "--workers", "2"):
        until(lambda: sum(line[2] == "started" for line in lines(folder)) == 2)
        load = "import asyncio, service\nasync def main():\n  await service.broker.publish_batch(*'abcdefghijklmnopqrst', queue='jobs')\n"
        load += "  await service.broker.stop()\nasyncio.run(main())"
        subprocess.run([sys.executable, "-c", load], cwd=folder, check=True, timeout=40)
        until(lambda: sum(len(line[2]) == 1 for line in lines(folder)) >= 20)
    noted = lines(folder)
    assert sorted(line[2] for line in noted if len(line[2]) == 1) == sorted("abcdefghijklmnopqrst")
    assert len({line[1] for line in noted if len(line[2]) == 1}) == 2
    assert sum(line[2] == "stopped" for line in noted) == 2


def test_publish_from_the_command_line(folder: Path) -> None:
    with running(folder):
        until(lambda: bool(lines(folder)))
        publish(folder, "later", "--queue", "jobs", "--delay", "0.1", "--priority", "2")
        until(lambda: any(line[2] == "later" for line in lines(folder)))
        assert "NOW" in publish(folder, "now", "--queue", "jobs", "--rpc", "--timeout", "30")


@pytest.mark.slow
def test_a_reload_stops_the_old_code_and_starts_the_new(folder: Path) -> None:
    with running(folder, "--reload"):
        until(lambda: bool(lines(folder)))
        until(lambda: any(word == "started" for _, _, word in lines(folder)))
        time.sleep(0.5)  # the watcher starts after the service, and says nothing when it does
        (folder / "service.py").write_text(SERVICE.replace('VERSION = "one"', 'VERSION = "two"'))
        until(lambda: any(line[0] == "two" and line[2] == "started" for line in lines(folder)))
        assert [line[2] for line in lines(folder) if line[0] == "one"] == ["started", "stopped"]
        publish(folder, "after", "--queue", "jobs")
        until(lambda: any(line[0] == "two" and line[2] == "after" for line in lines(folder)))
