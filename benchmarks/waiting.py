"""What an idle subscription costs, how soon it wakes, and how much memory a backlog takes."""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time

import asyncpg
import psutil

from benchmarks.common import BODY
from benchmarks.drains import empty, table
from faststream_sql import SQLBroker

FILL = "INSERT INTO bench_jobs (name, retry_after, attempt, payload) SELECT 'orders', now(), 1, $1 FROM generate_series(1, $2)"


async def latency(url: str, messages: int, *, other_broker: bool) -> tuple[float, float]:
    """From `publish` to the handler of an idle subscription, in milliseconds: the median and the 95th percentile.

    `other_broker`: published by a broker that shares nothing with the reader's, which hears of it by `listen_notify`.
    """
    started, heard = 0.0, asyncio.Event()
    found: list[float] = []
    reader = SQLBroker(url, table=table("lease"), logger=None, poll_interval=5.0, listen_notify=other_broker)
    writer = SQLBroker(url, table=table("lease"), logger=None, listen_notify=True) if other_broker else reader

    @reader.subscriber("orders")
    async def handle(body: dict[str, int]) -> None:
        found.append((time.perf_counter() - started) * 1000)
        heard.set()

    await empty(reader)
    await reader.start()
    await writer.connect()
    for number in range(messages):
        heard.clear()
        started = time.perf_counter()
        await writer.publish({"number": number}, "orders")
        await heard.wait()
        await asyncio.sleep(0.01)  # the acknowledgement, and the claim that finds nothing
    await reader.stop()
    await writer.stop()
    return statistics.median(found), statistics.quantiles(found, n=20)[-1]


async def idle_statements(url: str, polls: int) -> float:
    """Statements on the table that an idle subscription of sixteen workers sends per poll interval."""
    texts: list[str] = []

    async def listen(connection: asyncpg.Connection) -> None:
        connection.add_query_logger(lambda record: texts.append(record.query))

    async with asyncpg.create_pool(url, min_size=1, max_size=4, init=listen) as pool:
        broker = SQLBroker(pool, table=table("lease"), logger=None, poll_interval=0.1)

        @broker.subscriber("orders", max_workers=16)
        async def handle(body: dict[str, int]) -> None: ...

        await empty(broker)
        await broker.start()
        await asyncio.sleep(0.05)
        texts.clear()
        await asyncio.sleep(0.1 * polls)
        count = sum("bench_jobs" in text for text in texts)
        await broker.stop()
    return count / polls


async def memory(url: str, waiting: int) -> float:
    """Megabytes that a started subscription takes beyond what it takes on an empty table, with so many rows waiting."""
    return await _resident_of_process(url, waiting) - await _resident_of_process(url, 0)


async def _resident_of_process(url: str, waiting: int) -> float:
    command = (sys.executable, "-m", "benchmarks.waiting", url, str(waiting))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    return float(output)


async def _resident(url: str, waiting: int) -> float:
    broker = SQLBroker(url, table=table("lease"), logger=None, graceful_timeout=0.1)
    entered = asyncio.Event()

    @broker.subscriber("orders", max_workers=16)
    async def handle(body: object) -> None:
        entered.set()
        await asyncio.sleep(3600)

    await empty(broker)
    connection = await asyncpg.connect(url)
    await connection.execute(FILL, BODY, waiting)
    await connection.close()
    await broker.start()
    if waiting:
        await entered.wait()
    await asyncio.sleep(1.0)
    gc.collect()
    found: float = psutil.Process().memory_info().rss / 1e6
    await broker.stop()
    return found


if __name__ == "__main__":
    print(asyncio.run(_resident(sys.argv[1], int(sys.argv[2]))))
