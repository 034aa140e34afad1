"""What an error of Postgres or asyncpg means: the class that says what to do about it."""

from __future__ import annotations

import asyncio

import asyncpg

from faststream_sql.drivers.url import DatabaseURL
from faststream_sql.errors import (
    ConnectionLostError,
    CorruptError,
    DatabaseError,
    DataError,
    NoSpaceError,
    ReadOnlyError,
    StatementError,
    TransientError,
    UnavailableError,
)

# By SQLSTATE, the whole code before its class (Postgres documentation, appendix A).
_CODES: dict[str, type[DatabaseError]] = {
    "40001": TransientError,
    "40P01": TransientError,
    "55P03": TransientError,
    "57014": TransientError,
    "25006": ReadOnlyError,
    "25P03": ConnectionLostError,
    "25P04": ConnectionLostError,
    "57P01": ConnectionLostError,
    "57P02": ConnectionLostError,
    "57P05": ConnectionLostError,
    "57P03": UnavailableError,
    "53300": UnavailableError,
    "53100": NoSpaceError,
    "53200": NoSpaceError,
    "XX001": CorruptError,
    "XX002": CorruptError,
}
_CLASSES: dict[str, type[DatabaseError]] = {
    "08": ConnectionLostError,
    "22": DataError,
    "23": DataError,
    "42": StatementError,
    "0A": StatementError,
    "28": UnavailableError,
    "53": NoSpaceError,
}


def class_of(code: str) -> type[DatabaseError]:
    """The class of our own for an SQLSTATE."""
    return _CODES.get(code) or _CLASSES.get(code[:2]) or DatabaseError


def mapped(error: Exception) -> DatabaseError:
    """The error of our own that one of a statement means."""
    if isinstance(error, (asyncpg.InvalidCachedStatementError, asyncpg.OutdatedSchemaCacheError)):
        return TransientError(f"the schema changed under a prepared statement: {error}", code="0A000")
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        return class_of(code)(f"Postgres: {error}", code=code)
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return ConnectionLostError("Postgres did not answer in time; whether the statement ran is unknown")
    if isinstance(error, asyncpg.DataError | asyncpg.exceptions.DataError):
        return DataError(f"Postgres: {error}")
    if isinstance(error, (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)):
        return ConnectionLostError(f"the connection to Postgres is gone: {type(error).__name__}: {error}")
    return DataError(f"a value cannot be sent to Postgres: {type(error).__name__}: {error}")


def mapped_connect_error(error: BaseException, url: DatabaseURL) -> DatabaseError:
    """The error of our own that a failed connect means, with no credential in it."""
    code = getattr(error, "sqlstate", None) or ""
    where = url.public_url()
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return UnavailableError(f"cannot connect to {where}: no answer in time")
    text = url.redactor().clean_error(error)
    return UnavailableError(f"cannot connect to {where}: {text}", code=code)
