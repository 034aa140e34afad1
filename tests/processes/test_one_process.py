"""On SQLite advisory locks are held in the process, so the file has one process that uses them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from faststream_sql import QueueTable, SQLBroker
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
