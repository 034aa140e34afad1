"""A FastStream broker whose queues are rows of SQL tables that the service owns.

Names are imported when they are first used, so that `faststream_sql.engine` works without FastStream, and no driver is needed before a
connection is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faststream_sql.broker.broker import SQLBroker
    from faststream_sql.broker.message import DeadLetterMessage, SQLMessage
    from faststream_sql.broker.response import SQLResponse
    from faststream_sql.broker.router import SQLPublisher, SQLRoute, SQLRouter
    from faststream_sql.engine.backoff import ExponentialBackoff
    from faststream_sql.engine.clock import Clock, DatabaseClock, SystemClock
    from faststream_sql.errors import (
        ClockSkewError,
        ClosedError,
        DeclarationError,
        LeaseLostError,
        NoRouteError,
        PoolTimeoutError,
        SchemaError,
        ServerTooOldError,
        SQLBrokerError,
    )
    from faststream_sql.table import (
        Attempt,
        Column,
        Group,
        Headers,
        Id,
        Inbox,
        LockedUntil,
        PartitionKey,
        Payload,
        Priority,
        ProcessedAt,
        QueueTable,
        RetryAfter,
    )
    from faststream_sql.testing import TestSQLBroker

_MODULES = {
    "broker.broker": ("SQLBroker",),
    "broker.message": ("DeadLetterMessage", "SQLMessage"),
    "broker.response": ("SQLResponse",),
    "broker.router": ("SQLPublisher", "SQLRoute", "SQLRouter"),
    "engine.backoff": ("ExponentialBackoff",),
    "engine.clock": ("Clock", "DatabaseClock", "SystemClock"),
    "errors": (
        "ClockSkewError",
        "ClosedError",
        "DeclarationError",
        "LeaseLostError",
        "NoRouteError",
        "PoolTimeoutError",
        "SQLBrokerError",
        "SchemaError",
        "ServerTooOldError",
    ),
    "table": (
        "Attempt",
        "Column",
        "Group",
        "Headers",
        "Id",
        "Inbox",
        "LockedUntil",
        "PartitionKey",
        "Payload",
        "Priority",
        "ProcessedAt",
        "QueueTable",
        "RetryAfter",
    ),
    "testing": ("TestSQLBroker",),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = (
    "Attempt",
    "Clock",
    "ClockSkewError",
    "ClosedError",
    "Column",
    "DatabaseClock",
    "DeadLetterMessage",
    "DeclarationError",
    "ExponentialBackoff",
    "Group",
    "Headers",
    "Id",
    "Inbox",
    "LeaseLostError",
    "LockedUntil",
    "NoRouteError",
    "PartitionKey",
    "Payload",
    "PoolTimeoutError",
    "Priority",
    "ProcessedAt",
    "QueueTable",
    "RetryAfter",
    "SQLBroker",
    "SQLBrokerError",
    "SQLMessage",
    "SQLPublisher",
    "SQLResponse",
    "SQLRoute",
    "SQLRouter",
    "SchemaError",
    "ServerTooOldError",
    "SystemClock",
    "TestSQLBroker",
)


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    if name == "SQLBroker":  # FastStream looks for a broker's test client among those that were imported (AsyncAPI's "try it out")
        import_module(f"{__name__}.testing")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
