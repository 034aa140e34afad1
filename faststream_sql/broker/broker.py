"""`SQLBroker`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fast_depends import Provider, dependency_provider
from faststream.message import gen_cor_id
from faststream.middlewares import AckPolicy
from faststream.response import PublishType
from typing_extensions import override

from faststream_sql.broker._faststream import (
    EMPTY,
    BrokerMiddleware,
    BrokerSpec,
    BrokerUsecase,
    CodecProto,
    ContextRepo,
    CustomCallable,
    FastDependsConfig,
    IdGenerator,
    LoggerProto,
    Registrator,
    SendableMessage,
    Tag,
    TagDict,
    UnderlyingDriverAnnotations,
    serializer_of,
)
from faststream_sql.broker.config import SQLBrokerConfig
from faststream_sql.broker.logging import make_sql_logger_state
from faststream_sql.broker.message import SQLMessage
from faststream_sql.broker.producer import SQLProducer
from faststream_sql.broker.registrator import SQLRegistrator
from faststream_sql.broker.response import SQLBatchPublishCommand, SQLPublishCommand
from faststream_sql.broker.routes import Described, Routes
from faststream_sql.broker.source import DatabaseSource
from faststream_sql.broker.subscriber import SQLSubscriber
from faststream_sql.engine import Clock, Delivery, Engine, EngineSettings, SystemClock
from faststream_sql.engine.options import lease_seconds, poll_seconds, timeout_seconds
from faststream_sql.errors import ClosedError, DeclarationError
from faststream_sql.table import QueueTable

if TYPE_CHECKING:
    from types import TracebackType

    from fast_depends.dependencies import Dependant
    from fast_depends.library.serializer import SerializerProto
    from faststream.security import BaseSecurity

DEFAULT_URL = "sqlite:///faststream.db"
PING_SECONDS = 5.0
"""How long `ping` waits where it is given no timeout."""
CLOSE_SECONDS = 2.0
"""How long a stop waits for the pool to close before it cuts connections off."""

OnLeaseLost = Callable[[SQLMessage], Awaitable[None] | None]


class SQLBroker(SQLRegistrator, BrokerUsecase[Delivery, Engine, SQLBrokerConfig]):
    """A FastStream broker whose queues are rows of SQL tables."""

    def __init__(
        self,
        url: Any = None,
        table: Described | None = None,
        tables: Mapping[str, Described] | None = None,
        *,
        lease: float | timedelta = 30,
        poll_interval: float | timedelta = 1.0,
        listen_notify: bool = False,
        clock: Clock | None = None,
        pool_size: int = 10,
        acquire_timeout: float | timedelta = 5.0,
        command_timeout: float | timedelta = 30.0,
        graceful_timeout: float | timedelta | None = 15.0,
        session_pooler: bool = False,
        label: str | None = None,
        on_lease_lost: OnLeaseLost | None = None,
        decoder: CustomCallable | None = None,
        parser: CustomCallable | None = None,
        codec: CodecProto | None = None,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[Registrator[Any, Any]] = (),
        ack_policy: AckPolicy = EMPTY,
        id_generator: IdGenerator = gen_cor_id,
        specification_url: str | None = None,
        protocol: str | None = None,
        protocol_version: str | None = None,
        description: str | None = None,
        tags: Iterable[Tag | TagDict] = (),
        security: BaseSecurity | None = None,
        logger: LoggerProto | None = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: SerializerProto | None = EMPTY,
        provider: Provider | None = None,
        context: ContextRepo | None = None,
        underlying_driver_annotations: UnderlyingDriverAnnotations | None = None,
    ) -> None:
        """Describe a broker. Nothing connects here.

        Args:
            url: `postgresql://`, `mysql://`, `mariadb://`, `sqlite:///file.db` or `sqlite://` (memory); or what the service owns and closes
                itself: an `asyncpg.Pool`, an asyncmy pool, or an `AsyncEngine` of SQLAlchemy on asyncpg, asyncmy or aiosqlite.
                `sqlite:///faststream.db` unless given. `postgresql://` alone takes its settings from the `PG*` environment.
            table: the table that every name leads into, unless `tables` says otherwise: a `QueueTable`, or an `Inbox` class. Without both,
                the table `faststream_queue`.
            tables: tables by name; a trailing `*` is a prefix.
            lease: how long the row of a crashed process stays out of its queue (lease form): whole seconds from 1 to a day, or a timedelta.
            poll_interval: how long an idle subscription waits before it looks again: a millisecond or more, in seconds or as a timedelta.
            listen_notify: whether publishes notify, in the transaction that wrote the row, and this process listens, on a connection of its
                own beside the pool (Postgres). Subscriptions in other processes wake at once then; polling stays the floor.
            clock: where time is read; the host's unless given.
            pool_size: the most connections of the broker's own pool, 1 or more. Deliveries under row or advisory locks keep one each;
                one is always left over, so these forms need 2. A pool of the service's own has its own size, and SQLite one connection.
            acquire_timeout: how long a statement waits for a connection before PoolTimeoutError: over 0, in seconds or as a timedelta.
            command_timeout: how long a statement may take before its connection is given up: over 0, in seconds or as a timedelta.
            graceful_timeout: how long a stop waits for handlers, in seconds or as a timedelta; None or 0 for not at all.
            session_pooler: says that a pooler that stands between (PgBouncer) works in session mode, as advisory locks and LISTEN need.
            label: names the server in the AsyncAPI document, as a tag and in its description.
            on_lease_lost: called with a message whose row was found to be no longer its own: a function or a coroutine function. What it
                raises is logged.
            decoder: makes the body of a message.
            parser: makes the message of a row.
            codec: takes the place of the decoder, and encodes what is published.
            dependencies: FastDepends dependencies of every handler.
            middlewares: around every message.
            routers: included at once.
            ack_policy: of subscribers that name none; `NACK_ON_ERROR` unless given.
            id_generator: makes correlation ids.
            specification_url: the server's URL in the document; shown without anything secret in it.
            protocol: its protocol there.
            protocol_version: the version of that.
            description: the server's description there.
            tags: its tags there.
            security: `BaseSecurity` or `SASLPlaintext`: how to log in to a server, and by which TLS.
            logger: None for silence.
            log_level: of the two records that each message writes.
            apply_types: whether FastDepends casts what handlers take.
            serializer: of FastDepends.
            provider: of FastDepends.
            context: FastStream's.
            underlying_driver_annotations: classes that no handler may take bare, each with the annotation to use instead, beside the
                broker's own.

        Raises:
            DeclarationError: the URL or an option cannot be.
        """
        if pool_size < 1:
            msg = f"pool_size={pool_size!r} cannot be: give 1 or more"
            raise DeclarationError(msg)
        statement_seconds = timeout_seconds("command_timeout", command_timeout)
        self._source = DatabaseSource(
            DEFAULT_URL if url is None else url,
            size=pool_size,
            acquire_timeout=timeout_seconds("acquire_timeout", acquire_timeout),
            command_timeout=statement_seconds,
            security=security,
        )
        self._settings = EngineSettings(
            lease_seconds=lease_seconds(lease),
            poll_seconds=poll_seconds(poll_interval),
            command_timeout_seconds=statement_seconds,
            listen_notify=listen_notify,
            session_pooler=session_pooler,
        )
        self._on_lease_lost = on_lease_lost
        self._routes = Routes(table, tables)
        self._connecting: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._stopped = False
        self._start_over = asyncio.Event()
        self._start_over.set()
        self._rows = producer = SQLProducer(routes=self._routes, engine=self.connect, parser=parser, decoder=decoder)
        super().__init__(
            routers=routers,
            config=SQLBrokerConfig(
                producer=producer,
                routes=self._routes,
                says_where=any(given is not None for given in (url, table, tables)),
                underlying_driver_annotations=underlying_driver_annotations or {},
                engine=self.connect,
                clock=clock or SystemClock(),
                make_pool=self._source.pool,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                logger=make_sql_logger_state(logger, log_level),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                broker_dependencies=dependencies,
                graceful_timeout=timeout_seconds("graceful_timeout", graceful_timeout) if graceful_timeout else None,
                ack_policy=ack_policy,
                id_generator=id_generator,
                extra_context={"broker": self},
            ),
            specification=BrokerSpec(
                description=" ".join(filter(None, (description, f"Label: {label}." if label else None))) or None,
                url=[self._source.specification_url(specification_url)],
                protocol=protocol or self._source.protocol,
                protocol_version=protocol_version,
                tags=[*tags, *([Tag(name=label)] if label else [])],
                security=security,
            ),
        )

    def __repr__(self) -> str:
        return f"SQLBroker({self.public_url!r})"

    @property
    def public_url(self) -> str:
        """Which database it is, as far as that may be shown: no user, no password, no folder of a file."""
        return self._source.specification_url(None)

    @property
    def source(self) -> DatabaseSource:
        """What makes its pool."""
        return self._source

    @property
    def clock(self) -> Clock:
        """Where the broker reads the time."""
        return self.config.broker_config.clock

    @property
    def engine(self) -> Engine:
        """The engine of a connected broker. Raises ClosedError before `connect` and after `stop`."""
        if self._connection is None:
            msg = "the broker is not connected: await broker.connect() or broker.start() first"
            raise ClosedError(msg)
        return self._connection

    # --- lifecycle -------------------------------------------------------------------------------------------------------------------

    @override
    async def connect(self) -> Engine:
        """Open the pool, once. Raises UnavailableError, with no credential in it, where the database cannot be reached."""
        loop = asyncio.get_running_loop()
        if self._connecting is None or self._connecting[0] is not loop:  # a broker may live through several loops, one after the other
            self._connecting = (loop, asyncio.Lock())
        async with self._connecting[1]:
            return await super().connect()

    @override
    async def _connect(self) -> Engine:
        config = self.config.broker_config
        engine = config.make_engine(
            pool=config.make_pool(), clock=config.clock, settings=self._settings, log=self._say, on_lease_lost=self._lease_lost
        )
        self._setup_logger()  # before anything is said
        await engine.open()
        self._rows.connect(serializer=serializer_of(self.config), codec=self.config.broker_codec)
        self._stopped = False
        return engine

    @override
    async def start(self) -> None:
        """Connect, check every table and start the subscribers. Does nothing for a broker that runs.

        Raises SchemaError, DeclarationError, NoRouteError, ServerTooOldError, UnavailableError; the broker is then closed again.
        """
        over = self._start_over = asyncio.Event()
        try:
            engine = await self.connect()
            self._look_for_rivals()
            await super().start()
            engine.warn_small_pool([subscriber.subscription for subscriber in self._sql_subscribers() if subscriber.calls])
        except BaseException:
            await self.stop()
            raise
        finally:
            over.set()

    async def started(self) -> None:
        """Wait until a start that is under way has ended, well or not. `running` says which."""
        await self._start_over.wait()

    @override
    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Stop the subscribers, each within the graceful timeout and a little more, then close the pool. Safe at any time, and twice.

        A pool of the service's own is left open.
        """
        try:
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            engine, self._connection = self._connection, None
            if engine is not None:
                self._stopped = True
                await engine.close(CLOSE_SECONDS)

    def _look_for_rivals(self) -> None:
        """Two subscribers of one queue share its rows; other brokers' subscribers would each get all, so it is worth a word."""
        seen: set[tuple[QueueTable, str | None]] = set()
        for subscriber in self._sql_subscribers():
            table = subscriber.table
            key = (table, subscriber.queue if table.group else None)
            if key in seen and subscriber.calls:
                text = f"two subscribers read the queue {subscriber.queue!r}: each of its rows goes to one of them"
                self._say(logging.WARNING, text)
            seen.add(key)

    def _sql_subscribers(self) -> list[SQLSubscriber]:
        return [subscriber for subscriber in self.subscribers if isinstance(subscriber, SQLSubscriber)]

    @override
    async def ping(self, timeout: float | None = None) -> bool:
        """Whether a statement runs within `timeout` seconds (5 unless given) and every subscriber's workers are alive. Never raises."""
        engine = self._connection
        if engine is None:
            return False
        if not all(subscriber.alive for subscriber in self._sql_subscribers() if subscriber.running):
            return False
        return await engine.ping(PING_SECONDS if timeout is None else timeout)

    async def create_tables(self) -> None:
        """Create the tables that names lead into and dead letters move to, with their indexes, where they are missing.

        For quickstarts and tests: a service's schema is its migrations'. Connects by itself.
        """
        engine = await self.connect()
        await engine.create_tables(self.tables())

    def tables(self) -> list[QueueTable]:
        """The tables that names lead into, that are subscribed to and published into, and that dead letters move to, each once."""
        tables = list(self._routes.tables())
        for subscriber in self._sql_subscribers():
            tables.append(subscriber.table)
            tables += subscriber.dead_letter_tables()
        tables += [publisher.table for publisher in self.publishers if hasattr(publisher, "table")]
        return list(dict.fromkeys(tables))

    # --- publishing ------------------------------------------------------------------------------------------------------------------

    @override
    async def publish(
        self,
        message: SendableMessage = None,
        queue: str = "",
        *,
        delay: float | timedelta | None = None,
        available_at: datetime | None = None,
        priority: int | None = None,
        partition_key: str | None = None,
        columns: Mapping[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        row_id: Any = None,
        connection: Any = None,
    ) -> Any:
        """Insert a row and return its id. It is committed on return, unless it went into a transaction of the caller's.

        Connects a broker that is not started. Subscriptions of the queue in this process wake at once.

        Args:
            message: the body.
            queue: where it goes.
            delay: how long it waits, in seconds or as a timedelta; 0 or more.
            available_at: when it falls due, instead of a delay; an aware datetime.
            priority: smaller is claimed first.
            partition_key: for tables with that role.
            columns: plain columns of the table by name.
            headers: in a table with that role.
            correlation_id: made unless given.
            reply_to: the queue that an answer goes to.
            row_id: the id, where the database does not make it.
            connection: the caller's own, with its transaction: of asyncpg, asyncmy or aiosqlite, or an AsyncConnection or AsyncSession of
                SQLAlchemy on one of them. It is never committed, rolled back or closed here.

        Raises:
            NoRouteError: the queue leads into no table.
            SchemaError: the table is not there, or is of another shape than its description.
            DeclarationError: an argument needs a role or a column that the table does not have.
            ValueError: a value cannot be; the text says which.
            TypeError: the connection is synchronous, or of another database.
            ClosedError: the broker was stopped.
            PoolTimeoutError: no connection came free in time.
            DatabaseError: what the database reported; after a `ConnectionLostError` the row may be there or not.
        """
        self._check_open()
        cmd = SQLPublishCommand(
            message,
            queue=queue,
            delay=delay,
            available_at=available_at,
            priority=priority,
            partition_key=partition_key,
            columns=columns,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            row_id=row_id,
            connection=connection,
            _publish_type=PublishType.PUBLISH,
        )
        return await self._basic_publish(cmd, producer=self.config.producer)

    @override
    async def publish_batch(
        self,
        *messages: SendableMessage,
        queue: str = "",
        delay: float | timedelta | None = None,
        available_at: datetime | None = None,
        priority: int | None = None,
        partition_key: str | None = None,
        columns: Mapping[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        connection: Any = None,
    ) -> list[Any]:
        """Insert a row for each message, in few statements and one transaction, and return their ids.

        All of them are inserted, or none. Arguments and errors are those of `publish`.
        """
        self._check_open()
        cmd = SQLBatchPublishCommand(
            messages,
            queue=queue,
            delay=delay,
            available_at=available_at,
            priority=priority,
            partition_key=partition_key,
            columns=columns,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            connection=connection,
            _publish_type=PublishType.PUBLISH,
        )
        ids: list[Any] = await self._basic_publish_batch(cmd, producer=self.config.producer)
        return ids

    @override
    async def request(
        self,
        message: SendableMessage = None,
        queue: str = "",
        timeout: float = 30.0,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        delay: float | timedelta | None = None,
        priority: int | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> SQLMessage:
        """Insert a row and wait for the row that answers it, at most `timeout` seconds.

        The arguments are those of `publish`. The answer is finished when it is returned: there is nothing to acknowledge.

        Raises:
            FeatureNotSupportedException: the table lacks the roles Group and Headers.
            TimeoutError: no answer came in time. The request may still be handled.
        """
        self._check_open()
        cmd = SQLPublishCommand(
            message,
            queue=queue,
            delay=delay,
            priority=priority,
            columns=columns,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            timeout=timeout,
            _publish_type=PublishType.REQUEST,
        )
        answer: SQLMessage = await self._basic_request(cmd, producer=self.config.producer)
        return answer

    def _check_open(self) -> None:
        if self._stopped:
            msg = "the broker was stopped: await broker.connect() or broker.start() before publishing again"
            raise ClosedError(msg)

    # --- what the engine tells -------------------------------------------------------------------------------------------------------

    def _say(self, level: int, text: str, error: BaseException | None = None) -> None:
        logger = self.config.logger
        exc_info = error if isinstance(error, Exception) else None
        logger.log(text, level, extra={"queue": "", "message_id": ""}, exc_info=exc_info)

    def _lease_lost(self, delivery: Delivery) -> Awaitable[None] | None:
        hook, message = self._on_lease_lost, delivery.message
        return hook(message) if hook is not None and message is not None else None
