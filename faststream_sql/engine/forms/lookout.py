"""Looking before a claim, where a claim has to be told the priorities that its group has.

An idle subscription then costs one statement for each poll, which takes no lock. While there is work the look is left out, but for one in a
second: new priorities must be learnt. What is known of them decides what a claim scans, and never what it finds, so it may be out of date.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from faststream_sql.dialects.base import Statement
from faststream_sql.drivers.base import Connection
from faststream_sql.engine.forms.base import Context

LOOK_AGAIN_SECONDS = 1.0
MOST_PRIORITIES = 64
"""How many priorities are walked one by one; what lies beyond the last is walked as one."""
ROUNDS = 8
"""How often one look asks for what lies between the priorities that it knows."""


class Lookout:
    """What a subscription knows before it claims. Without a probe, every claim is worth its while."""

    def __init__(self, context: Context, probe: Statement | None) -> None:
        self._clock = context.clock
        self._pack = context.table.dialect.pack
        self._probe = probe
        self._known: list[int] = []
        self._looked_at = -math.inf
        self._idle = True

    def steps(self) -> object:
        """The priorities as a claim takes them: one at least, which need not be there."""
        return self._pack(self._known or [0])

    def claimed(self, *, enough: bool) -> None:
        """A claim ended; `enough` is whether it found as many rows as were asked for."""
        self._idle = not enough

    async def look(self, connection: Connection, values: Mapping[str, object]) -> bool:
        """Whether a claim may find something. Raises DatabaseError."""
        probe, now = self._probe, self._clock.monotonic()
        if probe is None or (not self._idle and now - self._looked_at < LOOK_AGAIN_SECONDS):
            return True
        self._looked_at = now
        for _ in range(ROUNDS):
            rows = await connection.fetch(*probe.bind({**values, "known": tuple(self._known)}))
            before, found = self._known, {priority for priority, _ in rows}
            self._known = learn(before, found)
            if found.issubset(before):
                return any(due for _, due in rows)
            if self._known == before:
                break
        return True  # there are more priorities than are known: only a claim tells


def learn(known: Sequence[int], found: Collection[int]) -> list[int]:
    """The priorities to walk one by one, from the first of all and the next one after each that was known.

    One that was known is gone where nothing was found from the one before it up to itself.
    """
    left = [priority for before, priority in zip((-math.inf, *known), known, strict=False) if any(before < f <= priority for f in found)]
    return sorted({*found, *left})[:MOST_PRIORITIES]
