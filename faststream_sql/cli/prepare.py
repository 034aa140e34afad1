"""`prepare`: the schema in a file, for checks without a database."""

from __future__ import annotations

from pathlib import Path

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.cli.check import has_errors, judge_broker, report
from faststream_sql.cli.database import on_database, public_url
from faststream_sql.cli.output import DONE, FOUND, counted, say
from faststream_sql.cli.schema_file import read_file, write_file
from faststream_sql.engine import Engine
from faststream_sql.engine.schema import Schema, differences, read_schema


def write_prepared(broker: SQLBroker, url: str | None, file: Path) -> int:
    """Write the schema, unless it cannot serve the broker."""
    where, schema = public_url(broker, url), _read(broker, url)
    findings = judge_broker(broker, schema)
    if has_errors(findings):
        return report(broker, findings, where)
    write_file(schema, file)
    say(f"{file}: {counted(len(schema.tables), 'table')} of {where}")
    return DONE


def check_prepared(broker: SQLBroker, url: str | None, file: Path) -> int:
    """Compare the file with the database."""
    prepared, where = read_file(file), public_url(broker, url)
    changes = differences(prepared, _read(broker, url))
    for change in changes:
        say(f"changed: {change}")
    if changes:
        say(f"{where} has moved on from {file}: run `faststream-sql prepare`, and look at what the code makes of it")
        return FOUND
    say(f"{file} is {where} as it is")
    return DONE


def _read(broker: SQLBroker, url: str | None) -> Schema:
    async def work(engine: Engine) -> Schema:
        return await read_schema(engine.pool, engine.server, broker.tables())

    return on_database(broker, url, work)
