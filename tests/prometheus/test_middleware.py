"""FastStream's metrics of messages."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from faststream.exceptions import IgnoredException, RejectMessage
from faststream.middlewares import AckPolicy
from prometheus_client import CollectorRegistry

from faststream_sql import SQLBroker, TestSQLBroker
from faststream_sql.annotations import SQLMessage
from faststream_sql.prometheus import SQLPrometheusMiddleware
from tests.waiting import until

OURS = {"app_name": "mailer", "broker": "sql"}


async def test_what_is_published_and_handled_is_counted(sqlite_url: str) -> None:
    registry = CollectorRegistry()
    middleware = SQLPrometheusMiddleware(registry=registry, app_name="mailer")
    broker, got = SQLBroker(sqlite_url, logger=None, poll_interval=0.02, middlewares=(middleware,)), []

    @broker.subscriber("emails", backoff=3600)
    async def handle(body: str, message: SQLMessage) -> None:
        got.append(body)
        match body:
            case "reject":
                raise RejectMessage
            case "nack":
                await message.nack(delay=3600)
            case "fail":
                raise ValueError(body)

    await broker.create_tables()
    await broker.start()
    for body in ("ack", "reject", "nack", "fail"):
        await broker.publish(body, "emails")
    await broker.publish_batch("ack", "ack", queue="emails", delay=3600)
    await until(lambda: len(got) == 4)
    await broker.stop()

    def value(name: str, **labels: Any) -> float | None:
        return registry.get_sample_value(f"faststream_{name}", {**OURS, **labels})

    for status, count in {"acked": 1, "rejected": 1, "nacked": 1, "error": 1}.items():
        assert value("received_processed_messages_total", handler="emails", status=status) == count, status
    assert value("received_messages_total", handler="emails") == 4
    assert value("received_messages_in_process", handler="emails") == 0
    assert value("received_processed_messages_exceptions_total", handler="emails", exception_type="ValueError") == 1
    assert value("received_messages_size_bytes_sum", handler="emails") == len("ackrejectnackfail")
    assert value("published_messages_total", destination="emails", status="success") == 6
    assert value("published_messages_duration_seconds_count", destination="emails") == 5


async def test_custom_labels_see_the_delivery(sqlite_url: str) -> None:
    registry = CollectorRegistry()
    labels = {"attempt": lambda delivery: str(delivery.attempt) if delivery else "none", "region": "eu"}
    broker = SQLBroker(
        sqlite_url, logger=None, poll_interval=0.02, middlewares=(SQLPrometheusMiddleware(registry=registry, custom_labels=labels),)
    )
    got: list[str] = []

    @broker.subscriber("emails")
    async def handle(body: str) -> None:
        got.append(body)

    await broker.create_tables()
    await broker.start()
    await broker.publish("hello", "emails")
    await until(lambda: got)
    await broker.stop()
    found = registry.get_sample_value(
        "faststream_received_messages_total",
        {"app_name": "faststream", "broker": "sql", "handler": "emails", "attempt": "1", "region": "eu"},
    )
    assert found == 1


@pytest.mark.parametrize(
    ("raises", "answers", "status"),
    [
        (RejectMessage, None, "rejected"),
        (Exception, None, "error"),
        (None, "ack", "acked"),
        (None, "nack", "nacked"),
        (None, "reject", "rejected"),
        (IgnoredException, None, "error"),
        (None, None, "acked"),
    ],
)
async def test_the_status_is_what_became_of_the_message(raises: type[Exception] | None, answers: str | None, status: str) -> None:
    registry = CollectorRegistry()
    broker = SQLBroker("sqlite://", logger=None, middlewares=(SQLPrometheusMiddleware(registry=registry),))

    @broker.subscriber("emails", backoff=3600, ack_policy=AckPolicy.NACK_ON_ERROR)
    async def handle(body: str, message: SQLMessage) -> None:
        if raises is not None:
            raise raises
        if answers is not None:
            await getattr(message, answers)()

    async with TestSQLBroker(broker) as br:
        with suppress(Exception):
            await br.publish("hello", "emails")
        labels = {"app_name": "faststream", "broker": "sql", "handler": "emails"}
        found = {
            sample.labels["status"]: sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample.name == "faststream_received_processed_messages_total" and labels.items() <= sample.labels.items()
        }
        assert found == {status: 1}
        errors = {"exception_type": "Exception", **labels}
        counted = registry.get_sample_value("faststream_received_processed_messages_exceptions_total", errors)
        assert counted == (1 if raises is Exception else None)


async def test_a_request_counts_its_message_and_not_the_answer() -> None:
    registry = CollectorRegistry()
    broker = SQLBroker("sqlite://", logger=None, middlewares=(SQLPrometheusMiddleware(registry=registry),))

    @broker.subscriber("sums")
    async def handle(body: list[int]) -> int:
        return sum(body)

    async with TestSQLBroker(broker) as br:
        answer = await br.request([1, 2], "sums")
    assert await answer.decode() == 3
    counted = {
        (sample.name, sample.labels.get("handler", sample.labels.get("destination"))): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name in {"faststream_received_messages_total", "faststream_published_messages_total"}
    }
    assert counted == {("faststream_received_messages_total", "sums"): 1, ("faststream_published_messages_total", "sums"): 1}


def test_two_middlewares_share_a_registry() -> None:
    registry = CollectorRegistry()
    for _ in range(2):
        SQLBroker("sqlite://", middlewares=(SQLPrometheusMiddleware(registry=registry),))
    assert len({family.name for family in registry.collect()}) == len(list(registry.collect()))
