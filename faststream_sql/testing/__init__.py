"""Testing a service: `TestSQLBroker` runs its handlers on real rows in memory, in fake time."""

from faststream_sql.testing.broker import TestSQLBroker
from faststream_sql.testing.clock import FakeClock
from faststream_sql.testing.hands import EndlessDeliveryError
from faststream_sql.testing.producer import FakeProducer

__all__ = ("EndlessDeliveryError", "FakeClock", "FakeProducer", "TestSQLBroker")
