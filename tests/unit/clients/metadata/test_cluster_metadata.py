from __future__ import annotations

from uuid import UUID

from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TIDES = UUID(int=7)
P0 = TopicPartition("tides", 0)


def metadata_response(
    leader: int = 1,
    epoch: int = 3,
    *,
    topic_id: UUID = TIDES,
    partitions: int = 1,
    error: ErrorCode = ErrorCode.NONE,
    brokers: tuple[int, ...] = (1, 2),
) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(node_id=id_, host=f"host{id_}", port=9092) for id_ in brokers),
        cluster_id="c",
        controller_id=1,
        topics=(
            MetadataResponseTopic(
                name="tides",
                error_code=error,
                topic_id=topic_id,
                partitions=tuple(
                    MetadataResponsePartition(
                        partition_index=number, leader_id=leader, leader_epoch=epoch, replica_nodes=(1, 2)
                    )
                    for number in reversed(range(partitions))
                ),
            ),
        ),
    )


def metadata_of(*responses: MetadataResponse) -> ClusterMetadata:
    metadata = ClusterMetadata()
    for response in responses:
        metadata.apply(response, full=False)
    return metadata


def test_leaders_epochs_and_ids_are_updated_by_a_response() -> None:
    metadata = metadata_of(metadata_response(partitions=3))
    assert metadata.leader(P0) == 1
    assert metadata.leader_epoch(P0) == 3
    assert metadata.topic_id("tides") == TIDES
    assert metadata.topic_name(TIDES) == "tides"
    assert list(metadata.topics["tides"].partitions) == [0, 1, 2]


def test_a_response_with_an_older_leader_epoch_is_ignored() -> None:
    metadata = metadata_of(metadata_response(leader=1, epoch=3), metadata_response(leader=2, epoch=2))
    assert (metadata.leader(P0), metadata.leader_epoch(P0)) == (1, 3)


def test_a_recreated_topic_has_its_own_epochs() -> None:
    metadata = metadata_of(
        metadata_response(epoch=9), metadata_response(leader=2, epoch=0, topic_id=UUID(int=8))
    )
    assert (metadata.leader(P0), metadata.leader_epoch(P0)) == (2, 0)
    assert metadata.topic_name(TIDES) is None
    assert metadata.topic_name(UUID(int=8)) == "tides"


def test_a_leader_without_a_known_address_is_unavailable() -> None:
    assert metadata_of(metadata_response(leader=5)).leader(P0) is None


def test_partitions_without_leader_are_not_available() -> None:
    metadata = metadata_of(metadata_response(leader=-1))
    assert metadata.topics["tides"].available == ()
    assert metadata.leader(P0) is None


def test_an_unknown_topic_is_removed_and_its_error_kept() -> None:
    metadata = metadata_of(
        metadata_response(), metadata_response(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions=0)
    )
    assert "tides" not in metadata.topics
    assert metadata.topic_errors == {"tides": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_retriable_error_keeps_known_metadata() -> None:
    metadata = metadata_of(
        metadata_response(), metadata_response(error=ErrorCode.LEADER_NOT_AVAILABLE, partitions=0)
    )
    assert metadata.leader(P0) == 1


def test_a_full_response_removes_unlisted_topics() -> None:
    metadata = metadata_of(metadata_response())
    metadata.apply(MetadataResponse(brokers=metadata_response().brokers), full=True)
    assert metadata.topics == {}


def test_a_current_leader_is_used_if_its_epoch_is_newer() -> None:
    metadata = metadata_of(metadata_response(leader=1, epoch=3))
    assert metadata.update_leader(P0, 2, 4)
    assert (metadata.leader(P0), metadata.leader_epoch(P0)) == (2, 4)
    assert not metadata.update_leader(P0, 1, 4)
    assert metadata.leader(P0) == 2


def test_a_current_leader_may_have_the_address_of_a_new_broker() -> None:
    metadata = metadata_of(metadata_response())
    assert not metadata.update_leader(P0, 9, 4)
    assert metadata.update_leader(P0, 9, 4, [BrokerAddress(9, "host9", 9092)])
    assert metadata.leader(P0) == 9
