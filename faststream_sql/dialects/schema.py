"""What every dialect's DDL and checks share: names of indexes, the columns of a move, the words of a complaint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import NamedTuple

from faststream_sql.dialects.template import listed
from faststream_sql.errors import SchemaError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.table.table import QueueTable

NOT_NULL_ROLES = ("group", "priority", "retry_after", "attempt")
"""A NULL in one of these would never be claimed, or would sort differently by database."""


def index_name(table: QueueTable) -> str:
    """The name of the recommended index for the claim."""
    return f"{table.name}_claim"


def leases_index_name(table: QueueTable) -> str:
    """The name of the index that finds the live leases of a FIFO group."""
    return f"{table.name}_leases"


def claim_index(table: QueueTable, indexes: Sequence[IndexFacts], lead: Sequence[str] | None = None) -> str | None:
    """The name of an index that begins with the columns that a claim walks (`lead`, or the recommended order), or None."""
    wanted = tuple(lead if lead is not None else [column.name for column in table.index_columns])
    return next((index.name for index in indexes if index.columns[: len(wanted)] == wanted), None)


class Move(NamedTuple):
    """What an insert into a dead letter table is made of."""

    columns: str
    """The columns, as marks of a template."""
    values: str
    """The values that fill them, in the same order."""
    names: Mapping[str, str]
    """What the marks stand for."""

    def into(self, template: str) -> str:
        """The template with both lists in their places."""
        return template.replace("<columns>", self.columns).replace("<values>", self.values)


def dead_letter_columns(table: QueueTable, dead: QueueTable, quote: Callable[[str], str]) -> Move:
    """The columns of a row that move into the dead letter table, and their values.

    A role goes to the same role and a plain column to its own name. A lease ends with the move, and a form that counts the attempt at its
    claim writes back the attempt that the failed delivery read.
    """
    changed = {"locked_until": "NULL", "attempt": "{attempt}" if table.form == "row_lock" else ":delivered"}
    roles = [role for role in table.roles() if role in dead.roles()]
    kept = [role for role in roles if role not in changed]
    plain = [quote(column.name) for column in table.columns]
    names = {
        "moved_to": listed([*(quote(dead.roles()[role].name) for role in kept), *plain]),
        "moved": listed([*(quote(table.roles()[role].name) for role in kept), *plain]),
    }
    columns, values = ["{moved_to}"], ["{moved}"]
    for role in roles:
        if role in changed:
            names[f"dead_{role}"] = quote(dead.roles()[role].name)
            columns.append(f"{{dead_{role}}}")
            values.append(changed[role])
    return Move(", ".join(columns), ", ".join(values), names)


def requeued_columns(dead: QueueTable, home: QueueTable, quote: Callable[[str], str]) -> dict[str, str]:
    """The same for the way back, as SQL for the marks `{columns}` and `{values}`: the attempt begins anew."""
    fixed = {"locked_until": "NULL", "attempt": "1"}
    columns: list[str] = []
    values: list[str] = []
    for role, column in dead.roles().items():
        if role in home.roles():
            columns.append(quote(home.roles()[role].name))
            values.append(fixed.get(role, quote(column.name)))
    plain = [quote(column.name) for column in home.columns]
    return {"columns": listed(columns + plain), "values": listed(values + plain)}


def key_expression(table: QueueTable, quote: Callable[[str], str], text: Callable[[str], str]) -> str:
    """The SQL of a row's lock key: the template's words, and its columns as text (`text` casts one; NULL counts as empty)."""
    parts: list[str] = []
    for words, name, _, _ in Formatter().parse(table.advisory_lock or ""):
        if words:
            parts.append("'" + words.replace("'", "''") + "'")
        if name is not None:
            parts.append(f"COALESCE({text(quote(name))}, '')")
    return "(" + " || ".join(parts) + ")"


def find_columns(table: QueueTable, facts: Sequence[ColumnFacts]) -> dict[str, ColumnFacts]:
    """The facts of each role and plain column. Raises SchemaError naming every column that is missing."""
    if not facts:
        msg = f"table {table.qualified_name!r} does not exist: create it in a migration that runs before the broker starts"
        raise SchemaError(msg)
    by_name = {fact.name: fact for fact in facts}
    named = {key: column.name for key, column in table.keyed().items()}
    roles = table.roles()
    missing = [f"{name!r} ({key})" if key != name and key in roles else repr(name) for key, name in named.items() if name not in by_name]
    if missing:
        msg = (
            f"table {table.qualified_name!r} has no column {', '.join(missing)}: it is of another release than the description. "
            f"Its columns are {', '.join(sorted(by_name))}"
        )
        raise SchemaError(msg)
    return {key: by_name[name] for key, name in named.items()}


def refuse_null(table: QueueTable, role: str, fact: ColumnFacts, ddl: str) -> None:
    """Raises SchemaError for a nullable column whose NULL would never be claimed."""
    if role in NOT_NULL_ROLES and fact.nullable:
        where = f"column {fact.name!r} ({role}) of table {table.qualified_name!r}"
        msg = f"{where} may be NULL, and such a row would never be claimed in order: {ddl}"
        raise SchemaError(msg)


def refuse_type(table: QueueTable, role: str, fact: ColumnFacts, wanted: str, ddl: str) -> SchemaError:
    """The error for a column of a type that cannot serve its role."""
    msg = f"column {fact.name!r} ({role}) of table {table.qualified_name!r} is {fact.type}, which cannot serve: it must be {wanted}. {ddl}"
    return SchemaError(msg)
