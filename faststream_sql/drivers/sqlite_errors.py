"""What an error of SQLite means: the class that says what to do about it."""

from __future__ import annotations

import sqlite3

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

# By the primary part of the result code's name (sqlite.org/rescode.html).
_NAMES: dict[str, type[DatabaseError]] = {
    "BUSY": TransientError,
    "LOCKED": TransientError,
    "INTERRUPT": ConnectionLostError,
    "CANTOPEN": UnavailableError,
    "PROTOCOL": UnavailableError,
    "READONLY": ReadOnlyError,
    "FULL": NoSpaceError,
    "IOERR": NoSpaceError,
    "CONSTRAINT": DataError,
    "MISMATCH": DataError,
    "TOOBIG": DataError,
    "RANGE": DataError,
    "CORRUPT": CorruptError,
    "NOTADB": CorruptError,
    "ERROR": StatementError,
    "AUTH": StatementError,
    "SCHEMA": TransientError,
}

# Python 3.10 gives no code: the words of SQLite's own messages.
_WORDS: tuple[tuple[str, str], ...] = (
    ("locked", "BUSY"),
    ("interrupted", "INTERRUPT"),
    ("unable to open", "CANTOPEN"),
    ("readonly", "READONLY"),
    ("full", "FULL"),
    ("disk i/o", "IOERR"),
    ("constraint", "CONSTRAINT"),
    ("malformed", "CORRUPT"),
    ("not a database", "NOTADB"),
    ("too big", "TOOBIG"),
    ("mismatch", "MISMATCH"),
)


def mapped(error: sqlite3.Error) -> DatabaseError:
    """The error of our own that one of `sqlite3` means."""
    if isinstance(error, sqlite3.ProgrammingError):
        closed = "closed" in str(error)
        return ConnectionLostError(f"SQLite: {error}") if closed else DataError(f"SQLite: {error}")
    name = _name_of(error)
    kind = _NAMES.get(name)
    if kind is None:
        kind = DataError if isinstance(error, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)) else DatabaseError
    return kind(f"SQLite: {error}", code=f"SQLITE_{name}" if name else "")


def _name_of(error: sqlite3.Error) -> str:
    name: str | None = getattr(error, "sqlite_errorname", None)
    if name is not None:
        return name.removeprefix("SQLITE_").partition("_")[0]
    text = str(error).lower()
    found = next((code for word, code in _WORDS if word in text), None)
    if found is not None:
        return found
    return "ERROR" if isinstance(error, sqlite3.OperationalError) else ""
