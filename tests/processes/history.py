"""What processes under load said, put together, and what must be true of it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter, defaultdict
from typing import NamedTuple

from tests.processes.conftest import Queue
from tests.processes.process import Process, Processes


class Event(NamedTuple):
    moment: float
    word: str
    row_id: int
    attempt: int


class Crew:
    """Processes of one script, which are killed and replaced, and the history of them all."""

    def __init__(self, processes: Processes, *arguments: str, count: int) -> None:
        self._processes = processes
        self._arguments = arguments
        self._count = count
        self._at_work: list[Process] = []
        self._readers: list[asyncio.Task[None]] = []
        self.events: list[Event] = []
        self._of_row: defaultdict[int, list[Event]] = defaultdict(list)
        self.killed_at: list[float] = []

    async def start(self) -> None:
        while len(self._at_work) < self._count:
            process = self._processes.start("tests.processes.mixed_service", *self._arguments)
            ready = threading.Event()
            self._at_work.append(process)
            self._readers.append(asyncio.create_task(asyncio.to_thread(self._read, process, ready)))
            assert await asyncio.to_thread(ready.wait, 60.0), process.log()

    def _read(self, process: Process, ready: threading.Event) -> None:
        while (line := process.next(120.0)) is not None:
            if line == ["READY"]:  # it may have begun with rows before
                ready.set()
                continue
            word, row_id, attempt, moment = line
            self.events.append(Event(float(moment), word, int(row_id), int(attempt)))

    @property
    def kills(self) -> int:
        return len(self.killed_at)

    async def kill_one(self) -> None:
        """With SIGKILL, in the middle of whatever it does; another one takes its place."""
        victim = self._at_work.pop(random.randrange(len(self._at_work)))
        await asyncio.to_thread(victim.kill)
        self.killed_at.append(time.monotonic())
        await self.start()

    async def work_until_empty(self, queue: Queue, *, kills: int, seconds: float) -> None:
        """Until no row is left outside the dead letter; meanwhile processes are killed, spread over the work."""
        deadline = time.monotonic() + seconds
        (total,) = (await queue.sql("SELECT count(*) FROM jobs WHERE name <> 'jobs.dead'"))[0]
        while True:
            ((left,),) = await queue.sql("SELECT count(*) FROM jobs WHERE name <> 'jobs.dead'")
            if not left:
                return
            assert time.monotonic() < deadline, f"{left} rows were left"
            if self.kills < kills and left < total * (1 - (self.kills + 1) / (1.5 * kills)):
                await self.kill_one()
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """By SIGTERM; each ends by itself, and its history is whole."""
        for process in self._at_work:
            process.process.terminate()
        for process in self._at_work:
            assert await asyncio.to_thread(process.wait, 30.0) == 0
        await asyncio.gather(*self._readers)
        self.events.sort()

        for event in self.events:
            self._of_row[event.row_id].append(event)

    def of_rows(self) -> dict[int, list[Event]]:
        """The events of each row, in order, once all is stopped."""
        return self._of_row

    def of_row(self, row_id: int) -> list[Event]:
        return self._of_row[row_id]

    def count(self, *words: str) -> Counter[int]:
        """How often these were said of each row."""
        return Counter(event.row_id for event in self.events if event.word in words)
