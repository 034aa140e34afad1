"""The examples, run as a user runs them, each on a database of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from faststream.specification import AsyncAPI

from faststream_sql import SchemaError

ROOT = Path(__file__).parent.parent.parent
PATIENCE_SECONDS = 40.0


def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "what was waited for never came"
        time.sleep(0.02)


def test_a_report_of_five_minutes_on_a_lease_of_one(tmp_path: Path) -> None:
    process = start(["examples/reports.py", "--minute", "1"], REPORTS_URL=f"sqlite:///{tmp_path / 'reports.db'}")
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output
    assert output.count("report 1 rendered") == 1
    assert "again" not in output
    with sqlite3.connect(tmp_path / "reports.db") as database:
        assert database.execute("SELECT count(*) FROM report_jobs").fetchone() == (0,)
    database.close()


def test_a_report_whose_process_is_killed_is_rendered_again(tmp_path: Path) -> None:
    path = tmp_path / "reports.db"
    first = start(["examples/reports.py", "--minute", "1"], REPORTS_URL=f"sqlite:///{path}")

    def claimed() -> bool:
        if not path.exists():
            return False
        database = sqlite3.connect(path)
        try:
            return bool(database.execute("SELECT count(*) FROM report_jobs WHERE locked_until IS NOT NULL").fetchone()[0])
        except sqlite3.OperationalError:
            return False
        finally:
            database.close()

    until(claimed)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    code = (
        "import asyncio, logging; from datetime import timedelta; from examples import reports; "
        "logging.basicConfig(level=logging.INFO); reports.stop_when_done = True; "
        f"asyncio.run(reports.service('sqlite:///{path}', timedelta(seconds=1)).run())"
    )
    second = start(["-c", code])
    output, _ = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 0, output
    assert "rendering report 1 again after a lost attempt: this is attempt 2" in output
    assert output.count("report 1 rendered") == 1


def test_the_mailer(tmp_path: Path) -> None:
    code = (
        "import asyncio; from datetime import timedelta; from examples import mailer; "
        f"asyncio.run(mailer.demo('sqlite:///{tmp_path / 'mail.db'}', timedelta(seconds=0.1)))"
    )
    process = start(["-c", code])
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output
    for told in (
        "ann@example.org: sent on attempt 1",
        "flaky@example.org: no answer on attempt 2, again at once",
        "flaky@example.org: sent on attempt 3",
        "nobody@example.org: address rejected, dropped",
        "crowd@example.org: busy on attempt 5",
        "crowd@example.org: not sent after 5 attempts, needs a person",
    ):
        assert output.count(told) == 1, (told, output)
    assert "attempt 6" not in output


@pytest.fixture
def postgres_environment(postgres_url: str) -> dict[str, str]:
    parts = urlsplit(postgres_url)
    found = {
        "PGHOST": parts.hostname or "",
        "PGPORT": str(parts.port or 5432),
        "PGDATABASE": parts.path[1:],
        "PGUSER": parts.username or "",
    }
    return {**found, **({"PGPASSWORD": parts.password} if parts.password else {})}


async def test_the_mailer_in_production_shape(postgres_url: str, postgres_environment: dict[str, str]) -> None:
    process = start(["-m", "faststream", "run", "examples.production:app"], **postgres_environment)
    try:
        connection = await asyncpg.connect(postgres_url)
        for _ in range(1000):
            if await connection.fetchval("SELECT to_regclass('email_jobs')"):
                break
            await asyncio.sleep(0.02)
        await connection.execute(
            "INSERT INTO email_jobs (name, payload) SELECT 'emails', convert_to('{\"to\": \"ann\"}', 'UTF8') FROM generate_series(1, 50)"
        )
        await connection.execute("INSERT INTO email_jobs (name, attempt, payload) VALUES ('emails', 5, 'no json')")
        for _ in range(1000):
            if await connection.fetchval("SELECT count(*) FROM email_jobs WHERE name = 'emails'") == 0:
                break
            await asyncio.sleep(0.02)
        rows = await connection.fetch("SELECT name, attempt FROM email_jobs")
        await connection.close()
        assert [tuple(row) for row in rows] == [("emails.dead", 5)]
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output


async def test_a_table_of_an_earlier_release_stops_it_by_name(postgres_url: str) -> None:
    from examples.production import service

    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE email_jobs (job_id BIGSERIAL PRIMARY KEY, name TEXT NOT NULL, payload BYTEA NOT NULL)")
    await connection.close()
    with pytest.raises(SchemaError, match=r"'email_jobs'.*'attempt'"):
        await service(postgres_url).run()


def test_the_document_shows_where_the_database_is_and_no_password() -> None:
    from examples.production import service

    app = service("postgresql://mailer:s3cr3t@db.internal:5432/mail")
    text = AsyncAPI(*app.brokers).to_specification().to_json()
    assert "db.internal:5432" in text
    assert "s3cr3t" not in text


@pytest.mark.slow
def test_the_demo() -> None:
    process = start(["-m", "examples.demo"])
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, output
    assert "no letter is left" in output
