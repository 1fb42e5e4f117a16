"""The requests by which clients get their subscription and push their metrics (KIP-714).

Each receiver gets the metrics of each push. A receiver that forwards them waits in its own task, so that an
outage behind it is not an error of the client.

Bounds: `telemetry.max.bytes`, before and after decompression; `ELEMENTS_MAX` of `pushed_metrics`;
`CLIENT_ID_CHARACTERS_MAX` of the client's id.
Source: KIP-714; ClientMetricsManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.base.log_limit import LogLimit
from tidelog.base.randomness import Randomness, new_uuid
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.telemetry.client_instances import ClientInstance, ClientInstances
from tidelog.broker.telemetry.pushed_metrics import PushedMetrics, decode_metrics
from tidelog.broker.telemetry.subscriptions import MetricsSubscriptions
from tidelog.cluster import client_metrics
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.compression import BoundExceeded, Compression, decompress
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import uuid_text
from tidelog.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.protocol.messages.push_telemetry import PushTelemetryRequest
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

PRINCIPAL: Final = "principal"
CLIENT_ID_CHARACTERS_MAX: Final = 256
"""A client id may have 32,767 bytes, and is kept for each instance and in each resource of its metrics."""
_ACCEPTED_COMPRESSION: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
_RESERVED_IDS: Final = 2
"""Kafka reserves the ids 0 and 1; no client has one of them."""
_UNKNOWN_SOFTWARE: Final = "unknown"


class TelemetryReceiver(Protocol):
    """A part that exposes or forwards the metrics of clients."""

    def receive(self, metrics: PushedMetrics) -> Steps[None]:
        """Receive the metrics of one push."""
        ...


@dataclass(slots=True)
class TelemetryCounters:
    """The totals since the start of the broker."""

    pushes: int = 0
    failed_pushes: int = 0
    throttled: int = 0
    unknown_subscriptions: int = 0


@dataclass(slots=True, eq=False)
class ClientTelemetry:
    """Responds to the requests of clients, and passes their metrics to the receivers."""

    max_bytes: int
    receivers: Sequence[TelemetryReceiver]
    timers: Timers
    randomness: Randomness
    counters: TelemetryCounters = field(default_factory=TelemetryCounters)
    subscriptions: MetricsSubscriptions = field(default_factory=MetricsSubscriptions)
    instances: ClientInstances = field(init=False)
    _log_limit: LogLimit = field(init=False)

    def __post_init__(self) -> None:
        self.instances = ClientInstances(self.subscriptions, self.timers)
        self._log_limit = LogLimit(lambda: self.timers.now_ms)

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed subscriptions."""
        self.subscriptions.update(image, delta.changed_configs)

    def get_subscriptions(
        self, context: RequestContext, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsResponse:
        """Return what the client is to push. Errors: KafkaError THROTTLING_QUOTA_EXCEEDED."""
        client_instance_id = request.client_instance_id
        if not client_instance_id.int:
            client_instance_id = self._new_id()
        instance = self._instance(client_instance_id, context)
        # A client whose push failed for these reasons needs a new subscription at once.
        is_corrected = instance.last_error in (
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )
        if not instance.begin_get(self.timers.now_ms) and not is_corrected:
            raise self._too_early()
        instance.on_result(ErrorCode.NONE)
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=client_instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=_ACCEPTED_COMPRESSION,
            push_interval_ms=instance.requested.push_interval_ms,
            telemetry_max_bytes=self.max_bytes,
            delta_temporality=True,
            requested_metrics=instance.requested.metrics,
        )

    def push(self, context: RequestContext, request: PushTelemetryRequest) -> Steps[None]:
        """Pass the metrics of a client to the receivers. Errors: KafkaError."""
        if request.client_instance_id.int < _RESERVED_IDS:
            text = f"Client instance id {uuid_text(request.client_instance_id)} is not valid"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        instance = self._instance(request.client_instance_id, context)
        try:
            self._check_push(instance, request)
        except KafkaError as error:
            instance.on_result(error.code)
            raise
        finally:
            instance.on_push_ended(is_terminating=request.terminating)
        instance.on_result(ErrorCode.NONE)
        if request.metrics:
            yield from self._receive(context, instance, request)

    def _new_id(self) -> UUID:
        while (candidate := new_uuid(self.randomness)) in self.instances:
            pass
        return candidate

    def _instance(self, client_instance_id: UUID, context: RequestContext) -> ClientInstance:
        attributes = _attributes(client_instance_id, context)
        return self.instances.get_or_create(client_instance_id, attributes, context.client)

    def _check_push(self, instance: ClientInstance, request: PushTelemetryRequest) -> None:
        """Raise KafkaError if the client may not push now, or not in this form."""
        if instance.is_terminating:
            text = f"Client {uuid_text(instance.id)} has already sent its last metrics"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        if not instance.begin_push(self.timers.now_ms) and not request.terminating:
            raise self._too_early()
        if request.subscription_id != instance.subscription_id:
            self.counters.unknown_subscriptions += 1
            text = f"Subscription id {request.subscription_id} of client {uuid_text(instance.id)} is unknown"
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, text)
        if not Compression.NONE <= request.compression_type <= Compression.ZSTD:
            text = f"Compression type {request.compression_type} is unknown"
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
        if len(request.metrics) > self.max_bytes:
            text = f"{len(request.metrics)} bytes of metrics; telemetry.max.bytes allows {self.max_bytes}"
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, text)

    def _too_early(self) -> KafkaError:
        self.counters.throttled += 1
        text = "The request arrived before the next push interval"
        return KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)

    def _receive(
        self, context: RequestContext, instance: ClientInstance, request: PushTelemetryRequest
    ) -> Steps[None]:
        """Decode the metrics and pass them to the receivers. Errors: KafkaError."""
        try:
            content = decompress(Compression(request.compression_type), request.metrics, self.max_bytes)
            yield None
            attributes = {**instance.attributes, PRINCIPAL: context.principal}
            metrics = yield from decode_metrics(
                instance.id, attributes, instance.requested.push_interval_ms, content
            )
        except (BoundExceeded, DecodeError, ValueError) as error:
            raise self._on_failed_push(instance, error) from None
        for receiver in self.receivers:
            yield from receiver.receive(metrics)
        self.counters.pushes += 1

    def _on_failed_push(self, instance: ClientInstance, error: Exception) -> KafkaError:
        self.counters.failed_pushes += 1
        instance.on_result(ErrorCode.INVALID_RECORD)
        text = "Metrics of client instance %s are not used: %s"
        self._log_limit.log(logger, logging.WARNING, text, uuid_text(instance.id), error)
        return KafkaError(ErrorCode.INVALID_RECORD, str(error))


def _attributes(client_instance_id: UUID, context: RequestContext) -> Mapping[str, str]:
    """Return the attributes of the client that subscriptions can match."""
    attributes = {client_metrics.CLIENT_INSTANCE_ID: uuid_text(client_instance_id)}
    if context.header.client_id is not None:
        attributes[client_metrics.CLIENT_ID] = context.header.client_id[:CLIENT_ID_CHARACTERS_MAX]
    name, version = _software(context.client)
    attributes[client_metrics.CLIENT_SOFTWARE_NAME] = name
    attributes[client_metrics.CLIENT_SOFTWARE_VERSION] = version
    attributes[client_metrics.CLIENT_SOURCE_ADDRESS] = context.client_address
    attributes[client_metrics.CLIENT_SOURCE_PORT] = context.peer.rpartition(":")[2]
    return attributes


def _software(client: ConnectedClient) -> tuple[str, str]:
    if not client.software:
        return _UNKNOWN_SOFTWARE, _UNKNOWN_SOFTWARE
    name, _, version = client.software.partition(" ")
    return name, version
