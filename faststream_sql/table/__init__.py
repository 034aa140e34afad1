"""Describing a queue table: its roles, `QueueTable` by hand, and `Inbox` by a pydantic model of one row."""

from faststream_sql.table.inbox import Inbox
from faststream_sql.table.roles import (
    ROLE_NAMES,
    Attempt,
    Column,
    Group,
    Headers,
    Id,
    LockedUntil,
    Marker,
    PartitionKey,
    Payload,
    Priority,
    ProcessedAt,
    RetryAfter,
    RoleName,
)
from faststream_sql.table.table import Form, IdType, Isolation, QueueTable

__all__ = (
    "ROLE_NAMES",
    "Attempt",
    "Column",
    "Form",
    "Group",
    "Headers",
    "Id",
    "IdType",
    "Inbox",
    "Isolation",
    "LockedUntil",
    "Marker",
    "PartitionKey",
    "Payload",
    "Priority",
    "ProcessedAt",
    "QueueTable",
    "RetryAfter",
    "RoleName",
)
