"""Renders a broker's metrics in the text formats of Prometheus, in pieces.

A node with thousands of partitions has tens of thousands of samples, which take about 10 us each. The event
loop can serve requests between two pieces. The values of a piece are read when it is rendered.

Bounds: SAMPLES_PER_PIECE samples are encoded at a time; a histogram has one for each bucket, and two more.
I/O: none. A scrape reads live objects and therefore must run on their event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sized
from copy import copy
from itertools import accumulate
from typing import Final, TypeAlias

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tidelog.base.time_histogram import BOUNDS_S, TimeHistogram
from tidelog.broker.observability.metrics import NANOSECONDS, BrokerMetrics, Family, FamilyKind

logger = logging.getLogger(__name__)

SAMPLES_PER_PIECE: Final = 100
_END: Final = b"# EOF\n"
_BUCKETS: Final = (*map(str, BOUNDS_S), "+Inf")
_HISTOGRAMS_PER_PIECE: Final = SAMPLES_PER_PIECE // (len(_BUCKETS) + 2)
_Encode: TypeAlias = Callable[[Collector], bytes]


class Exposition:
    """Reads and renders the metrics of one broker and of its process."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self._process = ProcessCollector(registry=None)

    def content_type(self, accept: str = "") -> str:
        """Return the content type of the format that the Accept header prefers."""
        return _encoder(accept)[1]

    def pieces(self, accept: str = "") -> Iterator[bytes]:
        """Yield all metrics in the format that the Accept header prefers.

        A metric that cannot be read is logged and omitted.
        """
        encode, content_type = _encoder(accept)
        for metric in self._process.collect():
            yield from _pieces(metric, encode)
        for family in self._metrics.all_families():
            yield from _family_pieces(family, encode)
        if content_type.startswith("application/openmetrics-text"):
            yield _END

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics as one text, and its content type."""
        return b"".join(self.pieces(accept)), self.content_type(accept)


_FAMILIES: Final[dict[FamilyKind, type[GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]]] = {
    FamilyKind.GAUGE: GaugeMetricFamily,
    FamilyKind.COUNTER: CounterMetricFamily,
    FamilyKind.HISTOGRAM: HistogramMetricFamily,
}


class _SingleMetricCollector(Collector):
    """A registry of one metric, as the library's encoders require it."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        """Return the metric."""
        return (self._metric,)


def _encoder(accept: str) -> tuple[_Encode, str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        # The library fails for an Accept header with an invalid version.
        return choose_encoder("")


def _pieces(metric: Metric, encode: _Encode) -> Iterator[bytes]:
    samples = metric.samples
    for start in _piece_starts(samples, SAMPLES_PER_PIECE):
        part = copy(metric)
        part.samples = samples[start : start + SAMPLES_PER_PIECE]
        yield _text(part, encode, has_head=start == 0)


def _family_pieces(family: Family, encode: _Encode) -> Iterator[bytes]:
    try:
        values = family.values()
    except Exception:
        logger.exception("Cannot read metric %s; this scrape does not contain it", family.name)
        return
    size = _HISTOGRAMS_PER_PIECE if family.kind is FamilyKind.HISTOGRAM else SAMPLES_PER_PIECE
    for start in _piece_starts(values, size):
        metric = _FAMILIES[family.kind](family.name, family.documentation, labels=family.labels)
        for labels, value in values[start : start + size]:
            if isinstance(metric, HistogramMetricFamily):
                assert isinstance(value, TimeHistogram)
                buckets = list(zip(_BUCKETS, accumulate(value.buckets), strict=True))
                metric.add_metric(labels, buckets, value.total_ns / NANOSECONDS)
            else:
                assert not isinstance(value, TimeHistogram)
                metric.add_metric(labels, value)
        yield _text(metric, encode, has_head=start == 0)


def _piece_starts(items: Sized, size: int) -> range:
    """Return the start indexes of pieces of up to `size` of the `items`; there is at least one piece."""
    return range(0, max(len(items), 1), size)


def _text(metric: Metric, encode: _Encode, *, has_head: bool) -> bytes:
    """Return the lines of the metric, without its comment lines if `has_head` is False."""
    text = encode(_SingleMetricCollector(metric)).removesuffix(_END)
    if has_head:
        return text
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"# "))
