"""What a dialect gives the engine: whole statements, compiled once per table, and how to bind values to them. Pure text, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias

from faststream_sql.dialects.template import Param
from faststream_sql.dialects.times import TimeCodec
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.table.table import QueueTable

Bound: TypeAlias = tuple[str, Sequence[object]]
"""A text and the values bound to it, as a driver takes them."""

PING = "SELECT 1"
"""Asks for nothing but an answer; every database takes it."""


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """What the columns of a table turned out to be, by the keys of `QueueTable.keyed`."""

    sql: Mapping[str, str]
    """The type of each column as the database spells it."""
    times: Mapping[str, TimeCodec]
    """How each time column writes a moment."""
    attempt_max: int
    """The largest value of the attempt column: counting stops there."""
    payload: str
    """`binary`, `text` or `json`."""
    headers: str
    """`binary`, `text` or `json`."""
    id_form: str = "native"
    """How an id is bound: `native`, or `text` for a UUID that the database keeps as text."""
    claim_index: str | None = None
    """The name of the index that serves the claim; None where there is none."""
    warnings: tuple[str, ...] = ()
    """What the service's operator should hear of these columns at start."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its purpose (for messages), its text, and its values in the order in which they are bound."""

    purpose: str
    text: str
    params: tuple[Param, ...]
    times: Mapping[str, TimeCodec] = field(default_factory=dict)

    def bind(self, values: Mapping[str, object]) -> Bound:
        """The text with its values. A moment (`:now@retry_after`) is written as its column stores it; the rest is passed as it is."""
        args: list[object] = []
        for name, column in self.params:
            value = values[name]
            if column is not None and isinstance(value, datetime):
                value = self.times[column].encode(value)
            args.append(value)
        return self.text, args


@dataclass(frozen=True, slots=True)
class GroupStatement:
    """One statement for several rows at once: each row is a tuple of the values named in `fields`, already in the columns' own form.

    `pack` turns the rows into the text and the values of one call, as the dialect can (arrays, a JSON text, repeated placeholders).
    """

    purpose: str
    fields: tuple[str, ...]
    pack: Callable[[Sequence[tuple[object, ...]]], Bound]
    most: int = 1000
    """How many rows one call takes."""


@dataclass(frozen=True, slots=True)
class Once:
    """One statement does it and returns the rows."""

    statement: Statement


@dataclass(frozen=True, slots=True)
class SelectThenWrite:
    """Where no statement can both change rows and return them: select (and lock), then write what was found, in one transaction.

    Each of `writes` takes the selected ids as `:ids`, packed by `pack_ids`, beside the values of the select.
    """

    select: Statement
    writes: tuple[Statement, ...]
    pack_ids: Callable[[Sequence[object]], object]


@dataclass(frozen=True, slots=True)
class Mutex:
    """A lock on a group that the database keeps. `take` never waits, and returns 1 where it took it; no row, or another value: not taken.

    `let_go` ends a lock of the session, and returns 1 where there was one; None for a lock that ends with its transaction.
    """

    take: Statement
    let_go: Statement | None


@dataclass(frozen=True, slots=True)
class Guarded:
    """A claim under a mutex: `probe` looks without it and costs one statement; then the mutex is taken, and `claim` claims.

    Taking it is a statement of its own, so that the claim sees what was committed before.
    """

    probe: Statement
    mutex: Mutex
    claim: Once | SelectThenWrite


Plan: TypeAlias = Once | SelectThenWrite | Guarded


@dataclass(frozen=True, slots=True)
class LockThenTake:
    """A claim of the advisory form where no statement both takes a session lock and writes.

    `lock` takes the first free key, and returns it with its row's id. `take` takes the row `:id` of the key `:key`, if it is still due, and
    returns the columns of `claimed`.
    """

    lock: Statement
    take: SelectThenWrite


@dataclass(frozen=True, slots=True)
class GroupSelectThenWrite:
    """The same for several rows whose proof of ownership is checked: lock and return the ids still owned, then write those rows."""

    purpose: str
    fields: tuple[str, ...]
    select: Callable[[Sequence[tuple[object, ...]]], Bound]
    write: Callable[[Sequence[tuple[object, ...]], Sequence[object]], Bound]
    """Takes the rows and the ids that the select returned."""


GroupPlan: TypeAlias = GroupStatement | GroupSelectThenWrite


@dataclass(frozen=True, slots=True)
class LeaseStatements:
    """The statements of the lease form. `claim` returns the rows as they stood before it: the columns of `claimed`, in that order.

    A proof of ownership is (id, attempt, expiry): `*_many` take it as the fields of each row and skip rows that somebody holds; `*_one`
    take `:id`, `:attempt`, `:confirmed` and `:sent` and wait for the row.
    """

    claimed: tuple[str, ...]
    claim: Plan
    renew_many: GroupPlan
    renew_one: Statement
    finish_many: GroupPlan
    finish_one: Statement
    nack_many: GroupPlan
    nack_one: Statement
    release_many: GroupPlan
    bury: Plan | None
    """Moves one row into the dead letter group (`:dead`), or into a dead letter table; None where there is neither."""
    probe: Statement | None = None
    """Looks, without locks, which priorities a group has, for a claim that takes them as `:steps`; None where the claim needs no telling.

    It takes those known so far as `:known`, and returns the first one of all and the next one after each of them, each with whether its
    first row is due. What a claim is told of them decides what it scans, and never what it finds.
    """


@dataclass(frozen=True, slots=True)
class InlineFinish:
    """The whole last round trip of an acknowledged row, for an id that is safe to write into the text."""

    text: Callable[[object, str | None], str]
    """Of an id and an isolation level: settle, prove that a row was there (an error where not), commit, open the next transaction."""
    no_row: str
    """The code of that error."""


@dataclass(frozen=True, slots=True)
class RowLockStatements:
    """The statements of the row lock form: all but `claim` run in the transaction that holds the row's lock."""

    claimed: tuple[str, ...]
    claim: Statement
    finish: Statement
    nack: Statement
    bury: tuple[Statement, ...]
    """In this order, and each must change a row; none where there is nowhere to move it."""
    commit_and_begin: Callable[[str | None], str]
    """Ends the transaction and opens the next one, in one simple query; with `take` it only ends it."""
    finish_inline: InlineFinish | None
    """None where the dialect has no such text."""
    take: Statement | None = None
    """Locks the row `:id` if it is still due. Where a locking read keeps the locks of rows that it passed over, a claim finds its row in a
    transaction that ends with the statement, and takes it by this in the one that lasts."""
    mutex: Mutex | None = None
    """Held by the session from before the claim until after the end of the transaction; None where the claim takes one, or needs none.
    With one, no transaction is kept open between two deliveries."""
    probe: Statement | None = None
    """As in the lease form."""
    savepoint: tuple[str, str] | None = None
    """Marks a point in the transaction, and undoes all that failed after it. None where a failed statement undoes itself."""


@dataclass(frozen=True, slots=True)
class AdvisoryStatements:
    """The statements of the advisory lock form, each a transaction of its own.

    `claim` returns the key and the columns of `claimed`, as they stood before it; an id of None means that the key was taken and the row
    was not. With `unlock` the session holds the key; without, the process does, and `claim` takes the keys to pass over as `:held`.
    """

    claimed: tuple[str, ...]
    claim: Plan | LockThenTake
    unlock: Statement | None
    finish: Statement
    nack: Statement
    release: Statement
    bury: Plan | None
    probe: Statement | None = None
    """As in the lease form."""


@dataclass(frozen=True, slots=True)
class DeadLetterStatements:
    """An operator's statements on the rows of one dead letter group (or one dead letter table). Those that write leave rows in work alone.

    They take `:group` (the dead letter group), `:now`, and `:limit`; `requeue` also `:queue`, the group that the rows go back to. Those
    that write take `:held`, the lock keys of this process where it holds them, and return the ids of the rows that they changed.
    """

    listed: Statement
    """Id, attempt, due time, whether it is in work (NULL: the row does not say), and the payload's size in bytes."""
    shown: Statement
    """The values of `columns` of the row `:id`."""
    columns: tuple[str, ...]
    requeue: Plan | None
    """None where nothing says which table the rows came from."""
    purge: Plan


class Dialect(Protocol):
    """Everything that differs between databases in the text of a statement. One file implements it for each database."""

    name: str
    product: str
    """The server's name in messages."""
    floors: Mapping[str, tuple[int, ...]]
    """The oldest server version for each form."""
    read_clock: str | None
    """The statement that reads the server's clock, in UTC; None where the server's clock is the host's."""
    limits: Mapping[str, str]
    """By form: the statement that lists the server's settings that end a session in the middle of a long handler: name, and seconds."""
    notify: Statement | None
    """Tells the listeners of `:channel` about `:group`, when the transaction that it runs in commits; None where the database cannot."""
    created_twice: frozenset[str]
    """The codes of what the server says of an `IF NOT EXISTS` that found nothing and was overtaken by another process."""

    def pack(self, values: Sequence[object]) -> object:
        """Several values as the one that a statement binds (`:held`, `:busy`)."""
        ...

    def quote(self, name: str) -> str:
        """The identifier, quoted, whatever is in it. Raises DeclarationError for one that the database cannot hold."""
        ...

    def types(self, table: QueueTable, facts: Sequence[ColumnFacts], indexes: Sequence[IndexFacts]) -> ColumnTypes:
        """Judge the columns and indexes found. Raises SchemaError, with the DDL that mends it, for one that cannot serve its role."""
        ...

    def recommended_types(self, table: QueueTable) -> ColumnTypes:
        """The types that `ddl` creates."""
        ...

    def plain_value(self, value: object, sql: str) -> object:
        """The value of a plain column as it is bound; `sql` is the column's type as the catalogue spells it."""
        ...

    def insert(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> Statement:
        """Insert one row and return its id. `columns` names roles and plain columns; a value `:c0`, `:c1`, … goes into each."""
        ...

    def insert_many(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> GroupStatement:
        """Insert many rows, each a tuple of the columns' values. Returns the ids in the order of the rows."""
        ...

    def lease(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> LeaseStatements:
        """The lease form. `dead` is the table that a dead letter moves to, where the table has no group."""
        ...

    def row_lock(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> RowLockStatements:
        """The row lock form. Raises DeclarationError, with the way out, where the database has no row locks."""
        ...

    def advisory(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> AdvisoryStatements:
        """The advisory lock form."""
        ...

    def depth(self, table: QueueTable, types: ColumnTypes) -> Statement:
        """Count the unfinished rows of each group at `:now`.

        A row for each group: its name (empty for a table without groups), how many are ready, delayed, and in work (NULL where the row does
        not say), and the due time of the oldest that is ready (NULL where there is none). It reads every unfinished row.
        """
        ...

    def dead_letters(self, table: QueueTable, types: ColumnTypes, home: QueueTable | None) -> DeadLetterStatements:
        """Work on dead letters. `home` is the table that they came from, where the dead letters have a table of their own."""
        ...

    def ddl(self, table: QueueTable) -> tuple[str, ...]:
        """The recommended table and indexes, each an `IF NOT EXISTS` statement."""
        ...

    def missing_index(self, table: QueueTable, indexes: Sequence[IndexFacts]) -> str | None:
        """The DDL of the claim's index where no index serves it, else None."""
        ...
