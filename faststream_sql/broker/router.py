"""Routers: declarations that a broker includes later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from faststream.middlewares import AckPolicy

from faststream_sql.broker._faststream import (
    EMPTY,
    ArgsContainer,
    BrokerMiddleware,
    BrokerRouter,
    CodecProto,
    CustomCallable,
    Registrator,
    SendableMessage,
    SubscriberRoute,
    UnderlyingDriverAnnotations,
)
from faststream_sql.broker.config import SQLBrokerConfig
from faststream_sql.broker.registrator import SQLRegistrator
from faststream_sql.broker.routes import Described
from faststream_sql.engine import Delivery, ExponentialBackoff
from faststream_sql.engine.backoff import Backoff

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant


class SQLPublisher(ArgsContainer):
    """The arguments of `SQLRegistrator.publisher`, for a `SQLRoute`."""

    def __init__(
        self,
        queue: str,
        *,
        table: Described | None = None,
        headers: dict[str, Any] | None = None,
        delay: float | timedelta | None = None,
        priority: int | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any = None,
        include_in_schema: bool = True,
    ) -> None:
        super().__init__(
            queue,
            table=table,
            headers=headers,
            delay=delay,
            priority=priority,
            persistent=persistent,
            title=title,
            description=description,
            schema=schema,
            include_in_schema=include_in_schema,
        )


class SQLRoute(SubscriberRoute):
    """A handler and the arguments of `SQLRegistrator.subscriber`, for a router's `handlers=`."""

    def __init__(
        self,
        call: Callable[..., SendableMessage] | Callable[..., Awaitable[SendableMessage]],
        queue: str,
        *,
        publishers: Iterable[SQLPublisher] = (),
        table: Described | None = None,
        max_workers: int = 1,
        max_attempts: int | None = None,
        dead_letter: str | Described | None = None,
        lease: float | timedelta | None = None,
        poll_interval: float | timedelta | None = None,
        prefetch: int | None = None,
        backoff: Backoff = ExponentialBackoff(),
        batch: bool = False,
        max_records: int | None = None,
        transactional: bool = False,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Dependant] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
    ) -> None:
        super().__init__(
            call,
            queue,
            publishers=publishers,
            table=table,
            max_workers=max_workers,
            max_attempts=max_attempts,
            dead_letter=dead_letter,
            lease=lease,
            poll_interval=poll_interval,
            prefetch=prefetch,
            backoff=backoff,
            batch=batch,
            max_records=max_records,
            transactional=transactional,
            ack_policy=ack_policy,
            no_reply=no_reply,
            dependencies=dependencies,
            parser=parser,
            decoder=decoder,
            codec=codec,
            persistent=persistent,
            title=title,
            description=description,
            include_in_schema=include_in_schema,
        )


class SQLRouter(SQLRegistrator, BrokerRouter[Delivery, SQLBrokerConfig]):
    """Declares subscribers and publishers for a broker to include.

    Args:
        prefix: stands before the names of its queues, and of their dead letter groups.
        handlers: routes declared without decorators.
        dependencies: FastDepends dependencies of every handler.
        middlewares: around every message of its own.
        routers: included in it.
        parser: makes the message of a row.
        decoder: makes the body of a message.
        include_in_schema: whether it stands in the AsyncAPI document.
        ack_policy: of its subscribers that name none.
        underlying_driver_annotations: classes that no handler of its own may take bare, each with the annotation to use instead.
    """

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[SQLRoute] = (),
        *,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[Registrator[Any, Any]] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        include_in_schema: bool | None = None,
        ack_policy: AckPolicy = EMPTY,
        underlying_driver_annotations: UnderlyingDriverAnnotations | None = None,
    ) -> None:
        super().__init__(
            handlers=handlers,
            config=SQLBrokerConfig(
                prefix=prefix,
                ack_policy=ack_policy,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                underlying_driver_annotations=underlying_driver_annotations or {},
                include_in_schema=include_in_schema,
            ),
            routers=routers,
        )
