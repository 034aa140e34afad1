"""Plain columns: which type the recommended DDL gives them, and as what their values are bound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from uuid import UUID

from faststream_sql.table.roles import Column


def sql_type(column: Column, kinds: Mapping[type, str], unknown: str) -> str:
    """The type of a plain column by the Python type of its values; `unknown` where the description names none."""
    return kinds.get(column.type, unknown) if column.type is not None else unknown


def as_json(value: object) -> object:
    """A dict or a list as the text of its JSON; anything else as it is."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, (dict, list)) else value


def as_text(value: object) -> object:
    """A number or a UUID as text, for a column of text; anything else as it is."""
    return str(value) if isinstance(value, (int, float, Decimal, UUID)) and not isinstance(value, bool) else value


def as_simple(value: object) -> object:
    """A value as SQLite keeps it: times as text that sorts, numbers with an exact value and UUIDs as text."""
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(timezone.utc).isoformat(timespec="microseconds")
        case datetime() | date():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case _:
            return value
