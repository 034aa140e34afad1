"""What is published: the command that travels through the middlewares, and the response that a handler may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from faststream.response import BatchPublishCommand, PublishCommand, PublishType, Response
from typing_extensions import override

from faststream_sql.broker._faststream import SendableMessage
from faststream_sql.table import QueueTable


class SQLPublishCommand(PublishCommand):
    """One publish, or one batch, on its way to the producer."""

    def __init__(
        self,
        message: SendableMessage,
        *,
        _publish_type: PublishType,
        queue: str = "",
        reply_to: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        delay: float | timedelta | None = None,
        available_at: datetime | None = None,
        priority: int | None = None,
        partition_key: str | None = None,
        columns: Mapping[str, Any] | None = None,
        row_id: Any = None,
        connection: Any = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(
            message,
            _publish_type=_publish_type,
            destination=queue,
            reply_to=reply_to,
            headers=headers,
            correlation_id=correlation_id,
        )
        self.delay = delay
        self.available_at = available_at
        self.priority = priority
        self.partition_key = partition_key
        self.columns = columns
        self.row_id = row_id
        self.connection = connection
        self.timeout = timeout
        self.table: QueueTable | None = None
        """The table to publish into, where that is settled; else the queue's route says."""

    @classmethod
    @override
    def from_cmd(cls, cmd: PublishCommand) -> SQLPublishCommand:
        """This command, or one made of another broker's."""
        if isinstance(cmd, SQLPublishCommand):
            return cmd
        return cls(
            cmd.body,
            queue=cmd.destination,
            reply_to=cmd.reply_to,
            headers=cmd.headers,
            correlation_id=cmd.correlation_id,
            timeout=getattr(cmd, "timeout", None),
            _publish_type=cmd.publish_type,
        )

    def __repr__(self) -> str:
        # neither the body nor the headers: a command's repr ends up in logs
        return f"{type(self).__name__}(queue={self.destination!r}, correlation_id={self.correlation_id!r})"


class SQLBatchPublishCommand(SQLPublishCommand, BatchPublishCommand):
    """A batch: a body and `extra_bodies`, as FastStream's middlewares know it. None, 0 and the like are bodies like any other."""

    def __init__(self, messages: Sequence[SendableMessage], **options: Any) -> None:
        super().__init__(None, **options)
        self.batch_bodies = tuple(messages)

    @property
    @override
    def batch_bodies(self) -> tuple[Any, ...]:
        return () if self._empty else (self.body, *self.extra_bodies)

    @batch_bodies.setter
    def batch_bodies(self, bodies: Sequence[Any]) -> None:
        self._empty = not bodies
        self.body = bodies[0] if bodies else None
        self.extra_bodies = tuple(bodies[1:])

    @classmethod
    @override
    def from_cmd(cls, cmd: PublishCommand, *, batch: bool = False) -> SQLBatchPublishCommand:
        """This command, or one made of another: of its bodies, or with `batch` of the items of its body, where that is a list."""
        if isinstance(cmd, cls):
            return cmd
        bodies: Sequence[Any] = cmd.batch_bodies
        if batch and isinstance(cmd.body, Sequence) and not isinstance(cmd.body, (str, bytes)):
            bodies = cmd.body
        return cls(
            bodies,
            queue=cmd.destination,
            reply_to=cmd.reply_to,
            headers=cmd.headers,
            correlation_id=cmd.correlation_id,
            _publish_type=cmd.publish_type,
        )


class SQLResponse(Response):
    """What a handler returns to say how its answer is published.

    Args:
        body: the answer.
        headers: its headers.
        correlation_id: the request's own unless given.
        delay: how long the answer waits, in seconds or as a timedelta.
        priority: smaller is claimed first.
        partition_key: for tables with that role.
        columns: plain columns by name.
    """

    def __init__(
        self,
        body: SendableMessage,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        delay: float | timedelta | None = None,
        priority: int | None = None,
        partition_key: str | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.delay = delay
        self.priority = priority
        self.partition_key = partition_key
        self.columns = columns

    @override
    def as_publish_command(self) -> SQLPublishCommand:
        return SQLPublishCommand(
            self.body,
            headers=self.headers,
            correlation_id=self.correlation_id,
            delay=self.delay,
            priority=self.priority,
            partition_key=self.partition_key,
            columns=self.columns,
            _publish_type=PublishType.PUBLISH,
        )
