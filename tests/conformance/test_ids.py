"""Ids of every kind: what a publish answers and a delivery tells, and ids that the service chooses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

from faststream_sql.engine import DeadLetter, Delivery, NewRow
from faststream_sql.table import QueueTable
from tests.conformance.bench import Bench, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]


async def test_a_uuid_is_a_uuid_everywhere(make_bench: MakeBench, pair: Pair) -> None:
    bench = await make_bench(queue_table(pair.form, id_type=UUID))
    chosen = uuid4()
    ids = [*await bench.publish(b"one", row_id=chosen), *await bench.publish(b"two", b"three")]
    assert ids[0] == chosen
    assert all(isinstance(row_id, UUID) for row_id in ids)
    await bench.subscribe()
    await bench.until(lambda: len(bench.seen) == 3)
    assert {delivery.row_id for delivery in bench.deliveries} == set(ids)


async def test_chosen_ids_where_the_database_always_generates_them(make_bench: MakeBench, pair: Pair) -> None:
    if pair.database == "postgres":
        bench = await make_bench(queue_table(pair.form), create=False)
        text = "\n".join(bench.engine.dialect.ddl(bench.table))
        await bench.sql(text.replace("BY DEFAULT", "ALWAYS").replace("CREATE INDEX", ";CREATE INDEX"))
    else:  # it knows no such column: what is asked is the same
        bench = await make_bench()
    rows = [NewRow(group="jobs", payload=b"%d" % n, row_id=n) for n in (72, 70, 71)]
    assert await bench.publish(b"7", row_id=7) == [7]
    assert await bench.engine.insert(bench.table, rows) == [72, 70, 71]
    assert [(row["id"], bytes(row["payload"])) for row in await bench.rows()] == [(n, b"%d" % n) for n in (7, 70, 71, 72)]


async def test_ids_of_many_rows_in_few_statements(make_bench: MakeBench, pair: Pair) -> None:
    """Also where some of them have an id and some are given one, and columns of their own."""
    bench = await make_bench()
    rows = [NewRow(group="jobs", payload=b"%d" % n, row_id=5000 + n if n % 400 == 0 else None) for n in range(1500)]
    ids = await bench.engine.insert(bench.table, rows)
    assert [row_id for row_id in ids if row_id in {5000, 5400, 5800, 6200}] == [5000, 5400, 5800, 6200]
    assert {row["id"]: bytes(row["payload"]) for row in await bench.rows()} == {
        row_id: row.payload for row_id, row in zip(ids, rows, strict=True)
    }


async def test_a_dead_letter_table_that_always_generates_its_ids(make_bench: MakeBench, pair: Pair) -> None:
    """The row keeps its id."""
    table = queue_table(pair.form, group=None)
    bench = await make_bench(table)
    dead = QueueTable("jobs_dead", **{role: column for role, column in table.roles().items() if role != "locked_until"})
    if pair.database == "postgres":
        await bench.sql("\n;".join(bench.engine.dialect.ddl(dead)).replace("BY DEFAULT", "ALWAYS"))
    else:
        await bench.engine.create_tables([dead])

    async def bury(delivery: Delivery) -> None:
        await delivery.settle(DeadLetter())

    (row_id,) = await bench.publish(b"one")
    await bench.subscribe(bury, max_attempts=2, dead_letter=dead)
    await bench.until_rows(lambda rows: rows == [])
    assert [row["id"] for row in await bench.rows(dead)] == [row_id]
