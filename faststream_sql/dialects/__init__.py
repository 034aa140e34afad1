"""One dialect for each database: pure SQL text."""

from __future__ import annotations

from collections.abc import Sequence

from faststream_sql.dialects.base import Dialect
from faststream_sql.dialects.mariadb import MariaDB
from faststream_sql.dialects.mysql import MySQL
from faststream_sql.dialects.postgres import Capabilities, Postgres
from faststream_sql.dialects.sqlite import SQLite

DIALECTS: dict[str, Dialect] = {"postgresql": Postgres(), "mysql": MySQL(), "mariadb": MariaDB(), "sqlite": SQLite()}
_others: dict[str, Dialect] = {}


def dialect_for(product: str, version: Sequence[int] | None = None) -> Dialect:
    """The dialect of a server, by its product as `drivers.base.Server.product` names it, and its version (None: a current one).

    Raises KeyError for an unknown product.
    """
    if product == "postgresql" and version is not None:
        return Postgres(Capabilities.of(version))
    return _others[product] if product in _others else DIALECTS[product]


def add_dialect(product: str, dialect: Dialect) -> None:
    """Give a product that is no database of its own (the test client's memory) its dialect."""
    _others[product] = dialect
