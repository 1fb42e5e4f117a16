"""The ports of the group coordinator to its node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from tidelog.base.clock import Clock
from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupConfig
from tidelog.broker.coordinators.groups.share.config import ShareGroupConfig
from tidelog.broker.coordinators.groups.streams.config import StreamsGroupConfig
from tidelog.broker.coordinators.share.persister import SharePersister
from tidelog.broker.coordinators.shared.state_log import StateLog
from tidelog.broker.coordinators.shared.timer import Timer
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import Offset, TopicPartition


class PartitionEndOffsets(Protocol):
    """Reads end offsets; implemented by `EndOffsets`."""

    async def of_partitions(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset | ErrorCode]:
        """Return the high watermark of each partition, or the error."""
        ...


class GroupPorts(NamedTuple):
    """The log of the state, the time, the metadata, and the settings that change while the node runs.

    `persister` reaches the share coordinators, and `end_offsets` the leaders of partitions.
    `new_suffix` returns a unique suffix for the id of a member.
    """

    log: StateLog
    timer: Timer
    clock: Clock
    slices: Slices
    image: Callable[[], MetadataImage]
    consumer_config: Callable[[], ConsumerGroupConfig]
    share_config: Callable[[], ShareGroupConfig]
    streams_config: Callable[[], StreamsGroupConfig]
    persister: SharePersister
    end_offsets: PartitionEndOffsets
    new_suffix: Callable[[], str]
