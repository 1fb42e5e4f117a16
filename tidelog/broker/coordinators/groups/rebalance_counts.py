"""The number of rebalances of the groups whose partitions the coordinator assigns, for metrics. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tidelog.broker.coordinators.groups.records.consumer_group_records import ConsumerGroupRecord
from tidelog.broker.coordinators.groups.records.share_group_records import ShareGroupRecord
from tidelog.broker.coordinators.groups.records.streams_group_records import StreamsGroupRecord
from tidelog.protocol.coordinator_records.consumer_group import ConsumerGroupMetadataKey
from tidelog.protocol.coordinator_records.share_group import ShareGroupMetadataKey
from tidelog.protocol.coordinator_records.streams_group import StreamsGroupMetadataKey

CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"

_GROUP_EPOCH_KEYS: Final[dict[type, str]] = {
    ConsumerGroupMetadataKey: CONSUMER,
    ShareGroupMetadataKey: SHARE,
    StreamsGroupMetadataKey: STREAMS,
}


class RebalanceCounts:
    """Counts the group epochs that the coordinators of a node have started, by the type of the group.

    Each change of members, subscriptions or topics starts a group epoch. Apache Kafka counts those that
    heartbeats start; here the removal of a member counts, too.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, record: ConsumerGroupRecord | ShareGroupRecord | StreamsGroupRecord) -> None:
        """Count a record that has been appended, if it starts a group epoch."""
        group_type = _GROUP_EPOCH_KEYS.get(type(record.key))
        if group_type is not None and record.value is not None:
            self._counts[group_type] += 1

    def total(self, group_type: str) -> int:
        """Return the number of rebalances of groups of a type since the start of the node."""
        return self._counts[group_type]
