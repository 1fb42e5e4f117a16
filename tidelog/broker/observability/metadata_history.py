"""Logs the history of the cluster: one line for each change of topics, leaders, in-sync replicas and brokers.

Every node logs it, so that the log of any node has it. A change of thousands of partitions logs
the first lines, and then their number.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tidelog.base.count_text import count_text
from tidelog.base.log_limit import LogLimit
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import (
    NO_LEADER,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from tidelog.protocol.ids import BrokerId

logger = logging.getLogger(__name__)

Event: TypeAlias = tuple[object, ...]
"""The format of a log line, and its arguments."""


class MetadataHistory:
    """A subscriber of the metadata store."""

    def __init__(self, limit: LogLimit) -> None:
        self._limit = limit
        self._is_loaded = False

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Log the changes, except for the first call, which has all metadata."""
        if not self._is_loaded:
            self._is_loaded = True
            return
        if not logger.isEnabledFor(logging.INFO):
            return
        for message, *arguments in events(delta, image):
            self._limit.log(logger, logging.INFO, str(message), *arguments)


def events(delta: MetadataDelta, image: MetadataImage) -> Iterator[Event]:
    """Yield what has changed between `delta.base` and `image`."""
    yield from _broker_events(delta.base.brokers, image.brokers)
    for deleted_topic in delta.deleted_topics:
        yield "Topic %s was deleted", deleted_topic.name
    for name in delta.changed_topics:
        topic = image.topics_by_name.get(name)
        if topic is not None:
            yield from _topic_events(delta.base.topics_by_id.get(topic.id), topic)
    for resource in delta.changed_configs:
        yield from _config_events(resource, delta.base, image)


def _broker_events(before: Mapping[BrokerId, object], after: Mapping[BrokerId, object]) -> Iterator[Event]:
    if before is after:
        return
    for broker in sorted(before.keys() - after.keys()):
        yield "Broker %d was unregistered", broker
    for broker in sorted(after):
        was_fenced = getattr(before.get(broker), "fenced", True)
        is_fenced = getattr(after[broker], "fenced", True)
        if was_fenced and not is_fenced:
            yield "Broker %d is unfenced: it serves clients", broker
        elif is_fenced and not was_fenced:
            yield "Broker %d is fenced: it has stopped, or cannot reach the controller", broker


def _topic_events(before: TopicImage | None, after: TopicImage) -> Iterator[Event]:
    count = len(after.partitions)
    if before is None:
        replicas = max((len(partition.replicas) for partition in after.partitions.values()), default=0)
        text = f"{count_text(count, 'partition')}, replication factor {replicas}"
        yield "Topic %s was created: %s", after.name, text
        return
    if count != len(before.partitions):
        yield "Topic %s has %d partitions now, %d before", after.name, count, len(before.partitions)
    for index, partition in after.partitions.items():
        old = before.partitions.get(index)
        if old is not None and old is not partition:
            yield from _partition_events(f"{after.name}-{index}", old, partition)


def _partition_events(name: str, before: PartitionImage, after: PartitionImage) -> Iterator[Event]:
    if before.leader != after.leader:
        leaders = (_leader(before), _leader(after), after.leader_epoch)
        yield "Partition %s: leader %s, now %s in epoch %d", name, *leaders
    if before.isr != after.isr:
        yield "Partition %s: in-sync replicas %s, now %s", name, _ids(before.isr), _ids(after.isr)
    if before.replicas != after.replicas:
        yield "Partition %s: replicas %s, now %s", name, _ids(before.replicas), _ids(after.replicas)


def _config_events(resource: ConfigResource, base: MetadataImage, image: MetadataImage) -> Iterator[Event]:
    before, after = base.configs.get(resource, {}), image.configs.get(resource, {})
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    resource_type, name = resource
    is_topic = resource_type == ResourceType.TOPIC
    if not keys or (is_topic and name not in image.topics_by_name):
        return
    if is_topic:
        changes = ", ".join(f"{key}={after[key]}" if key in after else f"{key} removed" for key in keys)
    else:
        # Without values: configs of brokers may be passwords.
        changes = ", ".join(keys)
    kind = ResourceType(resource_type).name.lower().replace("_", " ")
    yield "Configs of %s %s were changed: %s", kind, name or "(all)", changes


def _leader(partition: PartitionImage) -> str:
    return "none" if partition.leader == NO_LEADER else str(partition.leader)


def _ids(brokers: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, sorted(brokers))) or "none"
