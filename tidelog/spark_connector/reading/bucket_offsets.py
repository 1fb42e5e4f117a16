"""What the driver learns from the bucket alone: the answers of `ClusterOffsets` without a broker (shell).

A partition is there when it has a segment; it begins where the newest segment's log began, and ends with the
tier. With read_committed it ends where a transaction is still open at the end of the tier.
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
from tidelog.spark_connector.planning.offset_specs import LATEST, OffsetSpec, questions, require_match
from tidelog.spark_connector.planning.offsets_json import Offsets
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import AbortedRange
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.reading.tier_storage import opened_bucket


class BucketOffsets:
    """Answers for one query; `partitions` looks into the bucket anew, all else is told of what it found."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tier = BucketTier(opened_bucket(options.tier))
        self._found: dict[TopicPartition, BucketPartition] | None = None
        self._stable: Offsets = {}

    def partitions(
        self, *, all_must_exist: bool, known: Collection[TopicPartition] = ()
    ) -> frozenset[TopicPartition]:
        """The partitions that the query reads and that have segments.

        Errors: OptionError when a topic or partition that was named has none and must.
        """
        topics = self._options.topics
        names = topics.named_topics
        if names is None:
            names = tuple(sorted(filter(topics.matches, self._tier.topics())))
        found = self._tier.partitions(names, dict(self._options.tier.topic_ids))
        counts: dict[str, int] = {}
        for topic, number in found:
            counts[topic] = max(counts.get(topic, 0), number + 1)
        wanted = topics.partitions(counts)
        missing = topics.missing(counts) or [str(one) for one in sorted(topics.assigned - found.keys())]
        if all_must_exist and missing:
            raise OptionError(f"the bucket has no segments of what should be read: {', '.join(missing)}")
        self._found = {name: one for name, one in found.items() if name in wanted}
        self._stable = {}
        return frozenset(self._found)

    def resolve(self, spec: OffsetSpec, partitions: Collection[TopicPartition], *, is_start: bool) -> Offsets:
        """The offsets that an option stands for; without a record after a timestamp, ends are the latest.

        Errors: OptionError as for a cluster, and for an end behind that of the tier.
        """
        asked = questions(spec, partitions)
        if not is_start:
            self._require_below_end(asked.option, asked.known)
        found = {one: self._bound(one, bound) for one, bound in asked.bounds.items()}
        unmatched = []
        for one, timestamp in asked.timestamps.items():
            offset = self._at_timestamp(one, timestamp)
            found[one] = self._end(one) if offset is None else offset
            unmatched += [one] if offset is None else []
        if is_start and not self._options.begins_latest_without_match:
            require_match(asked, unmatched)
        return {**asked.known, **found}

    def existing(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Those of `partitions` that have segments."""
        return frozenset(one for one in partitions if one in self._present)

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Where the partitions begin."""
        return {one: self._present[one].start_offset for one in partitions if one in self._present}

    def latest(self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int]) -> Offsets:
        """Where they end; what is `known` does not count, as nothing but the bucket is asked."""
        return {one: self._end(one) for one in partitions if one in self._present}

    def last_tiered(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Nothing: there is nothing that is not in the tier."""
        return {}

    def topic_ids(self, topics: Collection[str]) -> dict[str, UUID]:
        """The ids of those of `topics` that have segments."""
        return {
            one.topic: found.tier.partition.topic_id
            for one, found in self._present.items()
            if one.topic in topics
        }

    def tiers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionTier]:
        """What is in the tier of them."""
        return {one: self._present[one].tier for one in partitions if one in self._present}

    def aborted_across(self, topic_partition: TopicPartition, offset: Offset) -> list[AbortedRange]:
        """None: what may be read ends where a transaction is open at the end of the tier."""
        return []

    def close(self) -> None:
        """Nothing: the store is shared by the queries of this process."""

    def __enter__(self) -> BucketOffsets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside ---------------------------------------------------------------------------

    @property
    def _present(self) -> dict[TopicPartition, BucketPartition]:
        if self._found is None:
            # A stream that goes on from its checkpoint asks for offsets first.
            self.partitions(all_must_exist=False)
        assert self._found is not None
        return self._found

    def _bound(self, one: TopicPartition, bound: int) -> Offset:
        return self._end(one) if bound == LATEST else self._present[one].start_offset

    def _end(self, one: TopicPartition) -> Offset:
        partition = self._present[one]
        if not self._options.client.read_committed:
            return partition.end_offset
        if one not in self._stable:
            self._stable[one] = self._tier.last_stable_offset(partition)
        return self._stable[one]

    def _require_below_end(self, option: str, ends: Offsets) -> None:
        for one, end in ends.items():
            last = self._end(one)
            if end > last:
                what = "the last stable offset of the tier" if self._is_before_end(one) else "the tier's end"
                raise OptionError(f"option {option}: {one} should be read to offset {end}, {what} is {last}")

    def _is_before_end(self, one: TopicPartition) -> bool:
        return self._end(one) < self._present[one].end_offset

    def _at_timestamp(self, one: TopicPartition, timestamp: int) -> Offset | None:
        partition = self._present[one]
        storage = self._tier.bucket.storage
        offset = first_at_or_after(storage, partition.tier, timestamp, partition.start_offset)
        # As with brokers, what is not stable yet is no match: a range up to there would show it.
        return offset if offset is not None and offset < self._end(one) else None
