"""Changes of configs: incremental ones (KIP-339), and the older request that replaces all of them.

The changes of one resource are applied together or not at all; the resources of a request are independent.

Source: ConfigurationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.base.config_definition import ConfigDefinition, ConfigKind
from tidelog.cluster.controller.config_rules import check_configs
from tidelog.cluster.controller.result import SUCCESS, ControllerResult, Outcome
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.features import eligible_leader_replicas_enabled
from tidelog.cluster.group_configs import GROUP_CONFIGS
from tidelog.cluster.image import ConfigResource, MetadataImage, ResourceType
from tidelog.cluster.topic_references import check_source_change
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.clear_elr_record import ClearElrRecord
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.steps import Steps
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS
from tidelog.storage.config.topic_source import SOURCE_KEY

_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class ConfigOperation(IntEnum):
    """An operation on one key; the numbers of IncrementalAlterConfigs requests."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One operation on one key; `value` is None for DELETE."""

    key: str
    operation: int
    value: str | None


class ResourceChange(NamedTuple):
    """The operations on one resource, or all its configs if they are replaced."""

    resource: ConfigResource
    changes: tuple[ConfigChange, ...]


def alter_configs(
    image: MetadataImage,
    settings: ControllerSettings,
    requested: Iterable[ResourceChange],
    definitions: Mapping[int, Mapping[str, ConfigDefinition]],
) -> Steps[ControllerResult[list[Outcome]]]:
    """Apply incremental changes; return outcomes in the order of `requested`.

    `definitions`: the config definitions by resource type, which define list types and defaults.
    """
    records: list[ConfigRecord] = []
    outcomes = []
    for each in requested:
        yield None
        try:
            values = yield from changed_values(image, each, definitions)
            records += change_records(image, settings, each.resource, values)
            outcomes.append(SUCCESS)
        except KafkaError as error:
            outcomes.append(Outcome.of(error))
    return ControllerResult((*records, *_clear_elr_records(image, records)), outcomes)


def _clear_elr_records(image: MetadataImage, records: Iterable[ConfigRecord]) -> list[ClearElrRecord]:
    """Return the records that clear eligible leader replicas if min.insync.replicas changes (KIP-966).

    With a lower value the high watermark may advance beyond the records of those replicas.
    """
    if not eligible_leader_replicas_enabled(image):
        return []
    return [
        ClearElrRecord(topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else "")
        for record in records
        if record.name == _MIN_INSYNC_REPLICAS
    ]


def changed_values(
    image: MetadataImage,
    requested: ResourceChange,
    definitions: Mapping[int, Mapping[str, ConfigDefinition]],
) -> Steps[dict[str, str | None]]:
    """Return the new value of every key in a resource's operations; None for a deleted one."""
    current = image.configs.get(requested.resource, {})
    known = definitions.get(requested.resource[0], {})
    values = {}
    for each in requested.changes:
        values[each.key] = _new_value(current.get(each.key), each, known)
        yield None
    return values


def replace_configs(
    image: MetadataImage, settings: ControllerSettings, requested: Iterable[ResourceChange]
) -> Steps[ControllerResult[list[Outcome]]]:
    """Replace all configs of each resource; return outcomes in the order of `requested`."""
    records: list[ConfigRecord] = []
    outcomes = []
    for resource, changes in requested:
        yield None
        try:
            values = {change.key: change.value for change in changes}
            # The source of a topic never changes; Kafka's tools do not know it.
            existing = image.configs.get(resource, {})
            deletions = {key: None for key in existing if key not in values and key != SOURCE_KEY}
            records += change_records(image, settings, resource, values | deletions)
            outcomes.append(SUCCESS)
        except KafkaError as error:
            outcomes.append(Outcome.of(error))
    return ControllerResult((*records, *_clear_elr_records(image, records)), outcomes)


def change_records(
    image: MetadataImage,
    settings: ControllerSettings,
    resource: ConfigResource,
    values: Mapping[str, str | None],
    *,
    is_new: bool = False,
) -> list[ConfigRecord]:
    """Check the resulting configs, and return the records that set `values`; None deletes a config.

    An unchanged config has no record, except for brokers: the record makes them reload their files.
    `is_new`: whether the same command creates the resource.
    """
    resource_type, name = resource
    current = image.configs.get(resource, {})
    if resource_type == ResourceType.TOPIC and not is_new:
        check_source_change(current, values)
    new_configs = {key: value for key, value in {**current, **values}.items() if value is not None}
    check_configs(image, settings, resource_type, name, new_configs)
    if resource_type == ResourceType.TOPIC and not is_new and name not in image.topics_by_name:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name!r} does not exist.")
    if resource_type == ResourceType.BROKER and eligible_leader_replicas_enabled(image):
        _check_min_insync_replicas(name, values)
    return [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in values.items()
        if value != current.get(key) or resource_type == ResourceType.BROKER
    ]


def _check_min_insync_replicas(broker: str, values: Mapping[str, str | None]) -> None:
    if _MIN_INSYNC_REPLICAS not in values:
        return
    if broker:
        text = f"Broker-level {_MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    if values[_MIN_INSYNC_REPLICAS] is None:
        text = f"Cluster-level {_MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)


def _new_value(
    current: str | None, change: ConfigChange, definitions: Mapping[str, ConfigDefinition]
) -> str | None:
    if change.operation == ConfigOperation.DELETE:
        return None
    if change.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for config {change.key}")
    if change.operation == ConfigOperation.SET:
        return change.value
    if change.operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        text = f"Unknown operation {change.operation} for config {change.key}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    definition = definitions.get(change.key)
    if definition is None or definition.kind is not ConfigKind.LIST:
        operation = ConfigOperation(change.operation).name
        text = f"Can't {operation} to key {change.key} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    return _new_list(current if current is not None else definition.default_text or "", change)


def _new_list(current: str, change: ConfigChange) -> str:
    items = [item for item in current.split(",") if item]
    assert change.value is not None
    for item in change.value.split(","):
        if change.operation == ConfigOperation.APPEND and item not in items:
            items.append(item)
        elif change.operation == ConfigOperation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


TOPIC_AND_GROUP_DEFINITIONS: Final[Mapping[int, Mapping[str, ConfigDefinition]]] = {
    ResourceType.TOPIC: TOPIC_CONFIGS,
    ResourceType.GROUP: GROUP_CONFIGS,
}
"""The config definitions of topics and groups; those of brokers are added by the broker."""
