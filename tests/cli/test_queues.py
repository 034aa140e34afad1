"""`queues`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from faststream_sql import SQLBroker
from tests.cli.conftest import EMAILS, Result, Service

Cli = Callable[..., Result]
MakeService = Callable[..., Service]


def fill(service: Service) -> None:
    async def publish(broker: SQLBroker) -> None:
        await broker.create_tables()
        await broker.publish_batch("a", "b", queue="emails")
        await broker.publish("later", "emails", delay=3600)
        await broker.publish_batch("x", "y", "z", queue="emails.dead")
        await broker.publish("nobody", "other", delay=3600)

    service.do(publish)
    long_ago = service.moment(datetime.now(timezone.utc) - timedelta(hours=3, minutes=30))
    service.sql(f"UPDATE faststream_queue SET retry_after = {long_ago} WHERE id = 1")


def lines(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_every_queue_with_its_numbers(cli: Cli, make_service: MakeService, database_url: str) -> None:
    service = make_service(EMAILS + '@broker.subscriber("empty")\nasync def handle(body: str) -> None: ...', database_url)
    fill(service)
    done = cli("queues", service.target)
    assert done.status == 0
    assert lines(done.out) == [
        ["QUEUE", "TABLE", "READY", "DELAYED", "IN", "WORK", "OLDEST", "DEAD"],
        ["emails", "faststream_queue", "2", "1", "0", "3", "h", "3"],
        ["empty", "faststream_queue", "0", "0", "0", "-", "-"],
        ["other", "faststream_queue", "0", "1", "0", "-", "-", "nobody", "reads", "it"],
    ]
    by_url = cli("queues", make_service(EMAILS).target, "--url", database_url)
    assert lines(by_url.out)[1] == lines(done.out)[1]


def test_json_for_other_programs(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    service = make_service(EMAILS, sqlite_url)
    fill(service)
    emails, other = json.loads(cli("queues", service.target, "--json").out)
    assert emails.pop("oldest_ready_seconds") > 3 * 3600
    assert emails == {
        "queue": "emails",
        "table": "faststream_queue",
        "ready": 2,
        "delayed": 1,
        "in_work": 0,
        "dead": 3,
        "is_read": True,
    }
    assert (other["queue"], other["is_read"], other["dead"]) == ("other", False, None)


def test_tables_without_groups_and_leases(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    body = 'jobs = QueueTable("report_jobs", id="id", payload="payload", advisory_lock="jobs-{id}", attempt="attempt")\n'
    body += (
        '@broker.subscriber("reports", table=jobs, max_attempts=1, dead_letter="report_jobs_dead")\nasync def handle(b: str) -> None: ...'
    )
    service = make_service(body, sqlite_url)
    service.create_tables()
    service.sql("INSERT INTO report_jobs (payload) VALUES ('x'), ('y'); INSERT INTO report_jobs_dead (payload) VALUES ('z')")
    assert lines(cli("queues", service.target).out)[1:] == [["report_jobs", "report_jobs", "2", "0", "-", "-", "1"]]


def test_nothing_at_all(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    service = make_service("", sqlite_url)
    service.create_tables()
    assert cli("queues", service.target).out == "sqlite:///test.db: no queue is read, and no row waits\n"


def test_a_table_that_is_not_there(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    done = cli("queues", make_service(EMAILS, sqlite_url).target)
    assert (done.status, done.out) == (1, "")
    assert "table 'faststream_queue' does not exist" in done.err
