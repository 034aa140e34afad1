"""On SQLite advisory locks are held in the process, so the file has one process that uses them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from faststream_sql import QueueTable, SQLBroker
from faststream_sql.annotations import AttemptNumber
from tests.docs.pages import ROOT

SCRIPT = """
import asyncio, sys
from faststream_sql import QueueTable, SQLBroker, SQLBrokerError

broker = SQLBroker(sys.argv[1], QueueTable("jobs", id="id", payload="payload", advisory_lock="jobs-{id}"), logger=None)

@broker.subscriber("jobs")
async def handle(body: str) -> None: ...

async def main() -> None:
    try:
        await broker.start()
    except SQLBrokerError as error:
        print(type(error).__name__, error)
    else:
        print("started")
        await broker.stop()

asyncio.run(main())
"""


async def second_process(url: str) -> str:
    run = [sys.executable, "-c", SCRIPT, url]
    done = await asyncio.to_thread(subprocess.run, run, stdout=subprocess.PIPE, text=True, check=True, env={"PYTHONPATH": str(ROOT)})
    return str(done.stdout)


async def test_a_second_process_on_a_file_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    broker = SQLBroker(url, QueueTable("jobs", id="id", payload="payload", advisory_lock="jobs-{id}"), logger=None)

    @broker.subscriber("jobs")
    async def handle(body: str) -> None: ...

    await broker.create_tables()
    await broker.start()
    try:
        told = await second_process(url)
        assert told.startswith("DeclarationError another process has the advisory locks of 'jobs.db'")
        assert "LockedUntil" in told
    finally:
        await broker.stop()
    assert await second_process(url) == "started\n"


async def test_two_brokers_of_one_process_share_the_keys(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    table = QueueTable("jobs", id="id", attempt="attempt", payload="payload", advisory_lock="jobs-{id}")
    brokers = [SQLBroker(url, table, poll_interval=0.05, logger=None) for _ in range(2)]
    handled: list[tuple[int, int]] = []
    done = asyncio.Event()

    async def handle(body: int, attempt: AttemptNumber) -> None:
        await asyncio.sleep(0.001)  # the other broker claims meanwhile
        handled.append((body, attempt))
        if len(handled) >= 200:
            done.set()

    for broker in brokers:
        broker.subscriber("jobs", max_workers=4)(handle)
    await brokers[0].create_tables()
    await brokers[0].publish_batch(*range(200), queue="jobs")
    await asyncio.gather(*(broker.start() for broker in brokers))
    try:
        await asyncio.wait_for(done.wait(), 20)
    finally:
        await asyncio.gather(*(broker.stop() for broker in brokers))
    assert sorted(handled) == [(body, 1) for body in range(200)]
