"""Which members of a streams group may commit and fetch offsets.

A member may commit with its current epoch. With an older epoch it may commit for the active tasks that were
assigned to it at that epoch or before: it has not received the new epoch yet (KIP-1251).

Source: StreamsGroup.validateOffsetCommit and validateOffsetFetch of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.coordinators.groups.consumer.offset_access import COMMIT_VERSION_MIN, Committer
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition


def check_streams_commit(
    group: StreamsGroup, committer: Committer, partitions: Iterable[TopicPartition]
) -> None:
    """Raise KafkaError unless the sender may commit offsets of all `partitions`.

    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION; ILLEGAL_GENERATION in a transaction.
    """
    member_id, instance_id, epoch, version = committer
    if epoch < 0 and group.is_empty:
        return
    if version is None and epoch == -1 and not member_id and instance_id is None:
        return
    member = group.member(member_id)
    if version is not None and version < COMMIT_VERSION_MIN:
        text = "OffsetCommit version 9 or above must be used by members using the streams group protocol"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    if epoch == member.member_epoch:
        return
    stale = ErrorCode.ILLEGAL_GENERATION if version is None else ErrorCode.STALE_MEMBER_EPOCH
    if epoch > member.member_epoch:
        text = f"the epoch {epoch} is newer than the epoch {member.member_epoch} of member {member_id}"
        raise KafkaError(stale, text)
    subtopology_of = {} if group.topology is None else group.topology.subtopology_of_topic
    for topic, index in partitions:
        subtopology_id = subtopology_of.get(topic)
        assigned_at = None if subtopology_id is None else member.assignment_epoch(subtopology_id, index)
        if assigned_at is None or epoch < assigned_at:
            text = f"the task of {topic}-{index} was not assigned to member {member_id} at epoch {epoch}"
            raise KafkaError(stale, text)


def check_streams_fetch(group: StreamsGroup, member_id: str | None, member_epoch: int) -> None:
    """Raise KafkaError unless the sender may fetch offsets; a request without a member always may.

    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
    """
    if member_id is None and member_epoch < 0:
        return
    member = group.member(member_id or "")
    if member_epoch != member.member_epoch:
        text = f"the epoch {member_epoch} is not the epoch {member.member_epoch} of member {member_id}"
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH, text)
