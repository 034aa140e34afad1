"""A subscriber: FastStream's pipeline around a subscription of the engine.

Acknowledgement is done here and not by FastStream's middleware. That one cannot tell an explicit `nack()` from an error of the handler,
does not count outcome exceptions under `AckPolicy.MANUAL`, and settles nothing after a skip; here the whole exception is at hand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from faststream.exceptions import AckMessage, HandlerException, NackMessage, RejectMessage, SkipMessage
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.response import Response
from typing_extensions import override

from faststream_sql.broker._faststream import (
    EMPTY,
    CallsCollection,
    PublisherProto,
    SubscriberSpecification,
    SubscriberUsecase,
    SubscriberUsecaseConfig,
    ensure_response,
    process_msg,
)
from faststream_sql.broker.config import SQLBrokerConfig
from faststream_sql.broker.message import DeadLetterMessage, SQLMessage
from faststream_sql.broker.parser import decode, parse_message
from faststream_sql.broker.publisher import SQLFakePublisher
from faststream_sql.engine import (
    Ack,
    Delivery,
    Nack,
    Outcome,
    Reject,
    Release,
    Subscription,
    SubscriptionOptions,
    backoff_seconds,
)
from faststream_sql.engine.subscription import replace_name
from faststream_sql.errors import ClosedError, LeaseLostError, SQLBrokerError
from faststream_sql.table import QueueTable


@dataclass(kw_only=True)
class SQLSubscriberConfig(SubscriberUsecaseConfig):
    """What a subscriber was declared with."""

    _outer_config: SQLBrokerConfig = field(default_factory=SQLBrokerConfig)
    queue: str
    table: QueueTable | None
    options: SubscriptionOptions

    @property
    @override
    def ack_policy(self) -> AckPolicy:
        if self._ack_policy is not EMPTY:
            return self._ack_policy
        outer = self._outer_config.ack_policy
        return AckPolicy.NACK_ON_ERROR if outer is EMPTY else outer  # a task queue must not lose a task to a bug

    @property
    @override
    def auto_ack_disabled(self) -> bool:
        return True  # `SQLSubscriber.process_message` settles


_declared = count()


class SQLSubscriber(SubscriberUsecase[Delivery]):
    """Reads one queue. Made by `broker.subscriber(...)`."""

    _outer_config: SQLBrokerConfig

    def __init__(
        self,
        config: SQLSubscriberConfig,
        specification: SubscriberSpecification[Any, Any],
        calls: CallsCollection[Delivery],
    ) -> None:
        config.parser = parse_message
        config.decoder = decode
        super().__init__(config, specification, calls)
        self.number = next(_declared)
        """The place among all subscribers, in the order of their declaration; the broker keeps them in a set, which has none."""
        self._queue = config.queue
        self._table = config.table
        self._options = config.options
        self._subscription: Subscription | None = None
        self._log_context: dict[str, str] | None = None
        self._asked: Delivery | None = None
        self._stops = 0

    @property
    def subscription(self) -> Subscription:
        """The engine's side of it. Raises ClosedError for a subscriber that is not started."""
        if self._subscription is None:
            msg = f"the subscriber of {self.queue!r} is not started"
            raise ClosedError(msg)
        return self._subscription

    @property
    def queue(self) -> str:
        """The queue's name, with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self._queue}"

    @property
    def table(self) -> QueueTable:
        """The table that the queue's rows are in. Raises NoRouteError where its name leads nowhere."""
        return self._table if self._table is not None else self._outer_config.routes.resolve(self.queue)

    @property
    def options(self) -> SubscriptionOptions:
        """The options, with the prefixes of the routers before a dead letter group."""
        dead = self._options.dead_letter
        if isinstance(dead, str) and self.table.group is not None:
            return replace(self._options, dead_letter=f"{self._outer_config.prefix}{dead}")
        return self._options

    def dead_letter_tables(self) -> tuple[QueueTable, ...]:
        """The table that its dead letters move to, where that is not its own."""
        dead = self._options.dead_letter
        if dead is None or self.table.group is not None:
            return ()
        return (replace_name(self.table, dead) if isinstance(dead, str) else dead,)

    @property
    def alive(self) -> bool:
        """Whether its workers run; True for one that has nothing to run."""
        return not self.calls or (self._subscription is not None and self._subscription.alive)

    @property
    def busy(self) -> bool:
        """Whether its workers have a delivery in work."""
        return self._subscription is not None and self._subscription.busy

    # --- lifecycle -------------------------------------------------------------------------------------------------------------------

    @override
    async def start(self) -> None:
        """Check the table and start the workers. Does nothing for one that runs.

        Raises SchemaError, DeclarationError, NoRouteError, ServerTooOldError.
        """
        if self.running:
            return
        self._log_context = None
        await super().start()
        self.lock = nullcontext()  # the engine knows what is in work, and waits for it
        subscription = await self._open()
        self._post_start()
        if self.calls:
            try:
                await subscription.start()
            except BaseException:
                self.running = False
                raise

    async def _open(self) -> Subscription:
        engine = await self._outer_config.engine()
        if self._subscription is None:
            self._subscription = engine.subscription(name=self.queue, table=self.table, options=self.options, deliver=self.consume)
        return self._subscription

    @override
    async def stop(self) -> None:
        """Claim no more, give handlers the broker's graceful timeout, release what is left. Safe before, during and after a start."""
        self._stops += 1
        subscription, self._subscription = self._subscription, None
        asked, self._asked = self._asked, None
        if asked is not None:  # nobody settled the row that was asked for: it goes back with its attempt
            with suppress(SQLBrokerError):  # else it returns by itself
                await asked.settle(Release())
        if subscription is not None:
            # messages already claimed are still consumed while it drains, so `running` ends after it
            await subscription.stop(self._outer_config.graceful_timeout)
        self.running = False

    # --- one message -----------------------------------------------------------------------------------------------------------------

    @override
    async def process_message(self, msg: Delivery) -> Response:
        """Run FastStream's pipeline, and settle the row by what comes out of it."""
        if self.ack_policy is AckPolicy.ACK_FIRST:
            await self._finish_first(msg)
        try:
            response = await super().process_message(msg)
        except HandlerException as answer:
            await self._answer(msg, answer)
            return ensure_response(None)
        except (asyncio.CancelledError, GeneratorExit):
            raise  # nothing was decided: the engine releases the row
        except BaseException as error:
            await self._failed(msg, error)
            raise
        if self.ack_policy is not AckPolicy.MANUAL:
            msg.handled()
            await self._settle(msg, Ack())
        elif msg.outcome is None:
            self._say(logging.WARNING, msg, "the handler settled nothing under AckPolicy.MANUAL; it is tried again by the backoff")
            await self._settle(msg, self._retry(msg))
        return response

    async def _finish_first(self, delivery: Delivery) -> None:
        """ACK_FIRST: the finish is committed before the handler runs. Where it cannot be, the handler does not run."""
        message = await parse_message(delivery)
        await message.ack()

    async def _answer(self, delivery: Delivery, answer: HandlerException) -> None:
        """An outcome exception. It counts under every policy, but for one that has finished the row already."""
        match answer:
            case SkipMessage():
                self._say(logging.INFO, delivery, "skipped, and finished like a reject")
                await self._settle(delivery, Reject())
            case AckMessage():
                await self._settle(delivery, Ack(), answer.extra_options)
            case NackMessage():
                await self._settle(delivery, Nack(), answer.extra_options)
            case RejectMessage():
                await self._settle(delivery, Reject(), answer.extra_options)
            case DeadLetterMessage():
                await self._give_up(delivery, answer.extra_options)
            case _:
                await self._settle(delivery, self._retry(delivery))

    async def _failed(self, delivery: Delivery, error: BaseException) -> None:
        delivery.error = error
        match self.ack_policy:
            case AckPolicy.ACK:
                await self._settle(delivery, Ack())
            case AckPolicy.REJECT_ON_ERROR:
                await self._settle(delivery, Reject())
            case _:
                await self._settle(delivery, self._retry(delivery))

    async def _give_up(self, delivery: Delivery, options: dict[str, Any]) -> None:
        if self.options.dead_letter is None:
            self._say(logging.ERROR, delivery, "given up, and the subscription declares no dead_letter=: it is tried again by the backoff")
            await self._settle(delivery, self._retry(delivery))
            return
        message = delivery.message or await parse_message(delivery)
        await self._carry_out(delivery, message.dead_letter, options)

    async def _settle(self, delivery: Delivery, outcome: Outcome, options: dict[str, Any] | None = None) -> None:
        """Settle through the message that the handler saw, so that it knows; a nack after an error has its own delay and goes directly."""
        if delivery.outcome is not None:
            return
        message = delivery.message
        if not isinstance(message, SQLMessage):
            message = await parse_message(delivery)
        match outcome:
            case Ack():
                await self._carry_out(delivery, message.ack, options)
            case Reject():
                await self._carry_out(delivery, message.reject, options)
            case Nack(delay, after_error):
                if after_error:
                    delivery.after_error = True
                await self._carry_out(delivery, message.nack, options if delay is None else {"delay": delay})
            case _:
                await self._carry_out(delivery, lambda: delivery.settle(outcome), None)

    async def _carry_out(self, delivery: Delivery, settle: Callable[..., Awaitable[None]], options: dict[str, Any] | None) -> None:
        """Settle, and never let a trouble with that hide what the handler raised. A row is not stranded by options that nobody knows."""
        try:
            try:
                await settle(**(options or {}))
            except (TypeError, ValueError) as error:
                if delivery.outcome is not None:
                    raise
                self._say(
                    logging.ERROR, delivery, f"its outcome was given options that cannot be ({error}); it is tried again by the backoff"
                )
                await delivery.settle(self._retry(delivery))
        except LeaseLostError as error:
            self._say(logging.WARNING, delivery, f"settled too late: {error}")
        except Exception as error:
            self._say(logging.ERROR, delivery, f"not settled: {error}", error)

    def _retry(self, delivery: Delivery) -> Nack:
        """A nack by the backoff."""

        def raised(error: Exception) -> None:
            self._say(logging.ERROR, delivery, "the backoff raised; the default delay is taken", error)

        return Nack(backoff_seconds(self._options.backoff, delivery.attempt, delivery.error, raised), after_error=True)

    def _say(self, level: int, delivery: Delivery, text: str, error: Exception | None = None) -> None:
        self._log(level, f"row {delivery.row_id!r}, attempt {delivery.attempt}: {text}", self.get_log_context(delivery.message), error)

    # --- rows asked for one by one ---------------------------------------------------------------------------------------------------

    @override
    async def get_one(self, *, timeout: float = 5.0) -> SQLMessage | None:
        """Claim one row, waiting for one at most `timeout` seconds. It is held until it is settled, or until the next one is asked for."""
        if self.calls:
            msg = "get_one() is for a subscriber without handlers: its rows would go to either"
            raise AssertionError(msg)
        await self._let_go()
        subscription = await self._open()
        delivery = await subscription.get_one(timeout)
        if delivery is None:
            return None
        self._asked = delivery
        return await self._message_of(delivery)

    @override
    async def __aiter__(self) -> AsyncIterator[SQLMessage]:
        stops = self._stops
        while stops == self._stops:
            try:
                message = await self.get_one(timeout=1.0)
            except ClosedError:
                if stops == self._stops:
                    raise
                return
            if message is not None:
                yield message

    async def _let_go(self) -> None:
        """The row asked for before, where nobody settled it, is tried again by the backoff, as under MANUAL: the next one is another."""
        asked, self._asked = self._asked, None
        if asked is not None and asked.outcome is None:
            self._say(logging.WARNING, asked, "the next row was asked for and this one was not settled; it is tried again by the backoff")
            await asked.settle(self._retry(asked))

    async def _message_of(self, delivery: Delivery) -> SQLMessage:
        parser, decoder = self._get_parser_and_decoder()
        context = self._outer_config.context
        message = await process_msg(
            msg=delivery,
            middlewares=(middleware(delivery, context=context) for middleware in self._broker_middlewares),
            parser=parser,
            decoder=decoder,
        )
        if not isinstance(message, SQLMessage):
            msg = f"the parser gave a {type(message).__name__}, and a row needs a SQLMessage"
            raise TypeError(msg)
        return message

    # --- what FastStream asks --------------------------------------------------------------------------------------------------------

    @override
    def _make_response_publisher(self, message: StreamMessage[Delivery]) -> Sequence[PublisherProto]:
        return (SQLFakePublisher(self._outer_config.producer, queue=message.reply_to, table=self.table),)

    @override
    def get_log_context(self, message: StreamMessage[Delivery] | None) -> dict[str, str]:
        if self._log_context is None or message is None:
            self._log_context = {"queue": self.queue}
        return {**self._log_context, "message_id": getattr(message, "message_id", "")}
