"""A worker that stands still for longer than its lease: its row is run elsewhere, and its own late settlement is void."""

from __future__ import annotations

import signal

import pytest

from tests.processes.conftest import Queues
from tests.processes.process import Processes, ended, of

PAIRS = [
    pytest.param("sqlite", "lease", id="sqlite-lease"),
    pytest.param("postgres", "lease", id="postgres-lease", marks=[pytest.mark.postgres, pytest.mark.slow]),
    pytest.param("mysql", "lease", id="mysql-lease", marks=[pytest.mark.mysql, pytest.mark.slow]),
]


@pytest.mark.parametrize(("url", "form"), PAIRS, indirect=["url"])
async def test_stopped_for_longer_than_its_lease(url: str, form: str, processes: Processes, queues: Queues) -> None:
    queue = await queues.open(url, form)
    (row_id,) = await queue.publish(1)
    sleeper = processes.service(url, form, behaviour="slow", seconds=0.3, lease=1)
    await of(sleeper, "STARTED", str(row_id), "1")
    sleeper.signal(signal.SIGSTOP)
    heir = processes.service(url, form, behaviour="slow", seconds=1.0, lease=1)
    await of(heir, "STARTED", str(row_id), "2")
    sleeper.signal(signal.SIGCONT)
    await of(sleeper, "LOST", str(row_id), "1")
    assert await queue.rows() == [(row_id, "jobs", 3)], "the heir's claim stands as it was"
    await of(heir, "DONE", str(row_id), "2")
    await queue.until_empty()
    for process in (sleeper, heir):
        process.signal(signal.SIGTERM)
        assert await ended(process) == 0
    assert "LOST" not in [line[0] for line in heir.rest()]
