"""Which members of a consumer group may commit and fetch offsets.

A member may commit with its current epoch. With an older epoch it may commit for the partitions that were
assigned to it at that epoch or before: it has not received the new epoch yet (KIP-1251).

Source: ConsumerGroup.validateOffsetCommit and validateOffsetFetch of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.protocol.errors import ErrorCode, KafkaError

COMMIT_VERSION_MIN: Final = 9
"""Members of the new protocol use this version of OffsetCommit or a higher one."""


class Committer(NamedTuple):
    """The sender of a commit, as it identifies itself. `version` is None for a commit in a transaction."""

    member_id: str
    instance_id: str | None
    member_epoch: int
    version: int | None


def check_commit(group: ConsumerGroup, committer: Committer, partitions: Iterable[tuple[UUID, int]]) -> None:
    """Raise KafkaError unless the sender may commit offsets of all `partitions`, by topic id and index.

    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION; ILLEGAL_GENERATION for a classic
    member and in a transaction.
    """
    member_id, instance_id, epoch, version = committer
    if epoch < 0 and group.is_empty:
        return
    if version is None and epoch == -1 and not member_id and instance_id is None:
        return
    member = group.member(member_id)
    if version is not None and not member.uses_classic_protocol and version < COMMIT_VERSION_MIN:
        text = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    if epoch == member.member_epoch:
        return
    is_transactional = version is None
    if epoch > member.member_epoch:
        text = f"the epoch {epoch} is newer than the epoch {member.member_epoch} of member {member_id}"
        raise KafkaError(_stale(member, is_transactional), text)
    for topic_id, index in partitions:
        assigned_at = member.assignment_epoch(topic_id, index)
        if assigned_at is None or epoch < assigned_at:
            text = f"partition {topic_id}-{index} was not assigned to member {member_id} at epoch {epoch}"
            raise KafkaError(_stale(member, is_transactional), text)


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """Raise KafkaError unless the sender may fetch offsets; a request without a member always may.

    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; ILLEGAL_GENERATION for a classic member.
    """
    if member_id is None and member_epoch < 0:
        return
    member = group.member(member_id or "")
    if member_epoch != member.member_epoch:
        text = f"the epoch {member_epoch} is not the epoch {member.member_epoch} of member {member_id}"
        raise KafkaError(_stale(member, False), text)


def _stale(member: ConsumerMember, is_transactional: bool) -> ErrorCode:
    if member.uses_classic_protocol or is_transactional:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH
