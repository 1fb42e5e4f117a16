"""The records of an OffsetCommit, which are prepared before the coordinator decides whether to commit them.

They depend on the request alone, so that requests for many partitions are prepared in steps. A request for
few partitions, which was read as a view, needs no steps and no messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.offset_records import (
    NO_EXPIRY,
    CommittedOffset,
    OffsetCommitRecord,
    encode_offset_record,
    offset_commit,
)
from tidelog.broker.coordinators.shared import outcome
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.cluster.image import TopicImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.offset_commit_view import CommitTopic

BROKER_RETENTION = -1
# The latest expiry: a commit with a longer retention time is kept until then.
_END_OF_TIME_MS = 2**63 - 1


class PreparedCommit(NamedTuple):
    """The response and the writes of a commit, if its sender is allowed to commit."""

    response: OffsetCommitResponse
    writes: Writes


def prepare_commit(
    request: OffsetCommitRequest,
    topics: Iterable[OffsetCommitRequestTopic],
    now: Moment,
    metadata_bytes_max: int,
) -> Steps[PreparedCommit]:
    """Return the response and the records of a commit of `topics`.

    Every topic has its name and its id, which the caller has looked up. An offset with more than
    `metadata_bytes_max` of metadata is left out.
    """
    expire_wall_ms = NO_EXPIRY
    if request.retention_time_ms != BROKER_RETENTION:
        expire_wall_ms = min(now.wall_ms + request.retention_time_ms, _END_OF_TIME_MS)
    records: list[OffsetCommitRecord] = []
    encoded = EncodedRecords()
    responses = []
    for topic in topics:
        results = []
        for partition in topic.partitions:
            error = ErrorCode.NONE
            metadata = partition.committed_metadata or ""
            if len(metadata) > metadata_bytes_max:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = CommittedOffset(
                    partition.committed_offset,
                    now.wall_ms,
                    partition.committed_leader_epoch,
                    metadata,
                    expire_wall_ms,
                    topic.topic_id,
                )
                record = offset_commit(request.group_id, topic.name, partition.partition_index, committed)
                records.append(record)
                encoded.append(encode_offset_record(record))
            results.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
            yield None
        responses.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(results))
        )
    writes: Writes = outcome.Writes(records, encoded=encoded)
    return PreparedCommit(OffsetCommitResponse(topics=tuple(responses)), writes)


def writes_of_view(
    group_id: str, topics: Iterable[tuple[TopicImage, CommitTopic]], now: Moment, metadata_bytes_max: int
) -> Writes | None:
    """Return the records of a commit of few partitions, all of which exist; None if metadata is too long."""
    wall_ms = now.wall_ms
    records: list[OffsetCommitRecord] = []
    encoded = EncodedRecords()
    for topic, requested in topics:
        for index, offset, leader_epoch, metadata in requested.partitions:
            if len(metadata) > metadata_bytes_max:
                return None
            committed = CommittedOffset(offset, wall_ms, leader_epoch, metadata, NO_EXPIRY, topic.id)
            record = offset_commit(group_id, topic.name, index, committed)
            records.append(record)
            encoded.append(encode_offset_record(record))
    return outcome.Writes(records, encoded=encoded)
