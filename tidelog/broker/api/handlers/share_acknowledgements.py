"""The acknowledgements in requests of share groups: those of ShareAcknowledge, and those of ShareFetch.

Each partition has its own result. The response is sent when the changes of all partitions are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.broker.coordinators.share.persister import SharePartitionKey
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.security.authorization.access import require_access
from tidelog.broker.security.authorization.authorizer import Authorizer, Requester
from tidelog.broker.share_partitions.acknowledgement import AcknowledgedBatch, check_batches
from tidelog.broker.share_partitions.registry import SharePartitions, error_for_clients
from tidelog.broker.share_partitions.share_sessions import MemberKey, TopicIdAndIndex
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import Steps

MEMBER_ID_CHARACTERS_MAX: Final = 36


class AcknowledgementBatch(Protocol):
    """An entry of `acknowledgement_batches` in a request."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> Sequence[int]: ...


class AcknowledgeResult(NamedTuple):
    """The result of one partition."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


Acknowledgements: TypeAlias = Mapping[TopicIdAndIndex, Sequence[AcknowledgementBatch]]
PendingResults: TypeAlias = dict[TopicIdAndIndex, AcknowledgeResult | asyncio.Future[ErrorCode]]


class RenewalRules(NamedTuple):
    """Whether the version of a request has the type RENEW, and whether the request may use it."""

    supports_renewal: bool
    is_renewal: bool


class ShareTopics:
    """Finds the topics that requests of share groups name by id, if the client may read them."""

    def __init__(
        self, replicas: ReplicaManager, image: Callable[[], MetadataImage], authorizer: Authorizer
    ) -> None:
        self._replicas = replicas
        self._image = image
        self._authorizer = authorizer

    def require_known(self, partition: TopicIdAndIndex) -> None:
        """Raise KafkaError UNKNOWN_TOPIC_ID if no topic has this id."""
        if self._replicas.topic_name(partition.topic_id) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {partition.topic_id}")

    def require_readable(self, requester: Requester, partition: TopicIdAndIndex) -> None:
        """Raise KafkaError if the partition does not exist, or if the client may not read its topic."""
        self.require_known(partition)
        topic_name = self._replicas.topic_name(partition.topic_id)
        assert topic_name is not None
        require_access(self._authorizer, requester, AclOperation.READ, AclResourceType.TOPIC, topic_name)
        topic = self._image().topics_by_id.get(partition.topic_id)
        if topic is None or partition.partition not in topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_name} has no partition {partition.partition}"
            )


class ShareAcknowledger:
    """Passes the acknowledgements of a request to the share partitions."""

    def __init__(self, share_partitions: SharePartitions, topics: ShareTopics) -> None:
        self._share_partitions = share_partitions
        self._topics = topics

    def acknowledge(
        self, requester: Requester, member: MemberKey, requested: Acknowledgements, rules: RenewalRules
    ) -> Steps[PendingResults]:
        """Return the result of each partition, or the future of its error code."""
        results: PendingResults = {}
        for partition, batches in requested.items():
            try:
                results[partition] = yield from self._acknowledge(
                    requester, member, partition, batches, rules
                )
            except KafkaError as error:
                results[partition] = AcknowledgeResult(error.code, str(error))
            yield None
        return results

    def _acknowledge(
        self,
        requester: Requester,
        member: MemberKey,
        partition: TopicIdAndIndex,
        batches: Sequence[AcknowledgementBatch],
        rules: RenewalRules,
    ) -> Steps[AcknowledgeResult | asyncio.Future[ErrorCode]]:
        self._topics.require_known(partition)
        acknowledged = [
            AcknowledgedBatch(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches
        ]
        check_batches(acknowledged, supports_renewal=rules.supports_renewal, is_renewal=rules.is_renewal)
        self._topics.require_readable(requester, partition)
        if not acknowledged:
            return AcknowledgeResult()
        key = SharePartitionKey(member.group_id, partition.topic_id, partition.partition)
        return (yield from self._share_partitions.acknowledge(key, member.member_id, acknowledged))


def when_stored(results: PendingResults, on_stored: Callable[[], None]) -> None:
    """Call `on_stored` when all changes are stored, at once if they are."""
    pending = [each for each in results.values() if isinstance(each, asyncio.Future) and not each.done()]
    remaining = len(pending)

    def on_done(_: asyncio.Future[ErrorCode]) -> None:
        nonlocal remaining
        remaining -= 1
        if not remaining:
            on_stored()

    if not pending:
        on_stored()
    for future in pending:
        future.add_done_callback(on_done)


def stored_result(pending: AcknowledgeResult | asyncio.Future[ErrorCode]) -> AcknowledgeResult:
    """Return the result of a partition whose change is stored."""
    if not isinstance(pending, asyncio.Future):
        return pending
    code = error_for_clients(pending.result())
    return AcknowledgeResult(code, code.text if code else None)


def check_member(group_id: str | None, member_id: str | None) -> MemberKey:
    """Return the key of a member. Raise KafkaError INVALID_REQUEST for an invalid group or member id."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not member_id or len(member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return MemberKey(group_id, member_id)
