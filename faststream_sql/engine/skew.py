"""How far the broker's clock is from the database's: read at start, and for `DatabaseClock` again and again."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone

from faststream_sql.drivers.base import Pool, Use
from faststream_sql.engine.clock import Clock
from faststream_sql.engine.log import Log
from faststream_sql.errors import ClockSkewError

SAMPLES = 3
WARN_PART, REFUSE_PART = 0.1, 0.5
"""The part of a lease that the clocks may differ by before it is said, and before the start is refused."""


async def read_database_clock(pool: Pool, text: str, clock: Clock) -> tuple[datetime, float]:
    """The database's moment and the monotonic time that it belongs to: half-way through the quickest of a few questions."""
    best: tuple[float, datetime, float] | None = None
    async with pool.connection(Use.STATEMENT, "reading the clock") as connection:
        for _ in range(SAMPLES):
            asked = clock.monotonic()
            ((found,),) = await connection.fetch(text)
            took = clock.monotonic() - asked
            moment = found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found.astimezone(timezone.utc)
            if best is None or took < best[0]:
                best = (took, moment, asked + took / 2)
        _, moment, at = best if best is not None else (0.0, clock.now(), clock.monotonic())
    return moment, at


async def check_skew(pool: Pool, text: str, clock: Clock, lease_seconds: float, who: str, log: Log) -> None:
    """Compare a host's clock with the database's: over a tenth of the lease is a warning, over half of it raises ClockSkewError."""
    moment, at = await read_database_clock(pool, text, clock)
    here = clock.now() - timedelta(seconds=clock.monotonic() - at)
    skew = abs((here - moment).total_seconds())
    if skew <= WARN_PART * lease_seconds:
        return
    told = f"{who}: the host's clock is {skew:.1f} s from the database's, and the lease is {lease_seconds:g} s"
    if skew > REFUSE_PART * lease_seconds:
        msg = f"{told}: workers would take each other's rows. Set the clocks by NTP, or use SQLBroker(clock=DatabaseClock())"
        raise ClockSkewError(msg)
    log(logging.WARNING, f"{told}. Set the clocks by NTP, or use SQLBroker(clock=DatabaseClock())")
