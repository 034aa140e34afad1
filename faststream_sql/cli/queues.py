"""`queues`: what waits in the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.facts import QueueFacts, queues_of
from faststream_sql.cli.database import on_database, public_url
from faststream_sql.cli.output import DONE, age, say, say_json, say_table
from faststream_sql.engine import Engine
from faststream_sql.engine.operations import Depth, depths
from faststream_sql.table import QueueTable

_COLUMNS = ("QUEUE", "TABLE", "READY", "DELAYED", "IN WORK", "OLDEST", "DEAD", "")
_NUMBERS = ("READY", "DELAYED", "IN WORK", "OLDEST", "DEAD")


@dataclass(frozen=True, slots=True)
class _Line:
    queue: str
    table: str
    ready: int
    delayed: int
    in_work: int | None
    oldest_ready_seconds: float | None
    dead: int | None
    is_read: bool


def print_queues(broker: SQLBroker, url: str | None, *, as_json: bool) -> int:
    """Print every queue that is read, and every other group that has rows."""

    async def work(engine: Engine) -> dict[QueueTable, dict[str | None, Depth]]:
        return {table: await depths(engine, table) for table in broker.tables()}

    facts = queues_of(broker)
    lines = _lines(facts, on_database(broker, url, work))
    if as_json:
        say_json([asdict(line) for line in lines])
    elif lines:
        say_table(_COLUMNS, [_cells(line) for line in lines], right=_NUMBERS)
    else:
        say(f"{public_url(broker, url)}: no queue is read, and no row waits")
    return DONE


def _lines(facts: Sequence[QueueFacts], found: dict[QueueTable, dict[str | None, Depth]]) -> list[_Line]:
    """Those that are read, in the order of their declaration, then the other groups by name. Dead letters stand with their queue."""
    lines = [_read(queue, found) for queue in facts]
    known = {(queue.table, queue.group) for queue in facts} | {(queue.dead_table, queue.dead_group) for queue in facts}
    others = [(table, group, depth) for table, groups in found.items() for group, depth in groups.items() if (table, group) not in known]
    others.sort(key=lambda other: (other[0].qualified_name, other[1] or ""))
    return lines + [_line(table, group, depth, None, is_read=False) for table, group, depth in others]


def _read(queue: QueueFacts, found: dict[QueueTable, dict[str | None, Depth]]) -> _Line:
    depth = found[queue.table].get(queue.group) or Depth.empty(queue.table)
    dead = None if queue.dead_table is None else found[queue.dead_table].get(queue.dead_group, Depth()).total
    return _line(queue.table, queue.group, depth, dead, is_read=True)


def _line(table: QueueTable, group: str | None, depth: Depth, dead: int | None, *, is_read: bool) -> _Line:
    name = table.qualified_name
    return _Line(
        queue=name if group is None else group,
        table=name,
        ready=depth.ready,
        delayed=depth.delayed,
        in_work=depth.in_work,
        oldest_ready_seconds=depth.oldest_ready_seconds,
        dead=dead,
        is_read=is_read,
    )


def _cells(line: _Line) -> list[str]:
    return [
        line.queue,
        line.table,
        str(line.ready),
        str(line.delayed),
        _number(line.in_work),
        age(line.oldest_ready_seconds),
        _number(line.dead),
        "" if line.is_read else "nobody reads it",
    ]


def _number(number: int | None) -> str:
    return "-" if number is None else str(number)
