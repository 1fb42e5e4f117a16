"""AssignReplicasToDirs: brokers report the log directories of their replicas (KIP-858).

A replica in a directory that is no longer online is removed from the ISR and from the leadership. A replica
that is reported in an online directory again may be elected, if its partition has no leader. Apache Kafka
elects it at the next event of a broker.

Source: KIP-858; ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.cluster.controller.brokers import current_registration
from tidelog.cluster.controller.partition_change import RequestedChange
from tidelog.cluster.controller.partition_updates import PartitionOfTopic, PartitionUpdates
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.features import METADATA_VERSION, metadata_version, supports_directories
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.cluster.replica_directories import is_online
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from tidelog.protocol.steps import Steps


def assign_replicas_to_directories(
    image: MetadataImage, settings: ControllerSettings, request: AssignReplicasToDirsRequest
) -> Steps[ControllerResult[AssignReplicasToDirsResponse]]:
    """Record the directories of replicas; every partition has its own outcome.

    Errors: KafkaError UNSUPPORTED_VERSION below metadata.version 17 (3.7-IV2), STALE_BROKER_EPOCH if the
    broker's registration has another epoch.
    """
    if not supports_directories(image):
        text = f"Directory assignment is not supported at {METADATA_VERSION} {metadata_version(image)}"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    broker = current_registration(image, request.broker_id, request.broker_epoch)
    updates = PartitionUpdates(image, settings, removed_broker=None)
    offline: list[PartitionOfTopic] = []
    online: list[PartitionOfTopic] = []
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            partitions = []
            for partition in topic.partitions:
                index = partition.partition_index
                code = _assign(image, updates, broker.id, directory.id, topic.topic_id, index)
                partitions.append(ResponsePartitionData(partition_index=index, error_code=code))
                if code is ErrorCode.NONE:
                    replicas = online if is_online(directory.id, broker.log_dirs) else offline
                    replicas.append((image.topics_by_id[topic.topic_id], index))
                yield None
            topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=tuple(partitions)))
        directories.append(ResponseDirectoryData(id=directory.id, topics=tuple(topics)))
    yield from updates.remove_from_isrs(offline, broker.id)
    yield from updates.remove_from_isrs([each for each in online if _has_no_leader(updates, each)])
    reply = AssignReplicasToDirsResponse(directories=tuple(directories))
    return ControllerResult(tuple(updates.records), reply, is_atomic=False)


def _has_no_leader(updates: PartitionUpdates, partition_of_topic: PartitionOfTopic) -> bool:
    partition = updates.partition(*partition_of_topic)
    return partition is not None and partition.leader == NO_LEADER


def _assign(
    image: MetadataImage,
    updates: PartitionUpdates,
    broker: BrokerId,
    directory: UUID,
    topic_id: UUID,
    index: int,
) -> ErrorCode:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = updates.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    updates.change(topic, index, RequestedChange(directories={broker: directory}))
    return ErrorCode.NONE
