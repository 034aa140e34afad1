"""What a killed worker leaves behind, and how one ends that is asked to."""

from __future__ import annotations

import signal

import pytest

from tests.processes.conftest import Queues
from tests.processes.process import Processes, ended, of

POLL = 0.1


MYSQL = tuple(("mysql", form) for form in ("lease", "row_lock", "advisory"))
SQLITE_LEASE, LEASE, ROW_LOCK, ADVISORY = ("sqlite", "lease"), ("postgres", "lease"), ("postgres", "row_lock"), ("postgres", "advisory")
MYSQL_LEASE, MYSQL_ROW_LOCK, MYSQL_ADVISORY = ("mysql", "lease"), ("mysql", "row_lock"), ("mysql", "advisory")


def on(*pairs: tuple[str, str], slow: tuple[tuple[str, str], ...] = ()) -> pytest.MarkDecorator:
    """The databases and forms that a test runs on; on some of them it is a slow one."""
    params = []
    for database, form in (*pairs, *slow):
        marks = [] if database == "sqlite" else [getattr(pytest.mark, database)]
        marks += [pytest.mark.slow] if (database, form) in slow else []
        params.append(pytest.param(database, form, id=f"{database}-{form}", marks=marks))
    return pytest.mark.parametrize(("url", "form"), params, indirect=["url"])


@on(SQLITE_LEASE, slow=(LEASE, MYSQL_LEASE))
async def test_killed_under_a_lease(url: str, form: str, processes: Processes, queues: Queues) -> None:
    queue = await queues.open(url, form)
    victim = processes.service(url, form, behaviour="hang", lease=1, poll=POLL)
    await of(victim, "READY")
    (row_id,) = await queue.publish(1)
    await of(victim, "STARTED", str(row_id), "1")
    heir = processes.service(url, form, lease=1, poll=POLL)
    await of(heir, "READY")
    victim.kill()
    await of(heir, "STARTED", str(row_id), "2")
    await of(heir, "DONE", str(row_id), "2")
    heir.signal(signal.SIGTERM)
    assert await ended(heir) == 0
    assert await queue.rows() == []


@on(ROW_LOCK, MYSQL_ROW_LOCK, slow=(ADVISORY, MYSQL_ADVISORY))
async def test_killed_under_a_lock(url: str, form: str, processes: Processes, queues: Queues) -> None:
    queue = await queues.open(url, form)
    victim = processes.service(url, form, behaviour="hang", poll=POLL)
    await of(victim, "READY")
    (row_id,) = await queue.publish(1)
    await of(victim, "STARTED", str(row_id), "1")
    heir = processes.service(url, form, poll=POLL)
    await of(heir, "READY")
    victim.kill()  # the server sees the session end; nothing else would free the row
    attempt = "1" if form == "row_lock" else "2"
    await of(heir, "STARTED", str(row_id), attempt)
    await of(heir, "DONE", str(row_id), attempt)
    heir.signal(signal.SIGTERM)
    assert await ended(heir) == 0
    assert await queue.rows() == []


@on(SQLITE_LEASE, ROW_LOCK, slow=(LEASE, ADVISORY, MYSQL_LEASE, MYSQL_ROW_LOCK, MYSQL_ADVISORY))
async def test_asked_to_end_it_cuts_handlers_off_and_gives_their_rows_back(
    url: str, form: str, processes: Processes, queues: Queues
) -> None:
    queue = await queues.open(url, form)
    ids = await queue.publish(4)
    worker = processes.service(url, form, behaviour="hang", workers=2, prefetch=2, grace=0.3, lease=60)
    for _ in range(2):
        await of(worker, "STARTED")
    worker.signal(signal.SIGTERM)
    assert await ended(worker, 10.0) == 0, "sooner than by the graceful timeout that a broker has unless told, 15 s"
    assert [line[0] for line in worker.rest()] == ["CUT", "CUT"]
    assert await queue.rows() == [(row_id, "jobs", 1) for row_id in ids], "every attempt was given back"
    heir = processes.service(url, form, lease=60)
    for _ in ids:
        assert (await of(heir, "DONE"))[2] == "1"
    heir.signal(signal.SIGTERM)
    assert await ended(heir) == 0
    assert await queue.rows() == []


@on(LEASE, slow=(SQLITE_LEASE, ROW_LOCK, ADVISORY, MYSQL_LEASE, MYSQL_ROW_LOCK, MYSQL_ADVISORY))
async def test_asked_to_end_it_lets_a_handler_finish(url: str, form: str, processes: Processes, queues: Queues) -> None:
    queue = await queues.open(url, form)
    await queue.publish(3)
    worker = processes.service(url, form, behaviour="slow", seconds=0.5, grace=10)
    await of(worker, "STARTED")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGTERM)  # the second one changes nothing
    assert await ended(worker) == 0
    assert [line[0] for line in worker.rest() if line[0] != "READY"] == ["DONE"]
    assert [row[2] for row in await queue.rows()] == [1, 1]


@on(SQLITE_LEASE, slow=(LEASE, ROW_LOCK, ADVISORY, MYSQL_LEASE, MYSQL_ROW_LOCK, MYSQL_ADVISORY))
async def test_a_handler_that_ignores_its_cancellation_does_not_keep_the_process(
    url: str, form: str, processes: Processes, queues: Queues
) -> None:
    queue = await queues.open(url, form)
    (row_id,) = await queue.publish(1)
    worker = processes.service(url, form, behaviour="stubborn", seconds=30, grace=0.2, lease=1)
    await of(worker, "STARTED")
    worker.signal(signal.SIGTERM)
    await ended(worker, 10.0)  # the handler goes on for 30 s
    heir = processes.service(url, form, lease=1)
    attempt = "1" if form == "row_lock" else "2"
    await of(heir, "DONE", str(row_id), attempt)
    heir.signal(signal.SIGTERM)
    assert await ended(heir) == 0
    assert await queue.rows() == []
