"""Settings of the server that end a session in the middle of a long handler, and with it the hold on the row."""

from __future__ import annotations

import logging

from faststream_sql.drivers.base import Pool, Use
from faststream_sql.engine.log import Log

WARN_SECONDS = 3600.0
"""A limit of so much or more is long enough to say nothing of."""


async def find_limits(pool: Pool, text: str | None, who: str, log: Log) -> str:
    """Read the settings, by the dialect's statement; warn of those that are short. Returns them in words, or nothing.

    One that is longer than a session is ever silent, since the pool keeps it alive, is no limit.
    """
    if text is None:
        return ""
    async with pool.connection(Use.STATEMENT, f"start of {who}") as connection:
        rows = [(str(name), float(seconds)) for name, seconds in await connection.fetch(text)]
    kept_alive = pool.keep_alive_seconds or WARN_SECONDS
    words = ", ".join(f"{name} = {seconds:g} s" for name, seconds in rows if seconds < min(WARN_SECONDS, 1.5 * kept_alive))
    if words:
        told = (
            f"{who}: the server ends a session that a handler keeps for longer than its limit ({words}), and the row is then run again. "
            "Raise the limit above the longest handler, or use the lease form (a LockedUntil column), which keeps no session"
        )
        log(logging.WARNING, told)
    return words
