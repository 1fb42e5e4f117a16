"""The metrics of one push, in OpenTelemetry's data model.

The resource of each metric gets attributes that the broker adds: the id of the instance, the software,
the address and the principal of the client. The classes of OpenTelemetry decode the metrics; they are part of
the extra `otel`, and are imported only if telemetry of clients is enabled.

Bounds: `ELEMENTS_MAX` and `ATTRIBUTES_MAX`, because an empty element has two bytes, and takes many times as
much memory and time. `MEMORY_BYTES_MAX` bounds the attributes that the broker adds to each resource.
Errors: ValueError for bytes that are not metrics, or have too many elements.
Source: opentelemetry/proto/metrics/v1/metrics.proto; KIP-714 (attributes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.steps import Steps

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, ResourceMetrics

ELEMENTS_MAX: Final = 100_000
"""The number of elements of a push: resources, scopes, metrics, values, and the attributes of all of these.

Kafka's clients send a resource, a scope, a metric and a value for each metric: 1 MiB of them have 70,000.
"""
ATTRIBUTES_MAX: Final = 1_000
"""The number of attributes of one resource or value, which are read in one step."""
MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024
"""The memory of a push, as it is counted."""
ELEMENT_BYTES: Final = 130
"""The memory of a decoded element without its texts."""
FACTOR_OF_BYTES: Final = 30
"""The memory of each byte of a push: of texts, and of elements within values and attributes, which are not
counted. The factor is that of empty ones.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedMetrics:
    """The metrics of one push. `attributes` describe the client; they are attributes of `data` too.

    `memory_bytes` is a bound on the memory of `data`, which is a multiple of the bytes that were pushed.
    """

    client_instance_id: UUID
    attributes: Mapping[str, str]
    push_interval_ms: int
    memory_bytes: int
    data: MetricsData


def decode_metrics(
    client_instance_id: UUID, attributes: Mapping[str, str], push_interval_ms: int, content: bytes
) -> Steps[PushedMetrics]:
    """Return the metrics in `content`. Errors: ValueError."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    try:
        data = MetricsData.FromString(content)
    except DecodeError as error:
        raise ValueError(f"{len(content)} bytes are not metrics of OpenTelemetry: {error}") from None
    yield None
    memory_bytes = FACTOR_OF_BYTES * len(content) + (yield from _memory_of_elements(data, attributes))
    for each in data.resource_metrics:
        resource = each.resource
        kept = [attribute for attribute in resource.attributes if attribute.key not in attributes]
        del resource.attributes[:]
        resource.attributes.extend(kept)
        for key, text in attributes.items():
            resource.attributes.add(key=key).value.string_value = text
        yield None
    return PushedMetrics(
        client_instance_id=client_instance_id,
        attributes=attributes,
        push_interval_ms=push_interval_ms,
        memory_bytes=memory_bytes,
        data=data,
    )


def _memory_of_elements(data: MetricsData, added: Mapping[str, str]) -> Steps[int]:
    """Return the memory of the elements, if each resource gets the attributes `added`.

    Errors: ValueError for too many elements, and for too long attributes.
    """
    count = len(data.resource_metrics) * (1 + len(added))
    parts = chain.from_iterable(map(_element_counts, data.resource_metrics))
    for part in chain((0,), parts):
        count += part
        if count > ELEMENTS_MAX:
            raise ValueError(f"the metrics have more than {ELEMENTS_MAX} elements")
        yield None
    text_bytes = sum(len(text.encode()) for item in added.items() for text in item)
    memory_bytes = count * ELEMENT_BYTES + len(data.resource_metrics) * text_bytes
    if memory_bytes > MEMORY_BYTES_MAX:
        raise ValueError(f"the metrics with the attributes of the client need {memory_bytes} bytes of memory")
    return memory_bytes


def _element_counts(resource: ResourceMetrics) -> Iterator[int]:
    """Yield the numbers of the elements in a resource."""
    yield _attribute_count(resource.resource.attributes) + len(resource.scope_metrics)
    for scope in resource.scope_metrics:
        yield len(scope.metrics) + len(scope.scope.attributes)
        for metric in scope.metrics:
            yield from _value_counts(metric)


def _value_counts(metric: Metric) -> Iterator[int]:
    """Yield the numbers of the values of a metric, and of their attributes and exemplars."""
    form = metric.WhichOneof("data")
    values = getattr(metric, form).data_points if form is not None else ()
    yield len(values) + len(metric.metadata)
    for value in values:
        yield _attribute_count(value.attributes) + (0 if form == "summary" else len(value.exemplars))


def _attribute_count(attributes: Sequence[KeyValue]) -> int:
    if len(attributes) > ATTRIBUTES_MAX:
        raise ValueError(f"{len(attributes)} attributes of one element, allowed are {ATTRIBUTES_MAX}")
    return len(attributes)
