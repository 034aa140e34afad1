"""What the broker's parts share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from faststream.exceptions import IncorrectState

from faststream_sql.broker._faststream import BrokerConfig
from faststream_sql.broker.producer import SQLProducer, UnsetProducer
from faststream_sql.broker.routes import Routes

if TYPE_CHECKING:
    from faststream_sql.engine import Engine


async def _no_engine() -> Engine:
    msg = "this endpoint belongs to a router that no broker includes: broker.include_router(router)"
    raise IncorrectState(msg)


@dataclass(kw_only=True)
class SQLBrokerConfig(BrokerConfig):
    """The broker's own settings beside FastStream's. Routers are made with the defaults, which their broker's take over."""

    producer: SQLProducer | UnsetProducer = field(default_factory=UnsetProducer)
    routes: Routes = field(default_factory=lambda: Routes(None, {}), repr=False)
    engine: Callable[[], Awaitable[Engine]] = field(default=_no_engine, repr=False)
    """Connects where that is still to be done, and gives the engine."""
