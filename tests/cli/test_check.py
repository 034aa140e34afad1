"""`check` and `prepare`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import EMAILS, Result, Service

Cli = Callable[..., Result]
MakeService = Callable[..., Service]

TWO_TABLES = """
reports = QueueTable("report_jobs", id="id", attempt="attempt", payload="payload", locked_until="locked_until", columns=("account",))

@broker.subscriber("emails", max_attempts=5, dead_letter="emails.dead")
async def send(to: str) -> None: ...

@broker.subscriber("reports", table=reports, max_attempts=2, dead_letter="report_jobs_dead")
async def report(body: str) -> None: ...

broker.publisher("sent")
"""


def test_a_schema_that_fits(cli: Cli, make_service: MakeService, database_url: str) -> None:
    service = make_service(TWO_TABLES, database_url)
    service.create_tables()
    done = cli("check", service.target)
    assert (done.status, done.out) == (0, f"{service.broker.public_url}: 2 subscriptions, 1 publisher, 3 tables, nothing is missing\n")


def test_every_missing_name_is_told_at_once(cli: Cli, make_service: MakeService, database_url: str) -> None:
    service = make_service(TWO_TABLES, database_url)
    service.create_tables()
    service.sql("ALTER TABLE faststream_queue RENAME COLUMN headers TO heads")
    service.sql("ALTER TABLE faststream_queue RENAME COLUMN attempt TO tries")
    service.sql("ALTER TABLE report_jobs DROP COLUMN account")
    service.sql("DROP TABLE report_jobs_dead")
    done = cli("check", service.target)
    errors = [line for line in done.out.splitlines() if line.startswith("error: ")]
    assert done.status == 1
    assert len(errors) == 3
    assert "subscription 'emails': table 'faststream_queue' has no column 'attempt', 'headers'" in done.out
    assert "subscription 'reports': table 'report_jobs' has no column 'account'" in done.out
    assert "subscription 'reports': table 'report_jobs_dead' does not exist" in done.out
    assert done.out.splitlines()[-1] == f"{service.broker.public_url}: 3 errors, 0 warnings"


def test_a_missing_index_is_a_warning_with_its_ddl(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    service = make_service(EMAILS, sqlite_url)
    service.create_tables()
    service.sql("DROP INDEX faststream_queue_claim")
    done = cli("check", service.target)
    assert done.status == 0
    assert done.out.startswith("warning: subscription 'emails': no index serves its claims")
    assert 'CREATE INDEX IF NOT EXISTS "faststream_queue_claim"' in done.out
    assert done.out.count("CREATE INDEX") == 1
    assert done.out.endswith("1 subscription, 0 publishers, 1 table, 1 warning\n")


def test_what_a_server_cannot_do_is_found(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    table = 'QueueTable("jobs", id="id", group="name", payload="payload")'
    service = make_service('@broker.subscriber("jobs")\nasync def handle(body: str) -> None: ...', sqlite_url, f"table={table}")
    service.create_tables()
    done = cli("check", service.target)
    assert done.status == 1
    assert "subscription 'jobs': " in done.out
    assert "row lock" in done.out


def test_a_limit_without_a_dead_letter_is_found(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    body = '@broker.subscriber("emails", max_attempts=5)\nasync def send(to: str) -> None: ...\n' + EMAILS.replace('"emails"', '"others"')
    service = make_service(body.replace("async def send", "async def one", 1), sqlite_url)
    service.create_tables()
    done = cli("check", service.target)
    assert done.status == 1
    assert done.out.count("error: ") == 1
    assert "declares max_attempts without dead_letter" in done.out


@pytest.mark.postgres
def test_a_statement_that_cannot_run_is_found(cli: Cli, make_service: MakeService, postgres_url: str) -> None:
    service = make_service(EMAILS, postgres_url)
    service.create_tables()
    service.sql("ALTER TABLE faststream_queue DROP attempt, ADD attempt integer NOT NULL GENERATED ALWAYS AS (1) STORED")
    done = cli("check", service.target)
    assert done.status == 1
    assert "subscription 'emails', statement 'claim' on table 'faststream_queue'" in done.out


def test_nothing_is_claimed_and_nothing_changes(cli: Cli, make_service: MakeService, database_url: str) -> None:
    service = make_service(EMAILS, database_url)
    service.create_tables()
    service.do(lambda broker: broker.publish("hello", "emails"))
    before = service.rows("queue, attempt, locked_until")
    assert cli("check", service.target).status == 0
    assert service.rows("queue, attempt, locked_until") == before


def test_the_url_comes_first_then_the_environment_then_the_broker(
    cli: Cli, make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(EMAILS, "sqlite:///own.db")
    make_service(EMAILS, "sqlite:///environment.db").create_tables()
    make_service(EMAILS, "sqlite:///given.db").create_tables()
    assert cli("check", service.target).out.startswith("error: ")
    monkeypatch.setenv("DATABASE_URL", "sqlite:///environment.db")
    assert cli("check", service.target).out.startswith("sqlite:///environment.db: ")
    assert cli("check", service.target, "--url", "sqlite:///given.db").out.startswith("sqlite:///given.db: ")
    service.create_tables()  # its own database is its own again
    monkeypatch.delenv("DATABASE_URL")
    assert cli("check", service.target).out.startswith("sqlite:///own.db: ")


def test_offline_it_checks_against_the_file(cli: Cli, make_service: MakeService, database_url: str, tmp_path: Path) -> None:
    service = make_service(TWO_TABLES, database_url)
    service.create_tables()
    done = cli("prepare", service.target)
    assert (done.status, done.out) == (0, f"faststream-sql.json: 3 tables of {service.broker.public_url}\n")
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    later = make_service(TWO_TABLES.replace('columns=("account",)', 'columns=("account", "region")'), nowhere)
    done = cli("check", service.target, "--offline")
    assert (done.status, done.out) == (0, "faststream-sql.json: 2 subscriptions, 1 publisher, 3 tables, nothing is missing\n")
    done = cli("check", later.target, "--offline")
    assert done.status == 1
    assert "table 'report_jobs' has no column 'region'" in done.out
    assert "table 'report_jobs_dead' has no column 'region'" in done.out


def test_a_file_that_the_database_has_left_behind(cli: Cli, make_service: MakeService, database_url: str) -> None:
    service = make_service(TWO_TABLES, database_url)
    service.create_tables()
    cli("prepare", service.target, "--file", "schema.json")
    done = cli("prepare", service.target, "--file", "schema.json", "--check")
    assert (done.status, done.out) == (0, f"schema.json is {service.broker.public_url} as it is\n")
    service.sql("ALTER TABLE report_jobs RENAME COLUMN account TO customer")
    service.sql("ALTER TABLE faststream_queue ADD COLUMN region varchar(20)")
    service.sql("DROP TABLE report_jobs_dead")
    done = cli("prepare", service.target, "--file", "schema.json", "--check")
    assert done.status == 1
    for line in (
        "table 'report_jobs': column 'account' is gone",
        "table 'report_jobs': column 'customer' is new",
        "table 'faststream_queue': column 'region' is new",
        "table 'report_jobs_dead' is gone",
    ):
        assert f"changed: {line}\n" in done.out
    assert json.loads(Path("schema.json").read_text())["tables"][1]["name"] == "report_jobs"


@pytest.mark.postgres
def test_types_defaults_and_indexes_are_compared(cli: Cli, make_service: MakeService, postgres_url: str) -> None:
    service = make_service(EMAILS, postgres_url)
    service.create_tables()
    cli("prepare", service.target)
    service.sql("ALTER TABLE faststream_queue ALTER COLUMN attempt TYPE smallint, ALTER COLUMN priority SET DEFAULT 7")
    service.sql("DROP INDEX faststream_queue_claim; CREATE INDEX faststream_queue_claim ON faststream_queue (queue, id)")
    done = cli("prepare", service.target, "--check")
    assert "column 'attempt' was integer NOT NULL DEFAULT 1, and is smallint NOT NULL DEFAULT 1" in done.out
    assert "column 'priority' was integer NOT NULL DEFAULT 0, and is integer NOT NULL DEFAULT 7" in done.out
    assert "index 'faststream_queue_claim' was (queue, priority, retry_after, id), and is (queue, id)" in done.out


def test_tables_that_the_code_took_up_or_dropped(cli: Cli, make_service: MakeService, sqlite_url: str) -> None:
    one, two = make_service(EMAILS, sqlite_url), make_service(TWO_TABLES, sqlite_url)
    two.create_tables()
    cli("prepare", one.target)
    done = cli("prepare", two.target, "--check")
    assert done.status == 1
    assert "changed: table 'report_jobs' is not in it" in done.out
    cli("prepare", two.target)
    done = cli("prepare", one.target, "--check")
    assert "changed: table 'report_jobs' is in it, and is used no more" in done.out


def test_a_schema_that_does_not_fit_is_not_written(cli: Cli, make_service: MakeService, sqlite_url: str, tmp_path: Path) -> None:
    service = make_service(EMAILS, sqlite_url)
    done = cli("prepare", service.target)
    assert done.status == 1
    assert "table 'faststream_queue' does not exist" in done.out
    assert not (tmp_path / "faststream-sql.json").exists()


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 2}', '{"format": 1, "server": {"product": "oracle"}}', "\x00"])
def test_a_file_of_something_else(content: str, cli: Cli, make_service: MakeService, tmp_path: Path) -> None:
    service = make_service(EMAILS)
    (tmp_path / "faststream-sql.json").write_text(content)
    done = cli("check", service.target, "--offline")
    assert (done.status, done.out) == (2, "")
    assert "is no schema that `faststream-sql prepare` of this release wrote" in done.err


def test_no_file(cli: Cli, make_service: MakeService) -> None:
    service = make_service(EMAILS)
    done = cli("check", service.target, "--offline", "--file", "none/schema.json")
    assert done.status == 2
    assert "none/schema.json cannot be read (No such file or directory)" in done.err
    service.create_tables()
    assert "none/schema.json cannot be written" in cli("prepare", service.target, "--file", "none/schema.json").err
