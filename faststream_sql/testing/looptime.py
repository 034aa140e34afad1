"""Fake time on the running event loop.

While it is in place the loop's `time()` is ours, and its selector never waits for a timer on its own: what happens when nothing is ready
is decided here. A class of loops would do the same more simply, but pytest-asyncio makes the loop, and nobody's tests should have to choose
another one. The library looptime does it too, but lets time run whenever everything waits, knows neither anyio's threads nor a driver's,
and needs Python 3.11.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from unittest import mock
from weakref import WeakKeyDictionary

from typing_extensions import Self

from faststream_sql.errors import DeclarationError
from faststream_sql.testing.threads import Threads

THREAD_SECONDS = 0.05
"""How long, in real time, the selector waits at once while a thread works; the thread's answer ends the wait."""
QUIET_SECONDS = 0.02
"""For how long, in real time, open sockets must have been quiet before time moves: an answer may be on its way."""
PATIENCE_SECONDS = 1.0
"""As QUIET_SECONDS, where no delivery runs and the test itself waits for a timer."""

log = logging.getLogger("faststream_sql.testing")


class LoopTime:
    """The fake time of one event loop. It stands still, but that

    - while a delivery runs (`running`) and nothing can happen without it, it jumps to the next timer;
    - `move_to` moves it;
    - where no delivery runs and the test itself waits for a timer with nothing else to come, it goes as fast as real time.

    It never moves while a thread works for the loop.
    """

    _in_place: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTime]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.BaseEventLoop, selector: selectors.BaseSelector) -> None:
        self._loop = loop
        self._selector = selector
        self._select = selector.select
        self._resolution: float = vars(loop)["_clock_resolution"]
        self._threads = Threads(loop)
        self._users = 0
        self._background: dict[int, asyncio.TimerHandle] = {}
        self._idlers: list[asyncio.Future[None]] = []
        self._deliveries = 0
        self._told = False
        self.running: list[Callable[[], bool]] = [lambda: self._deliveries > 0]
        """Each says whether a delivery runs."""
        self.now = loop.time()
        """The loop's time."""

    # --- in place --------------------------------------------------------------------------------------------------------------------

    @classmethod
    @contextmanager
    def on_running_loop(cls) -> Iterator[Self]:
        """Fake time on the running loop for the span of a `with`; nested ones share it. Raises DeclarationError on uvloop and its like."""
        loop = asyncio.get_running_loop()
        found = cls._in_place.get(loop)
        time = found if isinstance(found, cls) else cls._for(loop)
        with time._used():  # noqa: SLF001 - its own
            yield time

    @classmethod
    def _for(cls, loop: asyncio.AbstractEventLoop) -> Self:
        selector = getattr(loop, "_selector", None)
        if not isinstance(loop, asyncio.BaseEventLoop) or not isinstance(selector, selectors.BaseSelector):
            msg = (
                f"fake time needs asyncio's own event loop on a selector, and this is {type(loop).__module__}.{type(loop).__qualname__}: "
                "run the test on it (pytest-asyncio does unless told otherwise), or on real time with TestSQLBroker(broker, with_real=True)"
            )
            raise DeclarationError(msg)
        return cls(loop, selector)

    @contextmanager
    def _used(self) -> Iterator[None]:
        if self._users:
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
            return
        self._users = 1
        self.now = self._loop.time()
        try:
            with ExitStack() as stack:
                for target, name, new in (
                    (self._loop, "time", lambda: self.now),
                    (self._selector, "select", self._wait),
                ):
                    stack.enter_context(mock.patch.object(target, name, new))
                stack.enter_context(self._threads.watched())
                self._in_place[self._loop] = self
                yield
        finally:
            self._users = 0
            self._in_place.pop(self._loop, None)
            self._move_timers(self.now - self._loop.time())

    def _move_timers(self, ahead: float) -> None:
        """Timers that are still pending were set in fake time: they keep what is left of their wait."""
        for timer in self._timers():
            timer._when -= ahead  # noqa: SLF001 - asyncio has no other way, and a common shift leaves its heap in order

    def _timers(self) -> list[Any]:
        timers: list[Any] = vars(self._loop)["_scheduled"]  # the loop makes a new list now and then
        return timers

    # --- time ------------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def delivery(self) -> Iterator[None]:
        """A delivery runs for the span of a `with`: where it waits for time, time comes."""
        self._deliveries += 1
        try:
            yield
        finally:
            self._deliveries -= 1

    def move_to(self, loop_time: float) -> None:
        """Move on to a time of the loop; one in the past changes nothing."""
        self.now = max(self.now, loop_time)

    def next_timer(self) -> float | None:
        """The loop's time at which its next timer is due; None where there is none."""
        return min((timer.when() for timer in self._timers() if not timer.cancelled()), default=None)

    async def idle(self) -> None:
        """Return when everything else waits: nothing is ready, no thread works, and no delivery waits for time."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._idlers.append(future)
        await future

    async def sleep_in_background(self, seconds: float) -> None:
        """Sleep, without being a reason for time to move."""
        future: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(seconds, _wake, future)
        self._background[id(timer)] = timer
        try:
            await future
        finally:
            timer.cancel()
            self._background.pop(id(timer), None)

    def _wait(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """In the place of the selector's `select`: the loop asks what happened, and how long it may wait for it."""
        events = self._select(0)
        if events or (timeout is not None and timeout <= self._resolution):
            return events  # a timer that is due within the resolution is one that the loop runs now
        if self._threads.work():
            return self._select(THREAD_SECONDS)
        sockets = len(self._selector.get_map()) > 1  # one is the loop's own, by which threads and signals wake it
        jumps = self._wanted() and any(running() for running in self.running)
        if jumps or self._idlers:
            if sockets and (events := self._select(QUIET_SECONDS)):
                return events
            self._jump() if jumps else self._wake_idlers()
            return []
        if not self._wanted():
            return self._select(None)
        return self._creep(timeout or 0.0, sockets=sockets)

    def _wanted(self) -> bool:
        """Whether anything waits for time that is not there for a delivery's sake only."""
        return any(not timer.cancelled() and id(timer) not in self._background for timer in self._timers())

    def _jump(self) -> None:
        if (when := self.next_timer()) is not None:
            self.move_to(when)

    def _wake_idlers(self) -> None:
        idlers, self._idlers = self._idlers, []
        for idler in idlers:
            _wake(idler)

    def _creep(self, timeout: float, *, sockets: bool) -> list[tuple[selectors.SelectorKey, int]]:
        """Nothing but a timer can end the wait, and nobody moves time: rather than hang, it passes as it really does."""
        wait = timeout + PATIENCE_SECONDS if sockets else timeout
        events = self._select(min(wait, PATIENCE_SECONDS))
        if events:
            return events
        if not self._told:
            self._told = True
            log.warning("the test waits for a timer while time stands still; it passes in real time. Use `await test.advance(...)`")
        if wait > PATIENCE_SECONDS and (events := self._select(wait - PATIENCE_SECONDS)):
            return events
        self.move_to(self.now + timeout)
        return []


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
