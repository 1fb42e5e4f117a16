"""CreatePartitions: increases the partition counts of topics.

Source: ReplicationControlManager.createPartitions and ControllerApis of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter

from tidelog.base.randomness import Randomness
from tidelog.cluster.controller.assignments import automatic_partitions, manual_partition
from tidelog.cluster.controller.mutation_quota import ChargePartitions, charge_nothing
from tidelog.cluster.controller.partition_limit import PartitionLimit
from tidelog.cluster.controller.result import MAX_RECORDS_PER_COMMAND, ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage, PartitionImage, TopicImage
from tidelog.cluster.partition_changes import partition_records
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.steps import Steps


def create_partitions(
    image: MetadataImage,
    settings: ControllerSettings,
    request: CreatePartitionsRequest,
    randomness: Randomness,
    charge: ChargePartitions = charge_nothing,
) -> Steps[ControllerResult[CreatePartitionsResponse]]:
    """Add partitions up to the requested counts; every topic has its own outcome."""
    counts: Counter[str] = Counter()
    topics: dict[str, CreatePartitionsTopic] = {}
    for topic in request.topics:
        counts[topic.name] += 1
        topics[topic.name] = topic
        yield None
    limit = PartitionLimit(image, settings.partitions_per_broker_max)
    records: list[PartitionRecord] = []
    results = []
    for name, count in counts.items():
        yield None
        topic = topics[name]
        try:
            if count > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic name {name!r}.")
            additional_max = MAX_RECORDS_PER_COMMAND - len(records)
            records += yield from _new_records(image, limit, topic, randomness, additional_max, charge)
            results.append(CreatePartitionsTopicResult(name=name))
        except KafkaError as error:
            results.append(
                CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=str(error))
            )
    reply = CreatePartitionsResponse(results=tuple(results))
    return ControllerResult(() if request.validate_only else tuple(records), reply)


def _new_records(
    image: MetadataImage,
    limit: PartitionLimit,
    requested: CreatePartitionsTopic,
    randomness: Randomness,
    additional_max: int,
    charge: ChargePartitions,
) -> Steps[list[PartitionRecord]]:
    topic = image.topics_by_name.get(requested.name)
    if topic is None:
        text = f"Unable to find a topic named {requested.name!r}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    existing_count = len(topic.partitions)
    additional = requested.count - existing_count
    if additional <= 0:
        text = (
            f"The topic {topic.name!r} currently has {existing_count} partition(s); {requested.count} would "
            "not be an increase."
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    if additional > additional_max:
        text = f"Excessively large number of partitions per request: the limit is {MAX_RECORDS_PER_COMMAND}"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
    charge(additional)
    partitions = yield from _partitions(image, topic, requested, additional, randomness)
    limit.add_replicas(topic.name, (each.replicas for each in partitions))
    return (yield from partition_records(topic.id, existing_count, partitions))


def _partitions(
    image: MetadataImage,
    topic: TopicImage,
    requested: CreatePartitionsTopic,
    additional: int,
    randomness: Randomness,
) -> Steps[list[PartitionImage]]:
    replication_factor = len(topic.partitions[0].replicas)
    if requested.assignments is None:
        return (yield from automatic_partitions(image, additional, replication_factor, randomness))
    if len(requested.assignments) != additional:
        text = (
            f"Attempted to add {additional} additional partition(s) to {topic.name!r}, but "
            f"{len(requested.assignments)} assignment(s) were specified."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    partitions = []
    for each in requested.assignments:
        partitions.append(manual_partition(image, each.broker_ids, replication_factor))
        yield None
    return partitions
