"""The driver's connection inside SQLAlchemy's: `publish(connection=session)` writes in the session's transaction."""

from __future__ import annotations

from typing import Any


async def unwrap(connection: Any) -> Any:
    """The driver's own connection, for an AsyncSession or an AsyncConnection; anything else as it is.

    It belongs to SQLAlchemy: it is used inside the transaction that is open, and left as it is. Raises TypeError for a synchronous
    connection or session.
    """
    module = type(connection).__module__
    if not _is_sqlalchemy(type(connection)):
        return connection
    if hasattr(connection, "sync_session"):
        connection = await connection.connection()
    if not hasattr(connection, "get_raw_connection"):
        msg = f"{module}.{type(connection).__name__} is synchronous: give an AsyncConnection or an AsyncSession"
        raise TypeError(msg)
    # SQLAlchemy opens the database's transaction with its first statement: without one, ours would commit by itself
    await connection.exec_driver_sql("SELECT 1")
    raw = await connection.get_raw_connection()
    return raw.driver_connection


def _is_sqlalchemy(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] in {"sqlalchemy", "sqlmodel"} for base in kind.__mro__)
