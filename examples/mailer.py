"""A mailer: letters go out through a provider that refuses in three ways, and each refusal has its own outcome.

busy         its rate limit is spent: the letter waits, one second more with each attempt
unavailable  it did not answer: the letter is tried again at once
rejected     the mailbox does not exist: the letter is dropped, since every attempt would get the same answer

After five failed deliveries a letter moves to the group `emails.dead` of the same table, where `review` reads it.

    python examples/mailer.py                      # a few letters, and what becomes of them
    faststream run examples.mailer:app             # as a service

The table is a file, `mail.db` in the working folder, or the URL in `MAIL_URL`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import datetime, timedelta
from typing import Annotated, Literal

import aiosqlite
from faststream import FastStream
from faststream.exceptions import NackMessage, RejectMessage
from pydantic import BaseModel

from faststream_sql import Attempt, Group, Id, Inbox, LockedUntil, Payload, RetryAfter, SQLBroker
from faststream_sql.annotations import AttemptNumber

SCHEMA = """
CREATE TABLE IF NOT EXISTS mail_jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1,
    retry_after TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')),
    locked_until TEXT,
    payload BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS mail_jobs_claim ON mail_jobs (name, retry_after, id)
"""

BACKOFF = timedelta(seconds=1)
"""How much longer each attempt waits after the provider said that it was busy."""

logger = logging.getLogger("mailer")


class MailJob(Inbox, table="mail_jobs"):
    """One row of `mail_jobs`; `name` is the queue that the row waits in."""

    id: Annotated[int, Id()]
    name: Annotated[str, Group()]
    attempt: Annotated[int, Attempt()]
    retry_after: Annotated[datetime, RetryAfter()]
    locked_until: Annotated[datetime | None, LockedUntil()]
    payload: Annotated[bytes, Payload()]


class Mail(BaseModel):
    to: str
    text: str = ""


Refusal = Literal["busy", "unavailable", "rejected"]


class Provider:
    """Stands in for a mail provider: who a letter goes to says what it answers."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def deliver(self, mail: Mail, attempt: int) -> Refusal | None:
        """Send a letter; None where it went out."""
        name = mail.to.split("@")[0]
        if name == "nobody":
            return "rejected"
        if name == "flaky" and attempt < 3:
            return "unavailable"
        if name == "crowd":
            return "busy"
        self.sent.append(mail.to)
        return None


def service(url: str, *, provider: Provider | None = None, backoff: timedelta = BACKOFF, access_log: int = logging.INFO) -> FastStream:
    """The service on the database that `url` names. `access_log` is the level of the two lines that FastStream writes for each message."""
    mails = provider or Provider()
    broker = SQLBroker(url, tables={"emails": MailJob, "emails.dead": MailJob}, poll_interval=0.2, log_level=access_log)
    app = FastStream(broker)

    @app.on_startup
    async def create_schema() -> None:  # before the subscriptions check it
        if url.startswith("sqlite:///"):
            async with aiosqlite.connect(url.removeprefix("sqlite:///")) as connection:
                await connection.executescript(SCHEMA)

    @broker.subscriber("emails", max_attempts=5, dead_letter="emails.dead")
    async def send(mail: Mail, attempt: AttemptNumber) -> None:
        number = attempt or 1
        match await mails.deliver(mail, number):
            case None:
                logger.info("%s: sent on attempt %d", mail.to, number)
            case "busy":
                logger.info("%s: busy on attempt %d, waits %s", mail.to, number, backoff * number)
                raise NackMessage(delay=backoff * number)
            case "unavailable":
                logger.info("%s: no answer on attempt %d, again at once", mail.to, number)
                raise NackMessage
            case "rejected":
                logger.warning("%s: address rejected, dropped", mail.to)
                raise RejectMessage

    @broker.subscriber("emails.dead")
    async def review(mail: Mail, attempt: AttemptNumber) -> None:
        logger.error("%s: not sent after %s attempts, needs a person", mail.to, attempt)

    return app


app = service(os.environ.get("MAIL_URL", "sqlite:///mail.db"))


async def demo(url: str, backoff: timedelta = BACKOFF) -> None:
    """Publish four letters and follow them to their ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")
    mailer = service(url, backoff=backoff, access_log=logging.DEBUG)
    broker = mailer.brokers[0]

    @mailer.after_startup
    async def publish() -> None:
        for to in ("ann@example.org", "flaky@example.org", "nobody@example.org", "crowd@example.org"):
            await broker.publish(Mail(to=to), "emails")
        logger.info("four letters published; the last one will meet a busy provider five times")

    async def leave_when_done() -> None:
        path = url.removeprefix("sqlite:///")
        while True:
            await asyncio.sleep(0.2)
            async with aiosqlite.connect(path) as connection, connection.execute("SELECT count(*) FROM mail_jobs") as cursor:
                row = await cursor.fetchone()
            if row is not None and row[0] == 0:
                logger.info("no letter is left: every one was sent, dropped or reviewed")
                mailer.exit()
                return

    @mailer.after_startup
    async def watch() -> None:
        mailer.context.set_global("watcher", asyncio.get_running_loop().create_task(leave_when_done()))

    await mailer.run(log_level=logging.WARNING)


if __name__ == "__main__":
    asyncio.run(demo(os.environ.get("MAIL_URL", "sqlite:///mail.db")))
