"""`TestSQLBroker`: a service's test client."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from itertools import chain
from random import Random
from typing import Any, ClassVar, overload
from unittest import mock
from weakref import WeakKeyDictionary

from typing_extensions import Self, TypeVar, override

from faststream_sql.broker._faststream import TestBroker
from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.subscriber import SQLSubscriber
from faststream_sql.engine import Clock, EngineSettings, backoff
from faststream_sql.errors import DeclarationError
from faststream_sql.testing.clock import FakeClock
from faststream_sql.testing.hands import Hands, in_delivery, reads
from faststream_sql.testing.inspection import RowsOfTest, config_of, database_of, subscribers_of
from faststream_sql.testing.looptime import LoopTime
from faststream_sql.testing.memory import MemoryPool
from faststream_sql.testing.producer import DryRunProducer, FakeProducer, TaskProducer
from faststream_sql.testing.rows import run_now

EnterType = TypeVar("EnterType", default=Any)


class TestSQLBroker(RowsOfTest, TestBroker[SQLBroker, EnterType], broker=SQLBroker):
    """Runs a service's handlers on real rows, in memory and in fake time, whatever database its broker names.

    ```python
    test = TestSQLBroker(broker)
    async with test as br:
        await br.publish(Mail(...), "emails")      # the handler has run; what it raised would come out of here
        await test.advance(60)                     # retries and other rows that fall due in a minute have run
        assert test.rows("emails.dead") == []
    ```

    The rows are handled by the product's own statements and rules. Deliveries run one after another, whatever `max_workers` says.
    """

    @overload
    def __init__(
        self: TestSQLBroker[SQLBroker],
        broker: SQLBroker,
        /,
        *,
        with_real: bool = False,
        connect_only: bool | None = None,
        clock: FakeClock | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: TestSQLBroker[tuple[SQLBroker, ...]],
        *brokers: SQLBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
        clock: FakeClock | None = None,
    ) -> None: ...

    def __init__(
        self, *brokers: SQLBroker, with_real: bool = False, connect_only: bool | None = None, clock: FakeClock | None = None
    ) -> None:
        """Prepare a test of one broker, or of several that may share a database.

        Args:
            brokers: the brokers. One that runs already goes on, and what this test publishes is handled in
                memory, in real time.
            with_real: whether the service runs on its real database, with its workers, and on the real clock (see `clock`).
            connect_only: True where `TestApp` starts the broker; seen by itself where both stand in one `with`.
            clock: the fake clock; one that begins on 2026-01-01 unless given. With `with_real`, time is real unless it is given, which
                SQLite alone allows.

        Raises:
            DeclarationError: a fake clock was given to a real database that is a server.
        """
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)
        if with_real and clock is not None and any(broker.specification.protocol != "sqlite" for broker in brokers):
            msg = "with_real=True goes with clock=FakeClock() on SQLite only: a server's answers come in real time. Leave clock out"
            raise DeclarationError(msg)
        self._fake_clock = clock if with_real else clock or FakeClock()
        self._time: LoopTime | None = None
        self._hands: dict[str, Hands] = {}  # by database
        self._live = False

    @property
    def clock(self) -> Clock:
        """Where the service reads the time: the fake clock, or the broker's with `with_real`."""
        return self.brokers[0].clock if self._fake_clock is None or self._live else self._fake_clock

    # --- time ------------------------------------------------------------------------------------------------------------------------

    async def advance(self, seconds: float | timedelta) -> int:
        """Move time on, and run what falls due on the way, in order; `advance(0)` runs what is due now, until nothing is.

        Errors of handlers do not come out of here: a row is tried again as its subscription says. With `with_real` this sleeps, or steps
        from timer to timer where the clock is fake. Returns how many deliveries ran (0 with `with_real`, whose workers do not tell).

        Raises:
            ValueError: `seconds` is less than 0.
            EndlessDeliveryError: a row was delivered a thousand times at one moment.
            RuntimeError: called by a handler, or outside `async with`.
        """
        step = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        if not step >= 0:
            msg = f"advance({seconds!r}) cannot be: time does not go back"
            raise ValueError(msg)
        if in_delivery.get():
            msg = "advance() was called by a handler, which time waits for: call it in the test"
            raise RuntimeError(msg)
        time, clock = self._time, self._fake_clock
        if clock is None or self._live:
            await asyncio.sleep(step)
            return 0
        if time is None:
            msg = "advance() works inside `async with TestSQLBroker(broker)`"
            raise RuntimeError(msg)
        return await self._step(time, clock, time.now + step)

    async def _step(self, time: LoopTime, clock: FakeClock, target: float) -> int:
        count = 0
        while True:
            await time.idle()
            for hands in self._hands.values():
                count += await hands.run_due()
            if time.now >= target:
                return count
            timers = [when for when in (time.next_timer(),) if when is not None and when > time.now]
            waiting = [] if self.with_real else self._dues()  # the service's own workers have timers for theirs
            dues = [clock.loop_time(moment) for moment in waiting if moment > clock.now()]
            time.move_to(min([target, *timers, *dues]))

    # --- in the place of the real thing ----------------------------------------------------------------------------------------------

    @override
    @asynccontextmanager
    async def _create_ctx(self) -> AsyncGenerator[list[SQLBroker], None]:
        async with AsyncExitStack() as stack:
            for broker in self.brokers:
                await broker.started()  # an application serves before its broker has started, and that start must not meet mocks
            self._live = not self.with_real and any(_runs(broker) for broker in self.brokers)
            if self._live:
                await self._dry_run(stack)
                yield list(self.brokers)
                return
            if self._fake_clock is not None:
                self._time = stack.enter_context(self._fake_clock.on_loop())
                stack.callback(setattr, self, "_time", None)
                stack.enter_context(mock.patch.object(backoff, "random", Random(0)))  # jitter, the same on every run
            for broker in self.brokers:
                self._replace_parts(stack, broker)
            stack.push_async_callback(self._close)
            if not self.with_real:
                stack.push_async_callback(self._stop_asking)
            yield await stack.enter_async_context(super()._create_ctx())

    def _replace_parts(self, stack: AsyncExitStack, broker: SQLBroker) -> None:
        """Give the broker fake time, and (but `with_real`) a database in memory, for as long as the test runs."""
        config, clock, time = config_of(broker), self._fake_clock, self._time
        if clock is not None:
            stack.enter_context(mock.patch.object(config, "clock", clock))
        if clock is None or time is None:
            return
        if self.with_real:
            handled = partial(_handles, broker)
            time.running.append(handled)
            stack.callback(time.running.remove, handled)
            return
        hands = self._hands.get(database_of(broker))
        if hands is None:
            hands = self._hands[database_of(broker)] = Hands(MemoryPool(), clock, time.delivery)
            hands.fakes = self._fake_subscribers
        stack.enter_context(mock.patch.object(config, "make_pool", hands.the_pool))
        stack.enter_context(mock.patch.object(config, "make_engine", hands.engine))

    async def _stop_asking(self) -> None:
        """What asked for rows one by one (`get_one`) lets go of the row that it holds, as when a broker stops."""
        for subscriber in chain.from_iterable(subscribers_of(broker) for broker in self.brokers):
            await subscriber.stop()

    async def _close(self) -> None:
        for hands in self._hands.values():
            await hands.close()
        self._hands.clear()

    async def _dry_run(self, stack: AsyncExitStack) -> None:
        """On a broker that runs (AsyncAPI's "try it out" comes so): what this task publishes is handled in memory, in real time.

        The broker's subscribers go on, and what everybody else publishes is real.
        """
        stack.push_async_callback(self._close)
        for broker in self.brokers:
            live = stack.enter_context(LiveBroker.of(broker).under(self))
            hands = self._hands.setdefault(database_of(broker), Hands(MemoryPool(), broker.clock))
            hands.fakes += live.fakes
            engine = hands.engine(settings=EngineSettings(), log=partial(_say, broker))
            hands.add(broker, engine)
            await engine.open()
            stack.enter_context(live.producer.serving(DryRunProducer(broker, hands)))

    @override
    async def _fake_connect(self, broker: SQLBroker, *args: Any, **kwargs: Any) -> Any:
        engine = await type(broker)._connect(broker)  # noqa: SLF001 - the one that FastStream has put this in the place of
        self._hands[database_of(broker)].add(broker, engine)
        await engine.create_tables(broker.tables())
        return engine

    @override
    def _fake_start(self, broker: SQLBroker, *args: Any, **kwargs: Any) -> None:
        super()._fake_start(broker, *args, **kwargs)
        if self.with_real:
            for subscriber in broker.subscribers:
                subscriber.running = False  # the real start is still to come, and leaves alone those that run
        for hands in self._hands.values():
            for hand in hands.subscribers():
                run_now(hand.open())  # what a start refuses, it refuses here

    def give_mocks_to_live(self, broker: SQLBroker) -> list[Any]:
        """Put mocks on the handlers and publishers of a broker that runs. Returns the stand-ins, which do not run."""
        running = {subscriber: subscriber.running for subscriber in broker.subscribers}
        super()._fake_start(broker)
        for subscriber in broker.subscribers:
            subscriber.running = running.get(subscriber, False)
        return list(self._fake_subscribers)

    def take_mocks_from_live(self, broker: SQLBroker) -> None:
        """Undo `give_mocks_to_live`; who ran goes on."""
        running = {subscriber: subscriber.running for subscriber in broker.subscribers}
        self._fake_close(broker)
        for subscriber in broker.subscribers:
            subscriber.running = running.get(subscriber, False)

    @override
    @contextmanager
    def _patch_producer(self, broker: SQLBroker) -> Iterator[None]:
        # FastStream's own `change_producer` does not put the old one back after an error
        with mock.patch.object(config_of(broker), "producer", FakeProducer(broker, self._hands[database_of(broker)])):
            yield

    @override
    def create_publisher_fake_subscriber(self, broker: SQLBroker, publisher: Any) -> tuple[SQLSubscriber, bool]:
        for subscriber in chain.from_iterable(subscribers_of(known) for known in self.brokers):
            if subscriber.calls and reads(subscriber, publisher.table, publisher.queue):
                return subscriber, True
        return broker.subscriber(publisher.queue, table=publisher.table, persistent=False), False


class LiveBroker:
    """A broker that runs while test clients try it out. The first of them puts the test's parts in, the last one takes them out."""

    _known: ClassVar[WeakKeyDictionary[SQLBroker, LiveBroker]] = WeakKeyDictionary()

    def __init__(self, broker: SQLBroker) -> None:
        self._broker = weakref.ref(broker)
        self._users = 0
        self._parts = ExitStack()
        self.producer = TaskProducer(config_of(broker).producer)
        self.fakes: list[Any] = []
        """The stand-ins for the subscribers of other services."""

    @classmethod
    def of(cls, broker: SQLBroker) -> LiveBroker:
        """The one of a broker."""
        found = cls._known.get(broker)
        if found is None:
            found = cls._known[broker] = cls(broker)
        return found

    @contextmanager
    def under(self, test: TestSQLBroker[Any]) -> Iterator[Self]:
        """One more test client, for the span of a `with`."""
        broker = self._broker()
        if broker is None:
            msg = "the broker is gone"
            raise ReferenceError(msg)
        self._users += 1
        try:
            if self._users == 1:
                self._put_in(broker, test)
            yield self
        finally:
            self._users -= 1
            if not self._users:
                self._parts.close()
                self._known.pop(broker, None)

    def _put_in(self, broker: SQLBroker, test: TestSQLBroker[Any]) -> None:
        self._parts.enter_context(mock.patch.object(config_of(broker), "producer", self.producer))
        if not broker.running:
            return  # it is under another test client, whose mocks stay
        for name in ("start", "stop", "_connect"):
            self._parts.enter_context(mock.patch.object(broker, name, wraps=getattr(broker, name)))
        self._parts.callback(test.take_mocks_from_live, broker)
        self.fakes = test.give_mocks_to_live(broker)


def _runs(broker: SQLBroker) -> bool:
    """Whether a broker is at work, for real or under another test client."""
    return bool(broker.running) or isinstance(config_of(broker).producer, FakeProducer)


def _handles(broker: SQLBroker) -> bool:
    """Whether a delivery of the broker is in work."""
    return any(subscriber.busy for subscriber in subscribers_of(broker))


def _say(broker: SQLBroker, level: int, text: str, error: BaseException | None = None) -> None:
    broker.config.logger.log(f"dry run: {text}", level, exc_info=error if isinstance(error, Exception) else None)
