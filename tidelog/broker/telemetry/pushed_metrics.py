"""The metrics of one push, in OpenTelemetry's data model.

The resource of each metric gets attributes that only the broker knows: the id of the instance, the software,
the address and the principal of the client. The classes of OpenTelemetry decode the metrics; they are part of
the extra `otel`, and are imported only if telemetry of clients is enabled.

Errors: ValueError for bytes that are not metrics.
Source: opentelemetry/proto/metrics/v1/metrics.proto; KIP-714 (attributes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedMetrics:
    """The metrics of one push. `attributes` describe the client; they are attributes of `data` too."""

    client_instance_id: UUID
    attributes: Mapping[str, str]
    push_interval_ms: int
    size_bytes: int
    data: MetricsData


def decode_metrics(
    client_instance_id: UUID, attributes: Mapping[str, str], push_interval_ms: int, content: bytes
) -> PushedMetrics:
    """Return the metrics in `content`. Errors: ValueError."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    try:
        data = MetricsData.FromString(content)
    except DecodeError as error:
        raise ValueError(f"{len(content)} bytes are not metrics of OpenTelemetry: {error}") from None
    for each in data.resource_metrics:
        resource = each.resource
        kept = [attribute for attribute in resource.attributes if attribute.key not in attributes]
        del resource.attributes[:]
        resource.attributes.extend(kept)
        for key, text in attributes.items():
            resource.attributes.add(key=key).value.string_value = text
    return PushedMetrics(
        client_instance_id=client_instance_id,
        attributes=attributes,
        push_interval_ms=push_interval_ms,
        size_bytes=len(content),
        data=data,
    )
