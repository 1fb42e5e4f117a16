"""Exports a broker's metrics to an OpenTelemetry collector over HTTP (OTLP).

The SDK of OpenTelemetry encodes and sends; it is the extra `otel`. Its instruments are not used: the metrics
are read as at a scrape of Prometheus, on the event loop and in pieces. Then a thread passes them to the SDK's
exporter. The names are the same, without the suffix `_total`, which collectors add for Prometheus.

The exporter also reads the environment variables of the OpenTelemetry specification, for example
OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE.

Bounds: one export at a time, at most EXPORT_TIMEOUT_S for each attempt.
Errors: a failed export is logged once for each outage; the next one contains the same totals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.base.clock import Clock
from tidelog.base.config_definition import ConfigError
from tidelog.base.time_histogram import BOUNDS_S, TimeHistogram
from tidelog.broker.observability.metrics import NANOSECONDS, BrokerMetrics, Family, FamilyKind

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import (
        Gauge,
        Histogram,
        HistogramDataPoint,
        Metric,
        MetricsData,
        Sum,
    )

logger = logging.getLogger(__name__)

ENDPOINT_KEY: Final = "metrics.otlp.endpoint"
EXPORT_TIMEOUT_S: Final = 5
FAMILIES_PER_PIECE: Final = 10
_NANOSECONDS_PER_MS: Final = 1_000_000


class HistogramValue(NamedTuple):
    """A copy of a histogram, which another thread may read."""

    buckets: tuple[int, ...]
    total_ns: int


class FamilyValues(NamedTuple):
    """The values of one metric as of one export."""

    family: Family
    values: tuple[tuple[tuple[str, ...], float | HistogramValue], ...]


class OtlpExport:
    """Sends the metrics of one node every `interval_ms` to `endpoint`, from `start` to `close`.

    `attributes` describe the node, with the names of OpenTelemetry's semantic conventions.
    """

    def __init__(
        self,
        metrics: BrokerMetrics,
        endpoint: str,
        interval_ms: int,
        attributes: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._metrics = metrics
        self._endpoint = endpoint
        self._interval_s = interval_ms / 1000
        self._attributes = dict(attributes)
        self._clock = clock
        self._started_ns = 0
        self._exporter: OTLPMetricExporter | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    async def start(self) -> None:
        """Start the exports. Errors: ConfigError if the extra is not installed."""
        self._started_ns = self._clock.wall_ms() * _NANOSECONDS_PER_MS
        # In a thread, because importing the SDK takes long.
        self._exporter = await asyncio.to_thread(_create_exporter, self._endpoint)
        self._task = asyncio.get_running_loop().create_task(self._run(self._exporter))

    async def close(self) -> None:
        """End the exports; one that runs in a thread is not awaited."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._exporter is not None:
            self._exporter.shutdown()

    async def _run(self, exporter: OTLPMetricExporter) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                values = await self._read()
                now_ns = self._clock.wall_ms() * _NANOSECONDS_PER_MS
                failure = await asyncio.to_thread(self._export, exporter, values, now_ns)
            except Exception as error:
                failure = str(error) or type(error).__name__
            self.report(failure)

    async def _read(self) -> list[FamilyValues]:
        """Return the current values; requests are served in between."""
        values = []
        for number, family in enumerate(self._metrics.families, 1):
            try:
                values.append(_copy(family))
            except Exception:
                logger.exception("Cannot read metric %s; this export does not contain it", family.name)
            if number % FAMILIES_PER_PIECE == 0:
                await asyncio.sleep(0)
        return values

    def _export(self, exporter: OTLPMetricExporter, values: list[FamilyValues], now_ns: int) -> str | None:
        """Send the values; return the reason of a failure. Runs in a thread."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        result = exporter.export(_metrics_data(values, self._attributes, self._started_ns, now_ns))
        return None if result is MetricExportResult.SUCCESS else "the collector did not accept them"

    def report(self, failure: str | None) -> None:
        """Log the begin or the end of an outage of the collector; `failure` is None after a success."""
        if failure is not None and not self._is_failing:
            logger.warning(
                "Cannot export metrics to %s: %s; retrying every %g s",
                self._endpoint,
                failure,
                self._interval_s,
            )
        elif failure is None and self._is_failing:
            logger.info("Exporting metrics to %s again", self._endpoint)
        self._is_failing = failure is not None


def _create_exporter(endpoint: str) -> OTLPMetricExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError:
        reason = "the SDK of OpenTelemetry is not installed; run pip install 'tidelog[otel]'"
        raise ConfigError(ENDPOINT_KEY, endpoint, reason) from None
    return OTLPMetricExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)


def _copy(family: Family) -> FamilyValues:
    return FamilyValues(
        family,
        tuple(
            (labels, HistogramValue(tuple(value.buckets), value.total_ns))
            if isinstance(value, TimeHistogram)
            else (labels, value)
            for labels, value in family.values()
        ),
    )


def _metrics_data(
    values: list[FamilyValues], attributes: Mapping[str, str], started_ns: int, now_ns: int
) -> MetricsData:
    """Return the values in the data model of the SDK."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    metrics = [_metric(each, started_ns, now_ns) for each in values if each.values]
    scope = ScopeMetrics(scope=InstrumentationScope("tidelog"), metrics=metrics, schema_url="")
    resource = Resource.create(dict(attributes))
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


def _metric(values: FamilyValues, started_ns: int, now_ns: int) -> Metric:
    from opentelemetry.sdk.metrics.export import Metric

    family = values.family
    unit = "s" if family.name.endswith("_seconds") else "By" if family.name.endswith("bytes") else "1"
    return Metric(family.name, family.documentation, unit, _data(values, started_ns, now_ns))


def _data(values: FamilyValues, started_ns: int, now_ns: int) -> Gauge | Sum | Histogram:
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Histogram,
        NumberDataPoint,
        Sum,
    )

    family = values.family
    if family.kind is FamilyKind.HISTOGRAM:
        points = [
            _histogram_point(dict(zip(family.labels, labels, strict=True)), value, started_ns, now_ns)
            for labels, value in values.values
            if isinstance(value, HistogramValue)
        ]
        return Histogram(points, AggregationTemporality.CUMULATIVE)
    numbers = [
        NumberDataPoint(dict(zip(family.labels, labels, strict=True)), started_ns, now_ns, float(value))
        for labels, value in values.values
        if not isinstance(value, HistogramValue)
    ]
    if family.kind is FamilyKind.COUNTER:
        return Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Gauge(numbers)


def _histogram_point(
    labels: Mapping[str, str], value: HistogramValue, started_ns: int, now_ns: int
) -> HistogramDataPoint:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint

    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=started_ns,
        time_unix_nano=now_ns,
        count=sum(value.buckets),
        sum=value.total_ns / NANOSECONDS,
        bucket_counts=value.buckets,
        explicit_bounds=BOUNDS_S,
        # Optional in the protocol, and not known here.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )
