"""Several processes on one table: each row is handled once, and none is lost."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

import pytest

from tests.processes.conftest import Queues
from tests.processes.process import Process, Processes, ended, of

PROCESSES = 3
WORKERS = 8
PAIRS = [
    pytest.param("sqlite", "lease", id="sqlite-lease"),
    pytest.param("postgres", "lease", id="postgres-lease", marks=pytest.mark.postgres),
    pytest.param("postgres", "row_lock", id="postgres-row_lock", marks=pytest.mark.postgres),
    pytest.param("postgres", "advisory", id="postgres-advisory", marks=[pytest.mark.postgres, pytest.mark.slow]),
    *(
        pytest.param("mysql", form, id=f"mysql-{form}", marks=[pytest.mark.mysql, pytest.mark.slow])
        for form in ("lease", "row_lock", "advisory")
    ),
]


def read(process: Process, done: Counter[str]) -> None:
    """Every line until the process ends."""
    while (line := process.next(60.0)) is not None:
        assert line[0] in {"READY", "DONE"}, (line, process.log())
        if line[0] == "DONE":
            assert line[2] == "1", "nobody met a row a second time"
            done[line[1]] += 1


@pytest.mark.parametrize("count", [1000, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("url", "form"), PAIRS, indirect=["url"])
async def test_each_once(url: str, form: str, count: int, processes: Processes, queues: Queues) -> None:
    queue = await queues.open(url, form)
    workers = [processes.service(url, form, workers=WORKERS, pool=WORKERS + 1, quiet=True) for _ in range(PROCESSES)]
    for worker in workers:
        await of(worker, "READY")
    ids = await queue.publish(count)
    counted = [Counter[str]() for _ in workers]
    readers = [asyncio.create_task(asyncio.to_thread(read, worker, done)) for worker, done in zip(workers, counted, strict=True)]
    await queue.until_empty(50.0)
    for worker in workers:
        worker.signal(signal.SIGTERM)
    for worker in workers:
        assert await ended(worker) == 0
    await asyncio.gather(*readers)
    assert sum(counted, Counter[str]()) == Counter(map(str, ids))
    assert all(counted), "every process had its share"
    errors = "".join(worker.log() for worker in workers)
    assert "ERROR" not in errors, errors
