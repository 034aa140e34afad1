"""Faults that pass: a deadlock, a lock wait, a busy file. The statement had no effect, so the same work may be done again."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from faststream_sql.engine.clock import Clock
from faststream_sql.errors import ConnectionLostError, TransientError

PAUSES_SECONDS = (0.02, 0.1, 0.3, 1.0)
"""Between the tries, the last of which raises what it meets."""

T = TypeVar("T")


async def patiently(work: Callable[[], Awaitable[T]], clock: Clock, *, only_reads: bool = False) -> T:
    """Do the work, a few times where a fault passes.

    Work that `only_reads` is done once more also where its connection broke: what else it did is then of no concern.
    """
    lost = not only_reads
    for pause in PAUSES_SECONDS:
        try:
            return await work()
        except TransientError:
            await clock.sleep(pause * random.uniform(0.5, 1.5))
        except ConnectionLostError:
            if lost:
                raise
            lost = True
    return await work()
