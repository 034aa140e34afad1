"""`dead list`, `show`, `requeue` and `purge`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from faststream_sql import SQLBroker
from faststream_sql.engine import operations
from tests.cli.conftest import EMAILS, Result, Service

Cli = Callable[..., Result]
MakeService = Callable[..., Service]

DUE = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
SHARED = """
@broker.subscriber("emails", max_attempts=5, dead_letter="dead")
async def send(to: str) -> None: ...
@broker.subscriber("letters", max_attempts=5, dead_letter="dead")
async def post(to: str) -> None: ...
"""
REPORTS = """
jobs = QueueTable("report_jobs", id="id", attempt="attempt", payload="payload", locked_until="locked_until")
@broker.subscriber("reports", table=jobs, max_attempts=2, dead_letter="report_jobs_dead")
async def report(body: str) -> None: ...
"""


async def fill(broker: SQLBroker) -> None:
    await broker.create_tables()
    await broker.publish({"to": "ann"}, "emails.dead", headers={"why": "müde"}, available_at=DUE)
    await broker.publish_batch("bob", "eve", queue="emails.dead", available_at=DUE)
    await broker.publish("alive", "emails")


@pytest.fixture
def service(make_service: MakeService, database_url: str) -> Service:
    service = make_service(EMAILS, database_url)
    service.do(fill)
    service.sql("UPDATE faststream_queue SET attempt = 5 WHERE queue = 'emails.dead'")
    return service


def put_in_work(service: Service, row_id: int) -> None:
    """As a worker of another process would have left it a moment ago."""
    ends = service.moment(datetime.now(timezone.utc) + timedelta(hours=1))
    service.sql(f"UPDATE faststream_queue SET locked_until = {ends} WHERE id = {row_id}")


def test_they_are_listed(service: Service, cli: Cli) -> None:
    done = cli("dead", "list", service.target)
    assert done.status == 0
    assert [line.rstrip() for line in done.out.splitlines()] == [
        "DEAD LETTERS OF  ID  ATTEMPT  DUE                  IN WORK  BYTES",
        "emails            1        5  2030-01-02 03:04:05  no          12",
        "emails            2        5  2030-01-02 03:04:05  no           3",
        "emails            3        5  2030-01-02 03:04:05  no           3",
        "3 rows in 'emails.dead'",
    ]
    limited = cli("dead", "list", service.target, "emails", "--limit", "1").out
    assert limited.endswith("3 rows in 'emails.dead', and the first 1 of them are above\n")
    assert cli("dead", "list", service.target, "emails.dead").out == done.out
    rows = json.loads(cli("dead", "list", service.target, "--json").out)
    assert [(row["queues"], row["row_id"], row["attempt"], row["in_work"], row["payload_bytes"]) for row in rows] == [
        (["emails"], 1, 5, False, 12),
        (["emails"], 2, 5, False, 3),
        (["emails"], 3, 5, False, 3),
    ]


def test_one_is_shown_with_all_its_columns(service: Service, cli: Cli) -> None:
    done = cli("dead", "show", service.target, "emails", "1")
    assert done.status == 0
    shown = dict(line.split(None, 1) for line in done.out.splitlines())
    assert {name: shown[name] for name in ("id", "group", "attempt", "locked_until")} == {
        "id": "1",
        "group": "emails.dead",
        "attempt": "5",
        "locked_until": "-",
    }
    assert json.loads(shown["payload"]) == {"to": "ann"}
    assert json.loads(shown["headers"])["why"] == "müde"
    assert shown["retry_after"].startswith("2030-01-02")
    for row_id in ("4", "999"):  # one of another group, one of none
        done = cli("dead", "show", service.target, "emails", row_id)
        assert (done.status, done.out) == (1, "")
        assert f"there is no row '{row_id}' in 'emails.dead'" in done.err
    assert "is no id of table" in cli("dead", "show", service.target, "emails", "first").err


def test_they_go_back_with_a_first_attempt(service: Service, cli: Cli) -> None:
    before = service.rows("id, queue, attempt")
    done = cli("dead", "requeue", service.target, "emails", "--dry-run")
    assert done.out == "would send back to 'emails': 3 rows of 'emails.dead'\n"
    assert service.rows("id, queue, attempt") == before
    assert cli("dead", "requeue", service.target, "emails", "--limit", "1").out == "sent back to 'emails': 1 row of 'emails.dead'\n"
    assert service.rows("id, queue, attempt") == [(1, "emails", 1), *before[1:]]
    assert cli("dead", "requeue", service.target, "emails").out == "sent back to 'emails': 2 rows of 'emails.dead'\n"
    assert service.rows("queue, attempt, locked_until") == [("emails", 1, None)] * 4
    assert cli("dead", "requeue", service.target, "emails").out == "sent back to 'emails': 0 rows of 'emails.dead'\n"


def test_they_are_deleted(service: Service, cli: Cli) -> None:
    assert cli("dead", "purge", service.target, "emails", "--dry-run").out == "would delete: 3 rows of 'emails.dead'\n"
    done = cli("dead", "purge", service.target, "emails")
    assert (done.status, done.out) == (2, "")
    assert "add --yes, or look first with --dry-run" in done.err
    assert len(service.rows("id")) == 4
    assert cli("dead", "purge", service.target, "emails", "--yes").out == "deleted: 3 rows of 'emails.dead'\n"
    assert service.rows("queue") == [("emails",)]


def test_rows_in_work_are_left_alone(service: Service, cli: Cli) -> None:
    put_in_work(service, 2)
    assert cli("dead", "list", service.target).out.splitlines()[2].split()[-2:] == ["yes", "3"]
    for command in (["dead", "requeue", service.target, "emails"], ["dead", "purge", service.target, "emails", "--yes"]):
        done = cli(*command, "--dry-run")
        assert "1 row in work left alone" in done.out
        done = cli(*command)
        assert done.out.endswith("; 1 row in work left alone\n")
        assert service.rows("queue, attempt")[1] == ("emails.dead", 5)
    assert [queue for (queue,) in service.rows("queue")] == ["emails", "emails.dead", "emails", "emails"]


def test_many_go_in_several_transactions(service: Service, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "WRITE_TOGETHER", 2)
    assert cli("dead", "requeue", service.target, "emails").out == "sent back to 'emails': 3 rows of 'emails.dead'\n"


def test_dead_letters_in_a_table_of_their_own(cli: Cli, make_service: MakeService, database_url: str) -> None:
    service = make_service(REPORTS, database_url)
    service.create_tables()
    service.sql("INSERT INTO report_jobs_dead (id, payload, attempt) VALUES (7, 'x', 2), (8, 'y', 2)")
    assert "2 rows in 'report_jobs_dead'" in cli("dead", "list", service.target, "reports").out
    done = cli("dead", "requeue", service.target, "report_jobs_dead", "--limit", "1")
    assert done.out == "sent back to 'reports': 1 row of 'report_jobs_dead'\n"
    assert service.rows("id, attempt", "report_jobs") == [(7, 1)]
    assert cli("dead", "purge", service.target, "reports", "--yes").out == "deleted: 1 row of 'report_jobs_dead'\n"
    assert service.rows("id", "report_jobs_dead") == []


def test_a_group_that_several_queues_share(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    service = make_service(SHARED, sqlite_url)

    async def fill(broker: SQLBroker) -> None:
        await broker.create_tables()
        await broker.publish_batch("x", "y", queue="dead")

    service.do(fill)
    assert "emails, letters" in cli("dead", "list", service.target).out
    for name in ("emails", "dead"):
        done = cli("dead", "requeue", service.target, name)
        assert (done.status, done.out) == (2, "")
        assert "'dead' is shared by emails, letters" in done.err
    assert "give --to one of emails, letters" in cli("dead", "requeue", service.target, "dead", "--to", "other").err
    assert cli("dead", "requeue", service.target, "dead", "--to", "letters").out == "sent back to 'letters': 2 rows of 'dead'\n"
    assert service.rows("queue") == [("letters",)] * 2


def test_names_that_lead_nowhere(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    done = cli("dead", "list", make_service(EMAILS, sqlite_url).target, "reports")
    assert (done.status, done.out) == (2, "")
    assert "no queue 'reports' gives rows up; those with dead letters are 'emails'" in done.err
    assert "no subscription declares dead_letter=" in cli("dead", "list", make_service("", sqlite_url).target, "emails").err


def test_one_name_in_two_tables(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    body = SHARED.replace(
        'subscriber("letters"',
        'subscriber("letters", table=QueueTable("two", id="id", group="name", attempt="n", payload="p", locked_until="l")',
    )
    service = make_service(body, sqlite_url)
    service.create_tables()
    done = cli("dead", "list", service.target, "dead")
    assert done.status == 2
    assert "'dead' is in 2 tables: name the queue, one of emails; letters" in done.err
    assert cli("dead", "list", service.target, "letters").out == "0 rows in 'dead'\n"


def test_a_payload_cannot_steer_the_terminal(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    service = make_service(EMAILS, sqlite_url)

    async def fill(broker: SQLBroker) -> None:
        await broker.create_tables()
        await broker.publish(b"\x1b[2Jred [bold]", "emails.dead")
        await broker.publish(b"\xff\xfe", "emails.dead")

    service.do(fill)
    assert "\\x1b[2Jred [bold]\n" in cli("dead", "show", service.target, "emails", "1").out
    assert "2 bytes: ff fe\n" in cli("dead", "show", service.target, "emails", "2").out


def test_a_file_whose_locks_another_process_holds(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    import fcntl

    body = 'jobs = QueueTable("jobs", id="id", group="name", attempt="attempt", payload="payload", advisory_lock="jobs-{id}")\n'
    body += '@broker.subscriber("jobs", table=jobs, max_attempts=2, dead_letter="jobs.dead")\nasync def handle(b: str) -> None: ...'
    service = make_service(body, sqlite_url)
    service.create_tables()
    service.sql("INSERT INTO jobs (name, payload) VALUES ('jobs.dead', 'x')")
    with open(f"{sqlite_url.removeprefix('sqlite:///')}.process", "ab") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = cli("dead", "purge", service.target, "jobs", "--yes")
        assert (done.status, done.out) == (1, "")
        assert "another process has the advisory locks of 'test.db'" in done.err
    assert cli("dead", "purge", service.target, "jobs", "--dry-run").out == "would delete: up to 1 row of 'jobs.dead'\n"
    assert cli("dead", "purge", service.target, "jobs", "--yes").out == "deleted: 1 row of 'jobs.dead'\n"
