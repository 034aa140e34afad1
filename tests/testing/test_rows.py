"""Rows: what a publish leaves, what other processes leave, and what becomes of them, in every form."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from faststream.exceptions import NackMessage, RejectMessage

from faststream_sql import DeadLetterMessage, QueueTable, SQLBroker
from faststream_sql.annotations import AttemptNumber, SQLMessage
from faststream_sql.drivers.base import Use
from faststream_sql.errors import DeclarationError
from faststream_sql.testing import TestSQLBroker
from tests.testing.tables import FORMS, Mail, MailJob, ReportJob, table

SERVER = "postgresql://app:secret@nowhere.invalid/app"


@pytest.mark.parametrize("form", FORMS)
async def test_five_busy_answers_then_the_dead_letter(form: str) -> None:
    broker, seen = SQLBroker(SERVER, table=table(form)), list[tuple[float, int]]()

    @broker.subscriber("emails", max_attempts=5, dead_letter="emails.dead")
    async def send(mail: Mail, attempt: AttemptNumber) -> None:
        assert attempt is not None
        seen.append((test.clock.monotonic(), attempt))
        raise NackMessage(delay=attempt)

    test = TestSQLBroker(broker)
    async with test as br:
        row_id = await br.publish(Mail(to="crowd@example.org"), "emails")
        await test.advance(60)
        assert seen == [(0.0, 1), (1.0, 2), (3.0, 3), (6.0, 4), (10.0, 5)]
        (row,) = test.rows("emails.dead")
        assert test.dead() == test.dead("emails") == [row]
        assert (row["id"], row["attempt"], row["payload"], row.get("locked_until")) == (row_id, 5, b'{"to":"crowd@example.org"}', None)
        assert test.rows("emails") == []


@pytest.mark.parametrize("form", FORMS)
async def test_a_rejected_mail_is_gone_when_publish_returns(form: str) -> None:
    broker = SQLBroker(SERVER, table=table(form))

    @broker.subscriber("emails")
    async def send(mail: Mail) -> None:
        raise RejectMessage

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish(Mail(to="nobody@example.org"), "emails")
        assert test.rows() == []
        send.mock.assert_called_once_with({"to": "nobody@example.org"})


@pytest.mark.parametrize("form", FORMS)
async def test_a_retry_at_once_waits_for_advance_and_lets_a_new_row_through(form: str) -> None:
    broker, seen = SQLBroker(SERVER, table=table(form)), list[tuple[str, int | None]]()

    @broker.subscriber("q")
    async def handler(body: str, attempt: AttemptNumber) -> None:
        seen.append((body, attempt))
        if attempt == 1:
            raise NackMessage

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish("a", "q")
        await br.publish("b", "q")
        assert seen == [("a", 1), ("b", 1)]
        assert test.next_due() == test.clock.now()
        assert await test.advance(0) == 2
    assert seen == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


async def test_rows_that_another_process_held() -> None:
    broker, seen = SQLBroker(SERVER, tables={"reports": ReportJob}), list[tuple[int, int | None]]()

    @broker.subscriber("reports")
    async def render(number: int, attempt: AttemptNumber) -> None:
        seen.append((number, attempt))

    test = TestSQLBroker(broker)
    async with test:
        now = test.clock.now()
        test.insert(ReportJob, payload=b"1", attempt=2, locked_until=now - timedelta(seconds=1))
        test.insert(ReportJob, payload=b"2", attempt=2, locked_until=now + timedelta(seconds=40))
        assert await test.advance(0) == 1
        assert seen == [(1, 2)]
        (row,) = test.rows("reports")
        assert (row["payload"], row["attempt"], row["locked_until"]) == (b"2", 2, now + timedelta(seconds=40))
        assert test.next_due() == now + timedelta(seconds=40)
        assert await test.advance(39) == 0
        assert await test.advance(1) == 1
    assert seen == [(1, 2), (2, 2)]


async def test_a_row_whose_attempts_are_spent_goes_to_the_dead_letter_unhandled() -> None:
    broker = SQLBroker(SERVER, table=MailJob)

    @broker.subscriber("emails", max_attempts=3, dead_letter="emails.dead")
    async def send(mail: Mail) -> None:
        raise AssertionError

    test = TestSQLBroker(broker)
    async with test:
        test.insert(MailJob, name="emails", attempt=4, payload=Mail(to="a"), locked_until=test.clock.now())
        await test.advance(0)
        assert [row["attempt"] for row in test.dead()] == [4]
        assert not send.mock.called


async def test_insert_takes_columns_fields_and_roles_and_refuses_others() -> None:
    broker = SQLBroker(SERVER, tables={"emails": MailJob, "jobs": table("lease", columns=("account",))})
    test = TestSQLBroker(broker)
    async with test:
        assert test.insert(MailJob, name="emails", id=7, account=3) == 7
        assert test.insert(MailJob, name="emails", job_id=8) == 8
        test.insert(table("lease", columns=("account",)), group="jobs", headers={"a": 1}, payload={"b": 2}, account=5)
        assert [row["job_id"] for row in test.rows("emails")] == [7, 8]
        (row,) = test.rows(table=table("lease", columns=("account",)))
        assert (row["headers"], row["payload"], row["account"], row["name"]) == ({"a": 1}, b'{"b": 2}', 5, "jobs")
        with pytest.raises(DeclarationError, match=r"colour=.* names no column: the table's are 'account', 'attempt'"):
            test.insert(MailJob, name="emails", colour="red")
        with pytest.raises(DeclarationError, match="needs the row's group"):
            test.insert(MailJob)
        with pytest.raises(ValueError, match="aware"):
            test.insert(MailJob, name="emails", retry_after=test.clock.now().replace(tzinfo=None))


async def test_rows_stand_in_claim_order() -> None:
    broker = SQLBroker(SERVER, table=table("lease"))
    test = TestSQLBroker(broker)
    async with test as br:
        for body, priority, delay in (("c", 1, 5), ("b", 0, 9), ("a", 0, 1), ("d", 1, 5)):
            await br.publish(body, "q", priority=priority, delay=delay)
        assert [row["payload"] for row in test.rows("q")] == [b"a", b"b", b"c", b"d"]
        assert test.rows("other") == []


@pytest.mark.parametrize("form", ["lease", "row_lock"])
async def test_a_fifo_head_that_failed_holds_its_group_up(form: str) -> None:
    broker, seen = SQLBroker(SERVER, table=table(form, fifo=True, priority=None)), list[tuple[str, float]]()

    @broker.subscriber("q", backoff=10)
    async def handler(body: str, attempt: AttemptNumber) -> None:
        seen.append((body, test.clock.monotonic()))
        if body == "a" and attempt == 1:
            await br.publish("c", "q")  # behind the head, which is in work
            raise ZeroDivisionError

    test = TestSQLBroker(broker)
    async with test as br:
        with pytest.raises(ZeroDivisionError):
            await br.publish("a", "q")
        await br.publish("b", "q")
        assert await test.advance(9) == 0
        assert test.next_due() == test.clock.now() + timedelta(seconds=1)
        assert await test.advance(1) == 3
    assert seen == [("a", 0.0), ("a", 10.0), ("c", 10.0), ("b", 10.0)]


async def test_a_row_that_cannot_wait_makes_its_worker_wait() -> None:
    broker, seen = SQLBroker(SERVER, table=table("lease", retry_after=None), poll_interval=2), list[float]()

    @broker.subscriber("q", backoff=60)
    async def handler(body: int) -> None:
        seen.append(test.clock.monotonic())
        raise ValueError

    test = TestSQLBroker(broker)
    async with test as br:
        test.insert(table("lease", retry_after=None), name="q", payload=b"1")
        await test.advance(5)
    assert seen == [0.0, 2.0, 4.0]
    assert br is broker


async def test_a_dead_letter_moves_to_another_table() -> None:
    jobs = QueueTable("app_jobs", schema="app", id="id", id_type=UUID, attempt="attempt", retry_after="at", payload="body", columns=("x",))
    dead = QueueTable("app_dead", schema="app", id="id", id_type=UUID, attempt="attempt", retry_after="at", payload="body", columns=("x",))
    broker = SQLBroker(SERVER, tables={"jobs": jobs})

    @broker.subscriber("jobs", max_attempts=9, dead_letter=dead)
    async def handler(body: Any) -> None:
        raise DeadLetterMessage

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish({"a": 1}, "jobs", columns={"x": "plain"})
        assert test.rows("jobs") == []
        (row,) = test.dead()
        assert isinstance(row["id"], UUID)
        assert (row["body"], row["x"]) == (b'{"a":1}', "plain")
        assert test.rows("app_dead") == [row]


async def test_processed_rows_stay() -> None:
    broker = SQLBroker(SERVER, table=table("lease", processed_at="done"))

    @broker.subscriber("q")
    async def handler(body: str) -> None:
        await asyncio.sleep(5)

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish("x", "q")
        (row,) = test.rows()
        assert row["done"] == test.clock.now()
        assert (await test.advance(3600), test.next_due()) == (0, None)


async def test_one_account_at_a_time_under_an_advisory_lock() -> None:
    broker, seen = SQLBroker(SERVER, table=table("advisory", advisory_lock="acc-{account}", columns=("account",))), list[str]()

    @broker.subscriber("q")
    async def handler(body: str) -> None:
        seen.append(f"{body} in")
        if body == "a":
            await br.publish("same", "q", columns={"account": 1})
            await br.publish("other", "q", columns={"account": 2})
        seen.append(f"{body} out")

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish("a", "q", columns={"account": 1})
        assert seen == ["a in", "other in", "other out", "a out"]
        await test.advance(0)
        assert seen[4:] == ["same in", "same out"]


async def test_a_lease_taken_away_is_lost() -> None:
    lost: list[Any] = []
    broker = SQLBroker(SERVER, table=MailJob, lease=60, on_lease_lost=lambda message: lost.append(message.row_id))
    flags: list[bool] = []

    @broker.subscriber("emails")
    async def send(body: str, message: SQLMessage) -> None:
        (engine,) = (hands.engine_of(broker) for hands in test._hands.values())
        async with engine.pool.connection(Use.STATEMENT, "thief") as connection:
            await connection.fetch("UPDATE mail_jobs SET attempt = 9")
        await asyncio.sleep(31)
        flags.append(message.lease_lost)

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish("x", "emails")
        assert len(test.rows("emails")) == 1
    assert flags == [True]
    assert set(lost) == {1}


async def test_rows_are_for_inside() -> None:
    test = TestSQLBroker(SQLBroker(SERVER))
    with pytest.raises(Exception, match="inside `async with"):
        test.rows()
