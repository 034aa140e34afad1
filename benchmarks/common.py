"""What every case shares: the message, its model, and how a run is timed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import BaseModel


class Line(BaseModel):
    sku: str
    count: int


class Order(BaseModel):
    number: int
    customer: str
    lines: list[Line]


BODY = json.dumps(
    {
        "number": 4711,
        "customer": "ann@example.org",
        "lines": [{"sku": "a-100", "count": 1}, {"sku": "b-200", "count": 22}, {"sku": "c-300", "count": 3}],
    }
).encode()


@dataclass(frozen=True)
class Figure:
    """One run: messages per second from the first handled to the last, and the worker's CPU time per message in microseconds."""

    rate: float
    cpu_us: float


class Stopwatch:
    """Counts messages, or calls that carry several; timed from the end of the first to the end of the last."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.count = 0
        self.done = asyncio.Event()
        self._wall = self._cpu = 0.0
        self._wall_end = self._cpu_end = 0.0

    def tick(self) -> None:
        if self.count == 0:
            self._wall, self._cpu = time.perf_counter(), time.process_time()
        self.count += 1
        if self.count == self.total:
            self._wall_end, self._cpu_end = time.perf_counter(), time.process_time()
            self.done.set()

    def figure(self, together: int = 1) -> Figure:
        messages = (self.total - 1) * together  # the first only starts the watch
        return Figure(messages / (self._wall_end - self._wall), (self._cpu_end - self._cpu) / messages * 1e6)


async def run_tasks(count: int, work: Callable[[], Awaitable[None]]) -> None:
    await asyncio.gather(*(work() for _ in range(count)))
