"""Run as a script: a service with one subscriber, which says on its standard output what it does, for a test to act upon.

READY              the broker is started
STARTED id attempt a handler began
DONE id attempt    a handler ended by itself
CUT id attempt     a handler was cancelled
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import time

from faststream import FastStream

from faststream_sql import LeaseLostError, SQLBroker
from faststream_sql.annotations import SQLMessage
from tests.processes.tables import described


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # one write: a process that is killed leaves whole lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("form", choices=["lease", "row_lock", "advisory"])
    parser.add_argument("--behaviour", default="quick", choices=["quick", "hang", "stubborn", "stubborn_for_ever", "slow", "block", "once"])
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--lease", type=int, default=30)
    parser.add_argument("--poll", type=float, default=0.1)
    parser.add_argument("--grace", type=float, default=15.0)
    parser.add_argument("--command-timeout", type=float, default=30.0)
    parser.add_argument("--max-attempts", type=int)
    parser.add_argument("--pool", type=int, default=10)
    parser.add_argument("--quiet", action="store_true", help="no line when a handler starts")
    return parser.parse_args()


def service(asked: argparse.Namespace) -> FastStream:
    broker = SQLBroker(
        asked.url,
        table=described(asked.form),
        lease=asked.lease,
        poll_interval=asked.poll,
        graceful_timeout=asked.grace,
        command_timeout=asked.command_timeout,
        pool_size=asked.pool,
        logger=logging.getLogger("service"),
        on_lease_lost=lambda message: say("LOST", message.row_id, message.attempt),
    )
    limits = {} if asked.max_attempts is None else {"max_attempts": asked.max_attempts, "dead_letter": "jobs.dead"}

    @broker.subscriber("jobs", max_workers=asked.workers, prefetch=asked.prefetch, **limits)
    async def handle(message: SQLMessage) -> None:
        if not asked.quiet:
            say("STARTED", message.row_id, message.attempt)
        try:
            await behave(asked, message)
        except asyncio.CancelledError:
            say("CUT", message.row_id, message.attempt)
            raise
        say("DONE", message.row_id, message.attempt)

    app = FastStream(broker)
    app.after_startup(lambda: say("READY"))
    return app


async def behave(asked: argparse.Namespace, message: SQLMessage) -> None:
    match asked.behaviour:
        case "hang":
            await asyncio.Event().wait()
        case "once":  # the first delivery hangs, later ones go through
            if message.attempt == 1:
                await asyncio.Event().wait()
        case "slow":
            await asyncio.sleep(asked.seconds)
        case "block":
            time.sleep(asked.seconds)  # noqa: ASYNC251
        case "stubborn":  # cancelled, it goes on for a while, and settles
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(asked.seconds)
                try:
                    await message.ack()
                except LeaseLostError:
                    say("LATE", message.row_id, message.attempt)
        case "stubborn_for_ever":
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    say("IGNORED", message.row_id, message.attempt)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)  # on the standard error
    asyncio.run(service(arguments()).run())
