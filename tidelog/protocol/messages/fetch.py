"""The request and the response of the Fetch API (key 1).

Source: FetchRequest.json and FetchResponse.json, Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from tidelog.protocol.schema import (
    ZERO_UUID,
    ApiMessage,
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Nested,
    Records,
    String,
    Struct,
    Uuid,
    Versions,
    message,
    versions,
)


@message
class ReplicaState(Struct):
    """The struct `replica_state` of `FetchRequest`."""

    replica_id: Annotated[int, Int32("15+")] = -1
    replica_epoch: Annotated[int, Int64("15+")] = -1


@message
class FetchPartition(Struct):
    """One entry of `partitions` of `FetchRequest`."""

    partition: Annotated[int, Int32("0+")] = 0
    current_leader_epoch: Annotated[int, Int32("9+", ignorable=True)] = -1
    fetch_offset: Annotated[int, Int64("0+")] = 0
    last_fetched_epoch: Annotated[int, Int32("12+")] = -1
    log_start_offset: Annotated[int, Int64("5+", ignorable=True)] = -1
    partition_max_bytes: Annotated[int, Int32("0+")] = 0
    replica_directory_id: Annotated[UUID, Uuid("17+", tag=0, tagged="17+", ignorable=True)] = ZERO_UUID
    high_watermark: Annotated[int, Int64("18+", tag=1, tagged="18+", ignorable=True)] = 9223372036854775807


@message
class FetchTopic(Struct):
    """One entry of `topics` of `FetchRequest`."""

    topic: Annotated[str, String("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[FetchPartition, ...], Array(FetchPartition, "0+")] = ()


@message
class ForgottenTopic(Struct):
    """One entry of `forgotten_topics_data` of `FetchRequest`."""

    topic: Annotated[str, String("7-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[int, ...], Array(Int32, "7+")] = ()


@message
class FetchRequest(ApiMessage):
    """The request of the `Fetch` API (key 1), versions 4-18."""

    api_key: ClassVar[int] = 1
    valid_versions: ClassVar[Versions] = versions("4-18")
    flexible_versions: ClassVar[Versions] = versions("12+")

    cluster_id: Annotated[str | None, String("12+", nullable="12+", tag=0, tagged="12+", ignorable=True)] = (
        None
    )
    replica_id: Annotated[int, Int32("0-14")] = -1
    replica_state: Annotated[ReplicaState, Nested(ReplicaState, "15+", tag=1, tagged="15+")] = ReplicaState()
    max_wait_ms: Annotated[int, Int32("0+")] = 0
    min_bytes: Annotated[int, Int32("0+")] = 0
    max_bytes: Annotated[int, Int32("3+", ignorable=True)] = 2147483647
    isolation_level: Annotated[int, Int8("4+", ignorable=True)] = 0
    session_id: Annotated[int, Int32("7+", ignorable=True)] = 0
    session_epoch: Annotated[int, Int32("7+", ignorable=True)] = -1
    topics: Annotated[tuple[FetchTopic, ...], Array(FetchTopic, "0+")] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], Array(ForgottenTopic, "7+")] = ()
    rack_id: Annotated[str, String("11+", ignorable=True)] = ""


@message
class EpochEndOffset(Struct):
    """The struct `diverging_epoch` of `FetchResponse`."""

    epoch: Annotated[int, Int32("12+")] = -1
    end_offset: Annotated[int, Int64("12+")] = -1


@message
class LeaderIdAndEpoch(Struct):
    """The struct `current_leader` of `FetchResponse`."""

    leader_id: Annotated[int, Int32("12+")] = -1
    leader_epoch: Annotated[int, Int32("12+")] = -1


@message
class SnapshotId(Struct):
    """The struct `snapshot_id` of `FetchResponse`."""

    end_offset: Annotated[int, Int64("0+")] = -1
    epoch: Annotated[int, Int32("0+")] = -1


@message
class AbortedTransaction(Struct):
    """One entry of `aborted_transactions` of `FetchResponse`."""

    producer_id: Annotated[int, Int64("4+")] = 0
    first_offset: Annotated[int, Int64("4+")] = 0


@message
class PartitionData(Struct):
    """One entry of `partitions` of `FetchResponse`."""

    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    high_watermark: Annotated[int, Int64("0+")] = 0
    last_stable_offset: Annotated[int, Int64("4+", ignorable=True)] = -1
    log_start_offset: Annotated[int, Int64("5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Nested(EpochEndOffset, "12+", tag=0, tagged="12+")] = (
        EpochEndOffset()
    )
    current_leader: Annotated[LeaderIdAndEpoch, Nested(LeaderIdAndEpoch, "12+", tag=1, tagged="12+")] = (
        LeaderIdAndEpoch()
    )
    snapshot_id: Annotated[SnapshotId, Nested(SnapshotId, "12+", tag=2, tagged="12+")] = SnapshotId()
    aborted_transactions: Annotated[
        tuple[AbortedTransaction, ...] | None, Array(AbortedTransaction, "4+", nullable="4+", ignorable=True)
    ] = ()
    preferred_read_replica: Annotated[int, Int32("11+")] = -1
    records: Annotated[bytes | memoryview | None, Records("0+", nullable="0+")] = None


@message
class FetchableTopicResponse(Struct):
    """One entry of `responses` of `FetchResponse`."""

    topic: Annotated[str, String("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, Uuid("13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[tuple[PartitionData, ...], Array(PartitionData, "0+")] = ()


@message
class NodeEndpoint(Struct):
    """One entry of `node_endpoints` of `FetchResponse`."""

    node_id: Annotated[int, Int32("16+")] = 0
    host: Annotated[str, String("16+")] = ""
    port: Annotated[int, Int32("16+")] = 0
    rack: Annotated[str | None, String("16+", nullable="16+")] = None


@message
class FetchResponse(ApiMessage):
    """The response of the `Fetch` API (key 1), versions 4-18."""

    api_key: ClassVar[int] = 1
    valid_versions: ClassVar[Versions] = versions("4-18")
    flexible_versions: ClassVar[Versions] = versions("12+")

    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("7+", ignorable=True)] = 0
    session_id: Annotated[int, Int32("7+")] = 0
    responses: Annotated[tuple[FetchableTopicResponse, ...], Array(FetchableTopicResponse, "0+")] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Array(NodeEndpoint, "16+", tag=0, tagged="16+")] = ()
