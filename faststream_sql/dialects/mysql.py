"""MySQL and MariaDB: which of their texts a table needs, and how values are put into them. `mariadb.py` says what differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faststream_sql.dialects import mysql_operations as operations
from faststream_sql.dialects import mysql_sql as sql
from faststream_sql.dialects.base import (
    AdvisoryStatements,
    Bound,
    ColumnTypes,
    DeadLetterStatements,
    GroupSelectThenWrite,
    GroupStatement,
    LeaseStatements,
    Plan,
    RowLockStatements,
    SelectThenWrite,
    Statement,
)
from faststream_sql.dialects.compiler import Compiler, Spelling
from faststream_sql.dialects.mysql_schema import claim_columns, index_ddl, judge_types, quote, recommended_types, table_ddl
from faststream_sql.dialects.schema import claim_index, dead_letter_columns
from faststream_sql.dialects.template import listed
from faststream_sql.errors import DeclarationError
from faststream_sql.table.catalogue import ColumnFacts, IndexFacts
from faststream_sql.table.table import QueueTable

SPELLING = Spelling(quote=quote, placeholder=lambda _: "%s", reuse=False, escape=lambda text: text.replace("%", "%%"))
_PLACE = re.compile("%%|%s")


class Several(tuple[object, ...]):
    """Values for one `IN (…)`: the text grows a place for each. Of none it is NULL, which is in nothing."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ListStatement(Statement):
    """A statement whose `IN (:ids)` takes as many values as there are: neither server binds a list."""

    def bind(self, values: Mapping[str, object]) -> Bound:
        text, args = Statement.bind(self, values)
        if not any(isinstance(value, Several) for value in args):
            return text, args
        given = iter(args)
        flat: list[object] = []

        def place(mark: re.Match[str]) -> str:
            if mark[0] == "%%":
                return "%%"
            value = next(given)
            several = value if isinstance(value, Several) else (value,)
            flat.extend(several or (None,))
            return ", ".join(["%s"] * max(len(several), 1))

        return _PLACE.sub(place, text), flat


class MySQL:
    """MySQL 8.0.1 and later."""

    name = "mysql"
    product = "MySQL"
    floors: Mapping[str, tuple[int, ...]] = {"lease": (8, 0, 1), "row_lock": (8, 0, 1)}
    read_clock: str | None = "SELECT UTC_TIMESTAMP(6)"
    notify: Statement | None = None
    returns_inserted = False
    """Whether an INSERT can return its ids; else the driver reckons them."""

    def pack(self, values: Sequence[object]) -> object:
        return Several(values)

    def quote(self, name: str) -> str:
        return quote(name)

    def types(self, table: QueueTable, facts: Sequence[ColumnFacts], indexes: Sequence[IndexFacts]) -> ColumnTypes:
        return judge_types(table, facts, claim_index(table, indexes, claim_columns(table)))

    def recommended_types(self, table: QueueTable) -> ColumnTypes:
        return recommended_types(table)

    def insert(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> Statement:
        text = f"{self._insert_head(table, columns)} ({', '.join(f':c{n}' for n in range(len(columns)))}){self._returning(table)}"
        return _statement(_compiler(table, types), "insert", text, names=listed(_names(table, columns)))

    def _insert_head(self, table: QueueTable, columns: Sequence[str]) -> str:
        return "INSERT INTO {table} ({names}) VALUES" if columns else "INSERT INTO {table} () VALUES"

    def _returning(self, table: QueueTable) -> str:
        return " RETURNING {id}" if self.returns_inserted else ""

    def insert_many(self, table: QueueTable, types: ColumnTypes, columns: Sequence[str]) -> GroupStatement:
        compiler = _compiler(table, types)
        head = compiler.text("INSERT INTO {table} ({names}) VALUES ", names=listed(_names(table, columns))).text
        tail = compiler.text(" RETURNING {id}").text if self.returns_inserted else ""
        one = f"({listed(['%s'] * len(columns))})"

        def pack(rows: Sequence[tuple[object, ...]]) -> Bound:
            return f"{head} {listed([one] * len(rows))} {tail}", [value for row in rows for value in row]

        return GroupStatement("insert_many", tuple(columns), pack)

    def lease(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> LeaseStatements:
        self._refuse_fifo(table)
        compiler = _compiler(table, types, dead)
        claim = SelectThenWrite(
            _statement(compiler, "claim", sql.CLAIM_SELECT), (_statement(compiler, "claim", sql.CLAIM_UPDATE),), Several
        )
        process = table.processed_at is not None
        return LeaseStatements(
            claimed=compiler.claimed,
            claim=claim,
            renew_many=_group(compiler, "renew", {"expiry": "locked_until"}),
            renew_one=_statement(compiler, "renew", sql.RENEW_ONE),
            finish_many=_group(compiler, "finish", {"now": "processed_at"} if process else None, clear=process),
            finish_one=_statement(compiler, "finish", sql.PROCESS_ONE if process else sql.DELETE_ONE),
            nack_many=_group(compiler, "nack", {"due": "retry_after"} if table.retry_after else {}, clear=True),
            nack_one=_statement(compiler, "nack", sql.NACK_ONE),
            release_many=_group(compiler, "release", {"was": "locked_until", **({"delivered": "attempt"} if table.attempt else {})}),
            bury=_bury(compiler, dead),
        )

    def row_lock(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> RowLockStatements:
        self._refuse_fifo(table)
        if dead is not None and table.group is None:
            msg = f"a dead letter table is not supported under row locks on {self.product} in this release: use a group, or the lease form"
            raise DeclarationError(msg)
        compiler = _compiler(table, types, dead)
        return RowLockStatements(
            claimed=compiler.claimed,
            claim=_statement(compiler, "claim", sql.CLAIM_ROW_LOCK),
            finish=_statement(compiler, "finish", sql.PROCESS_HELD if table.processed_at else sql.DELETE_HELD),
            nack=_statement(compiler, "nack", sql.NACK_HELD),
            bury=_statement(compiler, "dead letter", sql.BURY_HELD_IN_GROUP) if table.group else None,
            commit_and_begin=lambda _: "COMMIT",
            finish_inline=None,
            take=_statement(compiler, "claim", sql.TAKE_ROW_LOCK),
        )

    def advisory(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> AdvisoryStatements:
        msg = f"table {table.qualified_name!r}: advisory_lock is not supported on {self.product} in this release: use the lease form"
        raise DeclarationError(msg)

    def depth(self, table: QueueTable, types: ColumnTypes) -> Statement:
        return _statement(_compiler(table, types), "depth", operations.DEPTH)

    def dead_letters(self, table: QueueTable, types: ColumnTypes, home: QueueTable | None) -> DeadLetterStatements:
        return operations.dead_letters(_compiler(table, types), home, SPELLING.qualified(home) if home else "", _statement, Several)

    def ddl(self, table: QueueTable) -> tuple[str, ...]:
        return table_ddl(table, SPELLING.qualified(table))

    def missing_index(self, table: QueueTable, indexes: Sequence[IndexFacts]) -> str | None:
        return None if claim_index(table, indexes, claim_columns(table)) else index_ddl(table, SPELLING.qualified(table))

    def _refuse_fifo(self, table: QueueTable) -> None:
        if table.fifo:
            msg = f"table {table.qualified_name!r} declares fifo, which is not supported on {self.product} in this release"
            raise DeclarationError(msg)


def _compiler(table: QueueTable, types: ColumnTypes, dead: QueueTable | None = None) -> Compiler:
    walk = f"FORCE INDEX ({quote(types.claim_index)})" if types.claim_index else ""
    return Compiler(table, types, SPELLING, {"walk": walk, **({"dead_table": SPELLING.qualified(dead)} if dead else {})})


def _statement(compiler: Compiler, purpose: str, template: str, **more: str) -> Statement:
    compiled = compiler.text(template, **more)
    return ListStatement(purpose, compiled.text, compiled.params, compiler.types.times)


def _names(table: QueueTable, columns: Sequence[str]) -> list[str]:
    roles = table.roles()
    return [quote(roles[column].name if column in roles else column) for column in columns]


def _bury(compiler: Compiler, dead: QueueTable | None) -> Plan | None:
    select = _statement(compiler, "dead letter", sql.BURY_SELECT)
    if compiler.table.group:
        return SelectThenWrite(select, (_statement(compiler, "dead letter", sql.BURY_UPDATE),), Several)
    if dead is None:
        return None
    columns, values = dead_letter_columns(compiler.table, dead, quote)
    insert = _statement(compiler, "dead letter", sql.BURY_INSERT.replace("<columns>", columns).replace("<values>", values))
    return SelectThenWrite(select, (insert, _statement(compiler, "dead letter", sql.BURY_DELETE)), Several)


def _group(compiler: Compiler, purpose: str, new: Mapping[str, str] | None, *, clear: bool = False) -> GroupSelectThenWrite:
    """Lock the rows whose proof holds, then write them by their ids. `new` maps the new values of each row to their columns; None deletes.

    A row constructor alone would scan the table where there is one row, so the ids stand beside it.
    """
    table = compiler.table
    proof = ["id", "locked_until", *(["attempt"] if table.attempt else [])]
    owned = _statement(compiler, purpose, sql.OWNED_SELECT)
    columns = compiler.text(listed([f"{{{field}}}" for field in proof])).text
    id_column, name = compiler.text("{id}").text, compiler.text("{table}").text
    cleared = [compiler.text("{locked_until} = NULL").text] if clear else []
    targets = {field: compiler.text(f"{{{role}}}").text for field, role in (new or {}).items()}

    def select(rows: Sequence[tuple[object, ...]]) -> Bound:
        text, args = owned.bind({"ids": Several([row[0] for row in rows])})
        proofs = [row[: len(proof)] for row in rows]
        one = f"({listed(['%s'] * len(proof))})"
        text = f"{text} AND ({columns}) IN ({listed([one] * len(proofs))}) ORDER BY {id_column} FOR UPDATE SKIP LOCKED"
        return text, [*args, *(value for given in proofs for value in given)]

    def write(rows: Sequence[tuple[object, ...]], found: Sequence[object]) -> Bound:
        places = listed(["%s"] * len(found))
        if new is None:
            return f"DELETE FROM {name} WHERE {id_column} IN ({places})", list(found)
        wanted = {row[0]: row[len(proof) :] for row in rows}
        sets, args = list(cleared), []
        for position, (field, column) in enumerate(targets.items()):
            value = f"CASE {id_column} {' '.join(['WHEN %s THEN %s'] * len(found))} END"
            sets.append(f"{column} = " + (f"COALESCE({value}, {column})" if field == "due" else value))  # no due time: it stays as it is
            for row_id in found:
                args += [row_id, wanted[row_id][position]]
        return f"UPDATE {name} SET {listed(sets)} WHERE {id_column} IN ({places})", [*args, *found]

    return GroupSelectThenWrite(purpose, (*proof, *(new or {})), select, write)
