"""Load over minutes, with processes that are killed: nothing is lost, nothing is settled twice, attempts are as they must be."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.processes.conftest import Queues
from tests.processes.history import Crew
from tests.processes.mixed_service import DELAY_SECONDS, MAX_ATTEMPTS
from tests.processes.process import Processes

ROWS = 20_000
WORKERS = 16
KILLS = 6
PLANS = {"ack": 60, "retry": 12, "delay": 12, "fail": 6, "bury": 10}
"""How many rows of a hundred end in each way."""

GROUPS = 50
ROWS_OF_A_GROUP = 100

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]


def on(*pairs: tuple[str, str]) -> pytest.MarkDecorator:
    marks = {"postgres": [pytest.mark.postgres], "mysql": [pytest.mark.mysql], "sqlite": []}
    params = [pytest.param(database, form, id=f"{database}-{form}", marks=marks[database]) for database, form in pairs]
    return pytest.mark.parametrize(("url", "form"), params, indirect=["url"])


SERVERS = [(database, form) for database in ("postgres", "mysql") for form in ("lease", "row_lock", "advisory")]


@on(("sqlite", "lease"), ("sqlite", "advisory"), *SERVERS)
async def test_mixed_answers_and_kills(url: str, form: str, processes: Processes, queues: Queues) -> None:
    alone = url.startswith("sqlite") and form == "advisory"  # on SQLite its keys are one process's
    queue = await queues.open(url, form)
    planned = [plan for plan, count in PLANS.items() for _ in range(count)]
    plans: dict[int, str] = {}
    for _ in range(ROWS // 100):
        plans |= dict(zip(await queue.publish_all([plan.encode() for plan in planned]), planned, strict=True))
    crew = Crew(processes, url, form, "--workers", str(WORKERS), count=1 if alone else 2)
    await crew.start()
    await crew.work_until_empty(queue, kills=KILLS, seconds=900.0)
    await crew.stop()
    assert crew.kills == KILLS

    dead = {row_id: attempt for row_id, group, attempt in await queue.rows() if group == "jobs.dead"}
    assert set(dead) == {row_id for row_id, plan in plans.items() if plan in {"fail", "bury"}}, "each row ended as it was to end"
    assert set(crew.of_rows()) == set(plans), "and none without being run"
    assert max(crew.count("SETTLED", "BURIED").values()) == 1, "none was settled twice"
    assert crew.count("LATE").total() == 0, "nobody stood still for as long as a lease"
    for row_id, attempt in dead.items():
        started = [event.attempt for event in crew.of_row(row_id) if event.word == "STARTED"]
        assert attempt == max(started) or (form != "row_lock" and attempt > MAX_ATTEMPTS), (row_id, attempt, started)
    check_attempts(crew, form)
    check_delays(crew, {row_id for row_id, plan in plans.items() if plan == "delay"})


def check_attempts(crew: Crew, form: str) -> None:
    """A claim counts under leases and advisory locks; under row locks a settlement does, so a crash spends none."""
    again = skipped = 0
    for events in crew.of_rows().values():
        attempts = [event.attempt for event in events if event.word == "STARTED"]
        assert attempts == sorted(attempts), events
        again += len(attempts) - len(set(attempts))
        skipped += attempts[-1] - len(set(attempts))
        assert attempts[-1] <= MAX_ATTEMPTS, events
    in_work = crew.kills * WORKERS
    if form == "row_lock":
        assert skipped == 0
        assert again <= in_work, "only what was in work is run again by the same number"
    else:
        assert again == 0, "each claim has a number of its own"
        assert skipped <= (2 * in_work if form == "lease" else in_work), "only what was claimed and not started is passed over"


def check_delays(crew: Crew, delayed: set[int]) -> None:
    for row_id in delayed:
        events = crew.of_row(row_id)
        for before, after in pairwise(events):
            if before.word == "ANSWERED" and after.word == "STARTED" and before.attempt == 1 and after.attempt == 2:
                waited = after.moment - before.moment
                killed = any(before.moment - 0.1 < kill < after.moment for kill in crew.killed_at)  # before its answer was committed
                assert waited > DELAY_SECONDS - 0.02 or killed, events


@on(*[pair for pair in SERVERS if pair[1] != "advisory"], ("sqlite", "lease"))
async def test_order_within_groups(url: str, form: str, processes: Processes, queues: Queues) -> None:
    queue = await queues.open(url, form, fifo=True)
    names = [f"group-{n}" for n in range(GROUPS)]
    groups: dict[int, str] = {}
    for name in names:
        groups |= dict.fromkeys(await queue.publish_all([b"any"] * ROWS_OF_A_GROUP, group=name), name)
    arguments = ["--fifo", "--groups", ",".join(names), "--workers", "1", "--pool", "18"]
    crew = Crew(processes, url, form, *arguments, count=3)
    await crew.start()
    await crew.work_until_empty(queue, kills=KILLS, seconds=900.0)
    await crew.stop()
    assert await queue.rows() == []
    assert set(crew.of_rows()) == set(groups)
    assert max(crew.count("SETTLED").values()) == 1
    for name in names:
        order = [event.row_id for event in crew.events if groups[event.row_id] == name and event.word in {"STARTED", "ANSWERED"}]
        assert order == sorted(order), f"in {name}, a row was run before the one ahead of it was finished"
