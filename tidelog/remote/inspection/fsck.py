"""The whole of fsck over what was gathered (shell): metadata, then objects, then every byte.

Brokers go on while it looks. So what was found is looked for a second time with everything gathered anew,
and only what is there both times is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidelog.remote.inspection.bucket import Bucket, in_threads
from tidelog.remote.inspection.coverage import coverage_findings, disagreement
from tidelog.remote.inspection.deep import inspect_segment
from tidelog.remote.inspection.findings import BROKEN_OBJECTS, DEEP, Finding
from tidelog.remote.inspection.states import PATIENCE_MS, state_findings
from tidelog.remote.inspection.views import PartitionView, finished
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata

_DEEP_THREADS = 4


def metadata_findings(view: PartitionView, patience_ms: int = PATIENCE_MS) -> list[Finding]:
    """What metadata and leader say of one partition, without a look into the bucket."""
    odd = disagreement(view)
    return [
        *coverage_findings(view),
        *state_findings(view, patience_ms),
        *(() if odd is None else (odd,)),
    ]


def bucket_findings(
    bucket: Bucket, view: PartitionView, on_segment: Callable[[], None] = lambda: None
) -> list[Finding]:
    """What is wrong with the objects of one partition."""
    return bucket.findings(view, bucket.sizes(view.partition), on_segment)


def deep_findings(
    bucket: Bucket,
    views: Iterable[PartitionView],
    shallow: Sequence[Finding],
    on_bytes: Callable[[int], None] = lambda size: None,
) -> list[Finding]:
    """Every byte of the finished segments, without those whose objects are known to be damaged."""
    found: list[Finding] = []
    for each in in_threads(
        lambda segment: inspect_segment(bucket.storage, segment, on_bytes),
        segments_to_read(views, shallow),
        _DEEP_THREADS,
    ):
        found += each
    return found


def segments_to_read(
    views: Iterable[PartitionView], shallow: Sequence[Finding]
) -> list[RemoteLogSegmentMetadata]:
    """What `deep_findings` reads."""
    damaged = {finding.segment for finding in shallow if finding.kind in BROKEN_OBJECTS and finding.segment}
    return [
        segment
        for view in views
        for segment in finished(view.segments)
        if segment.remote_log_segment_id.id not in damaged
    ]


def confirmed(
    first: Iterable[Finding], second: Iterable[Finding], views: Iterable[PartitionView]
) -> list[Finding]:
    """Those of the `first` look that the `second` found, too; of deep ones those of segments still there.

    `views` are those of the second look.
    """
    again = {(finding.kind, finding.partition, finding.place) for finding in second}
    there = {segment.remote_log_segment_id.id for view in views for segment in finished(view.segments)}
    return [
        finding
        for finding in first
        if (
            finding.segment in there
            if finding.kind in DEEP
            else (finding.kind, finding.partition, finding.place) in again
        )
    ]
