"""Who is woken by what: a subscription that found nothing waits here for a publish of its group, or for the next due row it knows of."""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from datetime import datetime

from faststream_sql.engine.clock import Clock
from faststream_sql.table.table import QueueTable


class Wakeup:
    """Wakes one subscription. Remembers a call that came while nobody waited, and the moments at which rows are known to fall due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()
        self._due: list[datetime] = []

    def wake(self) -> None:
        """There may be a row to claim now."""
        self._event.set()

    def due_at(self, moment: datetime) -> None:
        """A row falls due at the moment: a wait that is on, or the next one, ends then."""
        if not self._due or moment < self._due[0]:
            self._event.set()  # the wait that is on was reckoned without it
        heapq.heappush(self._due, moment)

    def clear(self) -> None:
        """Forget the calls so far. To be called before a claim: what comes during it is then not missed."""
        self._event.clear()

    async def wait(self, seconds: float) -> None:
        """Wait for a call or for the next due row, at most `seconds` seconds."""
        now = self._clock.now()
        while self._due and self._due[0] <= now:
            heapq.heappop(self._due)
            self._event.set()
        if self._due:
            seconds = min(seconds, (self._due[0] - now).total_seconds())
        await self._clock.wait(self._event, seconds)


class WakeupHub:
    """The wakeups of a broker, by table and group. A subscription of a table without groups hears every publish into it."""

    def __init__(self) -> None:
        self._wakeups: defaultdict[tuple[str | None, str, str | None], list[Wakeup]] = defaultdict(list)

    def add(self, table: QueueTable, group: str | None, wakeup: Wakeup) -> None:
        self._wakeups[_key(table, group)].append(wakeup)

    def remove(self, table: QueueTable, group: str | None, wakeup: Wakeup) -> None:
        key = _key(table, group)
        self._wakeups[key].remove(wakeup)
        if not self._wakeups[key]:
            del self._wakeups[key]

    def published(self, table: QueueTable, group: str | None, due: datetime | None) -> None:
        """A row was committed: due at once (None) or at a moment."""
        for wakeup in self._wakeups.get(_key(table, group), ()):
            if due is None:
                wakeup.wake()
            else:
                wakeup.due_at(due)

    def wake_all(self) -> None:
        """Something may have been missed: everyone looks once."""
        for wakeups in self._wakeups.values():
            for wakeup in wakeups:
                wakeup.wake()


def _key(table: QueueTable, group: str | None) -> tuple[str | None, str, str | None]:
    return table.schema, table.name, group if table.group else None
