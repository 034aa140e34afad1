"""`with_real=True`: the service on its real database, and the same tests either way."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import pytest
from faststream.exceptions import NackMessage

from faststream_sql import SQLBroker
from faststream_sql.annotations import AttemptNumber
from faststream_sql.errors import DeclarationError
from faststream_sql.testing import FakeClock, TestSQLBroker
from tests.testing.tables import MailJob


def service(url: str) -> tuple[SQLBroker, list[tuple[str, int | None]]]:
    broker, seen = SQLBroker(url, table=MailJob, poll_interval=0.1), list[tuple[str, int | None]]()

    @broker.subscriber("emails", max_attempts=3, dead_letter="emails.dead")
    async def send(body: str, attempt: AttemptNumber) -> None:
        seen.append((body, attempt))
        raise NackMessage(delay=0.1)

    return broker, seen


@pytest.mark.parametrize("clock", [None, "fake"])
async def test_a_dead_letter_on_the_real_database(sqlite_url: str, clock: str | None) -> None:
    broker, seen = service(sqlite_url)
    await broker.create_tables()
    await broker.stop()
    test = TestSQLBroker(broker, with_real=True, clock=FakeClock() if clock else None)
    async with test as br:
        await br.publish("a", "emails")
        await test.advance(1.5)
        assert seen == [("a", 1), ("a", 2), ("a", 3)]
        (row,) = test.rows("emails.dead")
        assert row["attempt"] == 3
        assert test.dead() == [row]
        test.insert(MailJob, name="emails", payload=b'"b"', attempt=3, locked_until=test.clock.now() + timedelta(seconds=0.3))
        assert test.next_due() > test.clock.now()
        await test.advance(1.5)
        assert len(test.rows("emails.dead")) == 2
    assert seen[3:] == [("b", 3)]


async def test_a_long_report_on_a_file_in_fake_time(sqlite_url: str) -> None:
    broker, seen = SQLBroker(sqlite_url, table=MailJob, lease=60), list[int | None]()

    @broker.subscriber("emails")
    async def render(body: str, attempt: AttemptNumber) -> None:
        seen.append(attempt)
        await asyncio.sleep(300)
        await asyncio.to_thread(time.sleep, 0.01)

    await broker.create_tables()
    await broker.stop()
    test = TestSQLBroker(broker, with_real=True, clock=FakeClock())
    async with test as br:
        await br.publish("a", "emails")
        await test.advance(0)  # whoever works at this moment, and waits for time, gets it
        assert test.clock.monotonic() == pytest.approx(300, abs=31)
        await test.advance(600)
        assert test.rows() == []
        render.mock.assert_called_once_with("a")
    assert seen == [1]


async def test_fake_time_is_not_for_servers() -> None:
    with pytest.raises(DeclarationError, match="on SQLite only"):
        TestSQLBroker(SQLBroker("postgresql://h/d"), with_real=True, clock=FakeClock())


async def test_publishers_mocks_on_the_real_database(sqlite_url: str, tmp_path: Path) -> None:
    broker = SQLBroker(sqlite_url, poll_interval=0.05)
    await broker.create_tables()
    await broker.stop()
    out = broker.publisher("out")

    @broker.subscriber("q")
    @out
    async def handler(body: str) -> str:
        return body.upper()

    async with TestSQLBroker(broker, with_real=True) as br:
        await br.publish("a", "q")
        await handler.wait_call(timeout=5)
        for _ in range(100):
            if out.mock.called:
                break
            await asyncio.sleep(0.02)
        out.mock.assert_called_once_with("A")
