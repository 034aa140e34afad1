"""The queues' own metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter
from opentelemetry.semconv.trace import SpanAttributes

from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.readings import EVERY_SECONDS, Place, QueueReading, QueueReadings
from faststream_sql.engine.counters import QueueCounters

DATABASE = "db.namespace"
TABLE = "db.collection.name"
OUTCOME = "messaging.sql.outcome"


class SQLQueueTelemetry(QueueReadings):
    """What waits in the tables and what was done with it, as OpenTelemetry's metrics.

    ```python
    queues = SQLQueueTelemetry(broker)
    app = FastStream(broker, after_startup=[queues.start], on_shutdown=[queues.stop])
    ```

    Rows are counted every few seconds, in one statement for each table, which reads every unfinished row. Counters and the pool are read
    when the metrics are exported.
    """

    def __init__(
        self,
        *brokers: SQLBroker,
        meter_provider: MeterProvider | None = None,
        meter: Meter | None = None,
        every: float = EVERY_SECONDS,
    ) -> None:
        """Make the instruments.

        Args:
            brokers: whose queues they are.
            meter_provider: where metrics go; the global one unless given.
            meter: takes the place of the provider's.
            every: how often rows are counted, in seconds.

        Raises:
            DeclarationError: there is no broker, or the interval is not positive.
        """
        super().__init__(*brokers, every=every)
        self._meter = meter or get_meter("faststream_sql", meter_provider=meter_provider)
        self._gauge("ready", "Rows that are due and free", lambda reading: reading.depth.ready)
        self._gauge("delayed", "Rows that are not due yet", lambda reading: reading.depth.delayed)
        self._gauge("in_work", "Rows under a lease that has not ended", lambda reading: reading.depth.in_work)
        self._gauge("dead", "Dead letters of the queue", lambda reading: reading.dead)
        self._gauge("oldest_ready_age", "For how long the oldest ready row has been due", _oldest_ready, unit="s")
        self._counter("claims", "Rows taken into work by this process", lambda counters: counters.claimed)
        self._counter("settlements_unknown", "Settlements whose answer was lost", lambda counters: counters.unknown)
        self._counter("leases_renewed", "Leases prolonged by this process", lambda counters: counters.renewed)
        self._counter("leases_lost", "Rows that were found to be no longer this process' own", lambda counters: counters.lost)
        self._meter.create_observable_counter(
            "messaging.sql.queue.settlements", [self._settlements], "{row}", "Rows settled by this process, by outcome"
        )
        self._meter.create_observable_gauge(
            "messaging.sql.pool.in_use", [self._pools_in_use], "{connection}", "Connections of the pool that are given out"
        )
        self._meter.create_observable_gauge(
            "messaging.sql.pool.max", [self._pools_max], "{connection}", "The most connections that the pool opens"
        )

    def _gauge(self, name: str, text: str, value: Callable[[QueueReading], float | None], unit: str = "{row}") -> None:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            for reading in self.queues():
                found = value(reading)
                if found is not None:
                    yield Observation(found, _attributes(reading.place))

        self._meter.create_observable_gauge(f"messaging.sql.queue.{name}", [observe], unit, text)

    def _counter(self, name: str, text: str, value: Callable[[QueueCounters], int]) -> None:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            for place, counters in self.counters().items():
                yield Observation(value(counters), _attributes(place))

        self._meter.create_observable_counter(f"messaging.sql.queue.{name}", [observe], "{row}", text)

    def _settlements(self, _: CallbackOptions) -> Iterable[Observation]:
        for place, counters in self.counters().items():
            for outcome, count in counters.settlements.items():
                yield Observation(count, {**_attributes(place), OUTCOME: outcome})

    def _pools_in_use(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(pool.in_use, {**_SYSTEM, DATABASE: database}) for database, pool in self.pools().items()]

    def _pools_max(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(pool.size, {**_SYSTEM, DATABASE: database}) for database, pool in self.pools().items()]


_SYSTEM = {SpanAttributes.MESSAGING_SYSTEM: "sql"}


def _oldest_ready(reading: QueueReading) -> float | None:
    return reading.depth.oldest_ready_seconds if reading.depth.ready else 0.0


def _attributes(place: Place) -> dict[str, str]:
    return {**_SYSTEM, DATABASE: place.database, TABLE: place.table, SpanAttributes.MESSAGING_DESTINATION_NAME: place.queue}
