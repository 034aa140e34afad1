"""Metrics of Prometheus."""

from faststream_sql.prometheus.middleware import SQLPrometheusMiddleware
from faststream_sql.prometheus.provider import SQLMetricsSettingsProvider

__all__ = ("SQLMetricsSettingsProvider", "SQLPrometheusMiddleware")
