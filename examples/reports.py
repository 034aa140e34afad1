"""A report service: a report takes five minutes to draw, and its row is held under a lease of one minute.

While the handler draws, the subscription renews the lease every half minute, so the report is delivered once. A process that crashes in the
middle stops renewing: its row comes back within a minute, as a second attempt.

    python examples/reports.py                     # one report, five minutes
    python examples/reports.py --minute 1          # the same with minutes of one second
    faststream run examples.reports:app            # as a service

The table is a file, `reports.db` in the working folder, or the URL in `REPORTS_URL`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from datetime import datetime, timedelta
from typing import Annotated

import aiosqlite
from faststream import FastStream
from pydantic import BaseModel

from faststream_sql import Attempt, Id, Inbox, LockedUntil, Payload, SQLBroker
from faststream_sql.annotations import AttemptNumber

SCHEMA = """
CREATE TABLE IF NOT EXISTS report_jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    attempt INTEGER NOT NULL DEFAULT 1,
    locked_until TEXT,
    payload BLOB NOT NULL
)
"""

logger = logging.getLogger("reports")


class RenderReport(Inbox, table="report_jobs"):
    """One row of `report_jobs`: `locked_until` holds it under a lease."""

    id: Annotated[int, Id()]
    attempt: Annotated[int, Attempt()]
    locked_until: Annotated[datetime | None, LockedUntil()]
    payload: Annotated[bytes, Payload()]


class Report(BaseModel):
    number: int


def service(url: str, minute: timedelta = timedelta(minutes=1)) -> FastStream:
    """The service on the database that `url` names. `minute` is how long a minute of it lasts: at least a second."""
    broker = SQLBroker(url, tables={"reports": RenderReport})  # nothing connects here
    app = FastStream(broker)

    @app.on_startup
    async def create_schema() -> None:  # before the subscription checks it
        async with aiosqlite.connect(url.removeprefix("sqlite:///")) as connection:
            await connection.execute(SCHEMA)
            await connection.commit()

    @broker.subscriber("reports", lease=minute)
    async def render(report: Report, attempt: AttemptNumber) -> None:
        if attempt is not None and attempt > 1:
            logger.warning("rendering report %d again after a lost attempt: this is attempt %d", report.number, attempt)
        await draw(5 * minute)
        logger.info("report %d rendered", report.number)
        if stop_when_done:
            app.exit()

    return app


async def draw(takes: timedelta) -> None:
    """Draws a report. A real one would work in a thread or another process, and never block the event loop."""
    await asyncio.sleep(takes.total_seconds())


stop_when_done = False
app = service(os.environ.get("REPORTS_URL", "sqlite:///reports.db"))


async def one_report(minute: timedelta) -> None:
    """Publish a report, render it, and leave."""
    global stop_when_done  # noqa: PLW0603 - a script's own switch
    stop_when_done = True
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    service_app = service(os.environ.get("REPORTS_URL", "sqlite:///reports.db"), minute)

    @service_app.after_startup
    async def publish() -> None:
        await service_app.brokers[0].publish(Report(number=1), "reports")

    await service_app.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minute", type=float, default=60.0, metavar="SECONDS", help="how long a minute lasts, at least 1 (default: 60)")
    asyncio.run(one_report(timedelta(seconds=parser.parse_args().minute)))
