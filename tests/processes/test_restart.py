"""A server that is restarted, or crashes, under load: workers go on by themselves, and nothing is lost."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from faststream_sql import SQLBrokerError
from tests.processes.conftest import Queue, Queues
from tests.processes.process import Process, Processes, ended, of
from tests.servers import PrivateMariaDB, PrivatePostgres, PrivateServer, ServerUnavailableError, skip_without

COUNT = 300


SERVERS: dict[str, type[PrivateServer]] = {"postgres": PrivatePostgres, "mysql": PrivateMariaDB}


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[PrivateServer]:
    try:
        with SERVERS[request.param]() as started:
            yield started
    except ServerUnavailableError as error:
        skip_without(error)


QUICK = {("postgres", "lease", "immediate"), ("postgres", "row_lock", "immediate"), ("mysql", "row_lock", "kill")}
WAYS = {"postgres": ("immediate", "fast", "kill"), "mysql": ("fast", "kill")}
CASES = [
    pytest.param(
        *(case := (database, form, way)),
        id="-".join(case),
        marks=[getattr(pytest.mark, database), *([] if case in QUICK else [pytest.mark.slow])],
    )
    for database, ways in WAYS.items()
    for form in ("lease", "row_lock", "advisory")
    for way in ways
]


def fail(server: PrivateServer, way: str) -> float:
    """Take the server down and up again; returns when it was up."""
    if way == "kill":
        server.kill()
        server.start()
    else:
        server.restart("immediate" if way == "immediate" else "fast")
    return time.monotonic()


class Seen:
    """What the workers said: which rows they ended, how often, and when."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.moments: list[list[float]] = []

    def read(self, worker: Process) -> None:
        moments: list[float] = []
        self.moments.append(moments)
        while (line := worker.next(60.0)) is not None:
            if line[0] == "DONE":
                self.done[line[1]] += 1
                moments.append(time.monotonic())


async def until_empty(queue: Queue) -> None:
    """Our own session is cut off too, and its first statement after that fails."""
    for last in (False, False, True):
        try:
            await queue.until_empty(30.0)
        except SQLBrokerError:
            if last:
                raise
        else:
            return


@pytest.mark.parametrize(("server", "form", "way"), CASES, indirect=["server"])
async def test_under_load(server: PrivateServer, form: str, way: str, processes: Processes, queues: Queues) -> None:
    url = server.url()
    queue = await queues.open(url, form)
    await queue.sql("DROP TABLE IF EXISTS jobs")
    queue = await queues.open(url, form)
    workers = [processes.service(url, form, workers=4, behaviour="slow", seconds=0.02, quiet=True, lease=2) for _ in range(2)]
    for worker in workers:
        await of(worker, "READY")
    ids = await queue.publish(COUNT)
    seen = Seen()
    readers = [asyncio.create_task(asyncio.to_thread(seen.read, worker)) for worker in workers]
    while len(seen.done) < COUNT // 4:
        assert all(worker.process.poll() is None for worker in workers), workers[0].log()
        await asyncio.sleep(0.005)
    assert len(seen.done) < COUNT, "there is work left when the server goes"
    came_up = await asyncio.to_thread(fail, server, way)
    await until_empty(queue)
    for worker in workers:
        worker.signal(signal.SIGTERM)
    for worker in workers:
        assert await ended(worker) == 0
    await asyncio.gather(*readers)
    assert set(seen.done) == set(map(str, ids)), "nothing was lost"
    again = sum(seen.done.values()) - COUNT
    assert again <= 2 * 4 * 2, f"{again} were run again, more than were in work"
    for moments in seen.moments:
        assert min(moment for moment in moments if moment > came_up) - came_up < 6.0, "it goes on within seconds"
    assert all(worker.log().count("\n") < 400 for worker in workers), "no storm in the log"
