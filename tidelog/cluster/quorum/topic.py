"""The partition of the metadata log, to which all messages of the quorum refer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC

METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0


def only_partition(topics: Sequence[Any], name_field: str, partition_field: str) -> Any | None:
    """Return the metadata partition of a request or response; None unless it is the only partition."""
    if len(topics) != 1 or getattr(topics[0], name_field) != CLUSTER_METADATA_TOPIC:
        return None
    return _only(topics[0].partitions, partition_field)


def only_fetched_partition(topics: Sequence[Any], partition_field: str) -> Any | None:
    """Return the metadata partition of Fetch, where new versions contain the topic id."""
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
