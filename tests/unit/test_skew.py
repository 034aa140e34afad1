"""A host's clock that is far from the database's is said at start, or stops it."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import pytest

from faststream_sql.dialects import dialect_for
from faststream_sql.drivers import open_pool
from faststream_sql.drivers.url import parse_url
from faststream_sql.engine import SystemClock
from faststream_sql.engine.skew import check_skew
from faststream_sql.errors import ClockSkewError

LEASE_SECONDS = 100


class ShiftedClock(SystemClock):
    """A clock that is set wrong."""

    def __init__(self, seconds: float) -> None:
        self.shift = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self.shift


async def said(url: str, seconds: float) -> list[str]:
    """What is said at the start of a subscription whose host's clock is `seconds` wrong."""
    logged: list[str] = []

    def log(level: int, text: str, error: BaseException | None = None) -> None:
        assert level == logging.WARNING
        logged.append(text)

    pool = open_pool(parse_url(url), size=1, acquire_timeout=5.0, command_timeout=10.0)
    await pool.open()
    try:
        await check_skew(pool, dialect_for("postgresql").read_clock or "", ShiftedClock(seconds), LEASE_SECONDS, "subscription 'jobs'", log)
    finally:
        await pool.close(1.0)
    return logged


@pytest.mark.parametrize("seconds", [0.0, 4.0, -4.0])
async def test_a_clock_near_the_databases_is_not_worth_a_word(postgres_url: str, seconds: float) -> None:
    assert await said(postgres_url, seconds) == []


@pytest.mark.parametrize("seconds", [30.0, -30.0])
async def test_a_clock_off_by_a_part_of_the_lease_is_a_warning(postgres_url: str, seconds: float) -> None:
    (text,) = await said(postgres_url, seconds)
    assert "subscription 'jobs'" in text
    assert "the lease is 100 s" in text


@pytest.mark.parametrize("seconds", [60.0, -60.0])
async def test_a_clock_far_from_the_databases_stops_the_start(postgres_url: str, seconds: float) -> None:
    with pytest.raises(ClockSkewError, match=r"DatabaseClock\(\)"):
        await said(postgres_url, seconds)
