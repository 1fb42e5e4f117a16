"""Data of brokers: offsets, epochs, configs, and the records of `__remote_log_metadata` (shell).

The order matters, because brokers continue to work: first the offsets, then the metadata to its end, then the
log start again. Therefore the copies of all records below the local start are in the metadata, and deletions
have moved the log start.

Errors: KafkaError if the cluster, a topic or a leader does not respond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from tidelog.base.clock import SystemClock
from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.remote.inspection.broker_queries import BrokerQueries, OffsetsBySpec, run_concurrently
from tidelog.remote.inspection.history import MetadataHistory, RecordPlace
from tidelog.remote.inspection.lineage_walk import LineageWalk
from tidelog.remote.inspection.views import NOTHING, PartitionOffsets, PartitionView
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.ports.segment_metadata import TopicIdPartition


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The views of the requested partitions, in order, and their metadata."""

    partitions: tuple[PartitionView, ...]
    history: MetadataHistory
    topic_ids: frozenset[UUID]
    """The ids of all existing topics."""
    now_ms: int


class Gatherer:
    """Sends requests to one cluster through `admin`, and reads its metadata topic with clients of its own.

    `options` are those of these clients, see `ConsumerConfig`.
    """

    def __init__(self, admin: Admin, bootstrap_servers: str, options: Mapping[str, Any]) -> None:
        self._brokers = BrokerQueries(admin)
        self._bootstrap_servers = bootstrap_servers
        self._options = options

    async def tiered_topics(self) -> list[str]:
        """Return the topics with remote.storage.enable, by name."""
        names = await self._brokers.topic_names()
        configs = await self._brokers.log_configs(names)
        return [name for name in names if configs[name].remote_storage_enable]

    async def view(
        self, names: Sequence[str], numbers: Iterable[int] | None = None, *, whole_history: bool = False
    ) -> ClusterView:
        """Return the partitions of the topics `names`, of one topic those with `numbers`.

        With `whole_history`, read every metadata partition, else only those of these partitions.
        """
        brokers = self._brokers
        topics = await brokers.topics(names)
        partitions = [
            TopicIdPartition(topic.topic_id, topic.name, entry.partition)
            for topic in topics
            for entry in topic.partitions
            if numbers is None or entry.partition in set(numbers)
        ]
        leader_epochs = {
            TopicPartition(topic.name, entry.partition): entry.leader_epoch
            for topic in topics
            for entry in topic.partitions
        }
        configs = await brokers.log_configs(names)
        offsets = await brokers.offsets_by_spec([partition.topic_partition for partition in partitions])
        history = await self.history(partitions, whole_history)
        listed_starts = await brokers.list_offsets(offsets, OffsetSpec.EARLIEST)
        starts = {name: listed.offset for name, listed in listed_starts.items()}
        lineages = await brokers.lineages(leader_epochs, starts)
        sizes = await brokers.local_sizes(topics)
        now_ms = SystemClock().wall_ms()
        views = []
        for partition in partitions:
            name = partition.topic_partition
            walk = lineages[name]
            partition_offsets = _offsets(offsets[name], walk, leader_epochs[name])
            view = PartitionView(
                partition=partition,
                offsets=partition_offsets,
                lineage=walk.entries,
                history=history.of(partition),
                config=configs[partition.topic],
                local_size_bytes=sizes.get(name),
                now_ms=now_ms,
            )
            views.append(view.with_log_start(starts[name]))
        return ClusterView(tuple(views), history, await brokers.topic_ids(), now_ms)

    # --- metadata -------------------------------------------------------------------------

    async def history(self, partitions: Iterable[TopicIdPartition], whole: bool = False) -> MetadataHistory:
        """Return the records about `partitions`; with `whole`, those of every metadata partition."""
        history = MetadataHistory()
        count = await self._brokers.metadata_partition_count()
        if count == 0:
            return history  # nothing was ever copied
        numbers = (
            range(count) if whole else {metadata_partition(partition, count) for partition in partitions}
        )
        await run_concurrently([partial(self._read, number, history) for number in sorted(numbers)])
        return history

    async def _read(self, number: int, history: MetadataHistory) -> None:
        name = TopicPartition(METADATA_TOPIC, number)
        async with PartitionReader(self._bootstrap_servers, name, **self._options) as reader:
            start, _ = await reader.range()
            if start > 0:
                history.truncated[number] = start
            async for record in reader.records():
                history.record(RecordPlace(number, record.offset), record.value)


def _offsets(responses: OffsetsBySpec, walk: LineageWalk, leader_epoch: LeaderEpoch) -> PartitionOffsets:
    def value(spec: int | None, otherwise: Offset = NOTHING) -> Offset:
        offset = responses.get(spec)
        return otherwise if offset is None or offset < 0 else offset

    start, high_watermark = value(OffsetSpec.EARLIEST, 0), value(OffsetSpec.LATEST, 0)
    pending = value(OffsetSpec.EARLIEST_PENDING_UPLOAD)
    return PartitionOffsets(
        log_start_offset=start,
        local_log_start_offset=max(start, value(OffsetSpec.EARLIEST_LOCAL, start)),
        highest_offset_in_remote_storage=value(OffsetSpec.LATEST_TIERED),
        earliest_pending_upload_offset=None if pending < 0 else pending,
        last_stable_offset=value(None, high_watermark),
        high_watermark=high_watermark,
        log_end_offset=max(high_watermark, walk.log_end_offset or 0),
        leader_epoch=leader_epoch,
    )
