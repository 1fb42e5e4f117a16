"""The requests of clients: subscriptions, throttling, errors, compression, and what receivers get."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.messages.otlp_metrics import gauge, metrics_data
from tests.support.messages.request_contexts import request_context
from tests.support.metadata.images import image_after_records
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.telemetry.client_telemetry import CLIENT_ID_CHARACTERS_MAX, ClientTelemetry
from tidelog.broker.telemetry.pushed_metrics import PushedMetrics
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.cluster.image_difference import difference
from tidelog.protocol.compression import Compression, compress
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import uuid_text
from tidelog.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.protocol.messages.push_telemetry import PushTelemetryRequest
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.steps import Steps, run_steps

MAX_BYTES = 2_000
INTERVAL_MS = 1_000
NO_ID = UUID(int=0)
METRICS = metrics_data(gauge("org.apache.kafka.producer.rate", 1.5)).SerializeToString()


class Receiver:
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.received: list[PushedMetrics] = []

    def receive(self, metrics: PushedMetrics) -> Steps[None]:
        self.received.append(metrics)
        yield None


class TelemetryFixture:
    """Client telemetry with one subscription to all metrics every second."""

    def __init__(self) -> None:
        self.clock = ManualClock(monotonic_ms=10_000)
        self.receiver = Receiver()
        timers = Timers(self.clock.monotonic_ms)
        self.telemetry = ClientTelemetry(MAX_BYTES, [self.receiver], timers, Random(1))
        self.context = request_context()
        self.context.client.on_software_reported("apache-kafka-java 4.3.1")
        self.set_interval(INTERVAL_MS)

    def set_interval(self, interval_ms: int) -> None:
        """Change the subscription."""
        records = [
            ConfigRecord(resource_type=ResourceType.CLIENT_METRICS, resource_name="s", name=name, value=value)
            for name, value in (("metrics", "*"), ("interval.ms", str(interval_ms)))
        ]
        image = image_after_records(records, MetadataImage(cluster_id="c"))
        delta = difference(MetadataImage(cluster_id="c"), image)
        self.telemetry.on_metadata_changed(delta, image)

    def get(self, client_instance_id: UUID = NO_ID) -> GetTelemetrySubscriptionsResponse:
        """Return the subscription of a client."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=client_instance_id)
        return self.telemetry.get_subscriptions(self.context, request)

    def push(self, request: PushTelemetryRequest) -> ErrorCode:
        """Push metrics; return the error."""
        try:
            run_steps(self.telemetry.push(self.context, request))
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def request(self) -> PushTelemetryRequest:
        """Return a valid push of a new client."""
        subscription = self.get()
        return PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            metrics=METRICS,
        )


def test_a_client_gets_an_id_and_its_subscription() -> None:
    fixture = TelemetryFixture()
    response = fixture.get()
    assert response.client_instance_id.int >= 100
    assert response.requested_metrics == ("*",)
    assert response.push_interval_ms == INTERVAL_MS
    assert response.telemetry_max_bytes == MAX_BYTES
    assert response.accepted_compression_types == (4, 3, 1, 2)
    assert response.delta_temporality


def test_the_receivers_get_the_metrics_with_the_attributes_of_the_client() -> None:
    fixture = TelemetryFixture()
    request = fixture.request()
    assert fixture.push(request) is ErrorCode.NONE
    (metrics,) = fixture.receiver.received
    attributes = {
        each.key: each.value.string_value for each in metrics.data.resource_metrics[0].resource.attributes
    }
    assert attributes == {
        "client_instance_id": uuid_text(request.client_instance_id),
        "client_id": "test",
        "client_software_name": "apache-kafka-java",
        "client_software_version": "4.3.1",
        "client_source_address": "127.0.0.1",
        "client_source_port": "5000",
        "principal": "User:ANONYMOUS",
    }
    assert (
        metrics.data.resource_metrics[0].scope_metrics[0].metrics[0].name == "org.apache.kafka.producer.rate"
    )


def test_a_long_client_id_is_kept_and_added_to_resources_in_part() -> None:
    fixture = TelemetryFixture()
    header = fixture.context.header._replace(client_id="c" * 32_767)
    fixture.context = replace(fixture.context, header=header)
    assert fixture.push(fixture.request()) is ErrorCode.NONE
    (metrics,) = fixture.receiver.received
    assert metrics.attributes["client_id"] == "c" * CLIENT_ID_CHARACTERS_MAX


@pytest.mark.parametrize("codec", list(Compression))
def test_metrics_may_be_compressed_with_every_codec(codec: Compression) -> None:
    fixture = TelemetryFixture()
    request = replace(fixture.request(), compression_type=codec, metrics=compress(codec, METRICS))
    assert fixture.push(request) is ErrorCode.NONE
    assert len(fixture.receiver.received) == 1


def test_a_request_before_the_next_interval_is_throttled() -> None:
    fixture = TelemetryFixture()
    request = fixture.request()
    assert fixture.push(request) is ErrorCode.NONE
    assert fixture.push(request) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with pytest.raises(KafkaError) as raised:
        fixture.get(request.client_instance_id)
    assert raised.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert fixture.telemetry.counters.throttled == 2
    fixture.clock.now_ms += INTERVAL_MS
    assert fixture.push(request) is ErrorCode.NONE


def test_the_last_push_may_come_early_and_no_push_may_follow_it() -> None:
    fixture = TelemetryFixture()
    request = fixture.request()
    assert fixture.push(request) is ErrorCode.NONE
    assert fixture.push(replace(request, terminating=True)) is ErrorCode.NONE
    assert fixture.push(replace(request, terminating=True)) is ErrorCode.INVALID_REQUEST
    assert len(fixture.receiver.received) == 2


def test_an_old_subscription_is_rejected_and_the_client_gets_the_new_one_at_once() -> None:
    fixture = TelemetryFixture()
    request = fixture.request()
    fixture.set_interval(INTERVAL_MS * 2)
    assert fixture.push(request) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    subscription = fixture.get(request.client_instance_id)
    assert subscription.subscription_id != request.subscription_id
    corrected = replace(request, subscription_id=subscription.subscription_id)
    assert fixture.push(corrected) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    fixture.clock.now_ms += 2 * INTERVAL_MS
    assert fixture.push(corrected) is ErrorCode.NONE


def test_an_unknown_compression_is_rejected_and_the_client_may_ask_at_once() -> None:
    fixture = TelemetryFixture()
    request = fixture.request()
    rejected = replace(request, compression_type=5)
    assert fixture.push(rejected) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert fixture.get(request.client_instance_id).subscription_id == request.subscription_id


def test_metrics_that_are_too_large_are_rejected() -> None:
    fixture = TelemetryFixture()
    request = replace(fixture.request(), metrics=b"\0" * (MAX_BYTES + 1))
    assert fixture.push(request) is ErrorCode.TELEMETRY_TOO_LARGE


def test_cve_2026_111073_metrics_that_expand_beyond_the_maximum_are_rejected() -> None:
    fixture = TelemetryFixture()
    bomb = compress(Compression.ZSTD, b"\0" * 10_000_000)
    assert len(bomb) < MAX_BYTES
    request = replace(fixture.request(), compression_type=Compression.ZSTD, metrics=bomb)
    assert fixture.push(request) is ErrorCode.INVALID_RECORD
    assert fixture.receiver.received == []


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_bytes_that_are_not_metrics_are_rejected(codec: Compression) -> None:
    fixture = TelemetryFixture()
    request = replace(fixture.request(), compression_type=codec, metrics=b"\xff" * 50)
    assert fixture.push(request) is ErrorCode.INVALID_RECORD
    assert fixture.telemetry.counters.failed_pushes == 1


@pytest.mark.parametrize("number", [0, 1])
def test_a_push_with_a_reserved_id_is_rejected(number: int) -> None:
    fixture = TelemetryFixture()
    request = PushTelemetryRequest(client_instance_id=UUID(int=number), metrics=METRICS)
    assert fixture.push(request) is ErrorCode.INVALID_REQUEST


def test_a_push_without_metrics_is_accepted() -> None:
    fixture = TelemetryFixture()
    assert fixture.push(replace(fixture.request(), metrics=b"")) is ErrorCode.NONE
    assert fixture.receiver.received == []
