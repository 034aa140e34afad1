"""One dialect for each database: pure SQL text."""

from __future__ import annotations

from faststream_sql.dialects.base import Dialect
from faststream_sql.dialects.postgres import Postgres
from faststream_sql.dialects.sqlite import SQLite

DIALECTS: dict[str, Dialect] = {"postgresql": Postgres(), "sqlite": SQLite()}
_others: dict[str, Dialect] = {}


def dialect_for(product: str) -> Dialect:
    """The dialect of a server's product, as `drivers.base.Server.product` names it. Raises KeyError for an unknown one."""
    return _others[product] if product in _others else DIALECTS[product]


def add_dialect(product: str, dialect: Dialect) -> None:
    """Give a product that is no database of its own (the test client's memory) its dialect."""
    _others[product] = dialect
