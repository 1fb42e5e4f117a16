"""Coverage of offsets by segments: scenarios, and a comparison with a model per offset."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tier.partition_views import copy_events, view_of
from tests.support.tier.segment_metadata import DELETING, step
from tidelog.remote.inspection.coverage import coverage_findings, disagreement
from tidelog.remote.inspection.findings import Finding, Kind, Severity
from tidelog.remote.inspection.fsck import metadata_findings
from tidelog.remote.inspection.views import PartitionView, finished_segments
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache

LINEAGE = ((5, 0), (7, 100))
WHOLE = [
    *copy_events(0, 0, 59, 5),
    *copy_events(1, 60, 119, [(5, 60), (7, 100)]),
    *copy_events(2, 120, 199, 7),
]


def kinds_and_places(findings: Sequence[Finding]) -> list[tuple[Kind, str]]:
    return [(finding.kind, finding.place.partition(" AAA")[0]) for finding in findings]


def test_complete_coverage_without_duplicates() -> None:
    view = view_of(WHOLE, LINEAGE, local_start=150)
    assert metadata_findings(view) == []


def test_a_missing_segment_is_a_gap_below_the_local_log_start_only() -> None:
    events = WHOLE[:2] + WHOLE[4:]
    assert kinds_and_places(coverage_findings(view_of(events, LINEAGE, local_start=200))) == [
        (Kind.GAP, "offsets 60-119")
    ]
    assert kinds_and_places(coverage_findings(view_of(events, LINEAGE, local_start=90))) == [
        (Kind.GAP, "offsets 60-89"),
        (Kind.GAP_AHEAD, "offsets 90-119"),
    ]
    assert kinds_and_places(coverage_findings(view_of(events, LINEAGE, log_start=119, local_start=200)))[
        0
    ] == (
        Kind.GAP,
        "offset 119",
    )


def test_a_segment_in_deletion_covers_nothing() -> None:
    view = view_of([*WHOLE, step(0, DELETING)], LINEAGE, local_start=200)
    assert kinds_and_places(coverage_findings(view)) == [(Kind.GAP, "offsets 0-59")]
    assert coverage_findings(view.with_log_start(60)) == []


def test_an_empty_tier_is_complete_for_a_fully_local_log() -> None:
    assert metadata_findings(view_of([], LINEAGE, local_start=0)) == []


def test_a_log_whose_leader_reports_no_epoch_has_a_view_without_coverage() -> None:
    view = view_of([], lineage=(), local_start=10, end=20)
    assert kinds_and_places(coverage_findings(view)) == [(Kind.UNKNOWN_EPOCH, "offsets 0-9")]


def test_records_copied_again_by_another_leader_are_an_overlap() -> None:
    events = [*WHOLE, *copy_events(3, 150, 210, 7)]
    findings = coverage_findings(view_of(events, LINEAGE, local_start=211))
    assert [(finding.kind, finding.place) for finding in findings] == [(Kind.OVERLAP, "offsets 150-199")]
    assert findings[0].kind.severity is Severity.NOTE
    assert "segment 120-199" in findings[0].detail and "segment 150-210" in findings[0].detail


def test_after_unclean_election_a_segment_of_another_lineage_is_unreachable() -> None:
    events = [*WHOLE, *copy_events(3, 120, 300, 6)]
    findings = coverage_findings(view_of(events, LINEAGE, local_start=200))
    assert [finding.kind for finding in findings] == [Kind.UNREACHABLE]
    assert findings[0].place.startswith("segment 120-300 ")


def test_a_divergent_segment_leaves_a_gap_at_the_divergence() -> None:
    events = [
        *copy_events(0, 0, 59, 5),
        *copy_events(1, 60, 119, [(5, 60), (7, 110)]),
        *copy_events(2, 120, 199, 7),
    ]
    findings = coverage_findings(view_of(events, LINEAGE, local_start=200))
    assert kinds_and_places(findings) == [(Kind.GAP, "offsets 100-109")]


def test_a_leader_without_the_oldest_epoch_is_reported() -> None:
    view = view_of(WHOLE, LINEAGE[1:], local_start=200)
    assert kinds_and_places(coverage_findings(view))[0] == (Kind.UNKNOWN_EPOCH, "offsets 0-99")


def test_a_segment_below_the_log_start_awaits_deletion() -> None:
    findings = coverage_findings(view_of(WHOLE, LINEAGE, log_start=60, local_start=200))
    assert [(each.kind, each.kind.severity) for each in findings] == [(Kind.BELOW_START, Severity.NOTE)]


def test_a_segment_with_one_offset_left_is_not_below_the_log_start() -> None:
    assert coverage_findings(view_of(WHOLE, LINEAGE, log_start=59, local_start=200)) == []


def test_an_overlap_in_two_epochs_is_reported_once() -> None:
    events = [*WHOLE, *copy_events(3, 60, 119, [(5, 60), (7, 100)])]
    findings = coverage_findings(view_of(events, LINEAGE, local_start=200))
    assert [(finding.kind, finding.place) for finding in findings] == [(Kind.OVERLAP, "offsets 60-119")]


@pytest.mark.parametrize(("reported", "is_odd"), [(199, False), (150, True), (-1, True), (250, True)])
def test_a_leader_with_another_remote_end_is_reported(reported: int, is_odd: bool) -> None:
    view = view_of(WHOLE, LINEAGE, local_start=200)
    offsets = view.offsets
    object.__setattr__(offsets, "highest_offset_in_remote_storage", reported)
    assert (disagreement(view) is not None) is is_odd


# --- comparison with a model ---


class History(NamedTuple):
    """A random log and its tier; `segments` are (start, end, epochs)."""

    lineage: list[tuple[int, int]]
    segments: list[tuple[int, int, list[tuple[int, int]]]]
    log_start: int
    local_start: int
    end: int


@st.composite
def lineages(draw: st.DrawFn) -> list[tuple[int, int]]:
    epochs = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=4)))
    starts = [
        0,
        *sorted(draw(st.sets(st.integers(1, 80), min_size=len(epochs) - 1, max_size=len(epochs) - 1))),
    ]
    return list(zip(epochs, starts, strict=True))


@st.composite
def clean_histories(draw: st.DrawFn) -> History:
    lineage = draw(lineages())
    end = lineage[-1][1] + draw(st.integers(2, 40))
    cuts = sorted(draw(st.sets(st.integers(1, end - 1), max_size=6)) | {0, end - 1})
    segments = [(start, behind - 1, epochs_in(lineage, start, behind)) for start, behind in pairwise(cuts)]
    local_start = draw(st.integers(0, cuts[-1]))
    return History(lineage, segments, draw(st.integers(0, local_start)), local_start, end)


@st.composite
def any_histories(draw: st.DrawFn) -> History:
    """Return a history with segments removed, extended, or written in other epochs."""
    history = draw(clean_histories())
    segments = []
    for start, end, epochs in history.segments:
        match draw(st.sampled_from(["keep", "keep", "keep", "drop", "longer", "other epochs"])):
            case "keep":
                segments.append((start, end, epochs))
            case "longer":
                behind = end + draw(st.integers(1, 10))
                segments.append((start, behind, epochs_in(history.lineage, start, behind + 1)))
            case "other epochs":
                others = draw(lineages())
                segments.append((start, end, epochs_in(others, start, end + 1)))
    return history._replace(segments=segments)


def epochs_in(lineage: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    cache = LeaderEpochCache.of(EpochEntry(*entry) for entry in lineage)
    return [tuple(entry) for entry in cache.entries_in_range(start, end)]  # type: ignore[misc]


def as_view(history: History) -> PartitionView:
    events: list[RemoteLogEvent] = []
    for number, (start, end, epochs) in enumerate(history.segments):
        events += copy_events(number, start, end, epochs)
    return view_of(
        events,
        history.lineage,
        log_start=history.log_start,
        local_start=history.local_start,
        end=history.end,
    )


def count_holders(history: History, offset: int) -> int:
    """Return the number of segments that have `offset` in the log's epoch of this offset."""
    epoch = LeaderEpochCache.of(EpochEntry(*each) for each in history.lineage).epoch_for_offset(offset)
    return sum(
        start <= offset <= end
        and LeaderEpochCache.of(EpochEntry(*each) for each in epochs).epoch_for_offset(offset) == epoch
        for start, end, epochs in history.segments
    )


def reported_offsets(findings: Sequence[Finding], kind: Kind) -> set[int]:
    offsets: set[int] = set()
    for finding in findings:
        if finding.kind is kind:
            first, _, last = finding.place.split()[-1].partition("-")
            offsets |= set(range(int(first), int(last or first) + 1))
    return offsets


@given(clean_histories())
def test_a_complete_tier_has_no_findings(history: History) -> None:
    findings = metadata_findings(as_view(history))
    assert {finding.kind for finding in findings} <= {Kind.BELOW_START}


@given(any_histories())
def test_gaps_and_overlaps_are_found_exactly(history: History) -> None:
    view = as_view(history)
    findings = coverage_findings(view)
    counts = {offset: count_holders(history, offset) for offset in range(history.log_start, history.end + 12)}
    gaps = {offset for offset, count in counts.items() if not count and offset < history.local_start}
    assert reported_offsets(findings, Kind.GAP) == gaps
    assert reported_offsets(findings, Kind.OVERLAP) == {
        offset for offset, count in counts.items() if count > 1
    }
    last_held = max((offset for offset, count in counts.items() if count), default=-1)
    ahead = {
        offset for offset, count in counts.items() if not count and history.local_start <= offset <= last_held
    }
    assert reported_offsets(findings, Kind.GAP_AHEAD) == ahead


@given(any_histories())
def test_offsets_outside_gaps_are_found_in_the_metadata_cache(history: History) -> None:
    view = as_view(history)
    gaps = reported_offsets(coverage_findings(view), Kind.GAP)
    for offset in range(history.log_start, history.local_start):
        epoch = view.epoch_lineage.epoch_at(offset)
        assert epoch is not None
        assert (view.history.cache.segment(epoch, offset) is None) is (offset in gaps)


@given(any_histories())
def test_a_segment_without_records_of_the_log_is_unreachable(history: History) -> None:
    view = as_view(history)
    unreachable_ids = {
        finding.segment for finding in coverage_findings(view) if finding.kind is Kind.UNREACHABLE
    }
    for segment in finished_segments(view.segments):
        if segment.end_offset < history.log_start:
            continue
        number = segment.remote_log_segment_id.id.int - 1
        alone = history._replace(segments=[history.segments[number]])
        holds = any(
            count_holders(alone, offset) for offset in range(segment.start_offset, segment.end_offset + 1)
        )
        assert (segment.remote_log_segment_id.id in unreachable_ids) is not holds
