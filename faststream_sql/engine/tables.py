"""A table as it was found: its types, its statements' inputs, and the last expiry that this process wrote into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from faststream_sql.dialects.base import ColumnTypes, Dialect, GroupStatement, Statement
from faststream_sql.dialects.times import TimeCodec
from faststream_sql.table.catalogue import IndexFacts
from faststream_sql.table.table import QueueTable


@dataclass(slots=True)
class Expiries:
    """Expiries for one table, each later than the one before, so that none is given out twice even by a clock that stands still."""

    codec: TimeCodec
    _last: datetime | None = None

    def after(self, moment: datetime) -> datetime:
        """The moment as the column holds it, or one step after the last one given out."""
        expiry = self.codec.floor(moment)
        # On a column of whole seconds a step is a second, and expiries would run away from the clock: there the attempt tells claims apart.
        if self._last is not None and expiry <= self._last and self.codec.digits >= 3:
            expiry = self._last + self.codec.tick
        self._last = expiry
        return expiry

    def from_now(self, now: datetime, lease_seconds: float) -> datetime:
        """The expiry of a lease taken now."""
        return self.after(now + timedelta(seconds=lease_seconds))


@dataclass(slots=True)
class OpenTable:
    """A table with what its database says of it, and the statements compiled for it so far."""

    table: QueueTable
    dialect: Dialect
    types: ColumnTypes
    indexes: tuple[IndexFacts, ...]
    expiries: Expiries | None
    _inserts: dict[tuple[str, ...], Statement] = field(default_factory=dict)
    _bulk_inserts: dict[tuple[str, ...], GroupStatement] = field(default_factory=dict)

    def row_id(self, key: object) -> object:
        """An id as the description types it, from one as the driver returns it."""
        return UUID(key) if self.table.id_type is UUID and isinstance(key, str) else key

    def insert(self, columns: tuple[str, ...]) -> Statement:
        """The statement that inserts one row with these columns (roles, or names of plain columns)."""
        found = self._inserts.get(columns)
        if found is None:
            found = self._inserts[columns] = self.dialect.insert(self.table, self.types, columns)
        return found

    def insert_many(self, columns: tuple[str, ...]) -> GroupStatement:
        """The statement that inserts many such rows."""
        found = self._bulk_inserts.get(columns)
        if found is None:
            found = self._bulk_inserts[columns] = self.dialect.insert_many(self.table, self.types, columns)
        return found
