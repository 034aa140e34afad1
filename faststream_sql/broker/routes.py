"""Which table a name leads into, for publishing and subscribing alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from faststream_sql.errors import DeclarationError, NoRouteError
from faststream_sql.table import Inbox, QueueTable

Described: TypeAlias = QueueTable | type[Inbox]
"""A table, or the model of its rows."""


class Routes:
    """Exact names win, then the longest prefix (`reports.*`), then the broker's one table."""

    def __init__(self, table: Described | None, tables: Mapping[str, Described] | None) -> None:
        if table is None and tables is None:
            table = QueueTable.default()
        self._rest = None if table is None else as_table(table)
        self._exact: dict[str, QueueTable] = {}
        self._prefixes: list[tuple[str, QueueTable]] = []
        for name, described in (tables or {}).items():
            if "*" in name[:-1]:
                msg = f"tables={{{name!r}: …}} cannot be: a `*` stands at the end of a name, for every name that begins so"
                raise DeclarationError(msg)
            if name.endswith("*"):
                self._prefixes.append((name[:-1], as_table(described)))
            else:
                self._exact[name] = as_table(described)
        self._prefixes.sort(key=lambda prefix: -len(prefix[0]))

    def resolve(self, name: str) -> QueueTable:
        """The table that a name leads into. Raises NoRouteError, naming the routes there are."""
        found = self._exact.get(name)
        if found is not None:
            return found
        for prefix, table in self._prefixes:
            if name.startswith(prefix):
                return table
        if self._rest is None:
            routes = ", ".join(repr(route) for route in self.names()) or "none"
            msg = f"{name!r} leads into no table: the routes are {routes}. Add one to tables=, or give table= for all other names"
            raise NoRouteError(msg)
        return self._rest

    def names(self) -> tuple[str, ...]:
        """The names and prefixes with a route of their own."""
        return (*self._exact, *(f"{prefix}*" for prefix, _ in self._prefixes))

    def tables(self) -> tuple[QueueTable, ...]:
        """Every table that a name can lead into, each once."""
        rest = () if self._rest is None else (self._rest,)
        return tuple(dict.fromkeys([*self._exact.values(), *(table for _, table in self._prefixes), *rest]))


def as_table(described: Described) -> QueueTable:
    """The description itself, or the model's. Raises DeclarationError for what is neither."""
    if isinstance(described, QueueTable):
        return described
    if isinstance(described, type) and issubclass(described, Inbox):
        return described.queue_table
    msg = f"{described!r} describes no table: give a QueueTable, or a class derived from Inbox"
    raise DeclarationError(msg)
