"""The queues' own metrics: what waits in the tables, and what was done with it."""

from __future__ import annotations

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from faststream_sql import DeclarationError, QueueTable, SQLBroker, TestSQLBroker
from faststream_sql.annotations import SQLMessage
from faststream_sql.drivers.base import Use
from faststream_sql.errors import StatementError
from faststream_sql.prometheus import SQLQueueMetrics
from tests.conformance.conftest import PAIRS
from tests.waiting import until

DATABASES = sorted({pair.database for pair in PAIRS} - {"memory"})


@pytest.fixture(params=[pytest.param(name, marks=[getattr(pytest.mark, name)] if name != "sqlite" else []) for name in DATABASES])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def value(registry: CollectorRegistry, name: str, queue: str = "emails", **labels: str) -> float | None:
    """A metric's one sample for a queue, whatever its table and database."""
    samples = [sample for family in registry.collect() for sample in family.samples if sample.name == f"faststream_sql_{name}"]
    found = [
        sample.value
        for sample in samples
        if sample.labels.get("queue", queue) == queue and all(sample.labels[key] == wanted for key, wanted in labels.items())
    ]
    assert len(found) <= 1
    return found[0] if found else None


async def run_sql(broker: SQLBroker, text: str) -> None:
    async with broker.engine.pool.connection(Use.STATEMENT, "test") as connection:
        await connection.script(text)


async def test_rows_are_counted_by_what_they_wait_for(url: str, registry: CollectorRegistry) -> None:
    broker, let_go = SQLBroker(url, logger=None, poll_interval=0.02), asyncio.Event()
    metrics = SQLQueueMetrics(broker, registry=registry)
    held: list[str] = []

    @broker.subscriber("emails", max_attempts=3, dead_letter="emails.dead", prefetch=0)
    async def handle(body: str, message: SQLMessage) -> None:
        match body:
            case "dead":
                await message.dead_letter()
            case "reject":
                await message.reject()
            case "nack":
                await message.nack(delay=3600)
            case "hold":
                held.append(body)
                await let_go.wait()

    await broker.create_tables()
    for body in ("dead", "dead", "reject", "nack", "ack", "hold"):
        await broker.publish(body, "emails")
    await broker.start()
    await until(lambda: held)
    await broker.publish_batch("ready", "ready", "ready", queue="emails")
    await broker.publish("later", "emails", delay=3600)
    await broker.publish("nobody reads it", "other")
    await metrics.read()

    assert {name: value(registry, f"queue_{name}") for name in ("ready", "delayed", "in_work", "dead")} == {
        "ready": 3,
        "delayed": 2,
        "in_work": 1,
        "dead": 2,
    }
    assert 0 < (value(registry, "queue_oldest_ready_age_seconds") or 0) < 60
    assert value(registry, "queue_ready", queue="other") is None
    assert value(registry, "queue_claims_total") == 6
    outcomes = {
        outcome: value(registry, "queue_settlements_total", outcome=outcome) for outcome in ("ack", "reject", "nack", "dead_letter")
    }
    assert outcomes == {"ack": 1, "reject": 1, "nack": 1, "dead_letter": 2}
    assert value(registry, "pool_connections_max") == broker.engine.pool.size
    let_go.set()
    await broker.stop()


async def test_a_connection_given_out_is_in_use(url: str, registry: CollectorRegistry) -> None:
    broker = SQLBroker(url, logger=None)
    SQLQueueMetrics(broker, registry=registry)
    await broker.connect()
    assert value(registry, "pool_connections_in_use") == 0
    async with broker.engine.pool.connection(Use.STATEMENT, "test"):
        assert value(registry, "pool_connections_in_use") == 1
    await broker.stop()


async def test_an_empty_queue_is_zero_and_not_absent(sqlite_url: str, registry: CollectorRegistry) -> None:
    broker = SQLBroker(sqlite_url, logger=None)
    metrics = SQLQueueMetrics(broker, registry=registry)
    broker.publisher("sent")

    @broker.subscriber("emails")
    async def handle(body: str) -> None: ...

    await broker.create_tables()
    await metrics.read()
    for queue in ("emails", "sent"):
        names = ("queue_ready", "queue_delayed", "queue_in_work", "queue_oldest_ready_age_seconds")
        assert [value(registry, name, queue) for name in names] == [0, 0, 0, 0]
        assert value(registry, "queue_dead", queue) is None
    await broker.stop()


async def test_what_rows_do_not_say_is_left_out(sqlite_url: str, registry: CollectorRegistry) -> None:
    table = QueueTable("report_jobs", id="id", payload="payload", advisory_lock="jobs-{id}")
    broker = SQLBroker(sqlite_url, table=table, logger=None)
    metrics = SQLQueueMetrics(broker, registry=registry)

    @broker.subscriber("reports")
    async def handle(body: str) -> None: ...

    await broker.create_tables()
    await broker.publish("one", "reports")
    await metrics.read()
    assert value(registry, "queue_ready", "report_jobs") == 1
    assert value(registry, "queue_in_work", "report_jobs") is None
    assert value(registry, "queue_oldest_ready_age_seconds", "report_jobs") is None
    await broker.stop()


async def test_dead_letters_in_a_table_of_their_own_are_counted(sqlite_url: str, registry: CollectorRegistry) -> None:
    table = QueueTable("report_jobs", id="id", payload="payload", attempt="attempt", locked_until="locked_until")
    broker = SQLBroker(sqlite_url, table=table, logger=None, poll_interval=0.02)
    metrics = SQLQueueMetrics(broker, registry=registry)

    @broker.subscriber("reports", max_attempts=1, dead_letter="report_jobs_dead")
    async def handle(body: str) -> None:
        raise ValueError(body)

    await broker.create_tables()
    await broker.start()
    await broker.publish("one", "reports")
    await until(lambda: value(registry, "queue_settlements_total", "report_jobs", outcome="dead_letter") == 1)
    await metrics.read()
    assert value(registry, "queue_dead", "report_jobs") == 1
    await broker.stop()


async def test_renewals_are_counted(registry: CollectorRegistry) -> None:
    broker = SQLBroker("sqlite://", logger=None)
    SQLQueueMetrics(broker, registry=registry)

    @broker.subscriber("reports", lease=60)
    async def handle(body: str) -> None:
        await asyncio.sleep(290)

    async with TestSQLBroker(broker) as br:
        await br.publish("one", "reports")
        assert value(registry, "queue_leases_renewed_total", "reports") == 9
        assert value(registry, "queue_leases_lost_total", "reports") == 0


async def test_a_lost_lease_is_counted(url: str, registry: CollectorRegistry) -> None:
    broker = SQLBroker(url, logger=None, poll_interval=0.02)
    SQLQueueMetrics(broker, registry=registry)

    @broker.subscriber("emails")
    async def handle(body: str) -> None:
        await run_sql(broker, "DELETE FROM faststream_queue")

    await broker.create_tables()
    await broker.start()
    await broker.publish("one", "emails")
    await until(lambda: value(registry, "queue_leases_lost_total") == 1)
    assert value(registry, "queue_settlements_total", outcome="ack") == 0
    await broker.stop()


async def test_rows_are_counted_again_and_again_while_it_runs(sqlite_url: str, registry: CollectorRegistry) -> None:
    broker = SQLBroker(sqlite_url, logger=None)
    broker.publisher("emails")
    await broker.create_tables()
    async with SQLQueueMetrics(broker, registry=registry, every=0.01) as metrics:
        await until(lambda: value(registry, "queue_ready") == 0)
        await broker.publish("one", "emails")
        await until(lambda: value(registry, "queue_ready") == 1)
        await metrics.start()  # a second task would be left pending
        await broker.stop()
        await until(lambda: value(registry, "queue_ready") is None)
        await broker.connect()
        await until(lambda: value(registry, "queue_ready") == 1)
    await metrics.stop()
    await broker.stop()


async def test_old_numbers_do_not_pass_for_new_ones(sqlite_url: str, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture) -> None:
    broker = SQLBroker(sqlite_url, logger=logging.getLogger("broker"))
    broker.publisher("emails")
    await broker.create_tables()
    async with SQLQueueMetrics(broker, registry=registry, every=0.01) as metrics:
        await until(lambda: value(registry, "queue_ready") == 0)
        await run_sql(broker, "ALTER TABLE faststream_queue RENAME TO elsewhere")
        await until(lambda: value(registry, "queue_ready") is None)
        await until(lambda: "cannot be counted" in caplog.text)
        with pytest.raises(StatementError):
            await metrics.read()
        await run_sql(broker, "ALTER TABLE elsewhere RENAME TO faststream_queue")
        await until(lambda: value(registry, "queue_ready") == 0)
    assert caplog.text.count("cannot be counted") == 1
    await broker.stop()


async def test_brokers_that_share_a_queue_are_one(sqlite_url: str, registry: CollectorRegistry) -> None:
    reads, writes = SQLBroker(sqlite_url, logger=None, poll_interval=0.02), SQLBroker(sqlite_url, logger=None)
    metrics = SQLQueueMetrics(writes, reads, registry=registry)
    writes.publisher("emails")
    got: list[str] = []

    @reads.subscriber("emails", max_attempts=2, dead_letter="emails.dead")
    async def handle(body: str) -> None:
        got.append(body)

    @writes.subscriber("emails")
    async def handle_too(body: str) -> None:
        got.append(body)

    await writes.create_tables()
    await metrics.read()
    assert value(registry, "queue_dead") == 0
    for broker in (reads, writes):
        await broker.start()
    for n in range(20):
        await writes.publish(str(n), "emails")
    await until(lambda: value(registry, "queue_settlements_total", outcome="ack") == 20)
    assert value(registry, "queue_claims_total") == 20
    assert value(registry, "pool_connections_max") == 2 * reads.engine.pool.size
    for broker in (reads, writes):
        await broker.stop()


async def test_names_labels_and_exposition(sqlite_url: str, registry: CollectorRegistry) -> None:
    broker = SQLBroker(sqlite_url, logger=None)
    metrics = SQLQueueMetrics(broker, registry=registry, app_name="mailer", metrics_prefix="acme")
    broker.publisher('odd "name"\\')
    assert all(not family.samples for family in registry.collect())  # nothing is known before it connects
    await broker.create_tables()
    await metrics.read()
    exposed = list(text_string_to_metric_families(generate_latest(registry).decode()))
    samples = {sample.name: sample for family in exposed for sample in family.samples}
    assert samples["acme_sql_queue_ready"].labels == {
        "app_name": "mailer",
        "broker": "sql",
        "database": "sqlite:///test.db",
        "table": "faststream_queue",
        "queue": 'odd "name"\\',
    }
    await broker.stop()


@pytest.mark.parametrize(("brokers", "every"), [(0, 15.0), (1, 0.0), (1, -1.0)])
def test_what_cannot_be_is_refused(brokers: int, every: float, registry: CollectorRegistry) -> None:
    with pytest.raises(DeclarationError, match="metrics of"):
        SQLQueueMetrics(*[SQLBroker("sqlite://")] * brokers, registry=registry, every=every)


def test_no_credential_is_a_label(registry: CollectorRegistry) -> None:
    broker = SQLBroker("postgresql://user:canary@db.example:5432/app?password=canary", logger=None)
    SQLQueueMetrics(broker, registry=registry)
    assert broker.public_url == "postgresql://db.example:5432/app"
    assert "canary" not in generate_latest(registry).decode()
