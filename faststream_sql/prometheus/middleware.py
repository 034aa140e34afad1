"""The middleware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from faststream.prometheus import PrometheusMiddleware
from prometheus_client import CollectorRegistry

from faststream_sql.broker._faststream import EMPTY
from faststream_sql.broker.response import SQLPublishCommand
from faststream_sql.engine import Delivery
from faststream_sql.prometheus.provider import SQLMetricsSettingsProvider


class SQLPrometheusMiddleware(PrometheusMiddleware[Delivery, SQLPublishCommand]):
    """FastStream's metrics of what is published and handled. What waits in the tables is told by `SQLQueueMetrics`."""

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        app_name: str = EMPTY,
        metrics_prefix: str = "faststream",
        received_messages_size_buckets: Sequence[float] | None = None,
        custom_labels: dict[str, str | Callable[[Any], str]] | None = None,
    ) -> None:
        """Make the metrics.

        Args:
            registry: where they are registered.
            app_name: the label `app_name`; the prefix unless given.
            metrics_prefix: what their names begin with.
            received_messages_size_buckets: of the histogram of sizes, in bytes.
            custom_labels: more labels, each a text or a function of the delivery (None for a publish).
        """
        super().__init__(
            settings_provider_factory=lambda _: SQLMetricsSettingsProvider(),
            registry=registry,
            app_name=app_name,
            metrics_prefix=metrics_prefix,
            received_messages_size_buckets=received_messages_size_buckets,
            custom_labels=custom_labels,
        )
