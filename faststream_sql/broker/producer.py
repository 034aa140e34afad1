"""Bodies to rows: encodes what is published and hands it to the engine."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from faststream.exceptions import FeatureNotSupportedException, IncorrectState
from typing_extensions import override

from faststream_sql.broker._faststream import CodecProto, CustomCallable, DefaultCodec, ParserComposition, ProducerProto
from faststream_sql.broker.message import delay_seconds
from faststream_sql.broker.parser import decode, parse_message, write_headers
from faststream_sql.broker.response import SQLPublishCommand
from faststream_sql.broker.routes import Routes
from faststream_sql.engine import Ack, Delivery, Engine, NewRow, SubscriptionOptions
from faststream_sql.engine.tables import OpenTable
from faststream_sql.table import QueueTable

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto

REQUEST_SECONDS = 30.0
"""How long a request waits for its answer unless it says otherwise."""
REPLY_PREFIX = "reply."
"""Groups that begin so hold the answers to requests, each for one waiter."""


class SQLProducer(ProducerProto[SQLPublishCommand]):
    """Publishes commands as rows of the table that their queue leads into."""

    def __init__(
        self,
        *,
        routes: Routes,
        engine: Callable[[], Awaitable[Engine]],
        parser: CustomCallable | None,
        decoder: CustomCallable | None,
    ) -> None:
        self.codec: CodecProto = DefaultCodec()
        self.serializer: SerializerProto | None = None
        self._routes = routes
        self._engine = engine
        self._parser = ParserComposition(parser, parse_message)
        self._decoder = ParserComposition(decoder, decode)

    def connect(self, *, serializer: SerializerProto | None, codec: CodecProto | None) -> None:
        """Take what the application may have set since the broker was made."""
        self.serializer = serializer
        self.codec = codec or DefaultCodec()

    @override
    async def publish(self, cmd: SQLPublishCommand) -> Any:
        """Insert one row and return its id."""
        (row_id,) = await self._insert(cmd, [cmd.body])
        return row_id

    @override
    async def publish_batch(self, cmd: SQLPublishCommand) -> list[Any]:
        """Insert a row for each body, all or none, and return their ids."""
        bodies = list(cmd.batch_bodies)
        return await self._insert(cmd, bodies) if bodies else []

    @override
    async def request(self, cmd: SQLPublishCommand) -> Delivery:
        """Insert a row and wait for the one that answers it. Raises TimeoutError where none comes in time."""
        engine, table = await self._engine(), self.table_of(cmd)
        if table.group is None or table.headers is None:
            msg = (
                f"request() into {cmd.destination!r} cannot be answered: table {table.qualified_name!r} needs the roles Group and Headers, "
                "which say where the answer goes"
            )
            raise FeatureNotSupportedException(msg)
        seconds = REQUEST_SECONDS if cmd.timeout is None else cmd.timeout
        cmd.reply_to = cmd.reply_to or f"{REPLY_PREFIX}{uuid4()}"
        replies = engine.subscription(
            name=cmd.reply_to, table=table, options=SubscriptionOptions(poll_interval=0.1), deliver=_never, counted=False
        )
        try:
            await replies.open()
            await self.publish(cmd)
            answer = await replies.get_one(seconds)
            if answer is None:
                msg = f"no answer to the request into {cmd.destination!r} came in {seconds:g} s"
                raise TimeoutError(msg)
            await answer.settle(Ack())
        finally:
            await replies.stop(None)
        return answer

    def table_of(self, cmd: SQLPublishCommand) -> QueueTable:
        """The table that a command goes into: the one it names, else the one that its queue leads into."""
        return cmd.table if cmd.table is not None else self._routes.resolve(cmd.destination)

    async def _insert(self, cmd: SQLPublishCommand, bodies: list[Any]) -> list[Any]:
        engine, table = await self._engine(), self.table_of(cmd)
        opened = await engine.open_table(table, f"publish into {cmd.destination!r}", "insert")
        rows = [await self._row(cmd, opened, body) for body in bodies]
        return await engine.insert(table, rows, connection=cmd.connection)

    async def _row(self, cmd: SQLPublishCommand, opened: OpenTable, body: Any) -> NewRow:
        table = opened.table
        plain = isinstance(self.codec, DefaultCodec)
        if plain and isinstance(body, str) and (table.headers is None or opened.types.payload == "json"):
            # without headers nothing says that it was a text; as JSON it comes back as it was
            payload, content_type = json.dumps(body).encode(), "application/json"
        else:
            payload, found = await self.codec.encode(body, self.serializer)
            content_type = found or ""
        headers = (
            write_headers(cmd.headers, content_type=content_type or None, correlation_id=cmd.correlation_id, reply_to=cmd.reply_to)
            if table.headers
            else None
        )
        if cmd.delay is not None and cmd.available_at is not None:
            msg = "delay= and available_at= were both given: a row falls due once"
            raise ValueError(msg)
        return NewRow(
            group=cmd.destination if table.group else None,
            payload=payload,
            headers=headers,
            delay_seconds=delay_seconds(cmd.delay),
            available_at=cmd.available_at,
            priority=None if cmd.priority is None else int(cmd.priority),
            partition_key=cmd.partition_key,
            columns=cmd.columns,
            row_id=cmd.row_id,
        )


async def _never(delivery: Delivery) -> None:
    """Replies are asked for one by one, and delivered to nobody."""


class UnsetProducer(ProducerProto[SQLPublishCommand]):
    """What a router has until a broker includes it."""

    _message = "this endpoint belongs to a router that no broker includes: broker.include_router(router)"

    def __bool__(self) -> bool:
        return False

    @override
    async def publish(self, cmd: SQLPublishCommand) -> Any:
        raise IncorrectState(self._message)

    @override
    async def publish_batch(self, cmd: SQLPublishCommand) -> Any:
        raise IncorrectState(self._message)

    @override
    async def request(self, cmd: SQLPublishCommand) -> Any:
        raise IncorrectState(self._message)
