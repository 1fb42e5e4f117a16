"""The cluster for requests of all APIs: a topic with records, and a group with a member and offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from tests.support.messages.version_fields import fit_to_version
from tests.support.network.raw_client import RawClient
from tests.support.waiting import wait_until
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.registry import ApiKey, response_type
from tidelog.protocol.schema import Struct
from tidelog.testing.embedded import EmbeddedCluster

TOPIC = "every-version"


GROUP = "every-version"


@dataclass
class ClusterFixture:
    """A broker with a topic that has records, and a group that has a member and offsets."""

    cluster: EmbeddedCluster
    topic_id: UUID
    member_id: str

    def client(self) -> RawClient:
        """Open a connection."""
        host, port = self.cluster.bootstrap_servers.split(":")
        return RawClient(host, int(port))


def records() -> bytes:
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), b"key", b"value", [("header", b"1")])
    return bytes(builder.build())


def produce_request(topic_id: UUID) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records())
    topic = TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=(partition,))
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,))


def join_request(group: str, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0"),),
    )


def offset_commit(topic_id: UUID) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name=TOPIC, topic_id=topic_id, partitions=(partition,))
    return OffsetCommitRequest(group_id=f"{GROUP}-offsets", topics=(topic,))


def commit_offset(client: RawClient, topic_id: UUID) -> None:
    """Create the group of the offsets: the tests of single APIs run in any order."""
    request, response = fit_to_version(offset_commit(topic_id), 8), response_type(ApiKey.OFFSET_COMMIT)
    wait_until(lambda: not any(error_codes(client.send_request(request, 8, response))))


def await_coordinator(client: RawClient) -> None:
    """Create the topic of offsets by a FindCoordinator, and wait until its coordinator is found."""
    request = FindCoordinatorRequest(coordinator_keys=(GROUP,))
    wait_until(
        lambda: not client.send_request(request, 4, FindCoordinatorResponse).coordinators[0].error_code
    )


def join_when_loaded(client: RawClient) -> JoinGroupResponse:
    """Join the group when the partition of its coordinator is loaded; return the response."""
    responses: list[JoinGroupResponse] = []

    def has_joined() -> bool:
        responses.append(client.send_request(join_request(GROUP), 3, JoinGroupResponse))
        return not responses[-1].error_code

    wait_until(has_joined)
    return responses[-1]


@contextmanager
def open_cluster() -> Iterator[ClusterFixture]:
    """Start a broker with an authorizer; clients without authentication are super users."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
    with EmbeddedCluster(config=config) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with RawClient(host, int(port)) as client:
            created = client.send_request(
                CreateTopicsRequest(
                    topics=(CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1),)
                ),
                7,
                CreateTopicsResponse,
            )
            topic_id = created.topics[0].topic_id
            for _ in range(3):
                client.send_request(produce_request(topic_id), 13, ProduceResponse)
            await_coordinator(client)
            member_id = join_when_loaded(client).member_id
            commit_offset(client, topic_id)
        yield ClusterFixture(cluster, topic_id, member_id)


def error_codes(value: Any) -> Iterator[int]:
    """Return the error codes in all parts of a response."""
    if isinstance(value, tuple):
        for one in value:
            yield from error_codes(one)
    elif isinstance(value, Struct):
        for field in fields(value):  # type: ignore[arg-type]
            inner = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield inner
            else:
                yield from error_codes(inner)
