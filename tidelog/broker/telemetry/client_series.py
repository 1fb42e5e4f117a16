"""The metrics that clients have pushed, as metrics of the endpoint for Prometheus.

The name of a metric is `tidelog_client_` and the client's name without `org.apache.kafka.`, with underscores:
org.apache.kafka.producer.connection.creation.rate is tidelog_client_producer_connection_creation_rate. The
labels are the client's id, its instance id, and the attributes that it has set itself.

Clients push the increases of counters, which are added. Other values replace the former ones. Histograms are
ignored: Kafka's clients send none.

Bounds: `series_max` series of all clients; `LABELS_MAX`, `NAME_CHARACTERS_MAX` and `LABEL_CHARACTERS_MAX` for
each. Series beyond them are counted and not stored. The series of a client are removed when it has not pushed
for three intervals and for a minute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.observability.metrics import Family, FamilyKind, Reading
from tidelog.broker.telemetry.pushed_metrics import PushedMetrics
from tidelog.cluster.client_metrics import CLIENT_ID, CLIENT_INSTANCE_ID
from tidelog.protocol.steps import Steps

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint

PREFIX: Final = "tidelog_client_"
LABELS_MAX: Final = 12
LABELS_OF_METRIC_MAX: Final = 24
"""The labels of all series of one metric, because Prometheus needs the same ones for each."""
NAME_CHARACTERS_MAX: Final = 200
LABEL_CHARACTERS_MAX: Final = 100
_EXPIRY_MS_MIN: Final = 60_000
_EXPIRY_INTERVALS: Final = 3
_DELTA: Final = 1
"""AGGREGATION_TEMPORALITY_DELTA"""
_NO_VALUE: Final = 1
"""DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK"""
_KAFKA_PREFIX: Final = re.compile(r"(?:org\.apache\.kafka\.)?(.*)", re.DOTALL)
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
_RESERVED_ENDS: Final = ("_total", "_created", "_bucket", "_info")
"""Prometheus appends these suffixes itself: such a name could equal that of another metric."""

Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False)
class _Metric:
    """The series of one name, and the names of all their labels."""

    kind: FamilyKind
    label_names: dict[str, None] = field(default_factory=dict)
    values: dict[Labels, float] = field(default_factory=dict)

    def has_room(self, labels: Labels) -> bool:
        """Return whether the metric may have series with these labels too."""
        new_names = sum(name not in self.label_names for name, _ in labels)
        return len(self.label_names) + new_names <= LABELS_OF_METRIC_MAX

    def read(self) -> Reading:
        """Return the values by label values; a label that a series does not have is empty."""
        names = tuple(self.label_names)
        readings: dict[tuple[str, ...], float] = {}
        for labels, value in self.values.items():
            texts = dict(labels)
            readings[tuple(texts.get(name, "") for name in names)] = value
        return readings


@dataclass(slots=True, eq=False)
class _Client:
    """The series of one client, and the time after which they are removed."""

    expires_ms: int = 0
    series: dict[tuple[str, Labels], None] = field(default_factory=dict)


class ClientSeries:
    """Stores the latest values of the metrics of clients, from which each scrape reads."""

    def __init__(self, series_max: int, now_ms: Callable[[], int]) -> None:
        """`now_ms` returns monotonic time."""
        self.count = 0
        """The number of series."""
        self.rejected_count = 0
        """The total of pushed values that were not stored because of a bound or of their kind."""
        self._series_max = series_max
        self._now_ms = now_ms
        self._metrics: dict[str, _Metric] = {}
        self._clients: dict[UUID, _Client] = {}

    def receive(self, metrics: PushedMetrics) -> Steps[None]:
        """Store the values of one push."""
        self._remove_expired()
        for resource in metrics.data.resource_metrics:
            common = _common_labels(metrics, resource.resource.attributes)
            yield None
            for scope in resource.scope_metrics:
                yield None
                for metric in scope.metrics:
                    yield None
                    for kind, point, is_increase in _points(metric):
                        labels = {**_own_labels(metrics, point.attributes), **common}
                        series = _series(metric.name, labels)
                        if series is None or not self._store(metrics, series, kind, point, is_increase):
                            self.rejected_count += 1
                        yield None
        client = self._clients.get(metrics.client_instance_id)
        if client is not None:
            client.expires_ms = self._expires_ms(metrics)

    def families(self) -> Iterator[Family]:
        """Return the metrics of all clients as they are now."""
        self._remove_expired()
        for name, metric in list(self._metrics.items()):
            documentation = "A metric that clients have pushed."
            yield Family(name, documentation, tuple(metric.label_names), metric.read, metric.kind)

    def _store(
        self,
        metrics: PushedMetrics,
        series: tuple[str, Labels],
        kind: FamilyKind,
        point: NumberDataPoint,
        is_increase: bool,
    ) -> bool:
        """Store one value; return False if it is not stored."""
        name, labels = series
        metric = self._metrics.get(name)
        if metric is not None and metric.kind is not kind:
            return False
        value = float(point.as_double if point.WhichOneof("value") == "as_double" else point.as_int)
        if metric is None or labels not in metric.values:
            if self.count >= self._series_max:
                return False
            if metric is not None and not metric.has_room(labels):
                return False
            metric = self._add(metrics, series, kind)
        metric.values[labels] = metric.values[labels] + value if is_increase else value
        return True

    def _add(self, metrics: PushedMetrics, series: tuple[str, Labels], kind: FamilyKind) -> _Metric:
        name, labels = series
        metric = self._metrics.setdefault(name, _Metric(kind))
        metric.values[labels] = 0.0
        metric.label_names.update(dict.fromkeys(label for label, _ in labels))
        client = self._clients.setdefault(metrics.client_instance_id, _Client())
        client.series[series] = None
        client.expires_ms = self._expires_ms(metrics)
        self.count += 1
        return metric

    def _expires_ms(self, metrics: PushedMetrics) -> int:
        return self._now_ms() + max(_EXPIRY_MS_MIN, _EXPIRY_INTERVALS * metrics.push_interval_ms)

    def _remove_expired(self) -> None:
        now_ms = self._now_ms()
        expired = [key for key, client in self._clients.items() if now_ms >= client.expires_ms]
        for key in expired:
            for name, labels in self._clients.pop(key).series:
                metric = self._metrics[name]
                del metric.values[labels]
                self.count -= 1
                if not metric.values:
                    del self._metrics[name]


def _points(metric: Metric) -> Iterator[tuple[FamilyKind, NumberDataPoint, bool]]:
    """Yield the kind and the values of a metric, and whether the values are increases."""
    form = metric.WhichOneof("data")
    if form == "gauge":
        kind, points, is_increase = FamilyKind.GAUGE, metric.gauge.data_points, False
    elif form == "sum":
        kind = FamilyKind.COUNTER if metric.sum.is_monotonic else FamilyKind.GAUGE
        points, is_increase = metric.sum.data_points, metric.sum.aggregation_temporality == _DELTA
    else:
        return
    for point in points:
        if not point.flags & _NO_VALUE:
            yield kind, point, is_increase


def _common_labels(metrics: PushedMetrics, resource: Iterable[KeyValue]) -> dict[str, str]:
    """Return the labels of all series of a client: its ids, and the attributes that it has set."""
    own = _own_labels(metrics, resource)
    ids = (CLIENT_ID, CLIENT_INSTANCE_ID)
    return own | {key: metrics.attributes[key] for key in ids if key in metrics.attributes}


def _own_labels(metrics: PushedMetrics, attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Return the labels of one value; a client cannot set those that the broker sets."""
    return {
        _NOT_IN_NAMES.sub("_", each.key): _text(each.value)
        for each in attributes
        if each.key not in metrics.attributes
    }


def _text(value: AnyValue) -> str:
    form = value.WhichOneof("value")
    return str(getattr(value, form)) if form in ("string_value", "int_value", "bool_value") else ""


def _series(name: str, labels: dict[str, str]) -> tuple[str, Labels] | None:
    """Return the name and the labels of a series; None if they exceed a bound or are not allowed."""
    match = _KAFKA_PREFIX.fullmatch(name[: NAME_CHARACTERS_MAX + 1])
    assert match is not None
    short = PREFIX + _NOT_IN_NAMES.sub("_", match[1]).removesuffix("_total")
    if len(name) > NAME_CHARACTERS_MAX or short.endswith(_RESERVED_ENDS) or len(labels) > LABELS_MAX:
        return None
    for label, text in labels.items():
        if not label or label[0].isdigit() or label.startswith("__"):
            return None
        if len(label) > LABEL_CHARACTERS_MAX or len(text) > LABEL_CHARACTERS_MAX:
            return None
    return short, tuple(sorted(labels.items()))
