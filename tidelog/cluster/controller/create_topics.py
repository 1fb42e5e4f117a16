"""CreateTopics: checks names, partitions, replicas and configs of each topic separately.

Source: ReplicationControlManager and ControllerApis of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tidelog.base.randomness import Randomness, new_uuid
from tidelog.cluster.controller.assignments import automatic_partitions, manual_partition
from tidelog.cluster.controller.config_rules import broker_layers
from tidelog.cluster.controller.configs import change_records
from tidelog.cluster.controller.partition_limit import PartitionLimit
from tidelog.cluster.controller.result import MAX_RECORDS_PER_COMMAND, ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.effective_configs import effective_topic_entry
from tidelog.cluster.image import MetadataImage, PartitionImage, ResourceType
from tidelog.cluster.partition_changes import partition_records
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC, check_name, colliding_names, metric_name
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

_DEFAULT: Final = -1


def create_topics(
    image: MetadataImage,
    settings: ControllerSettings,
    request: CreateTopicsRequest,
    randomness: Randomness,
) -> Steps[ControllerResult[CreateTopicsResponse]]:
    """Create the topics that are valid; every topic of the request has its own outcome.

    A request for too many partitions at once fails as a whole with POLICY_VIOLATION.
    """
    creation = _Creation(image, settings, randomness)
    counts: Counter[str] = Counter()
    topics: dict[str, CreatableTopic] = {}
    partition_count = 0
    for topic in request.topics:
        counts[topic.name] += 1
        topics[topic.name] = topic
        partition_count += _partition_count(settings, topic)
        yield None
    results = []
    is_too_large = partition_count > MAX_RECORDS_PER_COMMAND
    for name, count in counts.items():
        yield None
        topic = topics[name]
        try:
            if count > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name!r} is in the request {count} times")
            if is_too_large:
                text = f"a request may create at most {MAX_RECORDS_PER_COMMAND} partitions"
                raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
            results.append((yield from creation.create(topic)))
        except KafkaError as error:
            result = CreatableTopicResult(name=name, error_code=error.code, error_message=str(error))
            results.append(result)
    records = () if request.validate_only else tuple(creation.records)
    return ControllerResult(records, CreateTopicsResponse(topics=tuple(results)))


def _partition_count(settings: ControllerSettings, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return max(settings.num_partitions if topic.num_partitions == _DEFAULT else topic.num_partitions, 0)


class _Creation:
    """The records of the topics of one request that can be created."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings, randomness: Randomness) -> None:
        self.records: list[MetadataRecord] = []
        self._image = image
        self._settings = settings
        self._randomness = randomness
        self._limit = PartitionLimit(image, settings.partitions_per_broker_max)
        self._colliding = colliding_names(image.topics_by_name)

    def create(self, topic: CreatableTopic) -> Steps[CreatableTopicResult]:
        """Add the topic's records; KafkaError, without records, if it cannot be created."""
        self._check_name(topic.name)
        configs = self._config_records(topic)
        partitions = yield from self._partitions(topic)
        self._limit.add_replicas(topic.name, (each.replicas for each in partitions))
        topic_id = new_uuid(self._randomness)
        self.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        self.records += configs
        self.records += yield from partition_records(topic_id, 0, partitions)
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=self._describe_configs(configs),
        )

    def _check_name(self, name: str) -> None:
        if name == CLUSTER_METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"topic {name} is reserved for the cluster")
        check_name(name)
        if name in self._image.topics_by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        existing = self._colliding.get(metric_name(name))
        if existing is not None:
            text = f"topic name {name!r} collides with {existing!r}: '.' and '_' are the same in metrics"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)

    def _config_records(self, topic: CreatableTopic) -> list[ConfigRecord]:
        missing = [config.name for config in topic.configs if config.value is None]
        if missing:
            text = f"{', '.join(missing)}: a value of null is not allowed"
            raise KafkaError(ErrorCode.INVALID_CONFIG, text)
        values = {config.name: config.value for config in topic.configs}
        resource = (int(ResourceType.TOPIC), topic.name)
        return change_records(self._image, self._settings, resource, values, is_new=True)

    def _partitions(self, topic: CreatableTopic) -> Steps[list[PartitionImage]]:
        if topic.assignments:
            return (yield from self._manual_partitions(topic))
        count, factor = topic.num_partitions, topic.replication_factor
        if factor < _DEFAULT or factor == 0:
            text = f"replication factor {factor}: must be positive, or -1 for the default"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        if count < _DEFAULT or count == 0:
            text = f"number of partitions {count}: must be positive, or -1 for the default"
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
        count = self._settings.num_partitions if count == _DEFAULT else count
        factor = self._settings.default_replication_factor if factor == _DEFAULT else factor
        return (yield from automatic_partitions(self._image, count, factor, self._randomness))

    def _manual_partitions(self, topic: CreatableTopic) -> Steps[list[PartitionImage]]:
        if topic.replication_factor != _DEFAULT or topic.num_partitions != _DEFAULT:
            text = "number of partitions and replication factor must be -1 if there are assignments"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        partitions: dict[int, PartitionImage] = {}
        replication_factor: int | None = None
        for assignment in topic.assignments:
            if assignment.partition_index in partitions:
                text = f"partition {assignment.partition_index} is assigned twice"
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
            partition = manual_partition(self._image, assignment.broker_ids, replication_factor)
            partitions[assignment.partition_index] = partition
            replication_factor = len(partition.replicas)
            yield None
        if set(partitions) != set(range(len(partitions))):
            text = f"partitions {sorted(partitions)} are assigned, they must be numbered 0, 1, 2 and so on"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        return [partitions[index] for index in range(len(partitions))]

    def _describe_configs(self, records: list[ConfigRecord]) -> tuple[CreatableTopicConfigs, ...]:
        own = {record.name: record.value for record in records if record.value is not None}
        layers = broker_layers(self._image, self._settings)
        entries = (
            effective_topic_entry(TOPIC_CONFIGS[key], own, layers)
            for key in sorted(TOPIC_CONFIGS)
            if not TOPIC_CONFIGS[key].internal
        )
        return tuple(
            CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)
            for entry in entries
        )
