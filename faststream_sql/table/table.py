"""`QueueTable`: which table holds the rows of a queue, and what each of its columns is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args
from uuid import UUID

from typing_extensions import Self

from faststream_sql.errors import DeclarationError
from faststream_sql.table.roles import PLAIN_TYPES, ROLE_NAMES, Column, RoleName

if TYPE_CHECKING:
    from pydantic import BaseModel

Form: TypeAlias = Literal["row_lock", "lease", "advisory"]
"""How a claimed row is held: by the claim's open transaction, by an expiry in the row, or by a session lock on a key."""

Isolation: TypeAlias = Literal["read_committed", "repeatable_read", "serializable"]
"""The isolation level of a claim's transaction."""

IdType: TypeAlias = type[int] | type[UUID] | type[str]
"""What an id may be."""

ID_TYPES: Final[tuple[IdType, ...]] = (int, UUID, str)

_CLAIM_ORDER: Final[tuple[RoleName, ...]] = ("priority", "retry_after", "id")
_INDEX_ORDER: Final[tuple[RoleName, ...]] = ("group", *_CLAIM_ORDER)

# A key must stay the same while its row is in work, and these columns change between a claim and its settlement,
# or (payload, headers) have no one textual form.
_NO_KEY: Final[tuple[RoleName, ...]] = ("retry_after", "attempt", "processed_at", "locked_until", "headers", "payload")

# A publish that left these to the database would lose the message, or the queue that it was sent to.
_WRITTEN_BY_PUBLISH: Final[tuple[RoleName, ...]] = ("group", "headers", "payload")


@dataclass(frozen=True, slots=True, init=False)
class QueueTable:
    """A table whose rows are messages. Two descriptions of one table are equal, however they were written.

    A description is checked when it is made, without a database. Names are spelled exactly as the database spells them.

    Attributes:
        name: the table's name, without its schema.
        id: the column that names the row. Every table has one; each attribute from `group` to `payload` is likewise the
            column that plays the role of its name (see `Group` to `Payload`), or None.
        columns: the plain columns, written with `publish(..., columns=)`.
        schema: the schema that the table is in, or None for the connection's own.
        fifo: one row of a group is in work at a time, in claim order.
        advisory_lock: the template of a row's key, such as `"jobs-{id}"`, whose placeholders name columns. It makes the table
            one of the advisory form.
        isolation: the level of a claim's transaction, or None for `read_committed`.
        id_type: `int`, `uuid.UUID` or `str`.
        model: the `Inbox` class that the description came from, or None. No part of equality.
    """

    name: str
    id: Column
    group: Column | None
    priority: Column | None
    partition_key: Column | None
    retry_after: Column | None
    attempt: Column | None
    processed_at: Column | None
    locked_until: Column | None
    headers: Column | None
    payload: Column | None
    columns: tuple[Column, ...]
    schema: str | None
    fifo: bool
    advisory_lock: str | None
    isolation: Isolation | None
    id_type: IdType
    model: type[BaseModel] | None = field(compare=False, repr=False)

    def __init__(
        self,
        name: str,
        *,
        id: str | Column | None = None,
        group: str | Column | None = None,
        priority: str | Column | None = None,
        partition_key: str | Column | None = None,
        retry_after: str | Column | None = None,
        attempt: str | Column | None = None,
        processed_at: str | Column | None = None,
        locked_until: str | Column | None = None,
        headers: str | Column | None = None,
        payload: str | Column | None = None,
        columns: Iterable[str | Column] = (),
        schema: str | None = None,
        fifo: bool = False,
        advisory_lock: str | None = None,
        isolation: Isolation | None = None,
        id_type: IdType = int,
        model: type[BaseModel] | None = None,
    ) -> None:
        """Describe a table by hand: a column is its name, or a `Column`.

        Raises:
            DeclarationError: the description cannot work.
        """
        table = f"table {_qualified(schema, name)!r}"
        where = table if model is None else f"{model.__name__} ({table})"
        check_name(f"{where}: the table's name", name)
        if schema is not None:
            check_name(f"{where}: the schema's name", schema)
        if id is None:
            raise DeclarationError(f"{where} has no id: name the column that identifies a row, by `id=` or by a field marked `Id()`")
        if id_type not in ID_TYPES:
            raise DeclarationError(f"{where}: id_type={id_type!r} cannot name a row: give int, uuid.UUID or str")
        if isinstance(columns, (str, Column)):
            raise DeclarationError(f"{where}: columns={columns!r} is one column: write columns=({columns!r},)")

        values = (id, group, priority, partition_key, retry_after, attempt, processed_at, locked_until, headers, payload)
        # The value is frozen for everybody else; only its constructor fills it in.
        fill = object.__setattr__
        for role, value in zip(ROLE_NAMES, values, strict=True):
            default = role == "id" and id_type is int
            fill(self, role, None if value is None else _column(f"{where}: {role}", value, generated=default))
        fill(self, "columns", tuple(_column(f"{where}: columns", value, generated=False) for value in columns))
        fill(self, "name", name)
        fill(self, "schema", schema)
        fill(self, "fifo", fifo)
        fill(self, "advisory_lock", advisory_lock)
        fill(self, "isolation", isolation)
        fill(self, "id_type", id_type)
        fill(self, "model", model)

        _check_columns(where, self)
        _check_fifo(where, self)
        _check_advisory_lock(where, self)
        _check_isolation(where, self)
        _check_supported(where, self)

    @classmethod
    def default(cls) -> Self:
        """The table of a broker that was given none: `faststream_queue`, in the lease form."""
        return cls(
            "faststream_queue",
            id="id",
            group="queue",
            priority="priority",
            retry_after="retry_after",
            attempt="attempt",
            locked_until="locked_until",
            headers="headers",
            payload="payload",
        )

    @property
    def form(self) -> Form:
        """How a claimed row is held."""
        if self.locked_until is not None:
            return "lease"
        return "row_lock" if self.advisory_lock is None else "advisory"

    @property
    def qualified_name(self) -> str:
        """The name with its schema, for messages. It is not quoted: SQL is the dialects' to write."""
        return _qualified(self.schema, self.name)

    @property
    def claim_order(self) -> tuple[RoleName, ...]:
        """The roles by which rows are claimed, ascending, of those that the table has."""
        roles = self.roles()
        return tuple(role for role in _CLAIM_ORDER if role in roles)

    @property
    def index_columns(self) -> tuple[Column, ...]:
        """The columns of the index that serves a claim, in its order."""
        roles = self.roles()
        return tuple(roles[role] for role in _INDEX_ORDER if role in roles)

    @property
    def advisory_fields(self) -> tuple[str, ...]:
        """The names of the columns in the key template, in its order; none without `advisory_lock`."""
        if self.advisory_lock is None:
            return ()
        return tuple(name for _, name, _, _ in Formatter().parse(self.advisory_lock) if name is not None)

    def roles(self) -> dict[str, Column]:
        """The columns that play a role, in the order of `RoleName`."""
        columns: tuple[Column | None, ...] = (
            self.id,
            self.group,
            self.priority,
            self.partition_key,
            self.retry_after,
            self.attempt,
            self.processed_at,
            self.locked_until,
            self.headers,
            self.payload,
        )
        return {role: column for role, column in zip(ROLE_NAMES, columns, strict=True) if column is not None}

    def all_columns(self) -> tuple[Column, ...]:
        """Every column: those with a role, then the plain ones."""
        return (*self.roles().values(), *self.columns)

    def keyed(self) -> dict[str, Column]:
        """Every column, in the order of `all_columns`, by the key of its value in a row: its role, or the name of a plain column.

        A plain column that is named as a role that another column plays is `columns.<name>`.
        """
        keyed = self.roles()
        for column in self.columns:
            keyed[self.key_of(column)] = column
        return keyed

    def key_of(self, column: Column) -> str:
        """The key of a plain column's value in a row."""
        return f"columns.{column.name}" if column.name in self.roles() else column.name


class _Feature(NamedTuple):
    """Something that can be described, and a way of doing without it."""

    name: str
    wanted_by: Callable[[QueueTable], bool]
    way_out: str


# Refused rather than ignored. The release that learns one of these removes its entry; nothing else knows of it.
NOT_SUPPORTED_YET: Final[tuple[_Feature, ...]] = (
    _Feature("without Payload (row mode)", lambda table: table.payload is None, "add a Payload column"),
)


def check_name(where: str, name: object) -> None:
    """Refuse what no database takes as a name. Everything else is left to the dialects' quoting and to the database.

    Raises:
        DeclarationError: not a `str`, empty, or with a character that no identifier can hold.
    """
    if not isinstance(name, str):
        raise DeclarationError(f"{where} is {name!r}: give a str")
    if not name:
        raise DeclarationError(f"{where} is empty: give the name that the database has")
    # NUL ends a string for the servers' C code; a lone surrogate has no encoding to send.
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise DeclarationError(f"{where} is {name!r}: a name holds no NUL and no lone surrogate; give the name that the database has")


def _column(where: str, value: str | Column, *, generated: bool) -> Column:
    """A column that says who fills it in: as it was declared, else by `generated`."""
    column = value if isinstance(value, Column) else Column(value)
    check_name(where, column.name)
    if column.type is not None and column.type not in PLAIN_TYPES:
        known = ", ".join(kind.__name__ for kind in PLAIN_TYPES)
        raise DeclarationError(f"{where}: type={column.type!r} cannot be that of a column: give one of {known}")
    return Column(column.name, generated if column.generated is None else column.generated, column.type)


def _check_columns(where: str, table: QueueTable) -> None:
    roles = table.roles()
    taken: dict[str, str] = {}
    uses = [(f"{role}=", column) for role, column in roles.items()] + [("columns=", column) for column in table.columns]
    for use, column in uses:
        if column.name in taken:
            raise DeclarationError(
                f"{where}: column {column.name!r} is named twice, by {taken[column.name]} and by {use}:"
                " name each column once, with one role"
            )
        taken[column.name] = use
    for column in table.columns:
        key = table.key_of(column)
        if key != column.name and key in taken:
            raise DeclarationError(
                f"{where}: the value of column {column.name!r}, which is named as a role is, would be known as {key!r},"
                " and that is another column's name: rename one of them"
            )
    for role in _WRITTEN_BY_PUBLISH:
        if role in roles and roles[role].generated:
            raise DeclarationError(f"{where}: {role}={roles[role]!r} cannot be generated, publish has to write it: leave generated out")


def _check_fifo(where: str, table: QueueTable) -> None:
    if not table.fifo:
        return
    if table.group is None:
        raise DeclarationError(
            f"{where}: fifo=True orders the rows of a group, and there is no group: add a Group column, or leave fifo out"
        )
    if table.advisory_lock is not None:
        raise DeclarationError(
            f"{where}: fifo=True does not go with advisory_lock={table.advisory_lock!r}: leave one out (a key naming the group,"
            f" such as '{{{table.group.name}}}', also keeps one row of it in work at a time)"
        )
    if table.retry_after is None and table.id_type is not int:
        raise DeclarationError(
            f"{where}: fifo=True needs an order, and ids of type {table.id_type.__name__} have none:"
            " add a RetryAfter column, or make the id an int"
        )


def _check_advisory_lock(where: str, table: QueueTable) -> None:
    if table.advisory_lock is None:
        return
    check_name(f"{where}: advisory_lock", table.advisory_lock)
    where = f"{where}: advisory_lock={table.advisory_lock!r}"
    if table.locked_until is not None:
        raise DeclarationError(
            f"{where} does not go with LockedUntil (column {table.locked_until.name!r}): a row is held in one way; leave one of them out"
        )
    try:
        placeholders = [part[1:] for part in Formatter().parse(table.advisory_lock) if part[1] is not None]
    except ValueError as error:
        raise DeclarationError(f"{where} is badly formed ({error}): write columns as {{name}}, and a brace of the key doubled") from error
    if not placeholders:
        raise DeclarationError(
            f"{where} names no column, so one key would let one row of the whole table run at a time: name one, as in 'jobs-{{id}}'"
        )

    changing = {column.name: role for role, column in table.roles().items() if role in _NO_KEY}
    usable = [column.name for column in table.all_columns() if column.name not in changing]
    seen: set[str | None] = set()
    for name, format_spec, conversion in placeholders:
        if format_spec or conversion:
            raise DeclarationError(f"{where}: placeholder {name!r} has a format or a conversion: write {{{name}}} alone")
        if name in changing:
            raise DeclarationError(
                f"{where}: column {name!r} ({changing[name]}) cannot be in a key, which must not change: use {_listed(usable)}"
            )
        if name not in usable:
            raise DeclarationError(f"{where}: the table has no column {name!r}: use {_listed(usable)}, or declare it")
        if name in seen:
            raise DeclarationError(f"{where} names column {name!r} twice: name it once")
        seen.add(name)


def _check_isolation(where: str, table: QueueTable) -> None:
    if table.isolation is None:
        return
    levels = get_args(Isolation)
    if table.isolation not in levels:
        raise DeclarationError(f"{where}: isolation={table.isolation!r} is not a level: use {_listed(levels)}")
    # A higher level would read the row as it was before a renewal, and take a lease that is held for one that is lost.
    if table.locked_until is not None and table.isolation != "read_committed":
        raise DeclarationError(
            f"{where}: isolation={table.isolation!r} does not go with LockedUntil (column {table.locked_until.name!r}):"
            " use 'read_committed', or leave LockedUntil out for the row lock form"
        )


def _check_supported(where: str, table: QueueTable) -> None:
    for feature in NOT_SUPPORTED_YET:
        if feature.wanted_by(table):
            raise DeclarationError(f"{where}: a table {feature.name} is not supported in this release: {feature.way_out}")


def _qualified(schema: str | None, name: str) -> str:
    return name if schema is None else f"{schema}.{name}"


def _listed(values: Iterable[str]) -> str:
    return ", ".join(repr(value) for value in values)
