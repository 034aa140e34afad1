"""The engine: claim forms, workers, settlement, wake-up and clocks. Usable alone, without FastStream."""

from faststream_sql.engine.backoff import ExponentialBackoff, backoff_seconds
from faststream_sql.engine.clock import Clock, DatabaseClock, SystemClock
from faststream_sql.engine.delivery import Delivery
from faststream_sql.engine.engine import Engine, EngineSettings
from faststream_sql.engine.options import SubscriptionOptions
from faststream_sql.engine.outcome import Ack, DeadLetter, Nack, Outcome, Reject, Release
from faststream_sql.engine.publish import NewRow
from faststream_sql.engine.subscription import Subscription

__all__ = (
    "Ack",
    "Clock",
    "DatabaseClock",
    "DeadLetter",
    "Delivery",
    "Engine",
    "EngineSettings",
    "ExponentialBackoff",
    "Nack",
    "NewRow",
    "Outcome",
    "Reject",
    "Release",
    "Subscription",
    "SubscriptionOptions",
    "SystemClock",
    "backoff_seconds",
)
