"""Metrics in OpenTelemetry's data model, as clients push them."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Metric,
    MetricsData,
)


def gauge(name: str, value: float, **labels: str) -> Metric:
    """Return a gauge with one value."""
    metric = Metric(name=name)
    point = metric.gauge.data_points.add(as_double=value)
    for key, text in labels.items():
        point.attributes.add(key=key).value.string_value = text
    return metric


def counter(name: str, value: int, *, is_increase: bool = True, **labels: str) -> Metric:
    """Return a counter with one value, which is an increase or a total."""
    metric = Metric(name=name)
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = (
        AGGREGATION_TEMPORALITY_DELTA if is_increase else AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    point = metric.sum.data_points.add(as_int=value)
    for key, text in labels.items():
        point.attributes.add(key=key).value.string_value = text
    return metric


def metrics_data(*metrics: Metric, resource: Mapping[str, str] | None = None) -> MetricsData:
    """Return metrics of one resource."""
    data = MetricsData()
    each = data.resource_metrics.add()
    for key, text in (resource or {}).items():
        each.resource.attributes.add(key=key).value.string_value = text
    each.scope_metrics.add().metrics.extend(metrics)
    return data
