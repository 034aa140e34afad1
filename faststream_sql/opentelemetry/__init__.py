"""Traces and metrics of OpenTelemetry."""

from faststream_sql.opentelemetry.middleware import SQLTelemetryMiddleware
from faststream_sql.opentelemetry.provider import SQLTelemetrySettingsProvider

__all__ = ("SQLTelemetryMiddleware", "SQLTelemetrySettingsProvider")
