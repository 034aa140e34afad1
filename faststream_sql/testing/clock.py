"""`FakeClock`: a clock that moves with the running event loop, whose time is fake while the clock is open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta, timezone

from faststream_sql.engine.clock import wait_event
from faststream_sql.errors import DeclarationError
from faststream_sql.testing.looptime import LoopTime

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""Where fake time begins unless a test says otherwise: the same on every run, so that every row is."""

in_background: ContextVar[bool] = ContextVar("in_background", default=False)
"""Whether what runs here only accompanies a delivery (renewals): no reason by itself for time to move."""


class FakeClock:
    """A clock for tests. It begins at `start` and stands still until `TestSQLBroker.advance`, or until a delivery waits for time.

    Args:
        start: an aware moment. Give `datetime.now(timezone.utc)` where the code under test compares rows with the host's own time.

    Raises:
        DeclarationError: `start` names no time zone.
    """

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            msg = f"FakeClock(start={start!r}) names no time zone: give an aware datetime"
            raise DeclarationError(msg)
        self._start = start.astimezone(timezone.utc)
        self._time: LoopTime | None = None
        self._opened_at = 0.0
        self._passed = 0.0  # while it was open before

    def now(self) -> datetime:
        """The fake moment: aware, in UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """The fake seconds that have passed since the clock's start, to the microsecond."""
        # the loop counts from the host's start: what its floats lose there must not make one run differ from the next
        return round(self._passed if self._time is None else self._passed + self._time.now - self._opened_at, 6)

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` fake seconds."""
        if self._time is not None and in_background.get():
            await self._time.sleep_in_background(seconds)
        else:
            await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Wait for the event, at most `seconds` fake seconds (None: without limit). Whether the event came."""
        return await wait_event(event, seconds)

    @contextmanager
    def on_loop(self) -> Iterator[LoopTime]:
        """Make the running loop's time fake for the span of a `with`. Within another one on the same loop it joins that one's time.

        Raises:
            DeclarationError: the loop is not asyncio's own (uvloop), or the clock is open on another loop.
        """
        with LoopTime.on_running_loop() as time:
            if self._time is not None:
                if self._time is not time:
                    msg = "this FakeClock is open on another event loop: give each its own"
                    raise DeclarationError(msg)
                yield time
                return
            self._time, self._opened_at = time, time.now
            try:
                yield time
            finally:
                self._passed, self._time = self.monotonic(), None

    def loop_time(self, moment: datetime) -> float:
        """The loop's time at a moment of this clock, which must be open."""
        return self._opened_at - self._passed + (moment - self._start).total_seconds()

    def __repr__(self) -> str:
        return f"FakeClock(now={self.now().isoformat()})"
