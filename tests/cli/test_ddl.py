"""`ddl`, and the same tables as SQLAlchemy's metadata."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Column as SQLColumn
from sqlalchemy import Integer, MetaData, Table, create_mock_engine
from sqlalchemy.engine.mock import MockConnection

from faststream_sql import DeclarationError, QueueTable, SQLBroker
from faststream_sql.dialects import dialect_for
from faststream_sql.drivers import open_pool
from faststream_sql.drivers.base import Use
from faststream_sql.drivers.url import parse_url
from faststream_sql.metadata import metadata_of
from tests.cli.conftest import EMAILS, Result, Service

Cli = Callable[..., Result]
MakeService = Callable[..., Service]

EVERY_ROLE = QueueTable(
    "every role",
    id="id",
    group="order",
    priority="rank",
    partition_key="key",
    retry_after="due",
    attempt="attempt",
    processed_at="done",
    locked_until="lease",
    headers="headers",
    payload="payload",
    columns=("account",),
)
TABLES = [
    QueueTable.default(),
    EVERY_ROLE,
    QueueTable("bare", id="id", payload="payload"),
    QueueTable("by_uuid", id="id", payload="payload", id_type=UUID, advisory_lock="jobs-{id}"),
    QueueTable("by_name", id="id", group="name", payload="payload", id_type=str, locked_until="lease"),
    QueueTable("steps", id="id", group="name", retry_after="due", payload="payload", locked_until="lease", processed_at="done", fifo=True),
]


def texts_of(metadata: MetaData, url: str) -> list[str]:
    """What SQLAlchemy would send, with no driver."""
    texts: list[str] = []
    engine: MockConnection = create_mock_engine(
        f"{parse_url(url).backend}://", lambda statement, *_: texts.append(str(statement.compile(dialect=engine.dialect)))
    )
    metadata.create_all(engine, checkfirst=False)
    return texts


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_both_make_the_same_table(table: QueueTable, database_url: str) -> None:
    url = parse_url(database_url)

    async def work() -> tuple[Any, Any]:
        pool = open_pool(url, size=2, acquire_timeout=5.0, command_timeout=10.0)
        server = await pool.open()
        dialect = dialect_for(server.product, server.version)
        try:
            async with pool.connection(Use.STATEMENT, "test") as connection:
                found = []
                for texts in (dialect.ddl(table), texts_of(metadata_of(table, dialect=url.backend), database_url)):
                    for text in texts:
                        await connection.script(text)
                    columns = await connection.columns(table.name, None)
                    indexes = await connection.indexes(table.name, None)
                    dialect.types(table, columns, indexes)
                    assert dialect.missing_index(table, indexes) is None
                    found.append((columns, sorted(index for index in indexes if not index.name.startswith("sqlite_autoindex"))))
                    await connection.script(f"DROP TABLE {dialect.quote(table.name)}")
                return found[0], found[1]
        finally:
            await pool.close(1.0)

    (columns, indexes), (other_columns, other_indexes) = asyncio.run(work())
    plain = {column.name for column in table.columns}  # SQLite's own has no type there, which SQLAlchemy cannot say
    assert [column for column in columns if column.name not in plain] == [column for column in other_columns if column.name not in plain]
    assert [column.name for column in columns] == [column.name for column in other_columns]
    assert indexes == other_indexes


def test_a_broker_gives_all_its_tables_beside_the_services_own() -> None:
    broker = SQLBroker(
        "sqlite://", table=QueueTable("jobs", id="id", payload="payload", attempt="attempt", locked_until="lease", schema="work")
    )

    @broker.subscriber("anything", max_attempts=2, dead_letter="jobs_dead")
    async def handle(body: str) -> None: ...

    own = MetaData()
    accounts = Table("accounts", own, SQLColumn("id", Integer, primary_key=True))
    found = metadata_of(broker, EVERY_ROLE, metadata=own)
    assert found is own
    assert set(found.tables) == {"accounts", "work.jobs", "work.jobs_dead", "every role"}
    metadata_of(broker, metadata=own)  # again: what is there stays
    assert found.tables["accounts"] is accounts


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(DeclarationError, match="describes no table"):
        metadata_of("jobs", dialect="sqlite")
    with pytest.raises(DeclarationError, match="dialect=None cannot be"):
        metadata_of(EVERY_ROLE)
    with pytest.raises(DeclarationError, match="dialect='oracle' cannot be"):
        metadata_of(EVERY_ROLE, dialect="oracle")


@pytest.mark.parametrize("dialect", ["postgres", "mysql", "mariadb", "sqlite"])
def test_the_statements_of_each_dialect_are_printed(dialect: str, cli: Cli, make_service: MakeService) -> None:
    product = {"postgres": "postgresql"}.get(dialect, dialect)
    service = make_service(EMAILS, "postgresql://nobody:canary@127.0.0.1:1/none")
    done = cli("ddl", service.target, "--dialect", dialect)
    assert (done.status, done.err) == (0, "")
    printed = [text.strip() for text in re.split(r";\n\n", done.out) if text.strip()]
    assert printed == list(dialect_for(product).ddl(QueueTable.default()))


def test_what_is_printed_makes_what_is_checked(cli: Cli, make_service: MakeService, database_url: str) -> None:
    body = 'table = QueueTable("report_jobs", id="id", attempt="attempt", payload="payload", locked_until="locked_until")\n'
    body += (
        '@broker.subscriber("reports", table=table, max_attempts=2, dead_letter="report_jobs_dead")\nasync def report(b: str) -> None: ...'
    )
    service = make_service(body, database_url)
    service.sql(cli("ddl", service.target).out)
    assert cli("check", service.target).out.endswith("nothing is missing\n")
