"""Plain columns: of what type they are made, and what may be published into them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pytest

from faststream_sql import Attempt, Column, Group, Id, Inbox, LockedUntil, Payload, QueueTable
from faststream_sql.drivers.base import Use
from tests.conformance.bench import Bench, queue_table

MakeBench = Callable[..., Awaitable[Bench]]
pytestmark = pytest.mark.forms("lease")

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=timezone.utc)
ID = UUID("12345678-1234-5678-1234-567812345678")


class Job(Inbox, table="jobs"):
    id: Annotated[int, Id()]
    name: Annotated[str, Group()]
    attempt: Annotated[int, Attempt()]
    locked_until: Annotated[datetime | None, LockedUntil()] = None
    payload: Annotated[bytes, Payload()]
    account: int
    ratio: float | None = None
    flag: bool = False
    price: Decimal | None = None
    note: str | None = None
    blob: bytes | None = None
    owner: UUID | None = None
    since: datetime | None = None
    day: date | None = None
    extra: dict[str, Any] | None = None


VALUES: dict[str, Any] = {
    "account": 7,
    "ratio": 0.5,
    "flag": True,
    "price": Decimal("12.5"),
    "note": "7",
    "blob": b"\x00\xff",
    "owner": ID,
    "since": MOMENT,
    "day": date(2026, 3, 1),
    "extra": {"ä": [1, None]},
}


async def test_values_of_every_type_that_a_model_names(make_bench: MakeBench) -> None:
    bench = await make_bench(Job.queue_table)
    await bench.publish(b"one", columns=VALUES)
    (row,) = await bench.rows()
    job = Job(**{name: value for name, value in row.items() if name not in {"group", "extra"}}, name="jobs", extra=as_dict(row["extra"]))
    found = {name: getattr(job, name) for name in VALUES}
    if found["since"].tzinfo is None:
        found["since"] = found["since"].replace(tzinfo=timezone.utc)
    assert found == VALUES


def as_dict(value: Any) -> Any:
    import json

    return value if isinstance(value, dict) else json.loads(value)


@pytest.mark.parametrize("value", [7, 0.5, Decimal("12.5"), ID])
async def test_a_column_whose_type_nobody_says_takes_numbers_and_ids(make_bench: MakeBench, value: object) -> None:
    bench = await make_bench(queue_table("lease", columns=("account",)))
    await bench.publish(b"one", columns={"account": value})
    ((found,),) = await _fetch(bench, "SELECT account FROM jobs WHERE account IS NOT NULL")
    assert str(found) == str(value)


async def _fetch(bench: Bench, text: str) -> list[Any]:
    async with bench.pool.connection(Use.STATEMENT, "test") as connection:
        return list(await connection.fetch(text))


def test_a_type_changes_no_description() -> None:
    by_hand = QueueTable("jobs", id="id", payload="payload", columns=("account",))
    assert by_hand == QueueTable("jobs", id="id", payload="payload", columns=(Column("account", type=int),))
