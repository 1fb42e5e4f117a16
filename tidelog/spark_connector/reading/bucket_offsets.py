"""Partitions and offsets from the bucket alone: the interface of `ClusterOffsets` without a broker (shell).

A partition exists if it has a segment. It starts at the log start offset of the newest segment, and ends with
the tier. With read_committed it ends before a transaction that is still open at the end of the tier.
I/O: blocks. Errors: RemoteStorageError.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType
from uuid import UUID

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.remote.direct.bucket_tier import BucketPartition, BucketTier
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.direct.timestamps import first_at_or_after
from tidelog.spark_connector.planning.offset_specs import LATEST, OffsetSpec, require_match, required_lookups
from tidelog.spark_connector.planning.offsets_json import Offsets
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import AbortedRange
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.reading.tier_storage import open_bucket


class BucketOffsets:
    """Finds offsets for one query; `partitions` lists the bucket again, the other methods use its result."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tier = BucketTier(open_bucket(options.tier))
        self._partitions: dict[TopicPartition, BucketPartition] | None = None
        self._stable: Offsets = {}

    def partitions(
        self, *, all_must_exist: bool, earlier_partitions: Collection[TopicPartition] = ()
    ) -> frozenset[TopicPartition]:
        """Return the partitions that the query reads and that have segments.

        Errors: OptionError if a named topic or partition has none and `all_must_exist`.
        """
        topics = self._options.topics
        names = topics.named_topics
        if names is None:
            names = tuple(sorted(filter(topics.matches, self._tier.topics())))
        listed = self._tier.partitions(names, dict(self._options.tier.topic_ids))
        counts: dict[str, int] = {}
        for topic, number in listed:
            counts[topic] = max(counts.get(topic, 0), number + 1)
        selected = topics.partitions(counts)
        missing = topics.missing(counts) or [
            str(topic_partition) for topic_partition in sorted(topics.assigned - listed.keys())
        ]
        if all_must_exist and missing:
            raise OptionError(f"the bucket has no segments of: {', '.join(missing)}")
        self._partitions = {
            name: topic_partition for name, topic_partition in listed.items() if name in selected
        }
        self._stable = {}
        return frozenset(self._partitions)

    def resolve(self, spec: OffsetSpec, partitions: Collection[TopicPartition], *, is_start: bool) -> Offsets:
        """Return the offsets of an option; an end timestamp without a later record means the latest offset.

        Errors: OptionError as for a cluster, and for an end after the end of the tier.
        """
        lookups = required_lookups(spec, partitions)
        if not is_start:
            self._require_below_end(lookups.option, lookups.explicit)
        offsets = {
            topic_partition: self._bound(topic_partition, bound)
            for topic_partition, bound in lookups.bounds.items()
        }
        unmatched = []
        for topic_partition, timestamp in lookups.timestamps.items():
            offset = self._at_timestamp(topic_partition, timestamp)
            offsets[topic_partition] = self._end(topic_partition) if offset is None else offset
            unmatched += [topic_partition] if offset is None else []
        if is_start and not self._options.begins_latest_without_match:
            require_match(lookups, unmatched)
        return {**lookups.explicit, **offsets}

    def existing(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of `partitions` that have segments."""
        return frozenset(
            topic_partition for topic_partition in partitions if topic_partition in self._listed_partitions
        )

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the log start offsets of the partitions."""
        return {
            topic_partition: self._listed_partitions[topic_partition].start_offset
            for topic_partition in partitions
            if topic_partition in self._listed_partitions
        }

    def latest(
        self, partitions: Collection[TopicPartition], earlier_offsets: Mapping[TopicPartition, int]
    ) -> Offsets:
        """Return the end offsets; `earlier_offsets` has no effect, because only the bucket is read."""
        return {
            topic_partition: self._end(topic_partition)
            for topic_partition in partitions
            if topic_partition in self._listed_partitions
        }

    def last_tiered(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return nothing: everything is in the tier."""
        return {}

    def topic_ids(self, topics: Collection[str]) -> dict[str, UUID]:
        """Return the ids of those of `topics` that have segments."""
        return {
            topic_partition.topic: partition.tier.partition.topic_id
            for topic_partition, partition in self._listed_partitions.items()
            if topic_partition.topic in topics
        }

    def tiers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionTier]:
        """Return the remote segments of the partitions."""
        return {
            topic_partition: self._listed_partitions[topic_partition].tier
            for topic_partition in partitions
            if topic_partition in self._listed_partitions
        }

    def aborted_across(self, topic_partition: TopicPartition, offset: Offset) -> list[AbortedRange]:
        """Return nothing: ranges end before a transaction that is open at the end of the tier."""
        return []

    def close(self) -> None:
        """Do nothing: the queries of this process share the store."""

    def __enter__(self) -> BucketOffsets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside ---------------------------------------------------------------------------

    @property
    def _listed_partitions(self) -> dict[TopicPartition, BucketPartition]:
        if self._partitions is None:
            # A stream that continues from its checkpoint requests offsets first.
            self.partitions(all_must_exist=False)
        assert self._partitions is not None
        return self._partitions

    def _bound(self, topic_partition: TopicPartition, bound: int) -> Offset:
        return (
            self._end(topic_partition)
            if bound == LATEST
            else self._listed_partitions[topic_partition].start_offset
        )

    def _end(self, topic_partition: TopicPartition) -> Offset:
        partition = self._listed_partitions[topic_partition]
        if not self._options.client.read_committed:
            return partition.end_offset
        if topic_partition not in self._stable:
            self._stable[topic_partition] = self._tier.last_stable_offset(partition)
        return self._stable[topic_partition]

    def _require_below_end(self, option: str, ends: Offsets) -> None:
        for topic_partition, end in ends.items():
            last = self._end(topic_partition)
            if end > last:
                name = (
                    "the last stable offset of the tier"
                    if self._is_before_end(topic_partition)
                    else "the tier's end"
                )
                raise OptionError(
                    f"option {option}: {topic_partition} should be read to offset {end}, {name} is {last}"
                )

    def _is_before_end(self, topic_partition: TopicPartition) -> bool:
        return self._end(topic_partition) < self._listed_partitions[topic_partition].end_offset

    def _at_timestamp(self, topic_partition: TopicPartition, timestamp: int) -> Offset | None:
        partition = self._listed_partitions[topic_partition]
        storage = self._tier.bucket.storage
        offset = first_at_or_after(storage, partition.tier, timestamp, partition.start_offset)
        # As with brokers, a record that is not stable yet is no match: a range up to it would include it.
        return offset if offset is not None and offset < self._end(topic_partition) else None
