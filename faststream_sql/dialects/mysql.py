"""MySQL and MariaDB: which of their texts a table needs, and how values are put into them. `mariadb.py` says what differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faststream_sql.dialects import mysql_advisory_sql as advisory
from faststream_sql.dialects import mysql_operations as operations
from faststream_sql.dialects import mysql_sql as sql
from faststream_sql.dialects.base import (
    AdvisoryStatements,
    Bound,
    ColumnTypes,
    DeadLetterStatements,
    GroupSelectThenWrite,
    GroupStatement,
    Guarded,
    LeaseStatements,
    LockThenTake,
    Mutex,
    Plan,
    RowLockStatements,
    SelectThenWrite,
    Statement,
)
from faststream_sql.dialects.compiler import Compiler, Spelling
from faststream_sql.dialects.mysql_names import database_of, lock_name, quote, text_literal
from faststream_sql.dialects.mysql_schema import claim_columns, index_ddl, judge_types, recommended_types, table_ddl
from faststream_sql.dialects.plain import as_json
from faststream_sql.dialects.schema import claim_index, dead_letter_columns
from faststream_sql.dialects.template import listed
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


@dataclass(frozen=True, slots=True)
class FirstOfEach(Statement):
    """The first row of all, and the first one after each priority of `:known`: each is one entry of the index."""

    after: Statement | None = None

    def bind(self, values: Mapping[str, object]) -> Bound:
        text, args = Statement.bind(self, values)
        texts, bound, known = [text], list(args), values["known"]
        if self.after is not None and isinstance(known, tuple):
            for priority in known:
                text, args = self.after.bind({**values, "after": priority})
                texts.append(text)
                bound += args
        return "\nUNION ALL\n".join(texts), bound


class MySQL:
    """MySQL 8.0.1 and later."""

    name = "mysql"
    product = "MySQL"
    floors: Mapping[str, tuple[int, ...]] = dict.fromkeys(("lease", "row_lock", "advisory", "fifo"), (8, 0, 1))
    read_clock: str | None = "SELECT UTC_TIMESTAMP(6)"
    limits: Mapping[str, str] = {"row_lock": sql.LIMITS, "advisory": sql.LIMITS}
    notify: Statement | None = None
    created_twice: frozenset[str] = frozenset()
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

    def plain_value(self, value: object, sql: str) -> object:
        return as_json(value)

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
        compiler = _compiler(table, types, dead)
        process = table.processed_at is not None
        return LeaseStatements(
            claimed=compiler.claimed,
            claim=_claim(compiler),
            renew_many=_group(compiler, "renew", {"expiry": "locked_until"}),
            renew_one=_statement(compiler, "renew", sql.RENEW_ONE),
            finish_many=_group(compiler, "finish", {"now": "processed_at"} if process else None, clear=process),
            finish_one=_statement(compiler, "finish", sql.PROCESS_ONE if process else sql.DELETE_ONE),
            nack_many=_group(compiler, "nack", {"due": "retry_after"} if table.retry_after else {}, clear=True),
            nack_one=_statement(compiler, "nack", sql.NACK_ONE),
            release_many=_group(compiler, "release", {"was": "locked_until", **({"delivered": "attempt"} if table.attempt else {})}),
            bury=_bury(compiler, dead),
            probe=_probe(compiler),
        )

    def row_lock(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> RowLockStatements:
        compiler = _compiler(table, types, dead)
        return RowLockStatements(
            claimed=compiler.claimed,
            claim=_due(compiler, "claim", sql.CLAIM_HEAD_ROW_LOCK if table.fifo else sql.CLAIM_ROW_LOCK),
            finish=_statement(compiler, "finish", sql.PROCESS_HELD if table.processed_at else sql.DELETE_HELD),
            nack=_statement(compiler, "nack", sql.NACK_HELD),
            bury=_bury_held(compiler, dead),
            savepoint=sql.SAVEPOINT,
            commit_and_begin=lambda _: "COMMIT",
            finish_inline=None,
            take=None if table.fifo else _statement(compiler, "claim", sql.TAKE_ROW_LOCK),
            mutex=_mutex(compiler) if table.fifo else None,
            probe=_probe(compiler),
        )

    def advisory(self, table: QueueTable, types: ColumnTypes, dead: QueueTable | None) -> AdvisoryStatements:
        compiler = _compiler(table, types, dead)
        key = lock_name(table)
        count = (_statement(compiler, "claim", advisory.TAKE_UPDATE),) if table.attempt else ()
        return AdvisoryStatements(
            claimed=compiler.claimed,
            claim=LockThenTake(
                _due(compiler, "claim", advisory.LOCK, key=key),
                SelectThenWrite(_statement(compiler, "claim", advisory.TAKE_SELECT, key=key), count, Several),
            ),
            unlock=_statement(compiler, "unlock", advisory.UNLOCK),
            finish=_statement(compiler, "finish", advisory.PROCESS if table.processed_at else advisory.DELETE),
            nack=_statement(compiler, "nack", advisory.NACK),
            release=_statement(compiler, "release", advisory.RELEASE),
            bury=_bury(compiler, dead, select=advisory.BURY_SELECT, update=advisory.BURY_UPDATE),
            probe=_probe(compiler),
        )

    def depth(self, table: QueueTable, types: ColumnTypes) -> Statement:
        return _statement(_compiler(table, types), "depth", operations.DEPTH)

    def dead_letters(self, table: QueueTable, types: ColumnTypes, home: QueueTable | None) -> DeadLetterStatements:
        return operations.dead_letters(_compiler(table, types), home, SPELLING.qualified(home) if home else "", _statement, Several)

    def ddl(self, table: QueueTable) -> tuple[str, ...]:
        return table_ddl(table, SPELLING.qualified(table))

    def missing_index(self, table: QueueTable, indexes: Sequence[IndexFacts]) -> str | None:
        return None if claim_index(table, indexes, claim_columns(table)) else index_ddl(table, SPELLING.qualified(table))


def _compiler(table: QueueTable, types: ColumnTypes, dead: QueueTable | None = None) -> Compiler:
    extra = {
        "walk": f"FORCE INDEX ({quote(types.claim_index)})" if types.claim_index else "",
        "database": database_of(table),
        "table_text": text_literal(table.name),
        **({"dead_table": SPELLING.qualified(dead)} if dead else {}),
    }
    return Compiler(table, types, SPELLING, extra)


def _statement(compiler: Compiler, purpose: str, template: str, **more: str) -> Statement:
    compiled = compiler.text(template, **more)
    return ListStatement(purpose, compiled.text, compiled.params, compiler.types.times)


def _by_priority(compiler: Compiler) -> bool:
    """Whether rows that are not due may stand in front of rows that are. Without both roles, those that are due are one range."""
    table = compiler.table
    return table.priority is not None and table.retry_after is not None and compiler.types.claim_index is not None and not table.fifo


def _due(compiler: Compiler, purpose: str, template: str, **more: str) -> Statement:
    """A statement over the rows that are due."""
    return _statement(compiler, purpose, template.replace("<due>", sql.DUE_BY_PRIORITY if _by_priority(compiler) else sql.DUE), **more)


def _probe(compiler: Compiler) -> Statement | None:
    """Learns the priorities of a group, where its claims walk them."""
    if not _by_priority(compiler):
        return None
    after = _statement(compiler, "look for priorities", sql.FIRST.replace("<after>", sql.AFTER))
    first = _statement(compiler, "look for priorities", sql.FIRST.replace("<after>", ""))
    return FirstOfEach(first.purpose, first.text, first.params, first.times, after)


def _claim(compiler: Compiler) -> Plan:
    update = (_statement(compiler, "claim", sql.CLAIM_UPDATE),)
    if not compiler.table.fifo:
        return SelectThenWrite(_due(compiler, "claim", sql.CLAIM_SELECT), update, Several)
    head = SelectThenWrite(_statement(compiler, "claim", sql.CLAIM_HEAD), update, Several)
    return Guarded(_statement(compiler, "look for a head", sql.PROBE_HEAD), _mutex(compiler), head)


def _mutex(compiler: Compiler) -> Mutex:
    return Mutex(_statement(compiler, "mutex of a group", sql.TAKE_MUTEX), _statement(compiler, "mutex of a group", sql.LET_MUTEX_GO))


def _names(table: QueueTable, columns: Sequence[str]) -> list[str]:
    keyed = table.keyed()
    return [quote(keyed[key].name) for key in columns]


def _bury(compiler: Compiler, dead: QueueTable | None, *, select: str = sql.BURY_SELECT, update: str = sql.BURY_UPDATE) -> Plan | None:
    found = _statement(compiler, "dead letter", select)
    if compiler.table.group:
        return SelectThenWrite(found, (_statement(compiler, "dead letter", update),), Several)
    if dead is None:
        return None
    return SelectThenWrite(found, (_move(compiler, dead, sql.BURY_INSERT), _statement(compiler, "dead letter", sql.BURY_DELETE)), Several)


def _bury_held(compiler: Compiler, dead: QueueTable | None) -> tuple[Statement, ...]:
    if compiler.table.group:
        return (_statement(compiler, "dead letter", sql.BURY_HELD_IN_GROUP),)
    if dead is None:
        return ()
    return (_move(compiler, dead, sql.BURY_HELD_INSERT), _statement(compiler, "dead letter", sql.DELETE_HELD))


def _move(compiler: Compiler, dead: QueueTable, template: str) -> Statement:
    move = dead_letter_columns(compiler.table, dead, quote)
    return _statement(compiler, "dead letter", move.into(template), **move.names)


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
