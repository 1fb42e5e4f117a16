"""Unfinished copies and deletions, invalid records, and partitions of deleted topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tier.partition_views import NOW_MS, copy_events, history_of, ids, view_of
from tests.support.tier.segment_metadata import (
    DELETED,
    DELETING,
    FINISHED,
    PARTITION,
    copy_start,
    deletion,
    step,
)
from tidelog.remote.inspection.findings import Finding, Kind
from tidelog.remote.inspection.history import MetadataHistory, RecordPlace
from tidelog.remote.inspection.states import PATIENCE_MS, copy_in_progress, history_findings, state_findings
from tidelog.remote.metadata.record_codec import encode_event
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteState

MARKED, DELETING_PARTITION, GONE = RemotePartitionDeleteState
WHOLE = [*copy_events(0, 0, 9), *copy_events(1, 10, 19)]


def kinds(findings: list[Finding]) -> list[Kind]:
    return [finding.kind for finding in findings]


def test_a_copy_in_progress_is_not_a_finding() -> None:
    view = view_of([*WHOLE, copy_start(2, 20, 29)], local_start=10)
    assert state_findings(view, patience_ms=NOW_MS) == []
    copying = copy_in_progress(view, patience_ms=NOW_MS)
    assert copying is not None and ids([copying]) == [2]


def test_a_copy_in_progress_for_too_long_is_reported() -> None:
    view = view_of([*WHOLE, copy_start(2, 20, 29)], local_start=10)
    (finding,) = state_findings(view, PATIENCE_MS)
    assert (finding.kind, finding.detail) == (Kind.DANGLING_COPY, "since 9997 s")
    assert copy_in_progress(view) is None


def test_a_copy_whose_records_are_in_another_segment_is_abandoned() -> None:
    view = view_of([*copy_events(0, 0, 9), copy_start(2, 10, 19), *copy_events(1, 10, 19)], local_start=10)
    (finding,) = state_findings(view, patience_ms=NOW_MS)
    assert (finding.kind, finding.detail) == (Kind.DANGLING_COPY, "another segment contains the same records")


def test_a_copy_followed_by_another_is_abandoned() -> None:
    view = view_of([*WHOLE, copy_start(2, 20, 29), copy_start(3, 20, 25)], local_start=10)
    (finding,) = state_findings(view, patience_ms=NOW_MS)
    assert finding.detail == "another copy has begun since"
    copying = copy_in_progress(view, patience_ms=NOW_MS)
    assert copying is not None and ids([copying]) == [3]


def test_a_deletion_that_does_not_finish_is_reported() -> None:
    view = view_of([*WHOLE, step(0, DELETING)], log_start=10, local_start=20)
    assert kinds(state_findings(view)) == [Kind.UNFINISHED_DELETION]
    assert state_findings(view, patience_ms=NOW_MS) == []
    ended = view_of([*WHOLE, step(0, DELETING), step(0, DELETED)], log_start=10, local_start=20)
    assert state_findings(ended) == []


def test_a_partition_deletion_that_does_not_finish_is_reported() -> None:
    view = view_of([*WHOLE, deletion(MARKED), deletion(DELETING_PARTITION)])
    (finding,) = state_findings(view)
    assert (finding.kind, finding.place) == (
        Kind.UNFINISHED_PARTITION_DELETION,
        "DELETE_PARTITION_STARTED",
    )


def test_a_deleted_partition_keeps_the_list_of_its_segments() -> None:
    history = history_of([*WHOLE, deletion(MARKED), deletion(GONE)])
    assert (len(history.cache), len(history.deleted), history.deletion) == (0, 2, None)


@pytest.mark.parametrize(
    "event",
    [step(0, FINISHED), step(9, FINISHED), copy_start(0, 0, 9)],
    ids=["after its deletion", "never begun", "begun again"],
)
def test_an_invalid_transition_is_reported_and_ignored(event: RemoteLogEvent) -> None:
    before = [*WHOLE, step(0, DELETING)]
    view = view_of([*before, event], log_start=10, local_start=20)
    assert kinds(state_findings(view, NOW_MS)) == [Kind.ILLEGAL_RECORD]
    assert ids(view.segments) == ids(view_of(before).segments)


@pytest.mark.parametrize("event", [step(0, FINISHED), step(0, DELETING), copy_start(0, 0, 9)])
def test_a_record_of_a_deleted_segment_is_reported_and_ignored(event: RemoteLogEvent) -> None:
    events = [*WHOLE, step(0, DELETING), step(0, DELETED), event]
    view = view_of(events, log_start=10, local_start=20)
    assert kinds(state_findings(view, NOW_MS)) == [Kind.ILLEGAL_RECORD]
    assert ids(view.segments) == [1]


def test_repeated_records_are_not_reported() -> None:
    twice = [event for event in (*WHOLE, step(0, DELETING), step(0, DELETED)) for _ in range(2)]
    # A copy start that follows the copy end would be invalid.
    del twice[1], twice[4]
    assert state_findings(view_of(twice, log_start=10, local_start=20), NOW_MS) == []


# --- the whole topic ---


def metadata(*events: RemoteLogEvent) -> MetadataHistory:
    history = MetadataHistory()
    for number, event in enumerate(events):
        history.record(RecordPlace(4, number), encode_event(event))
    return history


def test_segments_of_a_deleted_topic_are_reported() -> None:
    existing_topics, no_topics = {PARTITION.topic_id}, set[object]()
    assert history_findings(metadata(*WHOLE), existing_topics, NOW_MS) == []
    (finding,) = history_findings(metadata(*WHOLE), no_topics, NOW_MS)  # type: ignore[arg-type]
    assert (finding.kind, finding.detail) == (Kind.ABANDONED_PARTITION, "2 segments")
    (finding,) = history_findings(metadata(*WHOLE, deletion(MARKED)), frozenset(), NOW_MS)
    assert finding.kind is Kind.UNFINISHED_PARTITION_DELETION
    assert history_findings(metadata(*WHOLE, deletion(MARKED)), frozenset(), NOW_MS, NOW_MS) == []
    assert history_findings(metadata(*WHOLE, deletion(GONE)), frozenset(), NOW_MS) == []


def test_undecodable_records_and_a_truncated_topic_are_reported() -> None:
    history = metadata(*WHOLE)
    history.record(RecordPlace(4, 77), b"\x01\x63\x00")
    history.record(RecordPlace(4, 78), None)
    history.truncated[4] = 12
    findings = history_findings(history, {PARTITION.topic_id}, NOW_MS)
    assert kinds(findings) == [Kind.UNREADABLE_RECORD, Kind.UNREADABLE_RECORD, Kind.LOST_HISTORY]
    assert findings[0].place == "metadata partition 4, offset 77"


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 2, 3])), max_size=40))
def test_records_in_any_order_give_a_known_or_deleted_segment(steps: list[tuple[int, int]]) -> None:
    events: list[RemoteLogEvent] = []
    for number, state in steps:
        if state == 0:
            events.append(copy_start(number, 10 * number, 10 * number + 9))
        else:
            events.append(step(number, (FINISHED, DELETING, DELETED)[state - 1]))
    view = view_of(events, local_start=0)
    state_findings(view)
    segment_ids = {segment.remote_log_segment_id.id for segment in view.segments}
    assert not segment_ids & view.history.deleted
