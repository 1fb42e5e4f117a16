"""A topic as it was at a time, from the segments of another topic in the bucket (shell).

The new topic contains the records before the first one later than the time, in whole batches. Its segments
refer to those of the source, without a copy, except for segments with a record that is later than the time:
the part before it is copied (`tail_segment`). These are the segment in which the new topic ends, and segments
whose later records belong to another lineage: the source keeps only segments up to the time.

    source     0-49   50-119   120-189                   a record of 150 is the first one that is too late
    new topic  0-49   50-119   120-149                   two references, and one segment of its own

I/O: blocks. Errors: RemoteStorageError if the store does not respond.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, uuid_text
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.objects.layout.object_keys import reference
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tidelog.remote.reading.auxiliary import fetch_auxiliary
from tidelog.remote.restore.plan import SurveyedPartition
from tidelog.remote.restore.tail_segment import TailSegment, TailSource, build_tail
from tidelog.remote.tasks.recovered_log import OffsetRange, log_position, ranges_in_log, recovered_log
from tidelog.storage.config.topic_source import TopicSource
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.producers.producer_entry import ProducerEntry
from tidelog.storage.producers.producer_snapshot import decode_snapshot

_GENERATIONS_MAX: Final = 10_000
"""More topics of one name, source and time are not recognized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Travel:
    """The new topic and the time.

    `generation` is the number of topics with this name, source and time that were deleted.
    """

    name: str
    source_id: UUID
    timestamp_ms: int
    generation: int = 0

    @property
    def topic_id(self) -> UUID:
        """The id of the new topic: the same for a repeated command, which continues an interrupted one."""
        generation = self.generation
        while True:
            seed = f"{uuid_text(self.source_id)} {self.name} {self.timestamp_ms} {generation}"
            topic_id = UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16])
            if not uuid_text(topic_id).startswith("-"):  # as Kafka: tools would take it for an option
                return topic_id
            generation += 1_000_000


def travel_of(name: str, topic_id: UUID, source: TopicSource) -> Travel | None:
    """Return the travel that created an existing topic; None if its id is not derived from `source`."""
    if source.timestamp_ms is None:
        return None
    travel = Travel(name=name, source_id=source.topic_id, timestamp_ms=source.timestamp_ms)
    generations = (replace(travel, generation=generation) for generation in range(_GENERATIONS_MAX))
    return next((each for each in generations if each.topic_id == topic_id), None)


class TravelledPartition(NamedTuple):
    """The segments of a partition of the new topic, and those of them that must be stored first."""

    surveyed: SurveyedPartition
    tails: tuple[TailSegment, ...]


_Kept: TypeAlias = RemoteLogSegmentMetadata | TailSegment
"""A segment of the source that is referenced, or one that is copied."""


class _Piece(NamedTuple):
    """A segment of the source with its offsets that are part of the log."""

    segment: RemoteLogSegmentMetadata
    ranges: list[OffsetRange]


def travelled(
    bucket: Bucket, surveyed: SurveyedPartition, travel: Travel, directory: Path
) -> TravelledPartition:
    """Return a partition of the new topic; `directory` gets the files of a segment that is copied."""
    partition = TopicIdPartition(travel.topic_id, travel.name, surveyed.partition.partition)
    empty = replace(surveyed, partition=partition, segments=(), newest=None, checkpoint=(), producers=())
    if surveyed.newest is None:
        return TravelledPartition(empty, ())
    log = recovered_log(surveyed.segments, surveyed.newest, surveyed.checkpoint)
    kept, end_offset = _divided(bucket, surveyed, log.leader_epochs, travel, partition, directory)
    if not kept:
        return TravelledPartition(empty, ())
    epochs = LeaderEpochCache.of(surveyed.checkpoint or surveyed.newest.segment_leader_epochs)
    if end_offset is not None:
        epochs.truncate_from_end(end_offset)
    newest = max(kept, key=lambda each: log_position(_metadata(each)))
    segments = (
        each.metadata if isinstance(each, TailSegment) else reference(each, partition) for each in kept
    )
    return TravelledPartition(
        replace(
            empty,
            segments=tuple(segments),
            newest=_metadata(newest) if isinstance(newest, TailSegment) else reference(newest, partition),
            checkpoint=tuple(epochs.entries),
            producers=tuple(_producers_at_end(bucket, newest)),
        ),
        tuple(each for each in kept if isinstance(each, TailSegment)),
    )


def _divided(
    bucket: Bucket,
    surveyed: SurveyedPartition,
    lineage: tuple[EpochEntry, ...],
    travel: Travel,
    partition: TopicIdPartition,
    directory: Path,
) -> tuple[list[_Kept], Offset | None]:
    """Return the segments before the first record that is too late, and the offset of its batch."""
    kept: list[_Kept] = []
    for piece in _pieces(surveyed.segments, lineage):
        segment = piece.segment
        if segment.max_timestamp_ms <= travel.timestamp_ms:
            kept.append(segment)
            continue
        source = TailSource(
            segment=segment,
            ranges=piece.ranges,
            lineage=lineage,
            producers=_producers_before(bucket, kept, piece.ranges[0].start_offset),
        )
        segment_id = RemoteLogSegmentId(partition, _tail_id(segment, partition))
        folder = str(directory / f"{partition.partition}-{len(kept)}")
        tail, end_offset = build_tail(bucket.storage, source, segment_id, travel.timestamp_ms, folder)
        if end_offset is not None:
            kept = [each for each in kept if _metadata(each).start_offset < end_offset]
        if tail is not None:
            kept.append(tail)
        if end_offset is not None:
            return kept, end_offset
    return kept, None


def _metadata(kept: _Kept) -> RemoteLogSegmentMetadata:
    return kept.metadata if isinstance(kept, TailSegment) else kept


def _pieces(
    segments: Iterable[RemoteLogSegmentMetadata], lineage: tuple[EpochEntry, ...]
) -> Iterator[_Piece]:
    pieces = [_Piece(segment, sorted(ranges_in_log(segment, lineage))) for segment in segments]
    yield from sorted(
        (piece for piece in pieces if piece.ranges),
        key=lambda piece: (piece.ranges[0].start_offset, piece.segment.end_offset),
    )


def _tail_id(segment: RemoteLogSegmentMetadata, partition: TopicIdPartition) -> UUID:
    """Return an id that a repeated command uses too: it replaces the objects of an interrupted one."""
    seed = f"{segment.remote_log_segment_id} {partition}"
    return UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16])


def _producers_before(bucket: Bucket, kept: Iterable[_Kept], offset: Offset) -> bytes | None:
    for each in kept:
        if _metadata(each).end_offset + 1 == offset:
            return _producer_snapshot(bucket, each)
    return None


def _producers_at_end(bucket: Bucket, newest: _Kept) -> list[ProducerEntry]:
    snapshot = _producer_snapshot(bucket, newest)
    name = f"the producers of {_metadata(newest).remote_log_segment_id}"
    return [] if snapshot is None else decode_snapshot(snapshot, name)


def _producer_snapshot(bucket: Bucket, kept: _Kept) -> bytes | None:
    if isinstance(kept, TailSegment):
        return Path(kept.files.producer_snapshot).read_bytes()
    return fetch_auxiliary(bucket.storage, kept).producer_snapshot
