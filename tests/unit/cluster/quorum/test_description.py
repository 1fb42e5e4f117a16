"""DescribeQuorum: the fields of each version, and errors."""

from __future__ import annotations

from tests.unit.cluster.quorum.leader_fixture import leader_of
from tests.unit.cluster.quorum.replica_fixture import ReplicaFixture, directory
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.codec import encode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from tidelog.protocol.schema import ZERO_UUID

REQUEST = DescribeQuorumRequest(
    topics=(RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(RequestPartitionData(),)),)
)


def test_a_leader_reports_the_log_end_offset_of_each_replica() -> None:
    subject = leader_of(1, 2, 3)
    subject.fetch_as(9, 1, 1, max_wait_ms=0)
    subject.wait(250)
    response = subject.send_request(REQUEST)
    partition = response.topics[0].partitions[0]
    end_offset = subject.log.end_offset
    assert (partition.leader_id, partition.high_watermark) == (1, end_offset)
    wall_ms = 1_700_000_000_000 + subject.now
    assert [
        (each.replica_id, each.replica_directory_id, each.log_end_offset, each.last_fetch_timestamp)
        for each in partition.current_voters
    ] == [
        (1, directory(1), end_offset, wall_ms),
        (2, directory(2), end_offset, wall_ms - 250),
        (3, directory(3), end_offset, wall_ms - 250),
    ]
    assert [each.replica_id for each in partition.observers] == [9]
    assert [(node.node_id, node.listeners[0].host) for node in response.nodes] == [
        (1, "host-1"),
        (2, "host-2"),
        (3, "host-3"),
    ]


def test_older_versions_omit_fields_they_lack() -> None:
    subject = leader_of(1, 2, 3)
    for version in (0, 1, 2):
        response = subject.send_request(REQUEST, version=version)
        assert encode(response, version)
    assert subject.send_request(REQUEST, version=1).topics[0].partitions[0].current_voters[
        0
    ].replica_directory_id == (ZERO_UUID)


def test_only_the_leader_describes_the_quorum() -> None:
    subject = ReplicaFixture().follow(2, epoch=3)
    partition = subject.send_request(REQUEST).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        2,
        3,
    )
    description = subject.quorum.describe(subject.now)
    assert (description.leader_id, description.leader_epoch, description.voters) == (2, 3, ())


def test_another_topic_is_unknown() -> None:
    topic = RequestTopicData(topic_name="another", partitions=(RequestPartitionData(),))
    response = ReplicaFixture().send_request(DescribeQuorumRequest(topics=(topic,)))
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
