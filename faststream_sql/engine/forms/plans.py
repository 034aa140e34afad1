"""Carries out what a dialect planned: a statement, a select and the writes of what it found, a claim under a mutex, a group of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import assert_never

from faststream_sql.dialects.base import Bound, GroupPlan, GroupSelectThenWrite, GroupStatement, Guarded, Mutex, Once, Plan, SelectThenWrite
from faststream_sql.drivers.base import Connection, Query, Row
from faststream_sql.errors import DatabaseError


def query(bound: Bound) -> Query:
    """A dialect's text and values, as a driver takes them."""
    return Query(*bound)


Accept = Callable[[Row], bool]
"""Asked of each row that a select found, in the transaction that is about to write it."""


async def run_plan(
    connection: Connection,
    plan: Plan,
    values: Mapping[str, object],
    id_position: int,
    timeout: float | None = None,
    accept: Accept | None = None,
) -> list[Row]:
    """Carry out a plan; returns its rows. Those that a select found and `accept` refuses are left alone, and not returned."""
    match plan:
        case Once(statement):
            text, args = statement.bind(values)
            return await connection.fetch(text, args, timeout=timeout)
        case SelectThenWrite(select, writes, pack_ids):
            accepted: list[Row] = []

            def write(rows: list[Row]) -> list[Query]:
                accepted[:] = rows if accept is None else filter(accept, rows)
                if not accepted:
                    return []
                ids = pack_ids([row[id_position] for row in accepted])
                return [query(statement.bind({**values, "ids": ids})) for statement in writes]

            await connection.select_then_write(query(select.bind(values)), write, timeout=timeout)
            return accepted
        case Guarded():
            return await _run_guarded(connection, plan, values, id_position)
        case _:
            assert_never(plan)


class Claim:
    """A claim's plan, run again and again. Where the last one found nothing, the select alone looks first: an idle queue costs the
    database one statement a poll, and no transaction.
    """

    def __init__(self, plan: Plan, id_position: int) -> None:
        self._plan = plan
        self._id_position = id_position
        self._idle = False

    async def run(self, connection: Connection, values: Mapping[str, object], accept: Accept | None = None) -> list[Row]:
        """The rows that were claimed, as they stood before."""
        plan = self._plan
        if self._idle and isinstance(plan, SelectThenWrite) and not await connection.fetch(*plan.select.bind(values)):
            return []
        rows = await run_plan(connection, plan, values, self._id_position, accept=accept)
        self._idle = not rows
        return rows


async def _run_guarded(connection: Connection, plan: Guarded, values: Mapping[str, object], id_position: int) -> list[Row]:
    if not await connection.fetch(*plan.probe.bind(values)):
        return []
    if plan.mutex.let_go is not None:
        if not await take_mutex(connection, plan.mutex, values):
            return []
        try:
            rows = await run_plan(connection, plan.claim, values, id_position)
        except BaseException:
            connection.broken = True  # cutting the session lets the mutex go, whatever the claim left
            raise
        await let_mutex_go(connection, plan.mutex, values)
        return rows
    await connection.begin()
    try:
        held = await take_mutex(connection, plan.mutex, values)
        rows = await run_plan(connection, plan.claim, values, id_position) if held else []
    except BaseException:
        if not connection.broken:
            await connection.rollback()
        raise
    await connection.commit()
    return rows


async def take_mutex(connection: Connection, mutex: Mutex, values: Mapping[str, object]) -> bool:
    """Take a group's mutex, without waiting; whether it was taken. A session that may hold one that nobody knows of is broken."""
    try:
        rows = await connection.fetch(*mutex.take.bind(values))
    except BaseException:
        connection.broken = connection.broken or mutex.let_go is not None
        raise
    return bool(rows) and rows[0][0] == 1


async def let_mutex_go(connection: Connection, mutex: Mutex, values: Mapping[str, object]) -> None:
    """Let a session's mutex go, and see that it went: one that stays would keep the group from everybody. Raises no DatabaseError.

    Where it may have stayed, the connection is broken: the end of its session is the end of the mutex.
    """
    if mutex.let_go is None:
        return
    let_go = False
    try:
        rows = await connection.fetch(*mutex.let_go.bind(values))
        let_go = bool(rows) and rows[0][0] == 1
    except DatabaseError:
        pass
    finally:
        connection.broken = connection.broken or not let_go


async def run_group(
    connection: Connection, plan: GroupPlan, rows: Sequence[tuple[object, ...]], timeout: float | None = None
) -> set[object]:
    """Carry out a plan over several rows; returns the ids of the rows that it changed."""
    match plan:
        case GroupStatement():
            text, args = plan.pack(rows)
            found = await connection.fetch(text, args, timeout=timeout)
        case GroupSelectThenWrite():

            def write(found: list[Row]) -> list[Query]:
                return [query(plan.write(rows, [row[0] for row in found]))] if found else []

            found = await connection.select_then_write(query(plan.select(rows)), write, timeout=timeout)
        case _:
            assert_never(plan)
    return {row[0] for row in found}
