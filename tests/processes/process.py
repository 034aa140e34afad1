"""A process under test, and the lines that it prints."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 20.0
"""How long a test waits for a line that must come: a bound on hanging, never a measure."""


class Process:
    """A Python script in a process of its own. Its standard output is read line by line; its errors go into a file."""

    def __init__(self, script: str, *arguments: str, errors: Path) -> None:
        self.errors = errors
        self.lines: list[tuple[float, list[str]]] = []
        self._unread: queue.Queue[tuple[float, list[str]] | None] = queue.Queue()
        with errors.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", script, *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._unread.put((time.monotonic(), line.decode().split()))
        self._unread.put(None)

    def next(self, patience: float = PATIENCE_SECONDS) -> list[str] | None:
        """The next line in words; None where the process has closed its output."""
        try:
            found = self._unread.get(timeout=patience)
        except queue.Empty:
            raise AssertionError(f"no line in {patience} s; so far {self.lines[-5:]}\n{self.log()}") from None
        if found is None:
            self._unread.put(None)
            return None
        self.lines.append(found)
        return found[1]

    def until(self, *words: str, patience: float = PATIENCE_SECONDS) -> list[str]:
        """Read until a line that begins with the words."""
        return self.until_that(lambda line: line[: len(words)] == list(words), " ".join(words), patience)

    def until_that(self, fits: Callable[[list[str]], bool], what: str, patience: float = PATIENCE_SECONDS) -> list[str]:
        deadline = time.monotonic() + patience
        while (line := self.next(max(deadline - time.monotonic(), 0.001))) is not None:
            if fits(line):
                return line
        raise AssertionError(f"the process ended before it printed {what!r}:\n{self.log()}")

    def rest(self) -> list[list[str]]:
        """Everything that was printed and not read so far, without waiting."""
        found = []
        while not self._unread.empty():
            item = self._unread.get()
            if item is None:
                self._unread.put(None)
                break
            self.lines.append(item)
            found.append(item[1])
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, patience: float = PATIENCE_SECONDS) -> int:
        """The exit code."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the process did not end in {patience} s:\n{self.log()}") from None

    def log(self) -> str:
        return self.errors.read_text(errors="replace")[-6000:]

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._reader.join(PATIENCE_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Processes:
    """Starts processes for a test, and ends those that are left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.all: list[Process] = []

    def start(self, script: str, *arguments: str) -> Process:
        process = Process(script, *arguments, errors=self._folder / f"errors-{len(self.all)}")
        self.all.append(process)
        return process

    def service(self, url: str, form: str, **options: Any) -> Process:
        """`tests.processes.service`, with its options by name."""
        arguments = [url, form]
        for name, value in options.items():
            flag = f"--{name.replace('_', '-')}"
            arguments += [flag] if value is True else [flag, str(value)]
        return self.start("tests.processes.service", *arguments)

    def close(self) -> None:
        for process in self.all:
            process.close()


async def of(process: Process, *words: str) -> list[str]:
    """`Process.until` in a thread: the test's own loop must not stand still."""
    return await asyncio.to_thread(process.until, *words)


async def ended(process: Process, patience: float = PATIENCE_SECONDS) -> int:
    """`Process.wait` in a thread."""
    return await asyncio.to_thread(process.wait, patience)
