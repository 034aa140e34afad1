"""The gate's rules, under the fastest traffic that a loop can make."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faststream_sql.drivers.base import Use
from faststream_sql.drivers.gate import Gate
from faststream_sql.errors import ClosedError, PoolTimeoutError


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


class Queue:
    """Tasks that enter one after another and say so."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.entered: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, use: Use, name: str) -> None:
        async def enter() -> None:
            await self.gate.enter(use, name)
            self.entered.append(name)

        self.tasks[name] = asyncio.create_task(enter())
        await settle()


async def test_first_come_first_served_and_renewals_before_all() -> None:
    queue = Queue(Gate(2, 5.0))
    for use, name in (
        (Use.STATEMENT, "a"),
        (Use.STATEMENT, "b"),
        (Use.DELIVERY, "delivery 1"),
        (Use.STATEMENT, "c"),
        (Use.DELIVERY, "delivery 2"),
        (Use.STATEMENT, "d"),
        (Use.RENEWAL, "renewal"),
    ):
        await queue.come(use, name)
    assert queue.entered == ["a", "b"]
    order = []
    for name, use in (("a", Use.STATEMENT), ("b", Use.STATEMENT), ("renewal", Use.RENEWAL), ("c", Use.STATEMENT), ("d", Use.STATEMENT)):
        queue.gate.leave(use, name)
        await settle()
        order = queue.entered[2:]
    assert order == ["renewal", "c", "d", "delivery 1"], "the second delivery would take the last place"
    queue.gate.leave(Use.DELIVERY, "delivery 1")
    await settle()
    assert queue.entered[-1] == "delivery 2"
    queue.gate.leave(Use.DELIVERY, "delivery 2")
    assert queue.gate.in_use == 0
    assert queue.gate.holders() == {}
    await asyncio.gather(*queue.tasks.values())


async def test_nobody_overtakes_by_coming_when_a_place_is_free() -> None:
    queue = Queue(Gate(1, 5.0))
    await queue.come(Use.STATEMENT, "a")
    await queue.come(Use.STATEMENT, "b")
    queue.gate.leave(Use.STATEMENT, "a")
    late = asyncio.create_task(queue.gate.enter(Use.STATEMENT, "late"))  # in the same turn of the loop
    await settle()
    assert queue.entered == ["a", "b"]
    assert not late.done()
    queue.gate.leave(Use.STATEMENT, "b")
    await late
    queue.gate.leave(Use.STATEMENT, "late")


async def test_the_timeout_names_the_size_and_the_holders() -> None:
    gate = Gate(3, 0.02)
    await gate.enter(Use.DELIVERY, "delivery of 'emails'")
    await gate.enter(Use.DELIVERY, "delivery of 'emails'")
    await gate.enter(Use.STATEMENT, "publish into 'jobs'")
    with pytest.raises(PoolTimeoutError) as caught:
        await gate.enter(Use.RENEWAL, "renewal of 'emails'")
    for part in ("the pool has 3", "2 x delivery of 'emails'", "1 x publish into 'jobs'", "0.02 s", "pool_size"):
        assert part in str(caught.value)
    assert isinstance(caught.value, TimeoutError)
    gate.leave(Use.STATEMENT, "publish into 'jobs'")
    await gate.enter(Use.STATEMENT, "next")  # the place that nobody waits for any more is there


async def test_a_close_turns_everyone_away() -> None:
    gate = Gate(1, 5.0)
    await gate.enter(Use.STATEMENT, "a")
    waiting = [asyncio.create_task(gate.enter(use, "b")) for use in Use]
    await settle()
    gate.close()
    for error in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(error, ClosedError)
    with pytest.raises(ClosedError):
        await gate.enter(Use.STATEMENT, "c")
    gate.leave(Use.STATEMENT, "a")
    assert gate.in_use == 0


@pytest.mark.parametrize("turns", range(4))
async def test_a_waiter_that_is_cancelled_as_it_is_let_in_gives_its_place_on(turns: int) -> None:
    gate = Gate(1, 5.0)
    await gate.enter(Use.STATEMENT, "a")
    first, second = (asyncio.create_task(gate.enter(Use.STATEMENT, name)) for name in "bc")
    await settle()
    gate.leave(Use.STATEMENT, "a")
    for _ in range(turns):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    if not first.cancelled():
        gate.leave(Use.STATEMENT, "b")
    await second
    gate.leave(Use.STATEMENT, "c")
    assert gate.in_use == 0


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 4), seed=st.integers(0, 2**32), count=st.integers(1, 40), timeout=st.sampled_from([0.0005, 30.0]))
def test_any_traffic(size: int, seed: int, count: int, timeout: float) -> None:
    """Comers of every use, some cancelled at some time: the limits hold at every moment, nobody is forgotten, no place is lost."""
    asyncio.run(traffic(size, random.Random(seed), count, timeout))


async def traffic(size: int, chance: random.Random, count: int, timeout: float) -> None:
    gate = Gate(size, timeout)
    inside: Counter[Use] = Counter()
    uses = list(Use) if size > 1 else [Use.STATEMENT, Use.RENEWAL]

    async def visitor(number: int) -> None:
        use = chance.choice(uses)
        await gate.enter(use, f"{number}")
        inside[use] += 1
        try:
            assert sum(inside.values()) <= gate.in_use <= size  # a place is taken before its waiter wakes
            assert inside[Use.DELIVERY] <= max(size - 1, 0)
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        finally:
            inside[use] -= 1
            gate.leave(use, f"{number}")

    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(visitor(number)))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if chance.random() < 0.3:
            chance.choice(tasks).cancel()
    done, pending = await asyncio.wait(tasks, timeout=10.0)
    assert not pending, "somebody waits for a place that is free"
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, PoolTimeoutError)
            assert timeout < 1.0
    assert gate.in_use == 0
    assert gate.holders() == {}
    for use in [Use.DELIVERY] * (size - 1) + [Use.STATEMENT]:  # every place is there again
        await asyncio.wait_for(gate.enter(use, "last"), 1.0)
