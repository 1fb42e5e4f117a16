"""A broker's metrics as the text that Prometheus scrapes.

I/O: none, but a scrape reads live objects and so must run on their loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from broker.metrics import BrokerMetrics, Family
from broker.request_metrics import LATENCY_BOUNDS_MS, ApiMetrics
from protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class Exposition(Collector):
    """Reads one broker's metrics, and those of its process, when it is asked for them."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics and their content type, in the format that the Accept header prefers."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def describe(self) -> Iterable[Metric]:
        """Nothing: what is reported is only known when it is read."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read everything; a reading that fails is logged and left out."""
        yield from _request_families(self._metrics.requests.apis.values())
        for family in self._metrics.families:
            try:
                metric = _metric(family)
            except Exception:
                logger.exception("metric %s cannot be read", family.name)
            else:
                yield metric


def _metric(family: Family) -> Metric:
    kind = CounterMetricFamily if family.is_counter else GaugeMetricFamily
    metric = kind(family.name, family.documentation, labels=family.labels)
    reading = family.read()
    if isinstance(reading, Mapping):
        for labels, value in reading.items():
            metric.add_metric(labels, value)
    else:
        metric.add_metric((), reading)
    return metric


def _request_families(apis: Iterable[ApiMetrics]) -> Iterator[Metric]:
    prefix = "kafka_network_requestmetrics_"
    requests = CounterMetricFamily(prefix + "requests", "Requests received.", labels=("request", "version"))
    errors = CounterMetricFamily(prefix + "errors", "Error responses.", labels=("request", "error"))
    times = HistogramMetricFamily(
        prefix + "totaltimems", "Milliseconds from request to answer.", labels=("request",)
    )
    for api in apis:
        for version, count in enumerate(api.requests):
            if count:
                requests.add_metric((api.name, str(version)), count)
        for code, count in api.errors.items():
            errors.add_metric((api.name, ErrorCode(code).name), count)
        bounds = [*(str(float(bound)) for bound in LATENCY_BOUNDS_MS), "+Inf"]
        buckets = list(zip(bounds, accumulate(api.latency_buckets), strict=True))
        times.add_metric((api.name,), buckets, api.latency_total_ns / 1e6)
    yield requests
    yield errors
    yield times
