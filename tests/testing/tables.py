"""The tables of these tests, one for each form."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel

from faststream_sql import Attempt, Group, Id, Inbox, LockedUntil, Payload, QueueTable, RetryAfter


class MailJob(Inbox, table="mail_jobs"):
    id: Annotated[int, Id(column="job_id")]
    name: Annotated[str, Group()]
    attempt: Annotated[int, Attempt()]
    retry_after: Annotated[datetime, RetryAfter()]
    locked_until: Annotated[datetime | None, LockedUntil()]
    payload: Annotated[bytes, Payload()]
    account: int | None = None


class ReportJob(Inbox, table="report_jobs"):
    id: Annotated[int, Id()]
    attempt: Annotated[int, Attempt()]
    locked_until: Annotated[datetime | None, LockedUntil()]
    payload: Annotated[bytes, Payload()]


class Mail(BaseModel):
    to: str


FORMS = ("lease", "row_lock", "advisory")


def table(form: str, **changes: Any) -> QueueTable:
    columns: dict[str, Any] = {
        "id": "id",
        "group": "name",
        "priority": "priority",
        "retry_after": "retry_after",
        "attempt": "attempt",
        "headers": "headers",
        "payload": "payload",
        **changes,
    }
    if form == "lease":
        columns["locked_until"] = "locked_until"
    if form == "advisory":
        columns.setdefault("advisory_lock", "jobs-{id}")
    return QueueTable("jobs", **{name: column for name, column in columns.items() if column is not None})
