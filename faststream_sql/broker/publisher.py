"""Publishers: the decorator's, the one for replies, and the arguments of one that a router declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from faststream.response import PublishCommand, PublishType
from typing_extensions import override

from faststream_sql.broker._faststream import (
    FakePublisher,
    ProducerProto,
    PublisherMiddleware,
    PublisherSpecification,
    PublisherUsecase,
    PublisherUsecaseConfig,
    SendableMessage,
)
from faststream_sql.broker.config import SQLBrokerConfig
from faststream_sql.broker.producer import REPLY_PREFIX
from faststream_sql.broker.response import SQLPublishCommand
from faststream_sql.table import QueueTable


@dataclass(kw_only=True)
class SQLPublisherConfig(PublisherUsecaseConfig):
    """What a publisher was declared with."""

    _outer_config: SQLBrokerConfig = field(default_factory=SQLBrokerConfig)
    queue: str
    table: QueueTable | None
    headers: dict[str, Any]
    delay: float | timedelta | None
    priority: int | None


class SQLPublisher(PublisherUsecase):
    """Publishes into one queue. Made by `broker.publisher(...)`."""

    _outer_config: SQLBrokerConfig

    def __init__(self, config: SQLPublisherConfig, specification: PublisherSpecification[Any, Any]) -> None:
        super().__init__(config, specification)
        self._queue = config.queue
        self._table = config.table
        self.headers = config.headers
        self.delay = config.delay
        self.priority = config.priority

    @property
    def queue(self) -> str:
        """The queue's name, with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self._queue}"

    @property
    def table(self) -> QueueTable:
        """The table that it publishes into. Raises NoRouteError where the queue leads nowhere."""
        return self._table if self._table is not None else self._outer_config.routes.resolve(self.queue)

    @override
    async def start(self) -> None:
        """Prepare the insert. Raises SchemaError with the publisher's name."""
        engine = await self._outer_config.engine()
        await engine.check_publish(self.queue, self.table)

    @override
    async def publish(
        self,
        message: SendableMessage,
        queue: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        delay: float | timedelta | None = None,
        available_at: datetime | None = None,
        priority: int | None = None,
        partition_key: str | None = None,
        columns: Mapping[str, Any] | None = None,
        row_id: Any = None,
        connection: Any = None,
    ) -> Any:
        """Insert a row and return its id. The arguments are those of `SQLBroker.publish`."""
        cmd = SQLPublishCommand(
            message,
            queue=queue or self.queue,
            headers=self.headers | (headers or {}),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            reply_to=reply_to,
            delay=self.delay if delay is None and available_at is None else delay,
            available_at=available_at,
            priority=self.priority if priority is None else priority,
            partition_key=partition_key,
            columns=columns,
            row_id=row_id,
            connection=connection,
            _publish_type=PublishType.PUBLISH,
        )
        cmd.table = self._table
        return await self._basic_publish(cmd, producer=self._outer_config.producer, _extra_middlewares=())

    @override
    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]) -> None:
        """A handler's answer, on its way through the middlewares of the message that it answers."""
        own = SQLPublishCommand.from_cmd(cmd)
        own.destination = own.destination or self.queue
        own.table = own.table or self._table
        own.add_headers(self.headers, override=False)
        own.delay = self.delay if own.delay is None and own.available_at is None else own.delay
        own.priority = self.priority if own.priority is None else own.priority
        await self._basic_publish(own, producer=self._outer_config.producer, _extra_middlewares=_extra_middlewares)

    @override
    async def request(
        self,
        message: SendableMessage,
        queue: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: float | None = 30.0,
    ) -> Any:
        """Insert a row and wait for its answer. Raises TimeoutError where none comes in `timeout` seconds."""
        cmd = SQLPublishCommand(
            message,
            queue=queue or self.queue,
            headers=self.headers | (headers or {}),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            timeout=timeout,
            _publish_type=PublishType.REQUEST,
        )
        cmd.table = self._table
        return await self._basic_request(cmd, producer=self._outer_config.producer)


class SQLFakePublisher(FakePublisher):
    """Publishes a reply. An answer to a request goes into the request's own table, whatever the routes say."""

    def __init__(self, producer: ProducerProto[Any], *, queue: str, table: QueueTable) -> None:
        super().__init__(producer=producer)
        self._queue = queue
        self._table = table

    @override
    def patch_command(self, cmd: PublishCommand) -> SQLPublishCommand:
        own = SQLPublishCommand.from_cmd(super().patch_command(cmd))
        own.destination = self._queue
        own.table = self._table if self._queue.startswith(REPLY_PREFIX) else None
        return own
