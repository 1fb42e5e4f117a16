"""Which segments of which topics are restored, and why others are left out. Pure.

A topic is restored only if every partition with segments has one log without contradictions. Whatever cannot
be restored is in the plan: segments of other lineages, gaps, and transactions whose end was lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.remote.inspection.findings import offsets_text, segment_name
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.remote.restore.tail_segment import TailSegment
from tidelog.remote.tasks.recovered_log import RecoveredLog, ranges_in_log, recovered_log
from tidelog.storage.config.restored_topic import RestoredTopic
from tidelog.storage.config.topic_source import TopicSource
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.producers.producer_entry import ProducerEntry

EPOCH_MARGIN: Final = 1_000
"""The first leader epoch after a restore is so far above those in the bucket.

The lost records may have had higher epochs, which clients remember: the new epochs must be above these too.
"""

_PRODUCER_ID_BLOCK: Final = 1_000
SAFE_CONFIGS: Final[Mapping[str, str]] = {
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""The configs of a topic whose configs are unknown: the default retention would delete it at once."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An object or a segment that is not restored."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedPartition:
    """The usable segments of a partition; `newest` is the last of them, with its small files.

    `unusable` are objects and segments that cannot be used: those of unfinished copies, and damaged ones if
    `is_damaged`.
    """

    partition: TopicIdPartition
    segments: tuple[RemoteLogSegmentMetadata, ...]
    newest: RemoteLogSegmentMetadata | None
    checkpoint: tuple[EpochEntry, ...] = ()
    producers: tuple[ProducerEntry, ...] = ()
    unusable: tuple[LeftOut, ...] = ()
    is_damaged: bool = False
    later_manifests: tuple[str, ...] = ()
    """Manifests that were not in the first listing of the bucket, and were not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """The log of one partition after the restore; None if it is empty, because it has no usable segment.

    `segments` are registered, in the order of their copies.
    """

    partition: TopicIdPartition
    log: RecoveredLog | None
    segments: tuple[RemoteLogSegmentMetadata, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    producers: tuple[ProducerEntry, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record gets."""
        return 0 if self.log is None else self.log.end_offset

    @property
    def start_offset(self) -> Offset:
        """The first offset that can be read."""
        return 0 if self.log is None else self.log.start_offset

    @property
    def size_bytes(self) -> int:
        """The size of the registered segments."""
        return sum(segment.segment_size_bytes for segment in self.segments)

    @property
    def open_transactions(self) -> tuple[ProducerEntry, ...]:
        """The producers whose transaction was open at the end: whether it was committed is not known."""
        return tuple(each for each in self.producers if each.transaction_first_offset is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic to restore; `problems` prevent that, such as a gap that was not accepted."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionPlan, ...]
    configs: Mapping[str, str]
    leader_epoch: LeaderEpoch
    replication_factor: int = -1
    problems: tuple[str, ...] = ()
    tails: tuple[TailSegment, ...] = ()
    """Segments that are stored before the topic is restored."""
    source: TopicSource | None = None
    """The topic to whose segments those of this one refer."""

    @property
    def segment_count(self) -> int:
        """The number of segments to register."""
        return sum(len(each.segments) for each in self.partitions)

    @property
    def identity(self) -> RestoredTopic:
        """The values with which the controller creates the topic."""
        highest = max(
            (producer.producer_id for each in self.partitions for producer in each.producers), default=-1
        )
        next_id = -(-(highest + 1) // _PRODUCER_ID_BLOCK) * _PRODUCER_ID_BLOCK
        return RestoredTopic(topic_id=self.topic_id, leader_epoch=self.leader_epoch, next_producer_id=next_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The decisions of the operator.

    `partitions` is a lower bound of the number of partitions: those without segments are not in the bucket.
    `leader_epoch` is a lower bound of the first leader epoch.
    """

    partitions: int = 1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=lambda: SAFE_CONFIGS)
    leader_epoch: LeaderEpoch = 0
    accepts_gaps: bool = False
    is_live: bool = False
    """Whether the topic is in use, so that segments may appear at any time."""


def topic_plan(
    name: str, topic_id: UUID, surveyed: Collection[SurveyedPartition], options: PlanOptions
) -> TopicPlan:
    """Return the plan of a topic from its partitions in the bucket."""
    by_number = {each.partition.partition: each for each in surveyed}
    count = max([options.partitions, *(number + 1 for number in by_number)])
    plans = []
    for number in range(count):
        partition = TopicIdPartition(topic_id, name, number)
        found = by_number.get(number)
        plans.append(
            PartitionPlan(partition=partition, log=None) if found is None else _partition_plan(found, options)
        )
    epochs = [segment.segment_leader_epochs[-1].epoch for each in surveyed for segment in each.segments]
    first_epoch = max(epochs, default=-1) + 1 + EPOCH_MARGIN
    return TopicPlan(
        name=name,
        topic_id=topic_id,
        partitions=tuple(plans),
        configs=options.configs,
        replication_factor=options.replication_factor,
        leader_epoch=max(first_epoch, options.leader_epoch),
        problems=tuple(problem for each in plans for problem in each.problems),
    )


def _partition_plan(surveyed: SurveyedPartition, options: PlanOptions) -> PartitionPlan:
    partition, newest, accepts_gaps = surveyed.partition, surveyed.newest, options.accepts_gaps
    damage = []
    if surveyed.later_manifests and not options.is_live:
        damage.append(
            f"{partition.topic_partition}: {', '.join(surveyed.later_manifests)} appeared while the bucket "
            "was read: stop the cluster that writes to it, and repeat the command"
        )
    if surveyed.is_damaged and not accepts_gaps:
        names = ", ".join(each.name for each in surveyed.unusable)
        damage.append(f"{partition.topic_partition}: damaged: {names}; --accept-gaps restores the rest")
    if newest is None:
        return PartitionPlan(
            partition=partition, log=None, left_out=surveyed.unusable, problems=tuple(damage)
        )
    log = recovered_log(surveyed.segments, newest, surveyed.checkpoint)
    lineage = surveyed.checkpoint or newest.segment_leader_epochs
    name = partition.topic_partition
    problems = damage + [
        f"{name}: {segment_name(segment)} and the newest one disagree about leader epochs"
        for segment in surveyed.segments
        if contradicts(segment, lineage)
    ]
    if log.gaps and not accepts_gaps:
        gaps = ", ".join(offsets_text(gap.start_offset, gap.end_offset - 1) for gap in log.gaps)
        problems.append(
            f"{name}: no segment contains offsets {gaps}; --accept-gaps restores from {log.start_offset}"
        )
    registered, left_out = [], list(surveyed.unusable)
    for segment in surveyed.segments:
        ranges = list(ranges_in_log(segment, lineage))
        if any(log.start_offset < each.end_offset and each.start_offset < log.end_offset for each in ranges):
            registered.append(segment)
        else:
            reason = "before a gap" if ranges else "another lineage: its leader epochs are not in the log"
            left_out.append(LeftOut(segment_name(segment), reason))
    return PartitionPlan(
        partition=partition,
        log=log,
        segments=tuple(sorted(registered, key=lambda segment: segment.event_timestamp_ms)),
        left_out=tuple(left_out),
        producers=surveyed.producers,
        problems=tuple(problems),
    )


def contradicts(segment: RemoteLogSegmentMetadata, lineage: Sequence[EpochEntry]) -> bool:
    """Return whether an epoch starts at another offset in `segment` than in the log with `lineage`.

    An epoch has one leader, which starts it at one offset: both cannot be of the same topic. The first epoch
    of either may have started before.
    """
    starts = dict(_inner_starts(lineage))
    return any(
        starts.get(epoch, start) != start for epoch, start in _inner_starts(segment.segment_leader_epochs)
    )


def _inner_starts(entries: Iterable[EpochEntry]) -> list[EpochEntry]:
    return list(entries)[1:]
