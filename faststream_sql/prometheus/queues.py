"""The queues' own metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from faststream_sql.broker._faststream import EMPTY
from faststream_sql.broker.broker import SQLBroker
from faststream_sql.broker.readings import EVERY_SECONDS, QueueReadings

POOL_LABELS = ("app_name", "broker", "database")
QUEUE_LABELS = (*POOL_LABELS, "table", "queue")


class SQLQueueMetrics(QueueReadings, Collector):
    """What waits in the tables and what was done with it, as Prometheus' metrics.

    ```python
    metrics = SQLQueueMetrics(broker, registry=registry)
    app = FastStream(broker, after_startup=[metrics.start], on_shutdown=[metrics.stop])
    ```

    Rows are counted every few seconds, in one statement for each table, which reads every unfinished row. Counters and the pool are read
    when the registry is. One object serves all brokers of a registry.
    """

    def __init__(
        self,
        *brokers: SQLBroker,
        registry: CollectorRegistry,
        app_name: str = EMPTY,
        metrics_prefix: str = "faststream",
        every: float = EVERY_SECONDS,
    ) -> None:
        """Register the metrics.

        Args:
            brokers: whose queues they are.
            registry: where they are registered.
            app_name: the label `app_name`; the prefix unless given.
            metrics_prefix: what their names begin with, before `_sql`.
            every: how often rows are counted, in seconds.

        Raises:
            DeclarationError: there is no broker, or the interval is not positive.
        """
        super().__init__(*brokers, every=every)
        self._prefix = f"{metrics_prefix}_sql"
        self._app_name = metrics_prefix if app_name is EMPTY else app_name
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """The metrics without values, for the registry to know their names."""
        families = _Families(self._prefix)
        yield from families

    def collect(self) -> Iterator[Metric]:
        """The metrics as they stand. Does no I/O: a registry is read in a thread of its exporter."""
        families = _Families(self._prefix)
        for reading in self.queues():
            labels = self._labels(*reading.place)
            depth = reading.depth
            families.ready.add_metric(labels, depth.ready)
            families.delayed.add_metric(labels, depth.delayed)
            if depth.ready == 0 or depth.oldest_ready_seconds is not None:  # a table without due times knows no age
                families.oldest_ready.add_metric(labels, depth.oldest_ready_seconds or 0.0)
            if depth.in_work is not None:
                families.in_work.add_metric(labels, depth.in_work)
            if reading.dead is not None:
                families.dead.add_metric(labels, reading.dead)
        for place, counters in self.counters().items():
            labels = self._labels(*place)
            families.claims.add_metric(labels, counters.claimed)
            for outcome, count in counters.settlements.items():
                families.settlements.add_metric([*labels, outcome], count)
            families.unknown.add_metric(labels, counters.unknown)
            families.renewed.add_metric(labels, counters.renewed)
            families.lost.add_metric(labels, counters.lost)
        for database, pool in self.pools().items():
            families.pool_in_use.add_metric(self._labels(database), pool.in_use)
            families.pool_size.add_metric(self._labels(database), pool.size)
        yield from families

    def _labels(self, *where: str) -> Sequence[str]:
        return (self._app_name, "sql", *where)


class _Families:
    """Every metric, empty."""

    def __init__(self, prefix: str) -> None:
        def gauge(name: str, text: str, labels: Sequence[str] = QUEUE_LABELS) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"{prefix}_{name}", text, labels=labels)

        def counter(name: str, text: str, labels: Sequence[str] = QUEUE_LABELS) -> CounterMetricFamily:
            return CounterMetricFamily(f"{prefix}_{name}", text, labels=labels)

        self.ready = gauge("queue_ready", "Rows that are due and free. Those held by locks are among them: their rows do not say so")
        self.delayed = gauge("queue_delayed", "Rows that are not due yet")
        self.in_work = gauge("queue_in_work", "Rows under a lease that has not ended; of tables with leases alone")
        self.oldest_ready = gauge("queue_oldest_ready_age_seconds", "For how long the oldest ready row has been due")
        self.dead = gauge("queue_dead", "Dead letters of the queue")
        self.claims = counter("queue_claims", "Rows taken into work by this process")
        self.settlements = counter("queue_settlements", "Rows settled by this process, by outcome", (*QUEUE_LABELS, "outcome"))
        self.unknown = counter("queue_settlements_unknown", "Settlements whose answer was lost: the row is settled or gone")
        self.renewed = counter("queue_leases_renewed", "Leases prolonged by this process")
        self.lost = counter("queue_leases_lost", "Rows that were found to be no longer this process' own")
        self.pool_in_use = gauge("pool_connections_in_use", "Connections of the pool that are given out", POOL_LABELS)
        self.pool_size = gauge("pool_connections_max", "The most connections that the pool opens", POOL_LABELS)

    def __iter__(self) -> Iterator[Metric]:
        yield from vars(self).values()
