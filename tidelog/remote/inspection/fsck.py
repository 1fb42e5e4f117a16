"""The complete fsck of the gathered data (shell): metadata, then objects, then every byte.

Brokers continue to work meanwhile. Therefore findings are confirmed by a second pass over newly gathered
data, and only findings of both passes are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidelog.remote.inspection.bucket import Bucket, in_threads
from tidelog.remote.inspection.coverage import coverage_findings, disagreement
from tidelog.remote.inspection.deep import inspect_segment
from tidelog.remote.inspection.findings import BROKEN_OBJECTS, DEEP, Finding
from tidelog.remote.inspection.states import PATIENCE_MS, state_findings
from tidelog.remote.inspection.views import PartitionView, finished_segments
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata

_DEEP_THREADS: Final = 4


def metadata_findings(view: PartitionView, patience_ms: int = PATIENCE_MS) -> list[Finding]:
    """Return findings about one partition from its metadata and its leader, without the bucket."""
    difference = disagreement(view)
    return [
        *coverage_findings(view),
        *state_findings(view, patience_ms),
        *(() if difference is None else (difference,)),
    ]


def bucket_findings(
    bucket: Bucket, view: PartitionView, on_segment: Callable[[], None] = lambda: None
) -> list[Finding]:
    """Return findings about the objects of one partition."""
    return bucket.findings(view, bucket.sizes(view.partition), on_segment)


def deep_findings(
    bucket: Bucket,
    views: Iterable[PartitionView],
    shallow: Sequence[Finding],
    on_bytes: Callable[[int], None] = lambda size: None,
) -> list[Finding]:
    """Return findings about every byte of the finished segments.

    Segments whose objects are damaged according to the `shallow` findings are not read.
    """
    findings: list[Finding] = []
    for segment_findings in in_threads(
        lambda segment: inspect_segment(bucket.storage, segment, on_bytes),
        segments_to_read(views, shallow),
        _DEEP_THREADS,
    ):
        findings += segment_findings
    return findings


def segments_to_read(
    views: Iterable[PartitionView], shallow: Sequence[Finding]
) -> list[RemoteLogSegmentMetadata]:
    """Return the segments that `deep_findings` reads."""
    damaged = {finding.segment for finding in shallow if finding.kind in BROKEN_OBJECTS and finding.segment}
    return [
        segment
        for view in views
        for segment in finished_segments(view.segments)
        if segment.remote_log_segment_id.id not in damaged
    ]


def confirmed_findings(
    first: Iterable[Finding], second: Iterable[Finding], views: Iterable[PartitionView]
) -> list[Finding]:
    """Return the findings of the `first` pass that the `second` pass has too.

    Findings of the deep check are returned if their segment still exists. `views` are those of the second
    pass.
    """
    repeated = {(finding.kind, finding.partition, finding.place) for finding in second}
    existing = {
        segment.remote_log_segment_id.id for view in views for segment in finished_segments(view.segments)
    }
    return [
        finding
        for finding in first
        if (
            finding.segment in existing
            if finding.kind in DEEP
            else (finding.kind, finding.partition, finding.place) in repeated
        )
    ]
