"""What the broker's parts share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from faststream.exceptions import IncorrectState

from faststream_sql.broker._faststream import BrokerConfig, Context, UnderlyingDriverAnnotation, UnderlyingDriverAnnotations
from faststream_sql.broker.producer import SQLProducer, UnsetProducer
from faststream_sql.broker.routes import Routes
from faststream_sql.engine import Clock, Engine, SystemClock

if TYPE_CHECKING:
    from faststream_sql.drivers.base import Pool

_NO_BROKER = "this endpoint belongs to a router that no broker includes: broker.include_router(router)"


async def _no_engine() -> Engine:
    raise IncorrectState(_NO_BROKER)


def _no_pool() -> Pool:
    raise IncorrectState(_NO_BROKER)


def _annotations_to_use() -> UnderlyingDriverAnnotations:
    """What a handler's argument of a bare class was meant to be: FastStream says so at the start."""
    from faststream_sql.broker.broker import SQLBroker
    from faststream_sql.broker.message import SQLMessage

    return {
        bare: UnderlyingDriverAnnotation(type_hint=Annotated[bare, Context(name)], module="faststream_sql.annotations", name=bare.__name__)
        for bare, name in ((SQLMessage, "message"), (SQLBroker, "broker"))
    }


@dataclass(kw_only=True)
class SQLBrokerConfig(BrokerConfig):
    """The broker's own settings beside FastStream's. Routers are made with the defaults, which their broker's take over."""

    producer: SQLProducer | UnsetProducer = field(default_factory=UnsetProducer)
    routes: Routes = field(default_factory=lambda: Routes(None, {}), repr=False)
    says_where: bool = True
    """Whether documents say where rows are. A broker that was made of nothing shows what its handlers say, and no defaults."""
    default_driver_annotations: UnderlyingDriverAnnotations = field(default_factory=_annotations_to_use, repr=False)
    engine: Callable[[], Awaitable[Engine]] = field(default=_no_engine, repr=False)
    """Connects where that is still to be done, and gives the engine."""
    clock: Clock = field(default_factory=SystemClock)
    make_pool: Callable[[], Pool] = field(default=_no_pool, repr=False)
    """A pool for the engine, not yet open."""
    make_engine: Callable[..., Engine] = field(default=Engine, repr=False)
    """What connecting makes of the pool, the clock and the settings. These three are read at each connect."""
