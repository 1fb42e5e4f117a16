"""AlterPartition: leaders change the ISR, guarded by epochs so that stale requests have no effect.

A request contains the epochs on which it is based. If they are below the controller's, it is stale. If
they are above, this node is not the active controller any more, but does not know it yet. A member is
rejected if its broker is fenced or has registered again since the leader knew it (KIP-841, KIP-903).

Source: KIP-497, KIP-841, KIP-903; ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.cluster.controller.brokers import current_registration
from tidelog.cluster.controller.partition_change import Wishes
from tidelog.cluster.controller.partition_updates import PartitionUpdates
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import LeaderRecoveryState, MetadataImage, PartitionImage, TopicImage
from tidelog.cluster.partition_changes import NO_LEADER_CHANGE
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)

_ANY_EPOCH = -1


def alter_partition(
    image: MetadataImage, settings: ControllerSettings, request: AlterPartitionRequest
) -> ControllerResult[AlterPartitionResponse]:
    """Change in-sync sets as their leader asks; every partition gets its own outcome.

    STALE_BROKER_EPOCH for the whole request when the leader is not the broker that registered.
    """
    current_registration(image, request.broker_id, request.broker_epoch)
    alteration = _Alteration(image, settings, request.broker_id)
    topics = tuple(alteration.topic(topic) for topic in request.topics)
    reply = AlterPartitionResponse(topics=topics)
    return ControllerResult(tuple(alteration.updates.records), reply, is_atomic=False)


class _Alteration:
    """The changes of one request, asked for by the broker `leader`."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings, leader: BrokerId) -> None:
        self.updates = PartitionUpdates(image, settings)
        self._image = image
        self._leader = leader

    def topic(self, asked: RequestTopicData) -> ResponseTopicData:
        topic = self._image.topics_by_id.get(asked.topic_id)
        if topic is None:
            partitions = tuple(
                _refused(partition, ErrorCode.UNKNOWN_TOPIC_ID) for partition in asked.partitions
            )
        else:
            partitions = tuple(self._partition(topic, partition) for partition in asked.partitions)
        return ResponseTopicData(topic_id=asked.topic_id, partitions=partitions)

    def _partition(self, topic: TopicImage, asked: RequestPartitionData) -> ResponsePartitionData:
        index = asked.partition_index
        partition = self.updates.partition(topic, index)
        if partition is None:
            return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        members = _members(asked)
        code = self._check(partition, asked, members)
        if code is not ErrorCode.NONE:
            return _refused(asked, code)
        wishes = Wishes(
            isr=tuple(member.broker_id for member in members),
            leader_recovery_state=asked.leader_recovery_state,
            election=self.updates.election(topic),
        )
        record = self.updates.change(topic, index, wishes)
        if record is not None and record.leader not in (self._leader, NO_LEADER_CHANGE):
            # The change ended a reassignment that takes the leader away.
            return _refused(asked, ErrorCode.NEW_LEADER_ELECTED)
        changed = self.updates.partition(topic, index)
        assert changed is not None
        return ResponsePartitionData(
            partition_index=index,
            leader_id=changed.leader,
            leader_epoch=changed.leader_epoch,
            isr=changed.isr,
            leader_recovery_state=changed.leader_recovery_state,
            partition_epoch=changed.partition_epoch,
        )

    def _check(
        self, partition: PartitionImage, asked: RequestPartitionData, members: tuple[BrokerState, ...]
    ) -> ErrorCode:
        if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if asked.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if self._leader != partition.leader:
            return ErrorCode.INVALID_REQUEST
        if asked.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        isr = [member.broker_id for member in members]
        if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
            return ErrorCode.INVALID_REQUEST
        if partition.leader not in isr:
            return ErrorCode.INVALID_REQUEST
        if asked.leader_recovery_state not in tuple(LeaderRecoveryState):
            return ErrorCode.INVALID_REQUEST
        if asked.leader_recovery_state == LeaderRecoveryState.RECOVERING:
            is_recovering = partition.leader_recovery_state == LeaderRecoveryState.RECOVERING
            if len(isr) > 1 or not is_recovering:
                return ErrorCode.INVALID_REQUEST
        if not all(self._is_eligible(member) for member in members):
            return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE

    def _is_eligible(self, member: BrokerState) -> bool:
        broker = self._image.brokers.get(member.broker_id)
        if broker is None or not broker.is_active:
            return False
        return member.broker_epoch in (_ANY_EPOCH, broker.epoch)


def _members(asked: RequestPartitionData) -> tuple[BrokerState, ...]:
    """Return the requested ISR; before version 3 it has no broker epochs."""
    return asked.new_isr_with_epochs or tuple(BrokerState(broker_id=broker) for broker in asked.new_isr)


def _refused(asked: RequestPartitionData, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=asked.partition_index, error_code=code)
