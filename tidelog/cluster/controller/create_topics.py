"""CreateTopics: validates and creates each topic of a request separately.

Source: ReplicationControlManager and ControllerApis of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.randomness import Randomness, new_uuid
from tidelog.cluster.controller.assignments import automatic_partitions, manual_partition
from tidelog.cluster.controller.config_rules import broker_layers
from tidelog.cluster.controller.configs import change_records
from tidelog.cluster.controller.mutation_quota import ChargePartitions, charge_nothing
from tidelog.cluster.controller.partition_limit import PartitionLimit
from tidelog.cluster.controller.result import MAX_RECORDS_PER_COMMAND, ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.effective_configs import effective_topic_entry
from tidelog.cluster.image import LeaderRecoveryState, MetadataImage, PartitionImage, ResourceType
from tidelog.cluster.partition_changes import partition_records
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC, check_name, colliding_names, metric_name
from tidelog.cluster.topic_references import check_source_change
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import uuid_text
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps
from tidelog.storage.config.restored_topic import RESTORE_KEYS, RESTORE_PREFIX, RestoredTopic
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS, unknown_topic_config

_DEFAULT: Final = -1
_NO_BROKER: Final = -1
_TIERING_KEY: Final = "remote.storage.enable"


def create_topics(
    image: MetadataImage,
    settings: ControllerSettings,
    request: CreateTopicsRequest,
    randomness: Randomness,
    charge: ChargePartitions = charge_nothing,
) -> Steps[ControllerResult[CreateTopicsResponse]]:
    """Create the topics that are valid; every topic of the request has its own outcome.

    Every topic has the error POLICY_VIOLATION if the request has too many partitions.
    """
    creation = _Creation(image, settings, randomness, charge)
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
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic name {name!r}.")
            if is_too_large:
                text = (
                    f"Excessively large number of partitions per request: {partition_count}, the limit is "
                    f"{MAX_RECORDS_PER_COMMAND}"
                )
                raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
            results.append((yield from creation.create(topic)))
        except KafkaError as error:
            result = CreatableTopicResult(name=name, error_code=error.code, error_message=str(error))
            results.append(result)
    records = () if request.validate_only else tuple(creation.records)
    return ControllerResult(records, CreateTopicsResponse(topics=tuple(results)))


def _config_values(topic: CreatableTopic) -> Steps[dict[str, str]]:
    """Return the configs of a new topic by name; they are few, because each of them is known.

    Errors: KafkaError INVALID_CONFIG if a config has no value, or is no config of a topic.
    """
    values: dict[str, str] = {}
    missing: list[str] = []
    unknown: ConfigError | None = None
    for config in topic.configs:
        yield None
        if config.value is None:
            missing.append(config.name)
        elif config.name in TOPIC_CONFIGS or config.name in RESTORE_KEYS:
            values[config.name] = config.value
        elif unknown is None:
            unknown = unknown_topic_config(config.name, config.value)
    if missing:
        text = f"Null value not supported for topic configs: {', '.join(missing)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    if unknown is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(unknown))
    return values


def _partition_count(settings: ControllerSettings, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return max(settings.num_partitions if topic.num_partitions == _DEFAULT else topic.num_partitions, 0)


class _Creation:
    """Collects the records of those topics of one request that can be created."""

    def __init__(
        self,
        image: MetadataImage,
        settings: ControllerSettings,
        randomness: Randomness,
        charge: ChargePartitions,
    ) -> None:
        self.records: list[MetadataRecord] = []
        self._image = image
        self._settings = settings
        self._randomness = randomness
        self._charge = charge
        self._limit = PartitionLimit(image, settings.partitions_per_broker_max)
        self._names_by_metric_name = colliding_names(image.topics_by_name)
        self._next_producer_id = image.next_producer_id

    def create(self, topic: CreatableTopic) -> Steps[CreatableTopicResult]:
        """Add the records of `topic`, or raise KafkaError if it cannot be created."""
        self._check_name(topic.name)
        values = yield from _config_values(topic)
        restored = self._restored_topic(topic, values)
        if restored is None:
            check_source_change({}, values)
        configs = self._config_records(topic, values)
        partitions = yield from self._partitions(topic)
        self._limit.add_replicas(topic.name, (each.replicas for each in partitions))
        self._charge(len(partitions))
        if restored is None:
            topic_id = new_uuid(self._randomness)
        else:
            topic_id = restored.topic_id
            self._raise_next_producer_id(restored)
            is_tiered = any(each.name == _TIERING_KEY and each.value == "true" for each in configs)
            partitions = [_restored_partition(each, restored, is_tiered) for each in partitions]
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
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        check_name(name)
        if name in self._image.topics_by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists.")
        existing = self._names_by_metric_name.get(metric_name(name))
        if existing is not None:
            text = (
                f"Topic {name!r} collides with existing topic {existing!r}: '.' and '_' are equal in metrics"
            )
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)

    def _restored_topic(self, topic: CreatableTopic, values: Mapping[str, str]) -> RestoredTopic | None:
        """Return the identity of a topic that is restored, None for a new topic."""
        try:
            restored = RestoredTopic.of(values)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if restored is None:
            return None
        existing = self._image.topics_by_id.get(restored.topic_id)
        added = any(
            isinstance(record, TopicRecord) and record.topic_id == restored.topic_id
            for record in self.records
        )
        if existing is not None or added:
            name = existing.name if existing is not None else "another topic of this request"
            text = f"Topic {topic.name!r} cannot have the id {uuid_text(restored.topic_id)}: {name} has it"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return restored

    def _raise_next_producer_id(self, restored: RestoredTopic) -> None:
        """Allocate no producer id that a restored producer may have: their sequences would be confused."""
        if restored.next_producer_id > self._next_producer_id:
            self._next_producer_id = restored.next_producer_id
            self.records.append(
                ProducerIdsRecord(
                    broker_id=_NO_BROKER, broker_epoch=-1, next_producer_id=restored.next_producer_id
                )
            )

    def _config_records(self, topic: CreatableTopic, values: Mapping[str, str]) -> list[ConfigRecord]:
        resource = (int(ResourceType.TOPIC), topic.name)
        stored = {key: value for key, value in values.items() if not key.startswith(RESTORE_PREFIX)}
        return change_records(self._image, self._settings, resource, stored, is_new=True)

    def _partitions(self, topic: CreatableTopic) -> Steps[list[PartitionImage]]:
        if topic.assignments:
            return (yield from self._manual_partitions(topic))
        count, factor = topic.num_partitions, topic.replication_factor
        if factor < _DEFAULT or factor == 0:
            text = f"Replication factor must be larger than 0, or -1 to use the default value: {factor}"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        if count < _DEFAULT or count == 0:
            text = f"Number of partitions must be larger than 0, or -1 to use the default value: {count}"
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
        count = self._settings.num_partitions if count == _DEFAULT else count
        factor = self._settings.default_replication_factor if factor == _DEFAULT else factor
        return (yield from automatic_partitions(self._image, count, factor, self._randomness))

    def _manual_partitions(self, topic: CreatableTopic) -> Steps[list[PartitionImage]]:
        if topic.replication_factor != _DEFAULT or topic.num_partitions != _DEFAULT:
            text = (
                "A manual partition assignment was specified, but numPartitions and replication factor were "
                "not set to -1."
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        partitions: dict[int, PartitionImage] = {}
        replication_factor: int | None = None
        for assignment in topic.assignments:
            if assignment.partition_index in partitions:
                text = (
                    f"Found multiple manual partition assignments for partition {assignment.partition_index}"
                )
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
            partition = manual_partition(self._image, assignment.broker_ids, replication_factor)
            partitions[assignment.partition_index] = partition
            replication_factor = len(partition.replicas)
            yield None
        if set(partitions) != set(range(len(partitions))):
            text = f"partitions should be a consecutive 0-based integer sequence: {sorted(partitions)}"
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


def _restored_partition(
    partition: PartitionImage, restored: RestoredTopic, is_tiered: bool
) -> PartitionImage:
    """Return a partition in the leader epoch of the restored topic.

    The leader of a tiered one must first recover its log from remote storage (KIP-704). It is the only
    in-sync replica until then, as after an unclean election.
    """
    if not is_tiered:
        return replace(partition, leader_epoch=restored.leader_epoch)
    return replace(
        partition,
        isr=(partition.leader,),
        leader_epoch=restored.leader_epoch,
        leader_recovery_state=LeaderRecoveryState.RECOVERING,
    )
