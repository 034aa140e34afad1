"""A broker's database, for the span of a command."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.facts import connected
from faststream_sql.cli.output import FOUND, CommandError, say_aside
from faststream_sql.cli.target import clean_error
from faststream_sql.drivers.url import parse_url, redact_url
from faststream_sql.engine import Engine
from faststream_sql.engine.log import Log
from faststream_sql.errors import DeclarationError, SQLBrokerError

T = TypeVar("T")


def public_url(broker: SQLBroker, url: str | None) -> str:
    """Which database a command works on, with nothing secret in it."""
    return broker.public_url if url is None else redact_url(url) or "the database"


def on_database(broker: SQLBroker, url: str | None, work: Callable[[Engine], Awaitable[T]], log: Log | None = None) -> T:
    """Connect, do the work, disconnect. Raises CommandError for what the database or a declaration refuses."""
    if url is not None:
        _check_url(url)

    async def connect_and_work() -> T:
        async with connected(broker, url, log or say_errors) as engine:
            return await work(engine)

    try:
        return asyncio.run(connect_and_work())
    except SQLBrokerError as error:
        msg = f"{public_url(broker, url)}: {clean_error(error)}"
        raise CommandError(msg, FOUND) from error


def _check_url(url: str) -> None:
    try:
        parse_url(url)
    except DeclarationError as error:
        msg = f"the URL that was given cannot be: {error}"
        raise CommandError(msg) from error


def say_errors(level: int, text: str, error: BaseException | None = None) -> None:
    """The engine's log of a command that is no service: what a service warns of is none of its business."""
    if level >= logging.ERROR:
        say_aside(f"error: {text}" + ("" if error is None else f" ({clean_error(error)})"))
