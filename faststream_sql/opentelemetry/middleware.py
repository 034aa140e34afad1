"""The middleware."""

from __future__ import annotations

from faststream.opentelemetry import TelemetryMiddleware
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import TracerProvider

from faststream_sql.broker.response import SQLPublishCommand
from faststream_sql.opentelemetry.provider import SQLTelemetrySettingsProvider


class SQLTelemetryMiddleware(TelemetryMiddleware[SQLPublishCommand]):
    """Spans and metrics of what is published and handled. What waits in the tables is told by `SQLQueueTelemetry`.

    The trace travels in the headers, so it goes on in another process, and over retries, only where the table has the role Headers.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        meter: Meter | None = None,
        include_messages_counters: bool = True,
    ) -> None:
        """Make the instruments.

        Args:
            tracer_provider: where spans go; the global one unless given.
            meter_provider: where metrics go; the global one unless given.
            meter: takes the place of the provider's.
            include_messages_counters: whether messages are counted beside the durations.
        """
        super().__init__(
            settings_provider_factory=lambda _: SQLTelemetrySettingsProvider(),
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            meter=meter,
            include_messages_counters=include_messages_counters,
        )
