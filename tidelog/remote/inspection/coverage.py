"""Whether remote storage contains every offset, and how often: proven by the leader epochs of the log. Pure.

A segment contains an offset for the log if it has it in the same epoch as the log: readers use the same rule.
So each segment is divided at its epochs, each piece is limited to the log's range of that epoch, and the
pieces are swept over.

    log       (5, 0) (7, 100)
    segment   0-149 (5, 0) (7, 120)       contains 0-99 in epoch 5 and 120-149 in epoch 7, but not 100-119

Source: KIP-405, "log divergence with remote storage"; RemoteLogManager.fetchRemoteLogSegmentMetadata of
Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.remote.inspection.findings import Finding, Kind, offsets_text, segment_name
from tidelog.remote.inspection.views import PartitionView, finished_segments
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.tasks.remote_lineage import highest_remote_offset
from tidelog.storage.leader_epoch import LeaderEpochCache, epoch_spans


class Piece(NamedTuple):
    """Offsets that a segment contains for the log; `end_offset` is exclusive."""

    start_offset: Offset
    end_offset: Offset
    segment: RemoteLogSegmentMetadata


class Stretch(NamedTuple):
    """Offsets that the same segments contain; `end_offset` is exclusive."""

    start_offset: Offset
    end_offset: Offset
    segments: tuple[RemoteLogSegmentMetadata, ...]


def pieces(view: PartitionView, segment: RemoteLogSegmentMetadata) -> Iterator[Piece]:
    """Return the parts of `segment` that belong to the log."""
    spans = view.epoch_spans
    for epoch, start, end in epoch_spans(segment.segment_leader_epochs, segment.end_offset + 1):
        if epoch in spans:
            piece = Piece(max(start, spans[epoch][0]), min(end, spans[epoch][1]), segment)
            if piece.start_offset < piece.end_offset:
                yield piece


def stretches(parts: Iterable[Piece], start_offset: Offset, end_offset: Offset) -> Iterator[Stretch]:
    """Return [`start_offset`, `end_offset`) in order, divided where the segments of `parts` change."""
    begins: dict[Offset, list[Piece]] = {}
    boundaries = {start_offset, end_offset}
    for piece in parts:
        first, end = max(piece.start_offset, start_offset), min(piece.end_offset, end_offset)
        if first < end:
            begins.setdefault(first, []).append(piece)
            boundaries.update((first, end))
    current: list[Piece] = []
    ordered = sorted(boundaries)
    for start, end in pairwise(ordered):
        current = [piece for piece in current if piece.end_offset > start] + begins.get(start, [])
        yield Stretch(start, end, tuple(piece.segment for piece in current))


def coverage_findings(view: PartitionView) -> list[Finding]:
    """Return gaps, overlaps, and segments that do not belong to the log."""
    offsets, name = view.offsets, view.partition.topic_partition
    visible = finished_segments(view.segments)
    pieces_by_id = {segment.remote_log_segment_id: list(pieces(view, segment)) for segment in visible}
    start, local_start = offsets.log_start_offset, offsets.local_log_start_offset
    known_from = view.lineage[0].start_offset if view.lineage else offsets.log_end_offset
    findings = []
    unknown_end = min(known_from, local_start)
    if start < unknown_end:
        findings.append(Finding(Kind.UNKNOWN_EPOCH, name, offsets_text(start, unknown_end - 1)))
        start = unknown_end
    all_pieces = [piece for segment_pieces in pieces_by_id.values() for piece in segment_pieces]
    remote_end = max((piece.end_offset for piece in all_pieces), default=0)
    for stretch in _join(stretches(all_pieces, start, max(start, local_start, remote_end))):
        findings += _stretch_findings(view, stretch, local_start)
    for segment in visible:
        if segment.end_offset < offsets.log_start_offset:
            findings.append(Finding.of_segment(Kind.BELOW_START, segment))
        elif not pieces_by_id[segment.remote_log_segment_id]:
            findings.append(Finding.of_segment(Kind.UNREACHABLE, segment))
    return findings


def disagreement(view: PartitionView) -> Finding | None:
    """Return a finding if the leader's highest remote offset differs from that of its metadata, else None."""
    offsets = view.offsets
    computed = highest_remote_offset(
        LeaderEpochCache.of(view.lineage), offsets.log_end_offset, view.history.cache.highest_offset
    )
    reported = offsets.highest_offset_in_remote_storage
    below = offsets.log_start_offset - 1
    if max(reported, below) == max(computed, below):
        return None
    return Finding(
        Kind.DISAGREEMENT,
        view.partition.topic_partition,
        f"highest remote offset {reported}",
        f"in the metadata it is {computed}",
    )


def _stretch_findings(view: PartitionView, stretch: Stretch, local_start: Offset) -> Iterator[Finding]:
    name, (start, end, holders) = view.partition.topic_partition, stretch
    if len(holders) > 1:
        names = ", ".join(segment_name(segment) for segment in holders)
        yield Finding(Kind.OVERLAP, name, offsets_text(start, end - 1), names)
    if not holders:
        if start < local_start:
            yield Finding(Kind.GAP, name, offsets_text(start, min(end, local_start) - 1))
        if end > local_start:
            yield Finding(Kind.GAP_AHEAD, name, offsets_text(max(start, local_start), end - 1))


def _join(divided: Iterator[Stretch]) -> Iterator[Stretch]:
    """Join consecutive stretches with the same segments."""
    last: Stretch | None = None
    for stretch in divided:
        if last is not None and _ids(last) == _ids(stretch):
            last = last._replace(end_offset=stretch.end_offset)
            continue
        if last is not None:
            yield last
        last = stretch
    if last is not None:
        yield last


def _ids(stretch: Stretch) -> set[object]:
    return {segment.remote_log_segment_id for segment in stretch.segments}
