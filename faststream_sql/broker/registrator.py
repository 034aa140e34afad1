"""`subscriber(...)` and `publisher(...)`, for the broker and its routers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from faststream.middlewares import AckPolicy
from typing_extensions import override

from faststream_sql.broker._faststream import EMPTY, BrokerMiddleware, CallsCollection, CodecProto, CustomCallable, Registrator
from faststream_sql.broker.config import SQLBrokerConfig
from faststream_sql.broker.publisher import SQLPublisher, SQLPublisherConfig
from faststream_sql.broker.routes import Described, as_table
from faststream_sql.broker.specification import (
    SQLPublisherSpecification,
    SQLPublisherSpecificationConfig,
    SQLSubscriberSpecification,
    SQLSubscriberSpecificationConfig,
)
from faststream_sql.broker.subscriber import SQLSubscriber, SQLSubscriberConfig
from faststream_sql.engine import Delivery, ExponentialBackoff, SubscriptionOptions
from faststream_sql.engine.backoff import Backoff
from faststream_sql.errors import DeclarationError

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant


class SQLRegistrator(Registrator[Delivery, SQLBrokerConfig]):
    """What can be declared on a broker and on a router alike."""

    @override
    def subscriber(
        self,
        queue: str,
        *,
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
    ) -> SQLSubscriber:
        """Subscribe a handler to a queue. Durations are seconds or a timedelta.

        Args:
            queue: the queue's name; in a table with groups, the group. Prefixes of routers stand before it.
            table: the table it is read from; the broker's route for the name unless given.
            max_workers: how many rows this process works on at once; 1 or more.
            max_attempts: how many deliveries a row gets before it moves to `dead_letter`, 1 or more. The two go together; the table needs
                the role Attempt.
            dead_letter: the group (or, for a table without groups, the table) that dead letters move to.
            lease: how long a row stays out of the queue if its process crashes (lease form): whole seconds from 1 to a day; the broker's
                unless given.
            poll_interval: how long an idle subscription waits before it looks again, a millisecond or more; the broker's unless given. A
                publish in this process wakes it at once.
            prefetch: how many rows may be claimed ahead of the workers (lease form), 0 or more; `max_workers` unless given.
            backoff: how long a row waits after an error: an `ExponentialBackoff`, a delay, a sequence of delays, a callable
                `(attempt, error) -> delay`, or None for at once.
            batch: not supported in this release.
            max_records: not supported in this release.
            transactional: not supported in this release.
            ack_policy: what becomes of a row whose handler raises; `NACK_ON_ERROR` unless given.
            no_reply: publish no answer, whatever a message asks for.
            dependencies: FastDepends dependencies of every handler.
            parser: makes the message of a row.
            decoder: makes the body of a message.
            codec: takes the place of the decoder.
            persistent: whether the broker keeps the subscriber alive.
            title: its name in the AsyncAPI document.
            description: its description there; the handler's docstring unless given.
            include_in_schema: whether it stands there.

        Raises:
            DeclarationError: an option is out of its range.
        """
        for name, wanted in (("batch", batch), ("max_records", max_records is not None), ("transactional", transactional)):
            if wanted:
                msg = f"subscriber({queue!r}, {name}=…) is not supported in this release: leave {name} out"
                raise DeclarationError(msg)
        dead = dead_letter if dead_letter is None or isinstance(dead_letter, str) else as_table(dead_letter)
        options = SubscriptionOptions(
            max_workers=max_workers,
            max_attempts=max_attempts,
            dead_letter=dead,
            lease=lease,
            poll_interval=poll_interval,
            prefetch=prefetch,
            backoff=backoff,
        )
        config = cast("SQLBrokerConfig", self.config)
        own = None if table is None else as_table(table)
        calls = CallsCollection[Delivery]()
        about = SQLSubscriberSpecificationConfig(
            queue=queue, table=own, options=options, title_=title, description_=description, include_in_schema=include_in_schema
        )
        subscriber = SQLSubscriber(
            SQLSubscriberConfig(queue=queue, table=own, options=options, no_reply=no_reply, _outer_config=config, _ack_policy=ack_policy),
            SQLSubscriberSpecification(config, about, calls),
            calls,
        )
        super().subscriber(subscriber, persistent=persistent)
        return subscriber.add_call(
            parser_=parser or self._parser, decoder_=decoder or self._decoder, codec_=codec, dependencies_=dependencies
        )

    @override
    def publisher(
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
    ) -> SQLPublisher:
        """A publisher into a queue: a decorator of handlers whose answers go there, and an object with `publish`.

        Args:
            queue: the queue's name. Prefixes of routers stand before it.
            table: the table it publishes into; the broker's route for the name unless given.
            headers: stand in every message, under its own.
            delay: how long each row waits, 0 or more, in seconds or as a timedelta.
            priority: smaller is claimed first.
            persistent: whether the broker keeps the publisher alive.
            title: its name in the AsyncAPI document.
            description: its description there.
            schema: the type of its messages there.
            include_in_schema: whether it stands there.
        """
        config = cast("SQLBrokerConfig", self.config)
        own = None if table is None else as_table(table)
        about = SQLPublisherSpecificationConfig(
            queue=queue, table=own, title_=title, description_=description, schema_=schema, include_in_schema=include_in_schema
        )
        publisher = SQLPublisher(
            SQLPublisherConfig(queue=queue, table=own, headers=headers or {}, delay=delay, priority=priority, _outer_config=config),
            SQLPublisherSpecification(config, about),
        )
        super().publisher(publisher, persistent=persistent)
        return publisher

    @override
    def include_router(
        self,
        router: Registrator[Any, Any],
        *,
        prefix: str = "",
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        include_in_schema: bool | None = None,
    ) -> None:
        """Include a router: its subscribers and publishers become this one's, with the prefix before their queues."""
        if not isinstance(router, SQLRegistrator):
            msg = f"a router of SQLRouter's is wanted, and {type(router).__name__} is none"
            raise TypeError(msg)
        super().include_router(
            router, prefix=prefix, dependencies=dependencies, middlewares=middlewares, include_in_schema=include_in_schema
        )
