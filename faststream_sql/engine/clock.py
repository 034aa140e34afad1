"""Where the engine reads the time and how it waits: the one seam by which tests hold time still."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from typing import Protocol

RESOLUTION_SECONDS = 1e-6
"""What a clock need not tell apart: it may stand still through a wait that is shorter."""


class Clock(Protocol):
    """A source of time for claims, leases, delays and waits. One's own needs these four methods."""

    def now(self) -> datetime:
        """The present moment: aware, in UTC. Written into rows and compared with them."""
        ...

    def monotonic(self) -> float:
        """Seconds on a scale that never steps back: for the age of a lease and for waits."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` seconds of this clock."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Wait for the event, at most `seconds` seconds (None: without limit). Whether the event came."""
        ...


class SystemClock:
    """The host's clock. Waits run on the running loop's own time."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        return await wait_event(event, seconds)

    def __repr__(self) -> str:
        return "SystemClock()"


class DatabaseClock(SystemClock):
    """The database's clock: measured when the broker connects and every half minute after, and carried on by the host's monotonic time.

    A step of the host's clock does not move it. Until the first measurement, and on SQLite, where the database has no clock of its own, it
    reads the host's.
    """

    def __init__(self) -> None:
        self._measured: tuple[datetime, float] | None = None

    def now(self) -> datetime:
        if self._measured is None:
            return super().now()
        moment, at = self._measured
        return moment + timedelta(seconds=self.monotonic() - at)

    def set(self, moment: datetime, at: float) -> None:
        """Take the database's moment as of the monotonic time `at`."""
        self._measured = (moment, at)

    def __repr__(self) -> str:
        return "DatabaseClock()"


async def wait_event(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for the event, at most `seconds` seconds of the running loop's time. Whether the event came."""
    if event.is_set():
        return True
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except (TimeoutError, asyncio.TimeoutError):  # two classes until Python 3.11
        return False
    return True
