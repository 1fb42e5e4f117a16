"""TxnOffsetCommit: a producer commits the offsets of its consumer as part of its transaction.

Since KIP-447 the producer sends the consumer's member id and generation, and is rejected if that member has
lost its partitions. Older producers send neither and may commit at any time. Unlike OffsetCommit, this
commit is accepted while the group waits for an assignment, and it does not renew a session.

Source: OffsetMetadataManager.commitTransactionalOffset and ClassicGroup of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.offset_access import Committer, check_commit
from tidelog.broker.coordinators.groups.offset_commands import named_partitions_of, partitions_of
from tidelog.broker.coordinators.groups.records.coordinator_records import encode_record
from tidelog.broker.coordinators.groups.records.offset_records import (
    CommittedOffset,
    OffsetCommitRecord,
    offset_commit,
)
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.groups.streams.offset_access import check_streams_commit
from tidelog.broker.coordinators.groups.sync import check_generation
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome, Writes
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import Steps


class PreparedTransactionalCommit(NamedTuple):
    """The response and the records of a commit, for the case that its sender may commit."""

    response: TxnOffsetCommitResponse
    writes: Writes[OffsetCommitRecord]


class TransactionalOffsetCommit:
    """Commits offsets that become visible when the transaction is committed."""

    def __init__(self, groups: GroupRegistry, config: GroupConfig) -> None:
        self._groups = groups
        self._config = config

    def prepare(
        self, request: TxnOffsetCommitRequest, topic_ids: Mapping[str, UUID], now: Moment
    ) -> Steps[PreparedTransactionalCommit]:
        """Return the part of a commit that depends on the request alone; `commit` does the rest."""
        records: list[OffsetCommitRecord] = []
        encoded = EncodedRecords()
        topics = []
        for topic in request.topics:
            topic_id = topic_ids.get(topic.name, ZERO_UUID)
            results = []
            for partition in topic.partitions:
                index, error = partition.partition_index, ErrorCode.NONE
                if len(partition.committed_metadata or "") > self._config.offset_metadata_max_bytes:
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    committed = _committed_offset(partition, topic_id, now)
                    record = offset_commit(request.group_id, topic.name, index, committed)
                    records.append(record)
                    encoded.append(encode_record(record))
                results.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
                yield None
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=tuple(results)))
        response = TxnOffsetCommitResponse(topics=tuple(topics))
        return PreparedTransactionalCommit(response, Writes(records, encoded=encoded))

    def commit(
        self, request: TxnOffsetCommitRequest, prepared: PreparedTransactionalCommit
    ) -> Outcome[TxnOffsetCommitResponse]:
        """Commit the offsets of all partitions whose metadata is not too long, as part of the transaction.

        `prepared` is the result of `prepare` for the request. Raise KafkaError if the sender may not commit.
        """
        self._groups.check_has_offsets(request.group_id)
        group = self._groups.get(request.group_id)
        consumer_group = self._groups.consumers.find(request.group_id)
        streams_group = self._groups.streams.find(request.group_id)
        committer = Committer(request.member_id, request.group_instance_id, request.generation_id, None)
        if consumer_group is not None:
            check_commit(consumer_group, committer, partitions_of(prepared.writes.records))
        elif streams_group is not None:
            check_streams_commit(streams_group, committer, named_partitions_of(prepared.writes.records))
        elif group is not None:
            _check_sender(group, request)
        elif request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"Group {request.group_id} not found.")
        return Outcome(prepared.response, prepared.writes)


def _committed_offset(
    partition: TxnOffsetCommitRequestPartition, topic_id: UUID, now: Moment
) -> CommittedOffset:
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_wall_ms=now.wall_ms,
        topic_id=topic_id,
    )


def _check_sender(group: Group, request: TxnOffsetCommitRequest) -> None:
    generation = request.generation_id
    if generation < 0 and group.state is GroupState.EMPTY:
        return
    if generation >= 0 or request.member_id or request.group_instance_id is not None:
        group.check_member(request.member_id, request.group_instance_id)
        check_generation(group, generation)
