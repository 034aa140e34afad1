"""One dialect for each database: pure SQL text."""

from __future__ import annotations

from faststream_sql.dialects.base import Dialect
from faststream_sql.dialects.postgres import Postgres
from faststream_sql.dialects.sqlite import SQLite

DIALECTS: dict[str, Dialect] = {"postgresql": Postgres(), "sqlite": SQLite()}


def dialect_for(product: str) -> Dialect:
    """The dialect of a server's product, as `drivers.base.Server.product` names it. Raises KeyError for an unknown one."""
    return DIALECTS[product]
