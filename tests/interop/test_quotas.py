"""Quotas with librdkafka: throttle events, lower rates, refused changes of topics."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.quotas.rates import CLIENT_ID, consume, produce, set_quotas
from tests.support.network.raw_client import RawClient
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

RATE = 200_000
CONFIG = {
    "quota.window.num": "2",
    "controller.quota.window.num": "2",
}
"""Short windows, so that few seconds are sufficient."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster(config=CONFIG) as running:
        yield running.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


def test_a_producer_is_throttled_until_its_quota_is_removed(servers: str, topic: str) -> None:
    set_quotas(servers, {"producer_byte_rate": RATE})
    throttled = produce(servers, topic, 4)
    assert throttled.throttle_times_s
    assert max(throttled.throttle_times_s) > 0
    assert throttled.rate < RATE * 1.8
    set_quotas(servers, {"producer_byte_rate": None})
    free = produce(servers, topic, TIMEOUT_S, max_bytes=RATE * 20)
    assert not free.throttle_times_s
    assert free.size_bytes >= RATE * 20


def test_a_consumer_is_throttled_and_gets_all_records(servers: str, topic: str) -> None:
    produce(servers, topic, 20, max_bytes=RATE * 10)
    set_quotas(servers, {"consumer_byte_rate": RATE})
    throttled = consume(servers, topic, 4)
    assert throttled.throttle_times_s
    assert 0 < throttled.rate < RATE * 1.8
    set_quotas(servers, {"consumer_byte_rate": None})
    free = consume(servers, topic, TIMEOUT_S, max_bytes=RATE * 10)
    assert not free.throttle_times_s
    assert free.size_bytes >= RATE * 10


def test_a_client_of_an_older_version_creates_its_topics_and_is_throttled(servers: str, topic: str) -> None:
    set_quotas(servers, {"controller_mutation_rate": 4})
    admin = AdminClient({"bootstrap.servers": servers, "client.id": CLIENT_ID})
    began_s = monotonic()
    admin.create_topics([NewTopic(topic, 12, 1)])[topic].result(TIMEOUT_S)
    admin.create_topics([NewTopic(f"{topic}-2", 1, 1)])[f"{topic}-2"].result(TIMEOUT_S)
    assert monotonic() - began_s > 0.5
    set_quotas(servers, {"controller_mutation_rate": None})


def test_a_topic_that_metadata_creates_counts_for_the_client(servers: str, topic: str) -> None:
    set_quotas(servers, {"controller_mutation_rate": 0.01}, "raw")
    host, port = servers.split(":")
    with RawClient(host, int(port)) as client:

        def codes() -> dict[str | None, int]:
            names = (topic, f"{topic}-2")
            requested = tuple(MetadataRequestTopic(name=name) for name in names)
            request = MetadataRequest(topics=requested, allow_auto_topic_creation=True)
            return {
                each.name: each.error_code
                for each in client.send_request(request, 9, MetadataResponse).topics
            }

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wait_until(lambda: codes() == {topic: ErrorCode.NONE, f"{topic}-2": unknown})
    set_quotas(servers, {"controller_mutation_rate": None}, "raw")


def test_a_client_of_a_newer_version_may_create_no_further_topic(servers: str, topic: str) -> None:
    set_quotas(servers, {"controller_mutation_rate": 4})
    names = [f"{topic}-{number}" for number in range(3)]
    topics = tuple(
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name, partitions in zip(names, (12, 1, 1), strict=True)
    )
    host, port = servers.split(":")
    with RawClient(host, int(port)) as client:
        request = CreateTopicsRequest(topics=topics, timeout_ms=5_000)
        response = client.send_request(request, 7, CreateTopicsResponse)
        assert [each.error_code for each in response.topics] == [0, 0, 0], "the client raw has no quota"
        set_quotas(servers, {"controller_mutation_rate": 4}, "raw")
        deletions = tuple(DeleteTopicState(name=name) for name in names)
        deletion = DeleteTopicsRequest(topics=deletions, timeout_ms=5_000)
        began_s = monotonic()
        deleted = client.send_request(deletion, 6, DeleteTopicsResponse)
        refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert [each.error_code for each in deleted.responses] == [0, refused, refused]
        assert 500 < deleted.throttle_time_ms <= 1_000
        deleted = client.send_request(deletion, 6, DeleteTopicsResponse)
        assert monotonic() - began_s > 0.4, "the connection was muted"
        assert deleted.responses[1].error_code == 0
