"""Which partition the messages of the quorum are about: there is only one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC

METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0


def only_partition(topics: Sequence[Any], name_field: str, partition_field: str) -> Any | None:
    """The entry of the metadata partition in a request or answer that has just that one."""
    if len(topics) != 1 or getattr(topics[0], name_field) != CLUSTER_METADATA_TOPIC:
        return None
    return _only(topics[0].partitions, partition_field)


def only_fetched_partition(topics: Sequence[Any], partition_field: str) -> Any | None:
    """The same in Fetch, where old versions name the topic and new ones its id."""
    if len(topics) != 1:
        return None
    topic = topics[0]
    if topic.topic_id != METADATA_TOPIC_ID and topic.topic != CLUSTER_METADATA_TOPIC:
        return None
    return _only(topic.partitions, partition_field)


def _only(partitions: Sequence[Any], partition_field: str) -> Any | None:
    if len(partitions) != 1 or getattr(partitions[0], partition_field) != METADATA_PARTITION:
        return None
    return partitions[0]
