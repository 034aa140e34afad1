"""Who may have a connection, and who waits: the rules by which a small pool can slow work down, and never stop it.

Deliveries that keep a connection for a whole handler have at most the pool's size less one, so that one is always left for settlements,
publishes and handlers' own queries. Renewals of leases go before everything else, since rows are lost when they wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from faststream_sql.drivers.base import Use
from faststream_sql.errors import ClosedError, PoolTimeoutError

_ORDER = (Use.RENEWAL, Use.STATEMENT, Use.DELIVERY)


class Gate:
    """Counts connections in use and lets waiters in by the rules. Of one event loop.

    Args:
        size: how many connections there are, 1 or more.
        acquire_timeout: how long `enter` waits, in seconds of the running loop's time.
    """

    def __init__(self, size: int, acquire_timeout: float) -> None:
        self._size = size
        self._timeout = acquire_timeout
        self._holders: Counter[str] = Counter()
        self._used = 0
        self._deliveries = 0
        self._wanting: Counter[str] = Counter()  # holders that wait to keep a connection for a delivery
        self._waiting: dict[Use, deque[asyncio.Future[None]]] = {use: deque() for use in _ORDER}
        self._closed = False

    @property
    def in_use(self) -> int:
        """How many connections are out."""
        return self._used

    def holders(self) -> dict[str, int]:
        """Who holds how many."""
        return dict(self._holders)

    async def enter(self, use: Use, holder: str) -> None:
        """Take a place. Raises PoolTimeoutError after the acquire timeout, ClosedError where the pool is closed meanwhile."""
        if self._closed:
            raise _closed()
        if not self._may_enter(use) or self._someone_before(use):
            await self._wait_as(use, holder)
        else:
            self._take(use)
        self._holders[holder] += 1

    def others_wait(self, holder: str) -> bool:
        """Whether a delivery of another holder waits: who keeps a connection for the next delivery then gives it back."""
        return any(name != holder for name in self._wanting)

    def leave(self, use: Use, holder: str) -> None:
        """Give a place back, and let the next waiter in."""
        self._used -= 1
        if use is Use.DELIVERY:
            self._deliveries -= 1
        self._holders[holder] -= 1
        if not self._holders[holder]:
            del self._holders[holder]
        self._admit()

    def close(self) -> None:
        """Turn everyone away who waits or comes later."""
        self._closed = True
        for waiting in self._waiting.values():
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_exception(_closed())

    def _may_enter(self, use: Use) -> bool:
        if self._used >= self._size:
            return False
        return use is not Use.DELIVERY or self._deliveries < self._size - 1

    def _someone_before(self, use: Use) -> bool:
        """Whether a waiter of the same or a better rank is there already: nobody overtakes."""
        for rank in _ORDER:
            if any(not waiter.done() for waiter in self._waiting[rank]):
                return True
            if rank is use:
                return False
        return False

    def _take(self, use: Use) -> None:
        self._used += 1
        if use is Use.DELIVERY:
            self._deliveries += 1

    async def _wait_as(self, use: Use, holder: str) -> None:
        if use is not Use.DELIVERY:
            await self._wait(use)
            return
        self._wanting[holder] += 1
        try:
            await self._wait(use)
        finally:
            self._wanting[holder] -= 1
            if not self._wanting[holder]:
                del self._wanting[holder]

    async def _wait(self, use: Use) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting[use].append(waiter)
        timer = loop.call_later(self._timeout, self._time_out, waiter)
        try:
            await waiter  # its place is taken for it by `_admit`
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_back(use)  # let in and cancelled in the same turn of the loop
            raise
        finally:
            timer.cancel()
            if waiter in self._waiting[use]:
                self._waiting[use].remove(waiter)

    def _give_back(self, use: Use) -> None:
        self._used -= 1
        if use is Use.DELIVERY:
            self._deliveries -= 1
        self._admit()

    def _time_out(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            held = ", ".join(f"{count} x {holder}" for holder, count in self._holders.most_common()) or "nobody of this broker"
            waiter.set_exception(
                PoolTimeoutError(
                    f"no connection came free in {self._timeout:g} s: the pool has {self._size}, held by {held}. "
                    "Raise pool_size, lower max_workers, or set acquire_timeout"
                )
            )

    def _admit(self) -> None:
        for use in _ORDER:
            waiting = self._waiting[use]
            while waiting and self._may_enter(use):
                waiter = waiting.popleft()
                if not waiter.done():
                    self._take(use)
                    waiter.set_result(None)


def _closed() -> ClosedError:
    return ClosedError("the pool is closed: the broker was stopped")
