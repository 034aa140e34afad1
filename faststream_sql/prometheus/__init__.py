"""Metrics of Prometheus."""

try:
    import prometheus_client  # noqa: F401  (what is missing is said here, and by one sentence)
except ModuleNotFoundError as error:
    msg = "faststream_sql.prometheus needs the library 'prometheus_client': pip install 'faststream-sql[prometheus]'"
    raise ImportError(msg) from error

from faststream_sql.prometheus.middleware import SQLPrometheusMiddleware
from faststream_sql.prometheus.provider import SQLMetricsSettingsProvider
from faststream_sql.prometheus.queues import SQLQueueMetrics

__all__ = ("SQLMetricsSettingsProvider", "SQLPrometheusMiddleware", "SQLQueueMetrics")
