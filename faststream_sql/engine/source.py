"""Where workers get their next delivery: a buffer filled ahead of them, or a claim of their own.

Either way an idle subscription makes one claim per poll interval, however many workers it has, unless it is woken.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from faststream_sql.engine.delivery import Delivery, settled_by
from faststream_sql.engine.forms.base import Context, Form
from faststream_sql.engine.wakeup import Wakeup
from faststream_sql.errors import ClosedError, PoolTimeoutError, SQLBrokerError, StatementError, TransientError

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0
SCHEMA_PAUSE_SECONDS = 5.0
MOST_RIVALS = 20
"""How many claims in a row may be lost to rivals before it is said, and waited out as any other fault."""
QUIET_SECONDS = 60.0
"""How often a fault that goes on is logged."""
CLAIM_SECONDS = 2.0
"""How long a stop waits for a claim that is under way."""


class Source(Protocol):
    """Hands deliveries to workers."""

    def start(self) -> None: ...

    async def next(self) -> Delivery | None:
        """The next delivery; waits for one. None once the source is stopped."""
        ...

    def finished(self, delivery: Delivery) -> None:
        """A worker ended a delivery that it took from here."""
        ...

    def stop(self) -> None:
        """Claim no more, and let waiting workers go."""
        ...

    async def close(self) -> None:
        """End the source's own tasks and release what was claimed and not started."""
        ...

    @property
    def alive(self) -> bool: ...


class ClaimLoop:
    """Claims with patience: faults are waited out and logged once a minute, never raised."""

    def __init__(
        self, context: Context, form: Form, wakeup: Wakeup, poll_seconds: float, look_again: Callable[[], Awaitable[bool]]
    ) -> None:
        """`look_again` is called where a statement does not fit the table, and answers whether the next one may."""
        self._context = context
        self._look_again = look_again
        self._form = form
        self._wakeup = wakeup
        self._poll = poll_seconds
        self._pause = FIRST_PAUSE_SECONDS
        self._rivals = 0
        self._logged_at: float | None = None
        self.hungry = True
        """Whether the last claim came back full, or something woke the subscription: the next claim need not wait."""

    async def idle(self) -> None:
        """Wait for the poll interval, a wake-up, or the next due row that is known."""
        await self._form.rest()
        await self._wakeup.wait(self._poll)

    async def claim(self, limit: int) -> list[Delivery]:
        """Claim up to `limit` rows; waits after a fault, and then returns nothing."""
        self._wakeup.clear()
        try:
            deliveries = await self._form.claim(limit)
        except TransientError as error:  # a rival had the rows: there is something to claim
            self._rivals += 1
            if self._rivals > MOST_RIVALS:  # so many in a row are no rivals
                return await self._wait_out(logging.WARNING, error, LONGEST_PAUSE_SECONDS)
            await self._context.clock.sleep(random.uniform(0.0, 0.05))
            self.hungry = True
            return []
        except PoolTimeoutError as error:
            self._complain(logging.WARNING, error)
            self.hungry = True
            return []
        except StatementError as error:
            return await self._fit(error)
        except SQLBrokerError as error:
            if isinstance(error, ClosedError):
                raise
            return await self._wait_out(logging.ERROR, error, LONGEST_PAUSE_SECONDS)
        except Exception as error:  # of no class that is known: a reason to say it, and none to stop claiming
            return await self._wait_out(logging.ERROR, error, LONGEST_PAUSE_SECONDS)
        self._rivals = 0
        if self._logged_at is not None:
            self._context.log(logging.INFO, f"{self._context.name!r} claims again")
        self._pause, self._logged_at = FIRST_PAUSE_SECONDS, None
        return deliveries

    async def _fit(self, error: StatementError) -> list[Delivery]:
        """The table is not what it was: go on with what it is now, or wait until it is mended."""
        told: SQLBrokerError = error
        try:
            if await self._look_again():
                self.hungry = True
                return []
        except ClosedError:
            raise
        except SQLBrokerError as found:
            told = found
        return await self._wait_out(logging.ERROR, told, SCHEMA_PAUSE_SECONDS)

    async def _wait_out(self, level: int, error: Exception, longest_seconds: float) -> list[Delivery]:
        self._complain(level, error)
        await self._context.clock.sleep(self._pause * random.uniform(0.7, 1.3))
        self._pause = min(self._pause * 2, longest_seconds)
        self.hungry = True
        return []

    def _complain(self, level: int, error: Exception) -> None:
        now = self._context.clock.monotonic()
        if self._logged_at is None or now - self._logged_at >= QUIET_SECONDS:
            self._logged_at = now
            self._context.log(level, f"{self._context.name!r} cannot claim, and goes on trying: {error}", error)


class BufferedSource:
    """Claims ahead of the workers, in one task. For forms whose claimed rows cost no connection.

    At most `running` handlers run at once. A delivery whose handler has ended and whose settlement is on its way takes no handler's place,
    so there may be more workers than that: they settle in few statements, and nobody stands still meanwhile.

    A row whose lease had ended may have killed its worker. Such a suspect is never claimed ahead and nothing is claimed ahead beside it, so
    that a row that kills its process spends no attempts but its own; on its last attempt it runs with nothing else at work.
    """

    def __init__(
        self,
        context: Context,
        form: Form,
        loop: ClaimLoop,
        *,
        running: int,
        workers: int,
        prefetch: int,
        is_last: Callable[[Delivery], bool],
    ) -> None:
        self._context = context
        self._form = form
        self._loop = loop
        self._most_running = running
        self._workers = workers
        self._prefetch = prefetch
        self._is_last = is_last
        self._buffer: deque[Delivery] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()
        self._stopping = False
        self._taken = 0  # and not finished
        self._running = 0  # of these, the ones whose handler has not ended
        self._suspects: set[Delivery] = set()  # claimed and not finished
        self._sent_back = False
        self._alone: Delivery | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._fill(), name=f"claims of {self._context.name!r}")

    async def next(self) -> Delivery | None:
        while not self._stopping:
            if self._may_start():
                return self._take()
            self._room.set()
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        return None

    def _may_start(self) -> bool:
        """Whether the first row of the buffer may be handled now."""
        if not self._buffer or self._running >= self._most_running or self._alone is not None:
            return False
        return not self._taken or not self._runs_alone(self._buffer[0])

    def _take(self) -> Delivery:
        delivery = self._buffer.popleft()
        self._taken += 1
        self._running += 1
        delivery.when_handled = self._handled
        if delivery.suspect and self._runs_alone(delivery):
            self._alone = delivery
        if len(self._buffer) <= self._prefetch // 2:
            self._room.set()
        return delivery

    def _runs_alone(self, delivery: Delivery) -> bool:
        return delivery.suspect and self._is_last(delivery)

    def _handled(self) -> None:
        """A handler ended: another one may start."""
        self._running -= 1
        if self._waiting and self._buffer:
            self._wake(1)

    def finished(self, delivery: Delivery) -> None:
        """A worker ended a delivery: what waited for that may start."""
        delivery.handled()
        self._taken -= 1
        if delivery.suspect:
            self._suspects.discard(delivery)
            if delivery is self._alone:
                self._alone = None
            self._room.set()
            self._wake(len(self._buffer))

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiting:
            settled_by(self._waiting.popleft())
            count -= 1

    async def _fill(self) -> None:
        while not self._stopping:
            limit = self._wanted()
            if limit <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            deliveries = await self._loop.claim(limit)
            self._wake(await self._admit(deliveries))
            if len(deliveries) < limit and not self._loop.hungry and not self._stopping:
                await self._loop.idle()
            self._loop.hungry = False

    def _wanted(self) -> int:
        """How many rows to claim: for the workers that wait, and ahead of them once half of what was claimed ahead is used up."""
        if self._alone is not None or (self._buffer and self._runs_alone(self._buffer[0])):
            return 0
        prefetch = 0 if self._suspects or self._sent_back else self._prefetch
        if len(self._buffer) > prefetch // 2:
            return 0
        return prefetch - len(self._buffer) + self._free()

    def _free(self) -> int:
        """How many more handlers could start now."""
        return min(self._most_running - self._running, self._workers - self._taken)

    async def _admit(self, deliveries: list[Delivery]) -> int:
        """Put claimed rows into the buffer; those that must not wait behind a suspect go back. Returns how many stayed."""
        kept = 0 if self._stopping else self._room_for(deliveries)
        self._buffer.extend(deliveries[:kept])
        self._suspects.update(delivery for delivery in deliveries[:kept] if delivery.suspect)
        # what had no room would have none again before a worker is free, and would be kept from everybody by being claimed over and over
        self._sent_back = kept < len(deliveries)
        if self._sent_back:
            await self._form.release(deliveries[kept:])
        return kept

    def _room_for(self, deliveries: list[Delivery]) -> int:
        """How many of the rows, from the first, may stay."""
        if not any(delivery.suspect for delivery in deliveries):
            return len(deliveries)
        free = max(self._free() - len(self._buffer), 0)
        for position, delivery in enumerate(deliveries[:free]):
            if self._runs_alone(delivery):
                return position if position or self._buffer else 1
        return free

    def stop(self) -> None:
        self._stopping = True
        self._room.set()
        self._wake(len(self._waiting))

    async def close(self) -> None:
        if self._task is not None:
            # a claim that is under way is let through: cut off, its rows would be leased to nobody
            _, running = await asyncio.wait([self._task], timeout=CLAIM_SECONDS)
            for task in running:
                task.cancel()
            await asyncio.wait([self._task])
        left = list(self._buffer)
        self._buffer.clear()
        if left:
            await self._form.release(left)


class DirectSource:
    """Each worker claims for itself. For forms whose deliveries hold a connection each."""

    def __init__(self, form: Form, loop: ClaimLoop) -> None:
        self._form = form
        self._loop = loop
        self._turn = asyncio.Lock()
        self._idle = False
        self._stopping = False
        self._stopped = asyncio.Event()

    @property
    def alive(self) -> bool:
        return not self._stopping

    def start(self) -> None:
        """Nothing runs on its own."""

    async def next(self) -> Delivery | None:
        while not self._stopping:
            if not self._idle:
                found = await self._loop.claim(1)
                if found:
                    return found[0]
                self._idle = not self._loop.hungry
                self._loop.hungry = False
                continue
            if self._turn.locked():  # a connection kept here while another worker waits for one would stand still with both
                await self._form.rest()
            async with self._turn:  # one worker looks for all; whom it finds something for lets the next one look
                if self._idle and not self._stopping:
                    await self._loop.idle()
                    if self._stopping:
                        return None
                    found = await self._loop.claim(1)
                    if found:
                        self._idle = False
                        return found[0]
        return None

    def finished(self, delivery: Delivery) -> None:
        """Nothing waits for a delivery's end."""

    def stop(self) -> None:
        self._stopping = True

    async def close(self) -> None:
        """Workers hold all there is."""
