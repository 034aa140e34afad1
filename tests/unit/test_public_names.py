"""The names that a service imports, and how it imports them."""

from __future__ import annotations

import subprocess
import sys

NAMES = """
from faststream_sql import (
    SQLBroker, SQLRouter, SQLRoute, SQLPublisher, SQLResponse, SQLMessage, TestSQLBroker,
    QueueTable, Column, Inbox,
    Id, Group, Priority, PartitionKey, RetryAfter, Attempt, ProcessedAt, LockedUntil, Headers, Payload,
    SystemClock, DatabaseClock, Clock, ExponentialBackoff,
    DeadLetterMessage, SQLBrokerError, SchemaError, DeclarationError, LeaseLostError, NoRouteError,
    ServerTooOldError, PoolTimeoutError, ClosedError)
from faststream_sql.annotations import SQLMessage, AttemptNumber, Transaction, Pool, CurrentClock
from faststream_sql.testing import TestSQLBroker, FakeClock
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_every_name_can_be_imported() -> None:
    done = run(NAMES)
    assert done.returncode == 0, done.stderr


def test_every_name_that_is_listed_exists() -> None:
    done = run("import faststream_sql; [getattr(faststream_sql, name) for name in faststream_sql.__all__]; from faststream_sql import *")
    assert done.returncode == 0, done.stderr


def test_a_name_that_does_not_exist_is_said() -> None:
    done = run("import faststream_sql; faststream_sql.NoSuchName")
    assert "has no attribute 'NoSuchName'" in done.stderr
