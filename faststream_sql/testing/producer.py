"""`FakeProducer`: publishes real rows into memory, and delivers each before the publish returns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any
from uuid import UUID

from faststream.exceptions import SubscriberNotFound
from faststream.response import Response
from typing_extensions import override

from faststream_sql.broker._faststream import serializer_of
from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.parser import write_headers
from faststream_sql.broker.producer import REQUEST_SECONDS, SQLProducer
from faststream_sql.broker.response import SQLPublishCommand
from faststream_sql.engine import Delivery, Engine, Outcome
from faststream_sql.testing.hands import Hands


class FakeProducer(SQLProducer):
    """Takes the place of a broker's producer while it is under test."""

    def __init__(self, broker: SQLBroker, hands: Hands) -> None:
        config = broker.config.broker_config
        super().__init__(routes=config.routes, engine=self._connect, parser=config.broker_parser, decoder=config.broker_decoder)
        self._broker = broker
        self._hands = hands

    @override
    async def publish(self, cmd: SQLPublishCommand) -> Any:
        """Insert one row, run its first delivery where it is due, and return its id. What the handler raises comes out of here."""
        self._take_settings()
        row_id = await super().publish(cmd)
        await self._deliver(cmd, row_id)
        return row_id

    @override
    async def publish_batch(self, cmd: SQLPublishCommand) -> list[Any]:
        """Insert the rows, then run the first delivery of each. Raises the first error once all have run."""
        self._take_settings()
        ids = await super().publish_batch(cmd)
        errors: list[BaseException] = []
        for row_id in ids:
            try:
                await self._deliver(cmd, row_id)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return ids

    @override
    async def request(self, cmd: SQLPublishCommand) -> Delivery:
        """Insert a row and return the row that answers it. Raises SubscriberNotFound where nobody reads the queue."""
        self._take_settings()
        if self._hands.reader_of(self.table_of(cmd), cmd.destination) is None:
            raise SubscriberNotFound
        with self._hands.delivering():  # the wait for an answer that never comes passes at once
            try:
                return await asyncio.wait_for(super().request(cmd), REQUEST_SECONDS if cmd.timeout is None else cmd.timeout)
            except asyncio.TimeoutError as error:
                raise TimeoutError(*error.args) from error  # two classes until Python 3.11

    async def _connect(self) -> Engine:
        return await self._broker.connect()

    def _take_settings(self) -> None:
        self.connect(serializer=serializer_of(self._broker.config), codec=self._broker.config.broker_codec)

    async def _deliver(self, cmd: SQLPublishCommand, row_id: object) -> Response | None:
        if cmd.connection is not None:
            return None  # only its owner knows when that transaction commits: the row waits for `advance`
        table = self.table_of(cmd)
        key = str(row_id) if isinstance(row_id, UUID) else row_id  # as SQLite has it
        return await self._hands.deliver_first(table, cmd.destination if table.group else None, key)


class DryRunProducer(FakeProducer):
    """Of a dry run on a live broker: the handler's answer is the answer to a request, whatever columns the table has."""

    @override
    async def _connect(self) -> Engine:
        return self._hands.engine_of(self._broker)

    @override
    async def request(self, cmd: SQLPublishCommand) -> Delivery:
        self._take_settings()
        table = self.table_of(cmd)
        if self._hands.reader_of(table, cmd.destination) is None:
            raise SubscriberNotFound
        (key,) = await self._insert(cmd, [cmd.body])
        response = await asyncio.wait_for(self._deliver(cmd, key), REQUEST_SECONDS if cmd.timeout is None else cmd.timeout)
        payload, content_type = await self.codec.encode(None if response is None else response.body, self.serializer)
        headers = {} if response is None else response.headers
        named = write_headers(headers or {}, content_type=content_type, correlation_id=cmd.correlation_id, reply_to="")
        return Delivery(
            key=key, row_id=key, group=cmd.destination, attempt=None, names=(), values=(), payload=payload, headers=named,
            suspect=False, hold=None, settle=_nothing,
        )  # fmt: skip


_dry: ContextVar[Mapping[int, FakeProducer]] = ContextVar("dry", default=MappingProxyType({}))
"""The dry runs that what runs here belongs to, each by the producer that it stands in for."""


class TaskProducer(FakeProducer):
    """In the place of a live broker's producer: a dry run's for the tasks of that dry run, the real one for everybody else."""

    def __init__(self, real: Any) -> None:
        self.real = real

    @contextmanager
    def serving(self, producer: FakeProducer) -> Iterator[None]:
        """Have this task, and those that it makes, publish into a dry run for the span of a `with`."""
        token = _dry.set({**_dry.get(), id(self): producer})
        try:
            yield
        finally:
            _dry.reset(token)

    @property
    def _served(self) -> Any:
        return _dry.get().get(id(self), self.real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._served, name)  # parser, decoder, codec, and whatever else a producer has

    @override
    async def publish(self, cmd: SQLPublishCommand) -> Any:
        return await self._served.publish(cmd)

    @override
    async def publish_batch(self, cmd: SQLPublishCommand) -> list[Any]:
        ids: list[Any] = await self._served.publish_batch(cmd)
        return ids

    @override
    async def request(self, cmd: SQLPublishCommand) -> Delivery:
        answer: Delivery = await self._served.request(cmd)
        return answer


async def _nothing(delivery: Delivery, outcome: Outcome) -> None:
    """An answer is nobody's row."""
