"""Time: what moves it, and what does not."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import aiosqlite
import anyio
import pytest
from faststream import Context, Depends
from faststream.exceptions import NackMessage

from faststream_sql import ExponentialBackoff, SQLBroker
from faststream_sql.annotations import AttemptNumber, CurrentClock
from faststream_sql.errors import DeclarationError
from faststream_sql.testing import FakeClock, TestSQLBroker
from faststream_sql.testing import hands as hands_module
from tests.testing.tables import FORMS, MailJob, ReportJob, table

SERVER = "postgresql://app:secret@nowhere.invalid/app"


async def test_a_report_of_five_minutes_is_delivered_once_on_a_lease_of_one() -> None:
    broker = SQLBroker(SERVER, tables={"reports": ReportJob})
    expiries: list[datetime] = []
    delivered: list[int | None] = []

    @broker.subscriber("reports", lease=60)
    async def render(number: int, attempt: AttemptNumber, clock: CurrentClock) -> None:
        delivered.append(attempt)
        for _ in range(5):
            await asyncio.sleep(60)
            (row,) = test.rows("reports")
            expiries.append(row["locked_until"] - clock.now())

    test = TestSQLBroker(broker)
    started = time.perf_counter()
    async with test as br:
        before = test.clock.now()
        await br.publish(1, "reports")
        assert test.clock.now() - before == timedelta(minutes=5)
        assert delivered == [1]
        assert test.rows() == []
        assert await test.advance(timedelta(hours=1)) == 0
    assert time.perf_counter() - started < 10
    assert all(timedelta(seconds=30) <= left <= timedelta(seconds=61) for left in expiries), expiries


async def test_time_stands_still_until_advance() -> None:
    test = TestSQLBroker(SQLBroker(SERVER))
    loop = asyncio.get_running_loop()
    slept = asyncio.create_task(asyncio.sleep(60))
    async with test:
        start, moment = loop.time(), test.clock.now()
        time.sleep(0.02)  # noqa: ASYNC251 - real time passes, and fake time does not
        await asyncio.to_thread(time.sleep, 0.01)
        assert (loop.time(), test.clock.now()) == (start, moment)
        await test.advance(59.5)
        assert not slept.done()
        await test.advance(timedelta(seconds=0.5))
        assert slept.done()
        assert test.clock.now() == moment + timedelta(seconds=60)
        with pytest.raises(ValueError, match="does not go back"):
            await test.advance(-1)


async def test_a_test_that_waits_for_a_timer_waits_in_real_time(caplog: pytest.LogCaptureFixture) -> None:
    async with TestSQLBroker(SQLBroker(SERVER)):
        started = time.perf_counter()
        await asyncio.sleep(0.05)
        assert time.perf_counter() - started >= 0.045
    assert "await test.advance" in caplog.text


async def test_timers_fire_in_order_on_the_way() -> None:
    test, order = TestSQLBroker(SQLBroker(SERVER)), list[tuple[float, str]]()

    async def tick(name: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            order.append((test.clock.monotonic(), name))

    async with test:
        tasks = [asyncio.create_task(tick("a", 20)), asyncio.create_task(tick("b", 30))]
        await test.advance(45)
        for task in tasks:
            task.cancel()
    assert order == [(20.0, "a"), (30.0, "b"), (40.0, "a")]


@pytest.mark.parametrize("form", FORMS)
async def test_an_hour_of_retries(form: str) -> None:
    broker, seen = SQLBroker(SERVER, table=table(form)), list[tuple[timedelta, int | None]]()

    @broker.subscriber("emails")
    async def send(body: str, attempt: AttemptNumber) -> None:
        seen.append((test.clock.now() - began, attempt))
        if attempt != 13:
            raise NackMessage(delay=300)

    test = TestSQLBroker(broker)
    async with test as br:
        began = test.clock.now()
        await br.publish("a", "emails")
        assert test.next_due() == began + timedelta(minutes=5)
        assert await test.advance(timedelta(hours=1)) == 12
        assert test.rows() == []
        assert test.next_due() is None
    assert seen == [(timedelta(minutes=5 * n), n + 1) for n in range(13)]


async def test_a_delayed_publish_waits() -> None:
    broker, seen = SQLBroker(SERVER, table=MailJob), list[str]()

    @broker.subscriber("emails")
    async def send(body: str) -> None:
        seen.append(body)

    test = TestSQLBroker(broker, clock=FakeClock(datetime(2031, 5, 1, tzinfo=timezone.utc)))
    async with test as br:
        await br.publish("later", "emails", delay=60)
        await br.publish("at", "emails", available_at=datetime(2031, 5, 1, 0, 0, 30, tzinfo=timezone.utc))
        assert seen == []
        assert await test.advance(0) == 0
        assert await test.advance(29.999999) == 0
        assert await test.advance(0.000001) == 1
        assert await test.advance(30) == 1
    assert seen == ["at", "later"]


async def test_time_does_not_run_to_a_waiting_row() -> None:
    broker, seen = SQLBroker(SERVER, table=MailJob), list[str]()

    @broker.subscriber("emails")
    async def send(body: str) -> None:
        seen.append(body)
        await asyncio.sleep(10)

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish("waits", "emails", delay=5)
        await br.publish("now", "emails")
        assert seen == ["now"]
        assert test.clock.monotonic() == 10
        assert test.next_due() == test.clock.now()
        await test.advance(0)
    assert seen == ["now", "waits"]


async def test_time_does_not_move_while_a_thread_works(tmp_path: Path) -> None:
    broker, ticks = SQLBroker(SERVER), list[float]()
    executor = ThreadPoolExecutor(1)
    connection = await aiosqlite.connect(tmp_path / "own.db")  # opened before time is fake

    def dependency() -> int:
        time.sleep(0.05)
        return 1

    async def timer() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(test.clock.monotonic())

    @broker.subscriber("def")
    def plain(body: str) -> None:
        time.sleep(0.05)

    @broker.subscriber("thread")
    async def thread(body: str) -> None:
        await asyncio.to_thread(time.sleep, 0.05)
        await asyncio.get_running_loop().run_in_executor(executor, time.sleep, 0.05)
        await asyncio.wrap_future(executor.submit(time.sleep, 0.05))
        await anyio.to_thread.run_sync(time.sleep, 0.05, limiter=anyio.CapacityLimiter(1))

    @broker.subscriber("context")
    async def context(body: str, message: object = Context("message"), found: int = Depends(dependency)) -> None:
        pass

    @broker.subscriber("driver")
    async def driver(body: str) -> None:
        await connection.create_function("nap", 0, lambda: time.sleep(0.05))
        await connection.execute_fetchall("SELECT nap()")
        async with aiosqlite.connect(":memory:") as other:
            await other.create_function("nap", 0, lambda: time.sleep(0.05))
            await other.execute_fetchall("SELECT nap()")

    test = TestSQLBroker(broker)
    async with test as br:
        task = asyncio.create_task(timer())
        for queue in ("def", "thread", "context", "driver"):
            await br.publish("x", queue)
        task.cancel()
        assert test.clock.monotonic() == 0.0
    await connection.close()
    executor.shutdown()
    assert ticks == []


async def test_time_moves_while_a_thread_waits_for_the_loop() -> None:
    broker = SQLBroker(SERVER)

    @broker.subscriber("def")
    def plain(body: str) -> None:
        time.sleep(0.02)
        anyio.from_thread.run(anyio.sleep, 150)
        time.sleep(0.02)
        anyio.from_thread.run(broker.publish, "x", "reports")
        time.sleep(0.02)

    @broker.subscriber("executor")
    async def executor(body: str) -> None:
        loop = asyncio.get_running_loop()

        def wait() -> None:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(300), loop).result()
            time.sleep(0.02)

        await asyncio.to_thread(wait)

    @broker.subscriber("reports")
    async def render(body: str) -> None:
        await asyncio.sleep(150)

    test = TestSQLBroker(broker)
    async with test as br:
        for number, queue in enumerate(("def", "executor"), 1):
            await br.publish("x", queue)
            assert test.clock.monotonic() == 300 * number


async def test_time_does_not_move_while_an_answer_is_on_its_way() -> None:
    broker = SQLBroker(SERVER)
    got: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1))
        writer.close()

    @broker.subscriber("q")
    async def ask(body: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        writer.write(b"?")
        got.append(await asyncio.wait_for(reader.readexactly(1), 5))
        writer.close()
        await asyncio.sleep(300)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    test = TestSQLBroker(broker)
    async with server, test as br:
        await br.publish("x", "q")
        assert test.clock.monotonic() == 300
    assert got == [b"?"]


async def test_a_handler_that_waits_for_the_test_does_not_run_time_away() -> None:
    broker, go = SQLBroker(SERVER, lease=60), asyncio.Event()

    @broker.subscriber("q")
    async def waits(body: str) -> None:
        await go.wait()

    test = TestSQLBroker(broker)
    async with test as br:
        publish = asyncio.create_task(br.publish("x", "q"))
        await asyncio.to_thread(time.sleep, 0.02)
        assert test.clock.monotonic() == 0.0
        go.set()
        await publish


async def test_the_loop_is_as_it_was_afterwards() -> None:
    loop = asyncio.get_running_loop()
    keys = set(vars(loop))
    before = (loop.time, loop._selector.select, loop.run_in_executor, aiosqlite.core.SimpleQueue, aiosqlite.core.Connection._execute)
    fired, rang = list[float](), asyncio.Event()
    loop.call_later(3600.5, lambda: (fired.append(loop.time()), rang.set()))
    test = TestSQLBroker(SQLBroker(SERVER))
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - what is left after an error
        async with test:
            await test.advance(1800)
            raise ZeroDivisionError
    assert set(vars(loop)) == keys
    assert "select" not in vars(loop._selector)
    after = (loop.time, loop._selector.select, loop.run_in_executor, aiosqlite.core.SimpleQueue, aiosqlite.core.Connection._execute)
    assert after == before
    async with test:
        await test.advance(1800)
    assert not fired
    started = loop.time()
    await asyncio.wait_for(rang.wait(), 30)  # what was left of the timer's wait is what is left now
    assert fired[0] - started < 30


async def test_two_tests_share_the_time_of_a_loop() -> None:
    first, second = (
        TestSQLBroker(SQLBroker(SERVER)),
        TestSQLBroker(SQLBroker("sqlite://"), clock=FakeClock(datetime(2040, 1, 1, tzinfo=timezone.utc))),
    )
    async with first:
        await first.advance(10)
        async with second:
            await second.advance(5)
        assert first.clock.now() == datetime(2026, 1, 1, 0, 0, 15, tzinfo=timezone.utc)
    assert second.clock.now() == datetime(2040, 1, 1, 0, 0, 5, tzinfo=timezone.utc)


def test_uvloop_is_refused() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        with pytest.raises(DeclarationError, match=r"asyncio's own event loop.*uvloop\.Loop"):
            async with TestSQLBroker(SQLBroker(SERVER)):
                pass

    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_a_naive_start_is_refused() -> None:
    with pytest.raises(DeclarationError, match="aware"):
        FakeClock(datetime(2031, 1, 1))  # noqa: DTZ001 - that is the point


async def test_a_row_delivered_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands_module, "ENDLESS", 20)
    broker, seen = SQLBroker(SERVER, table=MailJob), list[int | None]()

    @broker.subscriber("emails")
    async def send(body: str, attempt: AttemptNumber) -> None:
        seen.append(attempt)
        raise NackMessage

    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish("a", "emails")
        assert seen == [1]
        with pytest.raises(hands_module.EndlessDeliveryError, match=r"row 1 of 'emails' was delivered 20 times"):
            await test.advance(0)


async def test_handlers_that_publish_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands_module, "ENDLESS", 20)
    broker = SQLBroker(SERVER, table=MailJob)

    @broker.subscriber("emails")
    async def again(body: str) -> None:
        await br.publish(body, "emails")

    async with TestSQLBroker(broker) as br:
        with pytest.raises(hands_module.EndlessDeliveryError, match="20 deep"):
            await br.publish("a", "emails")


async def test_advance_is_not_for_handlers() -> None:
    broker = SQLBroker(SERVER)
    test = TestSQLBroker(broker)

    @broker.subscriber("q")
    async def handler(body: str) -> None:
        await test.advance(1)

    with pytest.raises(RuntimeError, match="inside `async with"):
        await test.advance(1)
    async with test as br:
        with pytest.raises(RuntimeError, match="by a handler"):
            await br.publish("x", "q")


@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
async def test_the_same_test_is_the_same_every_time(times: int) -> None:
    async def run() -> list[object]:
        broker, log = SQLBroker(SERVER, table=MailJob), list[object]()

        def subscribe(queue: str, delay: float) -> None:
            @broker.subscriber(queue, max_attempts=4, dead_letter=f"{queue}.dead", backoff=ExponentialBackoff(delay))
            async def handler(body: str, attempt: AttemptNumber) -> None:
                log.append((queue, body, attempt, test.clock.monotonic()))
                await asyncio.sleep(delay / 7)
                if attempt == 1 and queue == "b":
                    await br.publish(f"{body}!", "a", delay=1)
                raise ZeroDivisionError

        for queue, delay in (("a", 1.0), ("b", 2.0), ("c", 1.0)):
            subscribe(queue, delay)
        test = TestSQLBroker(broker)
        async with test as br:
            for body in "xy":
                for queue in "cab":
                    with pytest.raises(ZeroDivisionError):
                        await br.publish(body, queue)
            await test.advance(60)
            log.extend(tuple(row.items()) for row in test.rows())
        return log

    first = await run()
    assert len(first) > 30
    for _ in range(times):
        assert await run() == first


async def test_no_thread_is_made() -> None:
    before = threading.active_count()
    async with TestSQLBroker(SQLBroker(SERVER)) as br:
        await br.publish("x", "q")
        assert threading.active_count() == before
