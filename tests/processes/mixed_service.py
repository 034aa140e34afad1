"""Run as a script: a service whose rows end in every way, as their payloads say. A line for each thing that happens, with its moment.

READY                          the broker is started
STARTED id attempt moment      a handler began
ANSWERED id attempt moment     it is about to raise, or to answer
SETTLED id attempt moment      it finished the row, and that is committed
BURIED id attempt moment       it sent the row to the dead letter, and that is committed
LATE id attempt moment         its settlement came too late, and changed nothing
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import time

from faststream import AckPolicy, FastStream

from faststream_sql import LeaseLostError, SQLBroker
from faststream_sql.annotations import SQLMessage
from tests.processes.tables import described

DELAY_SECONDS = 0.3
MAX_ATTEMPTS = 5


def say(word: str, message: SQLMessage) -> None:
    line = f"{word} {message.row_id} {message.attempt} {time.monotonic():.6f}\n"
    os.write(1, line.encode())  # one write: a process that is killed leaves whole lines


async def work(message: SQLMessage) -> None:
    """What the payload says: `ack`, `retry`, `delay`, `fail`, `bury`, or `any` for a row that is unlucky now and then."""
    say("STARTED", message)
    await asyncio.sleep(random.uniform(0.0, 0.004))
    try:
        await answer(message, message.body.decode())
    except LeaseLostError:
        say("LATE", message)


async def answer(message: SQLMessage, plan: str) -> None:
    if plan == "any":
        plan = random.choices(["ack", "raise", "again"], [8, 1, 1])[0]
    say("ANSWERED", message)
    if plan in {"fail", "raise"}:
        raise ValueError(plan)
    if plan == "bury":
        await message.dead_letter()
        say("BURIED", message)
    elif plan == "again" or (plan in {"retry", "delay"} and message.attempt == 1):
        await message.nack(**({"delay": DELAY_SECONDS} if plan == "delay" else {}))
    else:
        await message.ack()
        say("SETTLED", message)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("form")
    parser.add_argument("--groups", default="jobs")
    parser.add_argument("--fifo", action="store_true")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--pool", type=int, default=18)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    broker = SQLBroker(
        asked.url,
        table=described(asked.form, fifo=asked.fifo),
        lease=2,
        poll_interval=0.2,
        pool_size=asked.pool,
        acquire_timeout=30,
        graceful_timeout=5,
        logger=logging.getLogger("service"),
    )
    limits = {} if asked.fifo else {"max_attempts": MAX_ATTEMPTS, "dead_letter": "jobs.dead"}
    for group in asked.groups.split(","):
        broker.subscriber(group, max_workers=asked.workers, backoff=0.05, ack_policy=AckPolicy.NACK_ON_ERROR, **limits)(work)
    app = FastStream(broker)
    app.after_startup(lambda: os.write(1, b"READY\n"))
    asyncio.run(app.run())


if __name__ == "__main__":
    main()
