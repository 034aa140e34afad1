"""Plain columns that are named as roles: roles that other columns play, and roles that the table has not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from faststream_sql import DeclarationError, QueueTable
from faststream_sql.engine import Ack, DeadLetter, Delivery, Nack
from faststream_sql.table.roles import ROLE_NAMES
from tests.conformance.bench import Bench, bytes_of, queue_table
from tests.conformance.conftest import Pair

MakeBench = Callable[..., Awaitable[Bench]]


def every_role(form: str) -> QueueTable:
    """A table whose roles are all played by columns named otherwise, so that the roles' names are left to plain columns."""
    roles = {role: f"c_{role}" for role in ROLE_NAMES if role not in {"locked_until", "processed_at"}}
    own = {"lease": {"locked_until": "c_locked_until"}, "advisory": {"advisory_lock": "jobs-{c_id}"}}
    return queue_table(form, **roles, **own.get(form, {}), columns=ROLE_NAMES)


def few_roles(form: str) -> QueueTable:
    """The least that a form takes, with the roles that are left out as plain columns."""
    left_out = ("priority", "partition_key", "retry_after", "attempt", "processed_at", "headers")
    return queue_table(form, priority=None, retry_after=None, attempt=None, headers=None, columns=left_out)


@pytest.mark.parametrize("describe", [every_role, few_roles])
async def test_plain_columns_named_as_roles(make_bench: MakeBench, pair: Pair, describe: Callable[[str], QueueTable]) -> None:
    table = describe(pair.form)
    bench = await make_bench(table)
    names = [column.name for column in table.columns]
    rows = {body: {name: f"{name} of {body.decode()}" for name in names} for body in (b"one", b"two", b"three")}
    for body in (b"one", b"two"):
        await bench.publish(body, columns=rows[body])
    await bench.publish(b"three", b"three", columns=rows[b"three"])

    def plain(row: dict[str, object]) -> dict[str, object]:
        return {name: row[f"columns.{name}" if name in table.roles() else name] for name in names}

    outcomes = {b"one": [Nack(), Ack()], b"two": [DeadLetter()], b"three": [Ack(), Ack()]}

    async def answer(delivery: Delivery) -> None:
        body = bytes_of(delivery.payload)
        assert plain(dict(delivery.row)) == rows[body]
        await delivery.settle(outcomes[body].pop(0))

    limit = {"max_attempts": 5, "dead_letter": "jobs.dead"} if table.attempt else {}
    if not limit:
        outcomes[b"two"] = [Ack()]
    await bench.subscribe(answer, **limit)
    await bench.until(lambda: not any(outcomes.values()))
    left = await bench.until_rows(lambda rows: len(rows) == len(limit) // 2 and all(row["group"] == "jobs.dead" for row in rows))
    assert [plain(row) for row in left] == [rows[b"two"]] * len(left)


def test_a_name_that_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"column 'id'.*'columns\.id'.*rename one of them"):
        QueueTable("t", id="job_id", payload="p", columns=("id", "columns.id"))
