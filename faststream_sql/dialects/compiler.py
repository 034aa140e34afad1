"""Compiles the templates of one dialect for one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from faststream_sql.dialects.base import ColumnTypes, Statement
from faststream_sql.dialects.template import Compiled, compile_text, listed
from faststream_sql.table.table import QueueTable


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a dialect writes names and values."""

    quote: Callable[[str], str]
    placeholder: Callable[[int], str]
    reuse: bool
    """Whether a value that stands twice is bound once."""
    escape: Callable[[str], str] = str

    def qualified(self, table: QueueTable) -> str:
        """The table's name with its schema, quoted."""
        name = self.quote(table.name)
        return f"{self.quote(table.schema)}.{name}" if table.schema else name


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles templates for a table: `{role}` marks stand for its quoted columns, `{table}` for its name, `{claimed}` for every column."""

    table: QueueTable
    types: ColumnTypes
    spelling: Spelling
    extra: Mapping[str, str]

    def names(self) -> dict[str, str]:
        """What the `{name}` marks stand for."""
        quote = self.spelling.quote
        roles = {role: quote(column.name) for role, column in self.table.roles().items()}
        every = [quote(column.name) for column in self.table.all_columns()]
        order = [roles[role] for role in self.table.claim_order]
        return {
            **roles,
            "table": self.spelling.qualified(self.table),
            "claimed": listed(every),
            "claimed_of_t": listed(every, prefix="t."),
            "claim_order": listed(order),
            "claim_order_of_h": listed(order, prefix="h."),
            "claim_order_of_t": listed(order, prefix="t."),
            "attempt_max": str(self.types.attempt_max),
            **self.extra,
        }

    def text(self, template: str, **more: str) -> Compiled:
        """The compiled text alone."""
        return compile_text(
            template,
            roles=self.table.roles().keys(),
            names={**self.names(), **more},
            placeholder=self.spelling.placeholder,
            reuse=self.spelling.reuse,
            escape=self.spelling.escape,
        )

    def statement(self, purpose: str, template: str, **more: str) -> Statement:
        """A statement with its values. `more` adds `{name}` marks of this template alone."""
        compiled = self.text(template, **more)
        return Statement(purpose, compiled.text, compiled.params, self.types.times)

    @property
    def claimed(self) -> tuple[str, ...]:
        """The names under which a claimed row's values are known: its roles, then its plain columns."""
        return tuple(self.table.keyed())
