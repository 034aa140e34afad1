"""The table that the processes of these tests share."""

from __future__ import annotations

from typing import Any

from faststream_sql import QueueTable


def described(form: str, *, fifo: bool = False) -> QueueTable:
    """`jobs`, in a form."""
    more: dict[str, Any] = {"lease": {"locked_until": "locked_until"}, "advisory": {"advisory_lock": "jobs-{id}"}}.get(form, {})
    if fifo:
        more["fifo"] = True
    return QueueTable("jobs", id="id", group="name", retry_after="retry_after", attempt="attempt", payload="payload", **more)
