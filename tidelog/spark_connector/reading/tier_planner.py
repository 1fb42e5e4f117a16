"""From ranges of offsets to what each task reads of the tier, and what of brokers (shell, on the driver).

    direct     the tier as leaders know it, which is followed from batch to batch; brokers give the rest
    offline    the tier as manifests tell of it; there is no rest

I/O: asks brokers and the object store. Errors: DataLossError; RemoteStorageError; KafkaError.
"""

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
from tidelog.spark_connector.planning.data_loss import DataLossError, after_retention
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import AbortedRange, OffsetRange
from tidelog.spark_connector.planning.segment_slices import (
    OffsetPositions,
    SegmentSlice,
    read_offset_index,
    slices,
)
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.planning.tier_options import STORAGE_PREFIX, TierMode
from tidelog.spark_connector.planning.tier_plan import (
    SliceTask,
    TierCut,
    bytes_per_task,
    cut_at_border,
    needs_index,
    slice_tasks,
)
from tidelog.spark_connector.reading.tier_storage import opened_bucket

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidelog.spark_connector.planning.offsets_json import Offsets

_INDEX_BYTES_MAX = 1 << 30
_log = logging.getLogger("tidelog.spark")


class TierSource(Protocol):
    """What the driver asks of a cluster, or of a bucket in its place."""

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The log starts of those of `partitions` that exist."""
        ...

    def last_tiered(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The last offset in the tier of each of `partitions`, as far as that is known."""
        ...

    def tiers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionTier]:
        """What is in the tier of them."""
        ...

    def aborted_across(self, topic_partition: TopicPartition, offset: Offset) -> list[AbortedRange]:
        """The aborted transactions that begin below `offset` and end at it or behind it."""
        ...


class TierPlanner:
    """Plans for one query; from one plan to the next it keeps whose segments the store was seen to have."""

    def __init__(self, options: SourceOptions, source: TierSource) -> None:
        self._options = options
        self._tier = options.tier
        self._source = source
        self._bucket = opened_bucket(options.tier)
        self._seen_topics: set[UUID] = set()

    def plan(self, ranges: Sequence[OffsetRange]) -> tuple[list[SliceTask], list[OffsetRange]]:
        """What is read from the tier, and what is left for brokers: of one partition both, in this order."""
        begin_in_tier, hot = self._by_start(ranges)
        if not begin_in_tier:
            return [], sorted(hot)
        if self._tier.mode is TierMode.OFFLINE:
            return self._planned(begin_in_tier)[0], []
        try:
            tasks, rest = self._planned_anew(begin_in_tier)
        except RemoteResourceNotFound as error:
            _log.warning(
                "brokers are asked for all of it, as a segment that should be there is not: %s", error
            )
            tasks, rest = [], begin_in_tier
        return tasks, sorted([*hot, *rest])

    def _planned_anew(self, ranges: Sequence[OffsetRange]) -> tuple[list[SliceTask], list[OffsetRange]]:
        """A plan; another one when a segment has gone meanwhile: the metadata may tell of it now."""
        try:
            return self._planned(ranges)
        except RemoteResourceNotFound as error:
            _log.warning("a segment is gone, which segments there are is asked again: %s", error)
            self._seen_topics.clear()
        return self._planned(ranges)

    def _planned(self, ranges: Sequence[OffsetRange]) -> tuple[list[SliceTask], list[OffsetRange]]:
        names = [one.topic_partition for one in ranges]
        starts, tiers = self._source.earliest(names), self._source.tiers(names)
        cut = cut_at_border(
            [self._after_start(one, starts) for one in ranges],
            lambda one: self._parts(one, tiers.get(one.topic_partition)),
            self._options.max_records_per_partition,
        )
        self._require_same_store(cut)
        return self._tasks(cut, tiers), cut.rest

    def _require_same_store(self, cut: TierCut) -> None:
        """OptionError for a store that is not the brokers': all would be read through them, unnoticed."""
        if not cut.parts:
            return
        newest = cut.parts[-1][-1].metadata
        topic_id = newest.topic_id_partition.topic_id
        if topic_id in self._seen_topics:
            return
        try:
            self._bucket.storage.fetch_index(newest, IndexType.OFFSET).close()
            self._seen_topics.add(topic_id)
        except RemoteResourceNotFound as error:
            if not self._bucket.sizes(newest.topic_id_partition):
                raise OptionError(
                    f"options {STORAGE_PREFIX}*: the store has nothing of {newest.topic_id_partition}, "
                    f"brokers have segments of it in theirs; is it the same, and key.prefix, too? ({error})"
                ) from error

    # --- the border -----------------------------------------------------------------------

    def _by_start(self, ranges: Sequence[OffsetRange]) -> tuple[list[OffsetRange], list[OffsetRange]]:
        """The ranges that begin in the tier, and the others: brokers tell by one question."""
        last = self._source.last_tiered([one.topic_partition for one in ranges])
        cold: list[OffsetRange] = []
        hot: list[OffsetRange] = []
        for one in ranges:
            is_cold = one.start_offset <= last.get(one.topic_partition, one.start_offset)
            (cold if is_cold else hot).append(one)
        return cold, hot

    def _after_start(self, wanted: OffsetRange, starts: Offsets) -> OffsetRange:
        """What of `wanted` is in the log still: objects may outlive what they held."""
        left, loss = after_retention(wanted, starts.get(wanted.topic_partition, 0))
        self._note(loss)
        return left

    def _parts(self, wanted: OffsetRange, tier: PartitionTier | None) -> list[SegmentPart]:
        if tier is None:
            return []
        parts = tier.parts(wanted.start_offset, wanted.end_offset)
        if self._tier.mode is not TierMode.OFFLINE:
            return parts
        while (missing := parts[-1].end_offset if parts else wanted.start_offset) < wanted.end_offset:
            found = tier.next_served(missing)
            behind = wanted.end_offset if found is None else min(found, wanted.end_offset)
            self._note(
                f"{wanted.topic_partition} should be read from offset {missing} to {behind}, "
                "but no segment in the bucket holds these offsets"
            )
            following = tier.parts(behind, wanted.end_offset)
            if not following:
                break
            parts += following
        return parts

    def _note(self, loss: str | None) -> None:
        if loss is None:
            return
        if self._options.fail_on_data_loss:
            raise DataLossError(loss)
        _log.warning("%s: skipped", loss)

    # --- tasks ----------------------------------------------------------------------------

    def _tasks(self, cut: TierCut, tiers: dict[TopicPartition, PartitionTier]) -> list[SliceTask]:
        max_bytes = bytes_per_task(
            self._tier.max_bytes_per_partition, cut.size_bytes, self._options.min_partitions
        )
        all_parts = [part for parts in cut.parts for part in parts]
        # In threads, as indexes come from the store; none is kept, as there may be many.
        sliced = iter(list(in_threads(lambda part: self._slices(part, max_bytes), all_parts)))
        aborted = self._aborted(cut, tiers)
        tasks: list[SliceTask] = []
        for parts in cut.parts:
            neighbours = [one for _ in parts for one in next(sliced)]
            name = parts[0].metadata.topic_id_partition.topic_partition
            tasks += slice_tasks(neighbours, max_bytes, None if aborted is None else aborted[name])
        return tasks

    def _slices(self, part: SegmentPart, max_bytes: int) -> list[SegmentSlice]:
        index = self._index(part) if needs_index(part, max_bytes) else OffsetPositions.none()
        return slices(part, index, max_bytes)

    def _index(self, part: SegmentPart) -> OffsetPositions:
        """Without an index the segment is not cut; whoever reads it finds out what is wrong with it."""
        try:
            stream = self._bucket.storage.fetch_index(part.metadata, IndexType.OFFSET)
            return read_offset_index(read_all(stream, _INDEX_BYTES_MAX), part.metadata)
        except RemoteResourceNotFound as error:
            _log.warning("%s: %s", part.metadata.remote_log_segment_id, error)
        except DecodeError as error:
            _log.warning("%s; the segment is not cut", error)
        return OffsetPositions.none()

    def _aborted(
        self, cut: TierCut, tiers: dict[TopicPartition, PartitionTier]
    ) -> dict[TopicPartition, list[AbortedRange]] | None:
        """The aborted transactions of what is read of each partition; None when their records are shown."""
        if not self._options.client.read_committed:
            return None
        spans: dict[TopicPartition, tuple[Offset, Offset]] = {}
        for parts in cut.parts:
            name = parts[0].metadata.topic_id_partition.topic_partition
            start = spans[name][0] if name in spans else parts[0].start_offset
            spans[name] = (start, parts[-1].end_offset)
        return {name: self._aborted_in(tiers[name], *span) for name, span in spans.items()}

    def _aborted_in(self, tier: PartitionTier, start: Offset, end: Offset) -> list[AbortedRange]:
        transactions, complete = aborted_transactions(self._bucket.storage, tier, start, end)
        found = [AbortedRange(one.producer_id, one.first_offset, one.last_offset) for one in transactions]
        if not complete:
            border = tier.parts(start, ENDLESS)[-1].end_offset
            found += self._source.aborted_across(tier.partition.topic_partition, border)
        return sorted(found, key=lambda one: one.first_offset)
