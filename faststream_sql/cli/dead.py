"""`dead`: what was given up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.facts import QueueFacts, queues_of
from faststream_sql.cli.database import on_database
from faststream_sql.cli.output import DONE, FOUND, CommandError, counted, progress, say, say_json, say_table
from faststream_sql.engine import Engine
from faststream_sql.engine.operations import DeadLetters, DeadRow, Depth, depths
from faststream_sql.table import QueueTable

_COLUMNS = ("DEAD LETTERS OF", "ID", "ATTEMPT", "DUE", "IN WORK", "BYTES")
_NUMBERS = ("ID", "ATTEMPT", "BYTES")
_SHOWN_MOST = 4096
"""How many bytes of a value that is no text are shown."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where dead letters lie, and the queues that send theirs there."""

    table: QueueTable
    group: str | None
    name: str
    sources: tuple[QueueFacts, ...]

    @property
    def queues(self) -> str:
        """The queues' names."""
        return ", ".join(source.queue for source in self.sources)

    def letters(self, engine: Engine, source: QueueFacts | None = None) -> DeadLetters:
        """The dead letters, as those of one of the queues."""
        source = source or self.sources[0]
        return DeadLetters(engine, self.table, self.group, source.table, source.queue)


def print_list(broker: SQLBroker, url: str | None, queue: str | None, *, limit: int, as_json: bool) -> int:
    """Print the first dead letters of one queue, or of each."""
    places = _places(broker) if queue is None else [_place(broker, queue)]

    async def work(engine: Engine) -> list[tuple[_Place, list[DeadRow], int]]:
        return [(place, await place.letters(engine).rows(limit), await place.letters(engine).count()) for place in places]

    found = on_database(broker, url, work)
    if as_json:
        say_json([{"queues": [source.queue for source in place.sources], **asdict(row)} for place, rows, _ in found for row in rows])
        return DONE
    cells = [_cells(place, row) for place, rows, _ in found for row in rows]
    if cells:
        say_table(_COLUMNS, cells, right=_NUMBERS)
    for place, rows, count in found:
        more = f", and the first {len(rows)} of them are above" if len(rows) < count else ""
        say(f"{counted(count, 'row')} in {place.name!r}{more}")
    return DONE


def print_row(broker: SQLBroker, url: str | None, queue: str, row_id: str) -> int:
    """Print every column of one dead letter."""
    place = _place(broker, queue)

    async def work(engine: Engine) -> Mapping[str, Any] | None:
        return await place.letters(engine).row(row_id)

    row = on_database(broker, url, work)
    if row is None:
        msg = f"there is no row {row_id!r} in {place.name!r}"
        raise CommandError(msg, FOUND)
    width = max(map(len, row))
    for name, value in row.items():
        say(f"{name:<{width}}  {_shown(value)}")
    return DONE


def requeue(broker: SQLBroker, url: str | None, queue: str, *, to: str | None, limit: int | None, dry_run: bool) -> int:
    """Send dead letters back to their queue, with a first attempt."""
    place = _place(broker, queue)
    source = _source(place, to)

    def write(engine: Engine, most: int) -> AsyncIterator[int]:
        return place.letters(engine, source).requeue(most)

    doing = f"would send back to {source.queue!r}" if dry_run else f"sent back to {source.queue!r}"
    return _change(broker, url, place, write, doing=doing, limit=limit, dry_run=dry_run)


def purge(broker: SQLBroker, url: str | None, queue: str, *, limit: int | None, dry_run: bool) -> int:
    """Delete dead letters."""
    place = _place(broker, queue)

    def write(engine: Engine, most: int) -> AsyncIterator[int]:
        return place.letters(engine).purge(most)

    return _change(broker, url, place, write, doing="would delete" if dry_run else "deleted", limit=limit, dry_run=dry_run)


def _change(
    broker: SQLBroker,
    url: str | None,
    place: _Place,
    write: Callable[[Engine, int], AsyncIterator[int]],
    *,
    doing: str,
    limit: int | None,
    dry_run: bool,
) -> int:
    async def work(engine: Engine) -> tuple[Depth, int]:
        depth = (await depths(engine, place.table)).get(place.group) or Depth.empty(place.table)
        free = depth.ready + depth.delayed
        most = free if limit is None else min(limit, free)
        done = 0
        if dry_run:
            return depth, most
        with progress() as bar:
            task = bar.add_task(place.name, total=most)
            async for step in write(engine, most):
                done += step
                bar.advance(task, step)
        return depth, done

    depth, number = on_database(broker, url, work)
    free = depth.ready + depth.delayed
    says = depth.in_work is not None
    in_work = depth.in_work or 0
    if not says and not dry_run and limit is None:
        in_work = free - number  # rows that do not say so were passed over, since their locks are held
    up_to = "up to " if dry_run and not says and number else ""
    left = f"; {counted(in_work, 'row')} in work left alone" if in_work else ""
    say(f"{doing}: {up_to}{counted(number, 'row')} of {place.name!r}{left}")
    return DONE


def _places(broker: SQLBroker) -> list[_Place]:
    """Where the broker's queues send what they give up, in the order of their declaration."""
    found: dict[tuple[QueueTable, str | None], list[QueueFacts]] = {}
    for facts in queues_of(broker):
        if facts.dead_table is not None:
            found.setdefault((facts.dead_table, facts.dead_group), []).append(facts)
    return [_Place(table, group, sources[0].dead_name or table.name, tuple(sources)) for (table, group), sources in found.items()]


def _place(broker: SQLBroker, name: str) -> _Place:
    """The place of a queue's dead letters, by the queue's name or the place's own. Raises CommandError."""
    places = _places(broker)
    found = [place for place in places if name in {source.queue for source in place.sources}]
    found = found or [place for place in places if name == place.name]
    if len(found) == 1:
        return found[0]
    if found:
        msg = f"{name!r} is in {len(found)} tables: name the queue, one of {'; '.join(place.queues for place in found)}"
        raise CommandError(msg)
    known = ", ".join(repr(source.queue) for place in places for source in place.sources)
    there_are = f"those with dead letters are {known}" if known else "no subscription declares dead_letter="
    msg = f"no queue {name!r} gives rows up; {there_are}"
    raise CommandError(msg)


def _source(place: _Place, to: str | None) -> QueueFacts:
    """The queue that rows go back to. Raises CommandError where several share the place and none is named."""
    found = [source for source in place.sources if to is None or source.queue == to]
    if not found:
        msg = f"{place.name!r} has no rows of {to!r}: give --to one of {place.queues}"
        raise CommandError(msg)
    if len(found) > 1:
        msg = f"{place.name!r} is shared by {place.queues}, and no row says where it came from: name a queue for all with --to"
        raise CommandError(msg)
    return found[0]


def _cells(place: _Place, row: DeadRow) -> list[str]:
    in_work = {None: "-", True: "yes", False: "no"}[row.in_work]
    due = "-" if row.due is None else f"{row.due:%Y-%m-%d %H:%M:%S}"
    return [place.queues, str(row.row_id), _number(row.attempt), due, in_work, _number(row.payload_bytes)]


def _number(number: int | None) -> str:
    return "-" if number is None else str(number)


def _shown(value: Any) -> str:
    """A value for a person: text where it is text, and the bytes of anything else in hexadecimal."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        try:
            return _printable(raw.decode())
        except UnicodeDecodeError:
            more = "…" if len(raw) > _SHOWN_MOST else ""
            return f"{counted(len(raw), 'byte')}: {raw[:_SHOWN_MOST].hex(' ')}{more}"
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, str):
        return "-" if value is None else _printable(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)


def _printable(text: str) -> str:
    """The text with its control characters escaped: a payload must not steer a terminal."""
    return "".join(character if character.isprintable() or character == "\n" else ascii(character)[1:-1] for character in text)
