"""A subscription at work: long-lived workers that take deliveries from a source, hand them over, and leave none unsettled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar

from faststream_sql.engine.backoff import Backoff, backoff_seconds
from faststream_sql.engine.delivery import Delivery
from faststream_sql.engine.forms.base import Context, Form
from faststream_sql.engine.outcome import DeadLetter, Nack, attempts_spent
from faststream_sql.engine.source import Source
from faststream_sql.engine.wakeup import Wakeup
from faststream_sql.errors import ClosedError, SQLBrokerError

Deliver = Callable[[Delivery], Awaitable[None]]

CANCEL_SECONDS = 1.0
"""How long a cancelled handler has to end before it is left behind."""
UNSETTLED_SECONDS = 5.0
"""How long a worker waits at most after a settlement that failed, where the row is free again at once."""
SETTLE_SECONDS = 2.0
"""How long a stop waits for settlements under way, and for the release of what was cut off."""


_in_hand: ContextVar[Delivery | None] = ContextVar("in_hand", default=None)
"""The delivery whose handler runs here, or called what runs here: a stop that it asks for must not wait for it."""


class Handling:
    """What becomes of a delivery, whoever claimed it: the rules that every worker follows."""

    def __init__(self, context: Context, form: Form, deliver: Deliver, *, backoff: Backoff, poll_seconds: float) -> None:
        self._context = context
        self._form = form
        self._deliver = deliver
        self._backoff = backoff
        self._poll = poll_seconds
        self.stopping = False
        """Whether a cancellation comes from a stop, which releases what it cut off."""

    async def run(self, delivery: Delivery) -> float:
        """Deliver one row, and see to it that it ends settled.

        Returns for how many seconds its worker claims nothing: where the row itself cannot wait, its worker does.
        """
        try:
            if attempts_spent(delivery.attempt, self._context.limit):
                text = f"{self.describe(delivery)} goes to the dead letter unhandled: its process ended on its last attempt"
                self._context.log(logging.ERROR, text)
                await delivery.settle(DeadLetter())
                return 0.0
            await self._deliver(delivery)
        except asyncio.CancelledError:
            if self.stopping or _is_cancelled():
                raise  # else the handler raised it
        except SQLBrokerError as error:
            self._context.log(logging.ERROR, f"{self.describe(delivery)} was not settled: {error}", error)
        except Exception as error:
            self._context.log(logging.ERROR, f"{self.describe(delivery)} failed outside its handler", error)
            delivery.error = error
        if delivery.outcome is None:
            await self._settle_for(delivery)
        return self._pause_after(delivery)

    def _pause_after(self, delivery: Delivery) -> float:
        """Where the row itself cannot wait, its worker does: nothing must spin, and a failed head keeps its place."""
        outcome, table = delivery.outcome, self._context.table.table
        if delivery.unsettled and table.form != "lease":  # nothing holds the row any more: it would be claimed at once
            return min(self._backoff_seconds(delivery), UNSETTLED_SECONDS)
        if not isinstance(outcome, Nack) or not outcome.delay_seconds:
            return 0.0
        if table.fifo and outcome.after_error and table.form == "row_lock":
            return outcome.delay_seconds
        return 0.0 if table.retry_after else min(outcome.delay_seconds, self._poll)

    async def _settle_for(self, delivery: Delivery) -> None:
        """Nobody settled the row: it is tried again by the backoff."""
        self._context.log(logging.WARNING, f"{self.describe(delivery)} was left unsettled, and is tried again")
        try:
            await delivery.settle(Nack(self._backoff_seconds(delivery), after_error=True))
        except SQLBrokerError as error:
            self._context.log(logging.ERROR, f"{self.describe(delivery)} was not settled: {error}", error)

    def _backoff_seconds(self, delivery: Delivery) -> float:
        def raised(error: Exception) -> None:
            self._context.log(logging.ERROR, f"the backoff of {self._context.name!r} raised; the default delay is taken", error)

        return backoff_seconds(self._backoff, delivery.attempt, delivery.error, raised)

    async def renew(self, every_seconds: float) -> None:
        """Prolong the leases of all deliveries together, each half lease; a failed renewal is tried again soon. Runs until cancelled."""
        clock = self._context.clock
        while True:
            slept_from = clock.monotonic()
            await clock.sleep(every_seconds)
            self._tell_of_a_stall(clock.monotonic() - slept_from - every_seconds, every_seconds)
            pause = every_seconds / 20
            while True:
                try:
                    await self._form.renew()
                    break
                except ClosedError:
                    return
                except Exception as error:
                    self._context.log(logging.WARNING, f"leases of {self._context.name!r} were not renewed, trying again: {error}", error)
                    await clock.sleep(pause)
                    pause = min(pause * 2, every_seconds / 4)

    def describe(self, delivery: Delivery) -> str:
        """A delivery, for messages."""
        return f"row {delivery.row_id!r} of {self._context.name!r}"

    def _tell_of_a_stall(self, late_seconds: float, every_seconds: float) -> None:
        """A loop that stands still renews nothing, and its rows go to others while their handlers still run here."""
        if late_seconds > every_seconds / 2:
            text = (
                f"the rows of {self._context.name!r} were to be held on to {late_seconds:.1f} s ago, and the event loop stood still: a "
                "handler blocks it, or the process was stopped. Write a handler that blocks as a plain def, which runs in a thread"
            )
            self._context.log(logging.WARNING, text)


def _is_cancelled() -> bool:
    """Whether somebody cancels the task that runs here. Python 3.10 does not tell, and a cancellation then counts as the handler's own."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return bool(cancelling is not None and cancelling())


class Workers:
    """The running part of a subscription. Started once, stopped once."""

    def __init__(
        self,
        context: Context,
        form: Form,
        source: Source,
        wakeup: Wakeup,
        handling: Handling,
        *,
        count: int,
    ) -> None:
        self._context = context
        self._form = form
        self._source = source
        self._wakeup = wakeup
        self._handling = handling
        self._count = count
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._in_work: dict[int, Delivery] = {}
        self._renewer: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def alive(self) -> bool:
        """Whether the source and every worker run."""
        return not self._stopping and self._source.alive and not any(task.done() for task in self._tasks.values())

    @property
    def busy(self) -> bool:
        """Whether any worker has a delivery in work."""
        return bool(self._in_work)

    def start(self) -> None:
        """Start the workers, the source and the renewals."""
        loop = asyncio.get_running_loop()
        for number in range(self._count):
            self._tasks[number] = loop.create_task(self._work(number), name=f"worker {number} of {self._context.name!r}")
            self._tasks[number].add_done_callback(self._ended)
        self._source.start()  # after the workers, whose number it claims for
        if self._form.renew_every_seconds is not None:
            self._renewer = loop.create_task(
                self._handling.renew(self._form.renew_every_seconds), name=f"renewals of {self._context.name!r}"
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._context.log(logging.ERROR, f"{task.get_name()} ended by an error, and the broker's ping() fails from now on", error)

    async def _work(self, number: int) -> None:
        while (delivery := await self._source.next()) is not None:
            if self._stopping:
                await self._form.release([delivery])
                return
            try:
                if pause := await self._handle(number, delivery):
                    await self._form.rest()  # a connection that is kept for the next claim would be kept for as long
                    await self._context.clock.sleep(pause)
            finally:
                self._source.finished(delivery)
            if self._stopping:
                return

    async def _handle(self, number: int, delivery: Delivery) -> float:
        self._in_work[number] = delivery
        _in_hand.set(delivery)
        try:
            return await self._handling.run(delivery)
        except asyncio.CancelledError:
            if not self._stopping and delivery.outcome is None:  # by somebody else than a stop, which releases what it cuts off
                await self._bounded(self._form.release([delivery]), "a row was not released in time")
            raise
        finally:
            del self._in_work[number]

    # --- stop ------------------------------------------------------------------------------------------------------------------------

    async def stop(self, graceful_seconds: float | None) -> None:
        """Claim no more, release what was not started, give handlers `graceful_seconds` (None or 0: none), then cut them off and release.

        Never waits for the task that calls it. Leases are renewed until the last handler has ended.
        """
        self._stopping = self._handling.stopping = True
        self._source.stop()
        self._wakeup.wake()
        me, mine = asyncio.current_task(), _in_hand.get()
        others = {
            number: task
            for number, task in self._tasks.items()
            if task is not me and (mine is None or self._in_work.get(number) is not mine)
        }
        for number, task in others.items():
            if number not in self._in_work:
                task.cancel()
        await self._source.close()
        if graceful_seconds and others:
            await asyncio.wait(others.values(), timeout=graceful_seconds)
        await self._cut_off({number: task for number, task in others.items() if not task.done()})
        await self._bounded(self._form.close(), "its settlements did not end in time")
        self._form.abandon()
        if self._renewer is not None and self._renewer is not me:
            self._renewer.cancel()
            await asyncio.wait([self._renewer])

    async def _cut_off(self, tasks: Mapping[int, asyncio.Task[None]]) -> None:
        """Cancel handlers and release the rows of those that end; one that does not end keeps its row."""
        if not tasks:
            return
        cut = {number: self._in_work[number] for number in tasks if number in self._in_work}
        for task in tasks.values():
            task.cancel()
        await asyncio.wait(tasks.values(), timeout=CANCEL_SECONDS)
        released = [delivery for number, delivery in cut.items() if tasks[number].done() and delivery.outcome is None]
        if released:
            await self._bounded(self._form.release(released), "its rows were not released in time")
        for number, delivery in cut.items():
            if not tasks[number].done():
                text = f"the handler of {self._handling.describe(delivery)} does not end on its cancellation; it is left behind"
                self._context.log(logging.WARNING, text)

    async def _bounded(self, work: Awaitable[None], complaint: str) -> None:
        try:
            await asyncio.wait_for(work, SETTLE_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            self._context.log(logging.WARNING, f"{self._context.name!r}: {complaint}; what is left returns by itself")
