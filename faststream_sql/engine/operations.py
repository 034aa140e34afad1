"""What an operator and metrics ask of a table: how many rows wait in it, and work on dead letters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from faststream_sql.dialects.base import Plan
from faststream_sql.drivers.base import Row, Use
from faststream_sql.engine.forms.plans import run_plan
from faststream_sql.errors import DeclarationError
from faststream_sql.table.table import QueueTable

if TYPE_CHECKING:
    from faststream_sql.dialects.base import DeadLetterStatements
    from faststream_sql.engine.engine import Engine

WRITE_TOGETHER = 500
"""How many dead letters one transaction moves or deletes: a long one would hold its locks for long."""


@dataclass(frozen=True, slots=True)
class Depth:
    """The unfinished rows of a group."""

    ready: int = 0
    """Due and free. Where a row does not say that it is in work (row locks, advisory locks), those in work are among them."""
    delayed: int = 0
    """Not due yet."""
    in_work: int | None = 0
    """Under a lease that has not ended; None where rows do not say."""
    oldest_ready_seconds: float | None = None
    """For how long the oldest ready row has been due; None where none is ready, or the table has no due times."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.ready + self.delayed + (self.in_work or 0)

    @classmethod
    def empty(cls, table: QueueTable) -> Depth:
        """That of a group without rows."""
        return cls(in_work=0 if table.locked_until else None)


async def depths(engine: Engine, table: QueueTable) -> dict[str | None, Depth]:
    """The rows of each group that has any; of a table without groups, those of the group None.

    Reads every unfinished row of the table. Raises SchemaError, DatabaseError.
    """
    opened = await engine.open_table(table, f"table {table.qualified_name!r}", "depth")
    statement = engine.dialect.depth(table, opened.types)
    async with engine.pool.connection(Use.STATEMENT, f"depth of {table.qualified_name!r}") as connection:
        now = engine.clock.now()
        rows = await connection.fetch(*statement.bind({"now": now}))
    found: dict[str | None, Depth] = {}
    for group, ready, delayed, in_work, oldest in rows:
        due = None if oldest is None else opened.types.times["retry_after"].decode(oldest)
        age = None if due is None else max(0.0, (now - due).total_seconds())
        found[group if table.group else None] = Depth(ready, delayed, in_work, age)
    return found


@dataclass(frozen=True, slots=True)
class DeadRow:
    """A dead letter, for a list."""

    row_id: Any
    attempt: int | None
    due: datetime | None
    in_work: bool | None
    """Whether somebody has it in work; None where rows do not say."""
    payload_bytes: int | None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one subscription: a group of its table, or a table of their own.

    Every method may raise SchemaError and DatabaseError; those that write also DeclarationError.
    """

    engine: Engine
    table: QueueTable
    """The table that they lie in."""
    group: str | None
    """Their group; None for a table without groups."""
    home: QueueTable
    """The table that they came from."""
    queue: str
    """The queue that they came from."""

    async def count(self) -> int:
        """How many there are, those in work included."""
        found = await depths(self.engine, self.table)
        return found.get(self.group, Depth()).total

    async def rows(self, limit: int) -> list[DeadRow]:
        """The first `limit` of them, in claim order."""
        statements = await self._statements()
        opened = await self.engine.open_table(self.table, self._who, "list")
        rows = await self._fetch("list", *statements.listed.bind({**self._values(), "limit": limit}))
        times = opened.types.times
        return [
            DeadRow(
                row_id=opened.row_id(row_id),
                attempt=attempt,
                due=None if due is None else times["retry_after"].decode(due),
                in_work=None if in_work is None and self.table.locked_until is None else bool(in_work),
                payload_bytes=size,
            )
            for row_id, attempt, due, in_work, size in rows
        ]

    async def row(self, row_id: str) -> Mapping[str, Any] | None:
        """The values of one row by role, or by name for a plain column. Raises DeclarationError for what is no id of the table."""
        statements = await self._statements()
        key = await self._key(row_id)
        rows = await self._fetch("show", *statements.shown.bind({**self._values(), "id": key}))
        return dict(zip(statements.columns, rows[0], strict=True)) if rows else None

    async def requeue(self, limit: int | None) -> AsyncIterator[int]:
        """Send rows back to their queue with a first attempt, in transactions of a few hundred; rows in work are left alone.

        Yields how many each transaction moved. `limit` is how many in all; None for as many as there are when it begins, so that rows that
        fail again at once are not moved without end.
        """
        plan = (await self._statements()).requeue
        if plan is None:
            msg = f"{self._who}: nothing says which table its rows came from"
            raise DeclarationError(msg)
        async for moved in self._write("requeue", plan, limit):
            self.engine.wakeups.published(self.home, self.queue if self.home.group else None, None)
            yield moved

    async def purge(self, limit: int | None) -> AsyncIterator[int]:
        """Delete rows, in the same way."""
        async for deleted in self._write("purge", (await self._statements()).purge, limit):
            yield deleted

    async def _write(self, purpose: str, plan: Plan, limit: int | None) -> AsyncIterator[int]:
        left = await self.count() if limit is None else limit
        while left > 0:
            most = min(left, WRITE_TOGETHER)
            async with self.engine.pool.connection(Use.STATEMENT, f"{purpose} of {self._who}") as connection:
                # the keys are read while no claim of this pool can take another one
                values = {**self._values(), "limit": most, "queue": self.queue, "held": await self._held()}
                rows = await run_plan(connection, plan, values, 0)
            if not rows:
                return
            yield len(rows)
            left -= len(rows)

    async def _held(self) -> object:
        """The lock keys that this process holds. Raises DeclarationError where another process holds them, and with them its rows."""
        keys = await self.engine.pool.process_keys() if self.table.form == "advisory" else None
        return self.engine.dialect.pack(sorted(keys or (), key=str))

    async def _statements(self) -> DeadLetterStatements:
        opened = await self.engine.open_table(self.table, self._who, "dead letters")
        home = None if self.table.group else self.home
        return self.engine.dialect.dead_letters(self.table, opened.types, home)

    async def _fetch(self, purpose: str, text: str, args: Sequence[object]) -> list[Row]:
        async with self.engine.pool.connection(Use.STATEMENT, f"{purpose} of {self._who}") as connection:
            return await connection.fetch(text, args)

    async def _key(self, row_id: str) -> object:
        opened = await self.engine.open_table(self.table, self._who, "show")
        try:
            key = self.table.id_type(row_id)
        except ValueError as error:
            msg = f"{row_id!r} is no id of table {self.table.qualified_name!r}, whose ids are of the type {self.table.id_type.__name__}"
            raise DeclarationError(msg) from error
        return str(key) if isinstance(key, UUID) and opened.types.id_form == "text" else key

    def _values(self) -> dict[str, object]:
        return {"group": self.group, "now": self.engine.clock.now()}

    @property
    def _who(self) -> str:
        return f"dead letters {self.table.qualified_name if self.group is None else self.group!r}"
