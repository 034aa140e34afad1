"""What a database's catalogue says of a table: the drivers read it, the dialects judge it."""

from __future__ import annotations

from typing import NamedTuple


class ColumnFacts(NamedTuple):
    """One column as the catalogue describes it."""

    name: str
    type: str
    """The type in lower case, as the catalogue spells it (`timestamp with time zone`, `datetime(6)`, `text`)."""
    nullable: bool
    default: str | None
    extra: str = ""
    """Anything else that matters: `auto_increment`, `on update`, `generated`, `identity`, a collation."""


class IndexFacts(NamedTuple):
    """One index: its name and its columns in order (an empty text for an expression)."""

    name: str
    columns: tuple[str, ...]
