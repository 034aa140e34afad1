"""What each column of a queue table is for: one marker for each role, and `Column` for the rest.

A marker stands in the annotation of a field of an `Inbox`: `id: Annotated[int, Id()]`. Its `column` is the column's name
where that differs from the field's. A table plays each role on one column at most, and only `Id` and `Payload` are required.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import ClassVar, Final, Literal, TypeAlias, get_args
from uuid import UUID

RoleName: TypeAlias = Literal[
    "id", "group", "priority", "partition_key", "retry_after", "attempt", "processed_at", "locked_until", "headers", "payload"
]
"""The roles by the name that `QueueTable` gives them."""

ROLE_NAMES: Final[tuple[RoleName, ...]] = get_args(RoleName)

PLAIN_TYPES: Final[tuple[type, ...]] = (bool, int, float, Decimal, str, bytes, UUID, datetime, date, dict)
"""What `Column(type=)` may name. A dict is JSON."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name exactly as the database spells it, and who fills it in.

    The name is always quoted, so any name works. A `generated` column is filled in by the database on insert, and publish
    never writes it; `None` leaves that to the role. A `Column` that came out of a `QueueTable` always says True or False.

    `type` is the Python type of a plain column's values, one of `PLAIN_TYPES`, for the recommended DDL alone; `None` means text. A model
    says it by the annotation of its field.
    """

    name: str
    generated: bool | None = None
    type: builtins.type | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Id:
    """Names the row. The field is an `int`, a `UUID` or a `str`.

    Unless `generated` says otherwise, the database makes integers, the broker makes UUIDs, and text is given with
    `publish(..., row_id=)`.
    """

    role: ClassVar[RoleName] = "id"
    column: str | None = None
    generated: bool | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The queue that the row is in. The field is a `str`; without this role a subscription reads the whole table.

    With `fifo`, one row of a group is in work at a time, in claim order.
    """

    role: ClassVar[RoleName] = "group"
    column: str | None = None
    fifo: bool = False


@dataclass(frozen=True, slots=True)
class Priority:
    """Smaller is claimed first. The field is an `int`."""

    role: ClassVar[RoleName] = "priority"
    column: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """Rows of one key run in order, one at a time, within a subscription's workers; NULL is no key."""

    role: ClassVar[RoleName] = "partition_key"
    column: str | None = None


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """When the row is due. The field is a `datetime`; without this role a delay returns the row at once."""

    role: ClassVar[RoleName] = "retry_after"
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """Counts deliveries, the first included. The field is an `int`; `max_attempts` needs this role."""

    role: ClassVar[RoleName] = "attempt"
    column: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessedAt:
    """When the row was finished: an ack sets it, and a row that has it is never claimed. The field is a `datetime | None`.

    Without this role an ack deletes the row.
    """

    role: ClassVar[RoleName] = "processed_at"
    column: str | None = None


@dataclass(frozen=True, slots=True)
class LockedUntil:
    """When the claim of the row ends. The field is a `datetime | None`; this role makes the table one of the lease form."""

    role: ClassVar[RoleName] = "locked_until"
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers, correlation id, content type and reply-to, as one JSON document. Without this role headers are empty."""

    role: ClassVar[RoleName] = "headers"
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    """The encoded message: binary, text or JSON. The handler takes what it decodes to."""

    role: ClassVar[RoleName] = "payload"
    column: str | None = None


Marker: TypeAlias = Id | Group | Priority | PartitionKey | RetryAfter | Attempt | ProcessedAt | LockedUntil | Headers | Payload
"""Every role marker."""
