"""Plans which parts of ranges each task reads from the tier, and which from brokers (shell, on the driver).

    direct     the tier according to the metadata topic, which is read on from batch to batch; brokers have the rest
    offline    the tier according to the manifests in the bucket; there is no rest

I/O: requests to brokers and the object store. Errors: DataLossError; RemoteStorageError; KafkaError.
"""  # noqa: E501

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import ENDLESS, Offset, TopicPartition
from tidelog.remote.direct.aborted_transactions import aborted_transactions
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.inspection.bucket import in_threads
from tidelog.remote.ports.storage_manager import IndexType, RemoteResourceNotFound
from tidelog.remote.ports.streams import read_all
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.spark_connector.planning.data_loss import request_text, trim_to_log_start
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import AbortedRange, OffsetRange
from tidelog.spark_connector.planning.segment_slices import (
    OffsetPositions,
    SegmentSlice,
    divide_part,
    read_offset_index,
)
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.planning.tier_options import STORAGE_PREFIX, TierMode
from tidelog.spark_connector.planning.tier_plan import (
    SliceTask,
    TierSplit,
    bytes_per_task,
    combine_into_tasks,
    needs_index,
    split_at_tier_end,
)
from tidelog.spark_connector.reading.losses import report_loss
from tidelog.spark_connector.reading.tier_storage import open_bucket

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidelog.spark_connector.planning.offsets_json import Offsets

_INDEX_BYTES_MAX = 1 << 30
_log = logging.getLogger("tidelog.spark")


class TierSource(Protocol):
    """The requests of the driver to a cluster, or to a bucket instead."""

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the log start offsets of those of `partitions` that exist."""
        ...

    def last_tiered(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the last offset in the tier of each of `partitions` for which it is known."""
        ...

    def tiers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionTier]:
        """Return the remote segments of the partitions."""
        ...

    def aborted_across(self, topic_partition: TopicPartition, offset: Offset) -> list[AbortedRange]:
        """Return the aborted transactions that start before `offset` and end at it or after it."""
        ...


class TierPlanner:
    """Plans for one query; caches for which partitions the store was checked."""

    def __init__(self, options: SourceOptions, source: TierSource) -> None:
        self._options = options
        self._tier = options.tier
        self._source = source
        self._bucket = open_bucket(options.tier)
        self._checked_topics: set[UUID] = set()

    def plan(self, ranges: Sequence[OffsetRange]) -> tuple[list[SliceTask], list[OffsetRange]]:
        """Return the tasks for the tier and the ranges for brokers; a partition can have both."""
        begin_in_tier, local = self._by_start(ranges)
        if not begin_in_tier:
            return [], sorted(local)
        if self._tier.mode is TierMode.OFFLINE:
            return self._plan_once(begin_in_tier)[0], []
        try:
            tasks, rest = self._plan_with_retry(begin_in_tier)
        except RemoteResourceNotFound as error:
            _log.warning("reading everything from brokers, because a segment does not exist: %s", error)
            tasks, rest = [], begin_in_tier
        return tasks, sorted([*local, *rest])

    def _plan_with_retry(self, ranges: Sequence[OffsetRange]) -> tuple[list[SliceTask], list[OffsetRange]]:
        """Plan, and plan again if a segment was deleted meanwhile: the metadata may show it now."""
        try:
            return self._plan_once(ranges)
        except RemoteResourceNotFound as error:
            _log.warning("a segment was deleted, listing the segments again: %s", error)
            self._checked_topics.clear()
        return self._plan_once(ranges)

    def _plan_once(self, ranges: Sequence[OffsetRange]) -> tuple[list[SliceTask], list[OffsetRange]]:
        partitions = [offset_range.topic_partition for offset_range in ranges]
        starts, tiers = self._source.earliest(partitions), self._source.tiers(partitions)
        split = split_at_tier_end(
            [self._after_start(offset_range, starts) for offset_range in ranges],
            lambda offset_range: self._parts(offset_range, tiers.get(offset_range.topic_partition)),
            self._options.max_records_per_partition,
        )
        self._require_same_store(split)
        return self._tasks(split, tiers), split.rest

    def _require_same_store(self, split: TierSplit) -> None:
        """Raise OptionError if the store is not that of the brokers; all reads would go to brokers."""
        if not split.parts:
            return
        newest = split.parts[-1][-1].metadata
        topic_id = newest.topic_id_partition.topic_id
        if topic_id in self._checked_topics:
            return
        try:
            self._bucket.storage.fetch_index(newest, IndexType.OFFSET).close()
            self._checked_topics.add(topic_id)
        except RemoteResourceNotFound as error:
            if not self._bucket.sizes(newest.topic_id_partition):
                raise OptionError(
                    f"options {STORAGE_PREFIX}*: the store has no segments of {newest.topic_id_partition}, "
                    f"but the store of the brokers has; use their store and key.prefix ({error})"
                ) from error

    # --- the border -----------------------------------------------------------------------

    def _by_start(self, ranges: Sequence[OffsetRange]) -> tuple[list[OffsetRange], list[OffsetRange]]:
        """Divide the ranges into those that start in the tier and the others, with one request to brokers."""
        last_tiered = self._source.last_tiered([offset_range.topic_partition for offset_range in ranges])
        in_tier: list[OffsetRange] = []
        local: list[OffsetRange] = []
        for offset_range in ranges:
            starts_in_tier = offset_range.start_offset <= last_tiered.get(
                offset_range.topic_partition, offset_range.start_offset
            )
            (in_tier if starts_in_tier else local).append(offset_range)
        return in_tier, local

    def _after_start(self, requested: OffsetRange, starts: Offsets) -> OffsetRange:
        """Return the part of `requested` that is still in the log: objects can outlive their records."""
        remaining, loss = trim_to_log_start(requested, starts.get(requested.topic_partition, 0))
        self._report_loss(loss)
        return remaining

    def _parts(self, requested: OffsetRange, tier: PartitionTier | None) -> list[SegmentPart]:
        if tier is None:
            return []
        parts = tier.parts(requested.start_offset, requested.end_offset)
        if self._tier.mode is not TierMode.OFFLINE:
            return parts
        while (gap_start := parts[-1].end_offset if parts else requested.start_offset) < requested.end_offset:
            next_offset = tier.next_served(gap_start)
            gap_end = requested.end_offset if next_offset is None else min(next_offset, requested.end_offset)
            gap = OffsetRange(requested.topic_partition, gap_start, gap_end)
            self._report_loss(f"{request_text(gap)}, but no segment in the bucket has these offsets")
            following = tier.parts(gap_end, requested.end_offset)
            if not following:
                break
            parts += following
        return parts

    def _report_loss(self, loss: str | None) -> None:
        if loss is not None:
            report_loss(loss, fail_on_data_loss=self._options.fail_on_data_loss)

    # --- tasks ----------------------------------------------------------------------------

    def _tasks(self, split: TierSplit, tiers: dict[TopicPartition, PartitionTier]) -> list[SliceTask]:
        max_bytes = bytes_per_task(
            self._tier.max_bytes_per_partition, split.size_bytes, self._options.min_partitions
        )
        all_parts = [part for parts in split.parts for part in parts]
        # In threads, because indexes come from the store. None is cached, because there can be many.
        slices = iter(list(in_threads(lambda part: self._slices(part, max_bytes), all_parts)))
        aborted = self._aborted_ranges(split, tiers)
        tasks: list[SliceTask] = []
        for parts in split.parts:
            range_slices = [segment_slice for _ in parts for segment_slice in next(slices)]
            topic_partition = parts[0].metadata.topic_id_partition.topic_partition
            tasks += combine_into_tasks(
                range_slices, max_bytes, None if aborted is None else aborted[topic_partition]
            )
        return tasks

    def _slices(self, part: SegmentPart, max_bytes: int) -> list[SegmentSlice]:
        index = self._index(part) if needs_index(part, max_bytes) else OffsetPositions.empty()
        return divide_part(part, index, max_bytes)

    def _index(self, part: SegmentPart) -> OffsetPositions:
        """Return the index, or an empty one if it is damaged: the segment is then one slice."""
        try:
            stream = self._bucket.storage.fetch_index(part.metadata, IndexType.OFFSET)
            return read_offset_index(read_all(stream, _INDEX_BYTES_MAX), part.metadata)
        except RemoteResourceNotFound as error:
            _log.warning("%s: %s", part.metadata.remote_log_segment_id, error)
        except DecodeError as error:
            _log.warning("%s; the segment is read as one slice", error)
        return OffsetPositions.empty()

    def _aborted_ranges(
        self, split: TierSplit, tiers: dict[TopicPartition, PartitionTier]
    ) -> dict[TopicPartition, list[AbortedRange]] | None:
        """Return the aborted transactions of each partition's ranges; None if their records are visible."""
        if not self._options.client.read_committed:
            return None
        spans: dict[TopicPartition, tuple[Offset, Offset]] = {}
        for parts in split.parts:
            topic_partition = parts[0].metadata.topic_id_partition.topic_partition
            start = spans[topic_partition][0] if topic_partition in spans else parts[0].start_offset
            spans[topic_partition] = (start, parts[-1].end_offset)
        return {
            topic_partition: self._aborted_in(tiers[topic_partition], *span)
            for topic_partition, span in spans.items()
        }

    def _aborted_in(self, tier: PartitionTier, start: Offset, end: Offset) -> list[AbortedRange]:
        transactions, complete = aborted_transactions(self._bucket.storage, tier, start, end)
        aborted = [
            AbortedRange(transaction.producer_id, transaction.first_offset, transaction.last_offset)
            for transaction in transactions
        ]
        if not complete:
            tier_end = tier.parts(start, ENDLESS)[-1].end_offset
            aborted += self._source.aborted_across(tier.partition.topic_partition, tier_end)
        return sorted(aborted, key=lambda transaction: transaction.first_offset)
