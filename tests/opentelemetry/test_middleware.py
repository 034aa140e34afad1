"""Spans and metrics, as FastStream's own brokers give them, with the trace kept in the rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from faststream import BaseMiddleware
from faststream.opentelemetry import Baggage, CurrentBaggage, CurrentSpan
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from faststream_sql import QueueTable, SQLBroker
from faststream_sql.opentelemetry import SQLQueueTelemetry, SQLTelemetryMiddleware
from tests.waiting import until


class Telemetry:
    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = (
            TracerProvider(shutdown_on_exit=False),
            MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False),
        )
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.middleware = SQLTelemetryMiddleware(tracer_provider=self.tracers, meter_provider=self.meters)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = [metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]
        return {metric.name: list(metric.data.data_points) for metric in metrics}


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    telemetry = Telemetry()
    yield telemetry
    telemetry.tracers.shutdown()
    telemetry.meters.shutdown()


def broker_on(url: str, telemetry: Telemetry, **options: Any) -> SQLBroker:
    return SQLBroker(url, logger=None, poll_interval=0.02, middlewares=(telemetry.middleware,), **options)


async def test_a_message_is_one_trace(sqlite_url: str, telemetry: Telemetry) -> None:
    broker, attempts = broker_on(sqlite_url, telemetry), []

    @broker.subscriber("emails", backoff=None)
    async def handle(body: str, span: CurrentSpan) -> None:
        assert span.is_recording()
        attempts.append(body)
        if len(attempts) == 1:
            raise RuntimeError("try again")

    await broker.create_tables()
    await broker.start()
    row_id = await broker.publish("hello", "emails")
    await until(lambda: len(telemetry.spans("emails process")) == 2)
    await broker.stop()

    (create,), (publish,) = telemetry.spans("emails create"), telemetry.spans("emails publish")
    first, second = telemetry.spans("emails process")
    assert {span.context.trace_id for span in (create, publish, first, second)} == {create.context.trace_id}
    assert publish.parent
    assert publish.parent.span_id == create.context.span_id
    for process in (first, second):
        assert process.kind is SpanKind.CONSUMER
        assert process.parent
        assert process.parent.span_id == create.context.span_id

    assert publish.attributes == {
        "messaging.system": "sql",
        "messaging.destination.name": "emails",
        "messaging.message.conversation_id": publish.attributes["messaging.message.conversation_id"],
        "messaging.operation": "publish",
    }
    conversation = publish.attributes["messaging.message.conversation_id"]
    assert str(UUID(conversation)) == conversation
    assert [span.attributes["messaging.sql.attempt"] for span in (first, second)] == [1, 2]
    assert second.attributes == {
        "messaging.system": "sql",
        "messaging.message.id": conversation,
        "messaging.message.conversation_id": conversation,
        "messaging.message.payload_size_bytes": len(b"hello"),
        "messaging.destination_publish.name": "emails",
        "messaging.operation": "process",
        "messaging.sql.row_id": str(row_id),
        "messaging.sql.attempt": 2,
    }


async def test_the_trace_and_baggage_are_strings_in_the_headers_column(sqlite_url: str, telemetry: Telemetry) -> None:
    broker, got = broker_on(sqlite_url, telemetry), []

    @broker.subscriber("emails")
    @broker.publisher("sent")
    async def handle(body: str, baggage: CurrentBaggage) -> str:
        baggage.set("account", "7")
        return body

    @broker.subscriber("sent")
    async def sent(body: str, baggage: CurrentBaggage) -> None:
        got.append(baggage.get_all())

    await broker.create_tables()
    await broker.publish("hello", "emails", headers={**Baggage({"user": "ann"}).to_headers(), "mine": "kept"})
    path = sqlite_url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as database:
        ((headers,),) = database.execute("SELECT headers FROM faststream_queue").fetchall()
    database.close()
    stored = json.loads(headers)
    assert stored["mine"] == "kept"
    assert stored["baggage"] == "user=ann"
    assert all(isinstance(value, str) for value in stored.values())

    (create,) = telemetry.spans("emails create")
    assert f"{create.context.trace_id:032x}" in stored["traceparent"]

    await broker.start()
    await until(lambda: got)
    await broker.stop()
    assert got == [{"user": "ann", "account": "7"}]
    assert {span.context.trace_id for span in telemetry.exporter.get_finished_spans()} == {create.context.trace_id}


async def test_rows_of_a_batch_are_linked_to_it(sqlite_url: str, telemetry: Telemetry) -> None:
    broker, got = broker_on(sqlite_url, telemetry), []

    @broker.subscriber("emails")
    async def handle(body: int) -> None:
        got.append(body)

    await broker.create_tables()
    await broker.start()
    await broker.publish_batch(1, 2, 3, queue="emails")
    await until(lambda: len(got) == 3)
    await broker.stop()
    batch, *each = telemetry.spans("emails create")  # FastStream starts a trace for each message of a batch, and links it to the batch's
    assert batch.attributes["messaging.batch.message_count"] == 3
    assert [[link.context.span_id for link in span.links] for span in each] == [[batch.context.span_id]] * 3
    assert {span.parent.span_id for span in telemetry.spans("emails process")} == {span.context.span_id for span in each}


async def test_durations_and_counters(sqlite_url: str, telemetry: Telemetry) -> None:
    broker = broker_on(sqlite_url, telemetry)

    @broker.subscriber("emails", backoff=3600)
    async def handle(body: str) -> None:
        raise ValueError(body)

    await broker.create_tables()
    await broker.start()
    await broker.publish("hello", "emails")
    await until(lambda: telemetry.spans("emails process"))
    await broker.stop()
    points = telemetry.points()
    assert set(points) == {
        "messaging.publish.duration",
        "messaging.publish.messages",
        "messaging.process.duration",
        "messaging.process.messages",
    }
    (published,), (processed,) = points["messaging.publish.messages"], points["messaging.process.duration"]
    assert published.value == 1
    assert dict(published.attributes) == {"messaging.system": "sql", "messaging.destination.name": "emails"}
    assert processed.attributes["error.type"] == "ValueError"


async def test_a_table_without_groups_and_headers(sqlite_url: str, telemetry: Telemetry) -> None:
    table = QueueTable("report_jobs", id="id", locked_until="locked_until", payload="payload")
    broker = broker_on(sqlite_url, telemetry, table=table)

    @broker.subscriber("reports")
    async def handle(body: dict[str, int]) -> None:
        pass

    await broker.create_tables()
    await broker.start()
    row_id = await broker.publish({"a": 1}, "reports")
    await until(lambda: telemetry.spans("reports process"))
    await broker.stop()
    (process,) = telemetry.spans("reports process")
    assert process.attributes["messaging.destination_publish.name"] == "reports"
    assert process.attributes["messaging.sql.row_id"] == str(row_id)
    assert "messaging.sql.attempt" not in process.attributes


async def test_the_queues_own_metrics(sqlite_url: str, telemetry: Telemetry) -> None:
    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.02)
    queues = SQLQueueTelemetry(broker, meter_provider=telemetry.meters)

    @broker.subscriber("emails", max_attempts=1, dead_letter="emails.dead")
    async def handle(body: str) -> None:
        raise ValueError(body)

    def values(name: str, **attributes: str) -> list[float]:
        found = telemetry.points().get(f"messaging.sql.{name}", [])
        return [point.value for point in found if attributes.items() <= dict(point.attributes).items()]

    await broker.create_tables()
    await broker.publish("later", "emails", delay=3600)
    await broker.publish("now", "emails")
    await queues.read()
    assert {name: values(f"queue.{name}") for name in ("ready", "delayed", "in_work", "dead")} == {
        "ready": [1],
        "delayed": [1],
        "in_work": [0],
        "dead": [0],
    }
    assert 0 < values("queue.oldest_ready_age")[0] < 60
    await broker.start()
    await until(lambda: values("queue.settlements", **{"messaging.sql.outcome": "dead_letter"}) == [1])
    await queues.read()
    assert values("queue.dead") == [1]
    assert [values(f"queue.{name}") for name in ("claims", "leases_renewed", "leases_lost", "settlements_unknown")] == [[1], [0], [0], [0]]
    assert values("pool.max") == [broker.engine.pool.size]
    assert values("pool.in_use")[0] in {0, 1}
    (point,) = telemetry.points()["messaging.sql.queue.claims"]
    assert point.attributes == {
        "messaging.system": "sql",
        "messaging.destination.name": "emails",
        "db.namespace": "sqlite:///test.db",
        "db.collection.name": "faststream_queue",
    }
    await broker.stop()
    assert values("queue.claims") == []


async def test_several_answers_leave_the_trace_as_they_found_it(sqlite_url: str, telemetry: Telemetry) -> None:
    ended: list[BaseException | None] = []

    class Last(BaseMiddleware):
        async def after_processed(self, exc_type: Any = None, exc_val: Any = None, exc_tb: Any = None) -> bool | None:
            if self.msg is not None:
                ended.append(exc_val)
            return await super().after_processed(exc_type, exc_val, exc_tb)

    broker = SQLBroker(sqlite_url, logger=None, poll_interval=0.02, middlewares=(telemetry.middleware, Last))

    @broker.subscriber("emails")
    @broker.publisher("sent")
    @broker.publisher("logged")
    async def handle(body: str) -> str:
        return body

    await broker.create_tables()
    await broker.start()
    await broker.publish("hello", "emails")
    await until(lambda: ended)
    await broker.stop()
    assert ended == [None]
    (process,) = telemetry.spans("emails process")
    for name in ("sent publish", "logged publish"):
        (publish,) = telemetry.spans(name)
        assert publish.parent
        assert publish.parent.span_id == process.context.span_id


async def test_a_row_without_a_trace_begins_one(sqlite_url: str, telemetry: Telemetry) -> None:
    broker, plain = broker_on(sqlite_url, telemetry), SQLBroker(sqlite_url, logger=None)

    @broker.subscriber("emails")
    async def handle(body: str) -> None: ...

    await broker.create_tables()
    await plain.publish("hello", "emails")
    await plain.stop()
    await broker.start()
    await until(lambda: telemetry.spans("emails process"))
    await broker.stop()
    (create,), (process,) = telemetry.spans("emails create"), telemetry.spans("emails process")
    assert create.kind is SpanKind.CONSUMER
    assert process.parent
    assert process.parent.span_id == create.context.span_id
