"""A connection that breaks after the server has done what it was asked, and before it could say so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from faststream_sql.drivers.base import Connection, Pool, Use
from faststream_sql.engine import Ack, Delivery
from faststream_sql.errors import ConnectionLostError, LeaseLostError
from tests.conformance.bench import PATIENCE_SECONDS, Bench, open_bench
from tests.conformance.conftest import Pair

pytestmark = pytest.mark.databases("postgres", "mysql")

Loses = Callable[[str, str], bool]
"""Whether the answer to a call is lost, by its method and the text of its statement."""


class BreakingConnection:
    """A session that does what it is asked. Where an answer is to be lost, it is cut off then, and reports that."""

    def __init__(self, real: Connection, pool: BreakingPool) -> None:
        self.__dict__.update(real=real, pool=pool)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        return self._losing(name, found) if name in {"fetch", "script", "select_then_write"} else found

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.real, name, value)

    def _losing(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def losing(text: Any, *args: Any, **options: Any) -> Any:
            answer = await call(text, *args, **options)
            loses = self.pool.loses
            if loses is not None and loses(name, str(text)):
                self.pool.loses = None
                self.real.broken = True
                msg = "the answer was lost"
                raise ConnectionLostError(msg)
            return answer

        return losing


class BreakingPool:
    """A pool of such sessions. Loses one answer for each time that `loses` is set."""

    def __init__(self, real: Pool) -> None:
        self._real = real
        self.loses: Loses | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def acquire(self, use: Use, holder: str) -> Any:
        return BreakingConnection(await self._real.acquire(use, holder), self)

    async def release(self, connection: Any) -> None:
        await self._real.release(connection.real)

    @asynccontextmanager
    async def connection(self, use: Use, holder: str) -> AsyncIterator[Any]:
        async with self._real.connection(use, holder) as real:
            yield BreakingConnection(real, self)


@pytest.fixture
async def breaking(make_pool: Callable[..., Pool]) -> BreakingPool:
    return BreakingPool(make_pool())


@pytest.fixture
async def worker(bench: Bench, breaking: Any) -> AsyncIterator[Bench]:
    """Works on the rows of `bench`, on sessions that break."""
    worker = await open_bench(breaking, bench.table, create=False)
    yield worker
    await worker.close()


def ends_a_row(form: str) -> Loses:
    """The last statement of an ack: of a row lock the commit, else the delete."""
    if form == "row_lock":
        return lambda method, text: method == "script" and "COMMIT" in text
    return lambda _, text: "DELETE" in text


async def test_a_settlement_whose_answer_is_lost(bench: Bench, worker: Bench, breaking: BreakingPool, pair: Pair) -> None:
    """A lease tries again, finds nothing, and takes the first try to have worked. A lock ended with its session: nobody can tell."""
    errors: list[BaseException] = []
    ended = asyncio.Event()

    async def handler(delivery: Delivery) -> None:
        breaking.loses = None if ended.is_set() else ends_a_row(pair.form)
        try:
            await delivery.settle(Ack())
        except LeaseLostError as error:
            errors.append(error)
        ended.set()

    await bench.publish(b"one")
    await worker.subscribe(handler)
    await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
    assert await bench.rows() == []
    assert breaking.loses is None
    if pair.form == "lease":
        assert (errors, worker.lost, worker.counters.unknown) == ([], [], 1)
    else:
        assert worker.lost == worker.deliveries
        assert len(errors) == 1
    await bench.publish(b"two")
    await worker.until(lambda: worker.seen == [(b"one", 1), (b"two", 1)])


@pytest.mark.forms("lease")
async def test_a_claim_whose_answer_is_lost(bench: Bench, worker: Bench, breaking: BreakingPool) -> None:
    """The row is leased to nobody, and returns when the lease ends, with an attempt spent."""
    breaking.loses = lambda _, text: "FOR NO KEY UPDATE SKIP LOCKED" in text or "FOR UPDATE SKIP LOCKED" in text
    await bench.publish(b"one")
    await worker.subscribe(lease=1)
    await worker.until(lambda: worker.seen == [(b"one", 2)])
    assert breaking.loses is None
    await bench.until_rows(lambda rows: rows == [])


@pytest.mark.forms("lease")
async def test_a_renewal_whose_answer_is_lost_shuts_nobody_out(bench: Bench, worker: Bench, breaking: BreakingPool) -> None:
    """The row holds an expiry that was never confirmed. It belongs to the proof all the same, and the next renewal confirms another."""
    lost = asyncio.Event()

    def loses(method: str, text: str) -> bool:
        lost.set()
        return True

    async def handler(delivery: Delivery) -> None:
        breaking.loses = loses
        await asyncio.wait_for(lost.wait(), PATIENCE_SECONDS)
        await delivery.settle(Ack())

    await bench.publish(b"one")
    await worker.subscribe(handler, lease=2, poll_interval=600, prefetch=0)  # what breaks is a renewal: no claim is under way
    await worker.until(lambda: worker.seen == [(b"one", 1)])
    await bench.until_rows(lambda rows: rows == [])
    assert any("were not renewed, trying again" in text for _, text in worker.logged)
    assert worker.lost == []
