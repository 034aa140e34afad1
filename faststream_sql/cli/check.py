"""`check`: whether the tables can serve the broker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.facts import publishers_of, readers_of, subscribers_of
from faststream_sql.cli.database import on_database, public_url
from faststream_sql.cli.output import DONE, FOUND, counted, say, say_aside
from faststream_sql.cli.schema_file import read_file
from faststream_sql.cli.target import clean_error
from faststream_sql.engine import Delivery, Engine
from faststream_sql.engine.schema import Finding, Schema, judge, read_schema
from faststream_sql.errors import ClockSkewError, DeclarationError, SchemaError, ServerTooOldError


def check_online(broker: SQLBroker, url: str | None) -> int:
    """Check against the database."""
    warned: list[str] = []

    def log(level: int, text: str, error: BaseException | None = None) -> None:
        if level >= logging.WARNING:
            warned.append(text if error is None else f"{text} ({clean_error(error)})")

    async def work(engine: Engine) -> list[Finding]:
        findings = judge_broker(broker, await read_schema(engine.pool, engine.server, broker.tables()))
        return findings if has_errors(findings) else findings + await _open_all(broker, engine)

    findings = on_database(broker, url, work, log)
    said = {finding.text for finding in findings}
    for text in dict.fromkeys(warned):
        if text not in said:  # of the server and its clock, not of the schema
            say_aside(f"warning: {text}")
    return report(broker, findings, public_url(broker, url))


def check_offline(broker: SQLBroker, file: Path) -> int:
    """Check against a file. Raises CommandError where it cannot be read."""
    return report(broker, judge_broker(broker, read_file(file)), str(file))


def judge_broker(broker: SQLBroker, schema: Schema) -> list[Finding]:
    """What does not fit the schema. Raises NoRouteError for a name that leads into no table: then nothing can be told."""
    return judge(schema, readers_of(broker), broker.tables())


def has_errors(findings: Sequence[Finding]) -> bool:
    """Whether one of them is more than a warning."""
    return any(finding.is_error for finding in findings)


def report(broker: SQLBroker, findings: Sequence[Finding], where: str) -> int:
    """Say every finding, and how many there are. Returns the exit status."""
    for finding in findings:
        say(f"{'error' if finding.is_error else 'warning'}: {finding.text}")
    errors = sum(finding.is_error for finding in findings)
    warnings = len(findings) - errors
    if errors:
        say(f"{where}: {counted(errors, 'error')}, {counted(warnings, 'warning')}")
        return FOUND
    parts = [
        counted(len(subscribers_of(broker)), "subscription"),
        counted(len(publishers_of(broker)), "publisher"),
        counted(len(broker.tables()), "table"),
    ]
    say(f"{where}: {', '.join(parts)}, " + (counted(warnings, "warning") if warnings else "nothing is missing"))
    return DONE


async def _open_all(broker: SQLBroker, engine: Engine) -> list[Finding]:
    """Do what a start would do, but for the workers: every statement is prepared."""
    findings: list[Finding] = []
    for subscriber in subscribers_of(broker):
        subscription = engine.subscription(name=subscriber.queue, table=subscriber.table, options=subscriber.options, deliver=_never)
        try:
            await subscription.open()
        except (SchemaError, DeclarationError, ServerTooOldError, ClockSkewError) as error:
            findings.append(Finding(str(error)))
        finally:
            await subscription.stop(None)
    for publisher in publishers_of(broker):
        try:
            await engine.check_publish(publisher.queue, publisher.table)
        except SchemaError as error:
            findings.append(Finding(str(error)))
    return list(dict.fromkeys(findings))


async def _never(delivery: Delivery) -> None:
    """No row is claimed."""
