"""AlterPartition: a leader changes the ISR; epochs ensure that stale requests have no effect.

A request contains the epochs on which it is based. If they are below the controller's, the request is stale.
If they are above, this node is no longer the active controller, but does not know it yet. A member is
rejected if its broker is fenced or has registered again since the leader last read its epoch (KIP-841,
KIP-903).

Source: KIP-497, KIP-841, KIP-903; ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.cluster.controller.brokers import current_registration
from tidelog.cluster.controller.partition_change import RequestedChange
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
    """Change the ISRs of partitions as their leader requests; every partition has its own outcome.

    Errors: KafkaError STALE_BROKER_EPOCH if the broker's registration has another epoch.
    """
    current_registration(image, request.broker_id, request.broker_epoch)
    alteration = _Alteration(image, settings, request.broker_id)
    topics = tuple(alteration.alter_topic(topic) for topic in request.topics)
    reply = AlterPartitionResponse(topics=topics)
    return ControllerResult(tuple(alteration.updates.records), reply, is_atomic=False)


class _Alteration:
    """Applies the changes of one request from the broker `leader`."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings, leader: BrokerId) -> None:
        self.updates = PartitionUpdates(image, settings)
        self._image = image
        self._leader = leader

    def alter_topic(self, requested: RequestTopicData) -> ResponseTopicData:
        topic = self._image.topics_by_id.get(requested.topic_id)
        if topic is None:
            partitions = tuple(
                _error_response(partition, ErrorCode.UNKNOWN_TOPIC_ID) for partition in requested.partitions
            )
        else:
            partitions = tuple(self._alter_partition(topic, partition) for partition in requested.partitions)
        return ResponseTopicData(topic_id=requested.topic_id, partitions=partitions)

    def _alter_partition(self, topic: TopicImage, requested: RequestPartitionData) -> ResponsePartitionData:
        index = requested.partition_index
        partition = self.updates.partition(topic, index)
        if partition is None:
            return _error_response(requested, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        members = _members(requested)
        code = self._check(partition, requested, members)
        if code is not ErrorCode.NONE:
            return _error_response(requested, code)
        change = RequestedChange(
            isr=tuple(member.broker_id for member in members),
            leader_recovery_state=requested.leader_recovery_state,
            election=self.updates.election(topic),
        )
        record = self.updates.change(topic, index, change)
        if record is not None and record.leader not in (self._leader, NO_LEADER_CHANGE):
            # The change completed a reassignment that removes the leader.
            return _error_response(requested, ErrorCode.NEW_LEADER_ELECTED)
        new_partition = self.updates.partition(topic, index)
        assert new_partition is not None
        return ResponsePartitionData(
            partition_index=index,
            leader_id=new_partition.leader,
            leader_epoch=new_partition.leader_epoch,
            isr=new_partition.isr,
            leader_recovery_state=new_partition.leader_recovery_state,
            partition_epoch=new_partition.partition_epoch,
        )

    def _check(
        self, partition: PartitionImage, requested: RequestPartitionData, members: tuple[BrokerState, ...]
    ) -> ErrorCode:
        if (
            requested.leader_epoch > partition.leader_epoch
            or requested.partition_epoch > partition.partition_epoch
        ):
            return ErrorCode.NOT_CONTROLLER
        if requested.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if self._leader != partition.leader:
            return ErrorCode.INVALID_REQUEST
        if requested.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        isr = [member.broker_id for member in members]
        if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
            return ErrorCode.INVALID_REQUEST
        if partition.leader not in isr:
            return ErrorCode.INVALID_REQUEST
        if requested.leader_recovery_state not in tuple(LeaderRecoveryState):
            return ErrorCode.INVALID_REQUEST
        if requested.leader_recovery_state == LeaderRecoveryState.RECOVERING:
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


def _members(requested: RequestPartitionData) -> tuple[BrokerState, ...]:
    """Return the requested ISR; versions below 3 have no broker epochs."""
    return requested.new_isr_with_epochs or tuple(
        BrokerState(broker_id=broker) for broker in requested.new_isr
    )


def _error_response(requested: RequestPartitionData, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=requested.partition_index, error_code=code)
