"""What becomes of a row by what its handler answers, under every policy."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.exceptions import AckMessage, NackMessage, RejectMessage, SkipMessage, StopConsume
from pydantic import BaseModel

from faststream_sql import DeadLetterMessage, QueueTable, SQLBroker, SQLMessage
from faststream_sql.annotations import SQLMessage as InjectedMessage

GONE, AT_ONCE, LATER, BURIED = "gone", "at once", "later", "buried"
POLICIES = [AckPolicy.ACK_FIRST, AckPolicy.ACK, AckPolicy.REJECT_ON_ERROR, AckPolicy.NACK_ON_ERROR, AckPolicy.MANUAL]


class Mail(BaseModel):
    to: str


def raising(error: BaseException | type[BaseException]) -> Callable[[SQLMessage], Any]:
    async def handler(message: SQLMessage) -> None:
        raise error

    return handler


async def returns(message: SQLMessage) -> None:
    return None


async def acks(message: SQLMessage) -> None:
    await message.ack()


async def nacks(message: SQLMessage) -> None:
    await message.nack()


async def nacks_inside_an_except(message: SQLMessage) -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        await message.nack()


async def nacks_later(message: SQLMessage) -> None:
    await message.nack(delay=600)


async def rejects(message: SQLMessage) -> None:
    await message.reject()


async def gives_up(message: SQLMessage) -> None:
    await message.dead_letter()


async def acks_then_raises(message: SQLMessage) -> None:
    await message.ack()
    raise ValueError("too late")


async def nacks_then_acks(message: SQLMessage) -> None:
    await message.nack(delay=600)
    await message.ack()


# what each policy makes of an answer: one outcome for all of them, or (ACK, REJECT_ON_ERROR, NACK_ON_ERROR, MANUAL)
ANSWERS: dict[str, tuple[Callable[[SQLMessage], Any], str | tuple[str, str, str, str]]] = {
    "returns": (returns, (GONE, GONE, GONE, LATER)),
    "message.ack()": (acks, GONE),
    "AckMessage": (raising(AckMessage), GONE),
    "message.nack()": (nacks, AT_ONCE),
    "message.nack() inside an except": (nacks_inside_an_except, AT_ONCE),
    "NackMessage": (raising(NackMessage), AT_ONCE),
    "message.nack(delay)": (nacks_later, LATER),
    "NackMessage(delay)": (raising(NackMessage(delay=600)), LATER),
    "NackMessage(unknown)": (raising(NackMessage(colour="red")), LATER),
    "NackMessage(impossible delay)": (raising(NackMessage(delay=-1)), LATER),
    "message.reject()": (rejects, GONE),
    "RejectMessage": (raising(RejectMessage), GONE),
    "message.dead_letter()": (gives_up, BURIED),
    "DeadLetterMessage": (raising(DeadLetterMessage), BURIED),
    "SkipMessage": (raising(SkipMessage), GONE),
    "ValueError": (raising(ValueError("broken")), (GONE, GONE, LATER, LATER)),
    "SystemExit": (raising(SystemExit()), (GONE, GONE, LATER, LATER)),
    "StopConsume": (raising(StopConsume()), (GONE, GONE, LATER, LATER)),
    "acks, then raises": (acks_then_raises, GONE),
    "nacks, then acks": (nacks_then_acks, LATER),
}


def rows(url: str) -> list[sqlite3.Row]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.row_factory = sqlite3.Row
    try:
        return connection.execute("SELECT * FROM faststream_queue ORDER BY id").fetchall()
    finally:
        connection.close()


def fate(url: str) -> str:
    found = rows(url)
    if not found:
        return GONE
    (row,) = found
    assert row["locked_until"] is None, "the row is settled, and not left to its lease"
    if row["queue"] == "jobs.dead":
        return BURIED
    assert row["attempt"] == 2
    wait = (datetime.fromisoformat(row["retry_after"]) - datetime.now(timezone.utc)).total_seconds()
    return LATER if wait > 300 else AT_ONCE


def expected(answer: str, policy: AckPolicy) -> str:
    if policy is AckPolicy.ACK_FIRST:
        return GONE  # committed before the handler ran
    fates = ANSWERS[answer][1]
    order = (AckPolicy.ACK, AckPolicy.REJECT_ON_ERROR, AckPolicy.NACK_ON_ERROR, AckPolicy.MANUAL)
    return fates if isinstance(fates, str) else fates[order.index(policy)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_the_row_ends_as_its_handler_answered(answer: str, policy: AckPolicy, sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=3600)
    ran = asyncio.Event()
    handler = ANSWERS[answer][0]

    @broker.subscriber("jobs", ack_policy=policy, max_attempts=5, dead_letter="jobs.dead", backoff=600)
    async def handle(message: InjectedMessage) -> None:
        ran.set()
        if message.attempt == 1:
            await handler(message)
        else:
            await asyncio.Event().wait()  # the second delivery of a row that came back at once

    await broker.create_tables()
    await broker.start()
    await broker.publish({"to": "ann"}, "jobs")
    await asyncio.wait_for(ran.wait(), 10)
    for _ in range(500):
        found = rows(sqlite_url)
        if not found or found[0]["locked_until"] is None or found[0]["attempt"] == 3:
            break
        await asyncio.sleep(0.01)
    if found and found[0]["attempt"] == 3:  # already delivered again: it came back at once
        assert expected(answer, policy) == AT_ONCE
    else:
        assert fate(sqlite_url) == expected(answer, policy)
    broker.config.broker_config.graceful_timeout = 0
    await broker.stop()


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelno, record.getMessage()))


def recording() -> tuple[logging.Logger, Records]:
    logger, records = logging.getLogger(f"test.{id(object())}"), Records()
    logger.propagate = False
    logger.addHandler(records)
    return logger, records


async def run_one(broker: SQLBroker, url: str, until: Callable[[], bool], body: Any = None) -> None:
    await broker.create_tables()
    await broker.start()
    if body is not None:
        await broker.publish(body, "jobs")
    for _ in range(1000):
        if until():
            break
        await asyncio.sleep(0.01)
    assert until()
    await broker.stop()


async def test_a_payload_that_does_not_decode_spends_its_attempts_and_touches_no_other_row(sqlite_url: str) -> None:
    logger, _ = recording()
    broker = SQLBroker(sqlite_url, logger=logger, poll_interval=0.05)
    handled: list[str] = []

    @broker.subscriber("jobs", max_attempts=3, dead_letter="jobs.dead", backoff=0.01)
    async def handle(mail: Mail) -> None:
        handled.append(mail.to)

    await broker.create_tables()
    await broker.publish_batch(b"{", b'{"from": "nobody"}', Mail(to="ann"), b"\xff\xfe\x00", Mail(to="bob"), queue="jobs")
    await run_one(broker, sqlite_url, lambda: len(rows(sqlite_url)) == 3 and all(row["queue"] == "jobs.dead" for row in rows(sqlite_url)))
    assert sorted(handled) == ["ann", "bob"]
    assert [(row["queue"], row["attempt"]) for row in rows(sqlite_url)] == [("jobs.dead", 3)] * 3


async def test_a_row_put_in_by_plain_sql_with_the_required_columns_only(sqlite_url: str) -> None:
    table = QueueTable(
        "mail_jobs",
        id="id",
        group="name",
        attempt="attempt",
        retry_after="retry_after",
        locked_until="locked_until",
        headers="headers",
        payload="payload",
    )
    broker = SQLBroker(sqlite_url, table=table, logger=None, poll_interval=0.05)
    got: list[tuple[Any, int | None, dict[str, Any]]] = []

    @broker.subscriber("emails")
    async def handle(mail: Mail, message: InjectedMessage) -> None:
        got.append((mail, message.attempt, message.headers))

    await broker.create_tables()
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    connection.execute("INSERT INTO mail_jobs (name, payload) VALUES ('emails', '{\"to\": \"ann\"}')")
    connection.execute("INSERT INTO mail_jobs (name, payload, headers) VALUES ('emails', x'7b22746f223a2022626f62227d', NULL)")
    connection.execute("INSERT INTO mail_jobs (name, payload, headers) VALUES ('emails', '{\"to\": \"cid\"}', 'no json')")
    connection.execute("INSERT INTO mail_jobs (name, payload, headers) VALUES ('emails', '{\"to\": \"dan\"}', '[1, 2]')")
    connection.commit()
    connection.close()
    await broker.start()
    for _ in range(500):
        if len(got) == 4:
            break
        await asyncio.sleep(0.01)
    await broker.stop()
    assert [(mail.to, attempt, headers) for mail, attempt, headers in got] == [
        ("ann", 1, {}),
        ("bob", 1, {}),
        ("cid", 1, {}),
        ("dan", 1, {}),
    ]


async def test_no_filter_that_matches_is_an_error_like_any_other(sqlite_url: str) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.05)
    subscriber = broker.subscriber("jobs", max_attempts=2, dead_letter="jobs.dead", backoff=0.01)

    @subscriber(filter=lambda message: message.headers.get("kind") == "known")
    async def handle(body: str) -> None: ...

    await run_one(broker, sqlite_url, lambda: [row["queue"] for row in rows(sqlite_url)] == ["jobs.dead"], "hello")


async def test_a_dead_letter_that_is_not_declared_is_said_and_tried_again(sqlite_url: str) -> None:
    logger, records = recording()
    broker = SQLBroker(sqlite_url, logger=logger, poll_interval=3600)

    @broker.subscriber("jobs", backoff=600)
    async def handle(body: str) -> None:
        raise DeadLetterMessage

    await run_one(broker, sqlite_url, lambda: any(row["attempt"] == 2 and row["locked_until"] is None for row in rows(sqlite_url)), "x")
    assert any(level == logging.ERROR and "declares no dead_letter" in text for level, text in records.lines)
    assert fate(sqlite_url) == LATER


async def test_an_unknown_option_is_said_by_name(sqlite_url: str) -> None:
    logger, records = recording()
    broker = SQLBroker(sqlite_url, logger=logger, poll_interval=3600)

    @broker.subscriber("jobs", backoff=600)
    async def handle(body: str) -> None:
        raise NackMessage(colour="red")

    await run_one(broker, sqlite_url, lambda: any(row["attempt"] == 2 and row["locked_until"] is None for row in rows(sqlite_url)), "x")
    assert any(level == logging.ERROR and "colour" in text for level, text in records.lines)


async def test_a_backoff_that_raises_takes_the_default_delay(sqlite_url: str) -> None:
    logger, records = recording()
    broker = SQLBroker(sqlite_url, logger=logger, poll_interval=3600)

    def broken(attempt: int, error: BaseException | None) -> float:
        raise RuntimeError("no delay today")

    @broker.subscriber("jobs", backoff=broken)
    async def handle(body: str) -> None:
        raise ValueError

    await run_one(broker, sqlite_url, lambda: any(row["attempt"] == 2 and row["locked_until"] is None for row in rows(sqlite_url)), "x")
    assert any(level == logging.ERROR and "backoff" in text for level, text in records.lines)
    (row,) = rows(sqlite_url)
    wait = (datetime.fromisoformat(row["retry_after"]) - datetime.now(timezone.utc)).total_seconds()
    assert 2 < wait < 7


async def test_acks_are_spied_once(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    original = SQLMessage.ack

    async def spy(self: SQLMessage) -> None:
        calls.append("ack")
        await original(self)

    monkeypatch.setattr(SQLMessage, "ack", spy)
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=3600)

    @broker.subscriber("jobs")
    async def handle(body: str) -> None: ...

    await run_one(broker, sqlite_url, lambda: bool(calls) and rows(sqlite_url) == [], "x")
    assert calls == ["ack"]
