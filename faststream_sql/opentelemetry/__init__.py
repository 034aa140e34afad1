"""Traces and metrics of OpenTelemetry."""

try:
    import opentelemetry.sdk  # noqa: F401  (what is missing is said here, and by one sentence)
except ModuleNotFoundError as error:
    msg = "faststream_sql.opentelemetry needs the library 'opentelemetry-sdk': pip install 'faststream-sql[otel]'"
    raise ImportError(msg) from error

from faststream_sql.opentelemetry.middleware import SQLTelemetryMiddleware
from faststream_sql.opentelemetry.provider import SQLTelemetrySettingsProvider
from faststream_sql.opentelemetry.queues import SQLQueueTelemetry

__all__ = ("SQLQueueTelemetry", "SQLTelemetryMiddleware", "SQLTelemetrySettingsProvider")
