"""Cancels a coroutine at its k-th suspension: the only way to hit every place in which a cancellation may come."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")

Moment = Literal["waiting", "woken"]
"""While it waits; or once its answer is there and before it goes on."""


class _Stepper(Generic[T]):
    """Awaits a coroutine, and cancels its own task at the k-th suspension."""

    def __init__(self, work: Coroutine[Any, Any, T], place: int, moment: Moment) -> None:
        self._work = work
        self._place = place
        self._moment = moment
        self.reached = 0

    def __await__(self) -> Generator[Any, Any, T]:
        task = asyncio.current_task()
        assert task is not None
        inner = self._work.__await__()
        step = inner.__next__
        while True:
            try:
                awaited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            self.reached += 1
            if self.reached == self._place:
                if self._moment == "waiting" or awaited is None:
                    task.cancel()
                else:
                    awaited.add_done_callback(lambda _: task.cancel())
            try:
                yield awaited
            except BaseException as error:
                step = _thrower(inner, error)
            else:
                step = inner.__next__


def _thrower(inner: Generator[Any, Any, Any], error: BaseException) -> Any:
    return lambda: inner.throw(error)


async def cancelled_at(work: Coroutine[Any, Any, T], place: int, moment: Moment) -> tuple[bool, T | BaseException]:
    """Run work to its end with a cancellation at the place.

    Returns whether it got there at all (if not, every place has been tried), and its result or what it raised.
    """
    stepper = _Stepper(work, place, moment)

    async def run() -> T:
        return await stepper

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=20.0)
    assert task.done(), f"it hangs after a cancellation at place {place}"
    outcome: T | BaseException
    if task.cancelled():
        outcome = asyncio.CancelledError()
    else:
        error = task.exception()
        outcome = task.result() if error is None else error
    return stepper.reached >= place, outcome
