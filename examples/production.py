"""A mailer in production shape, on Postgres: eight workers under row locks, five attempts, a dead letter group.

The connection's settings come from the `PG*` environment variables (`PGHOST`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`, …).

    faststream run examples.production:app --workers 2

A process needs a pool of nine connections: one for each letter in work, which holds its row's lock, and one that is always left for
publishes, settlements and the handlers' own queries.
"""

from __future__ import annotations

import logging
from typing import Annotated

import asyncpg
from faststream import FastStream
from pydantic import BaseModel

from faststream_sql import Attempt, Group, Id, Inbox, Payload, SQLBroker
from faststream_sql.annotations import AttemptNumber

# The service's first migration. A real service keeps it in a file, for its migration tool to run.
MIGRATION = """
CREATE TABLE IF NOT EXISTS email_jobs (
    job_id  BIGSERIAL PRIMARY KEY,
    name    TEXT NOT NULL,
    attempt SMALLINT NOT NULL DEFAULT 1,
    payload BYTEA NOT NULL
);
CREATE INDEX IF NOT EXISTS email_jobs_claim ON email_jobs (name, job_id);
"""

WORKERS = 8

logger = logging.getLogger("mailer")


class SendEmail(Inbox, table="email_jobs"):
    """One row of `email_jobs`. It names no other form, so a row in work is held by a row lock."""

    job_id: Annotated[int, Id()]
    name: Annotated[str, Group()]
    attempt: Annotated[int, Attempt()]
    payload: Annotated[bytes, Payload()]


class Email(BaseModel):
    to: str


def service(url: str = "postgresql://") -> FastStream:
    """The service on the database that `url` names; the default takes everything from the environment."""
    broker = SQLBroker(
        url,
        tables={"emails": SendEmail, "emails.dead": SendEmail},
        pool_size=WORKERS + 1,
        acquire_timeout=5.0,
        label="postgres",  # names the server in the AsyncAPI document
    )
    app = FastStream(broker)

    @app.on_startup
    async def migrate() -> None:  # the schema that this release reads is there before the checks look at it
        connection = await asyncpg.connect(None if url == "postgresql://" else url)
        try:
            await connection.execute(MIGRATION)
        finally:
            await connection.close()

    @broker.subscriber("emails", max_workers=WORKERS, max_attempts=5, dead_letter="emails.dead")
    async def send(email: Email, attempt: AttemptNumber) -> None:
        logger.info("sending to %s, attempt %s", email.to, attempt)

    return app


app = service()
