"""Records that register restored segments: only the missing ones, and never over other segments."""

from __future__ import annotations

from dataclasses import replace

from tests.support.tier.segment_metadata import DELETING, FINISHED, PARTITION, copy_start, deletion, step
from tidelog.remote.inspection.history import PartitionHistory, RecordPlace
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteState
from tidelog.remote.restore.plan import PartitionPlan
from tidelog.remote.restore.registration import missing_records, registration_obstacles

SEGMENTS = tuple(
    replace(copy_start(number, 10 * number, 10 * number + 9), state=FINISHED) for number in (0, 1)
)
PLAN = PartitionPlan(partition=PARTITION, log=None, segments=SEGMENTS)


def history(*events: RemoteLogEvent) -> PartitionHistory:
    result = PartitionHistory.empty(PARTITION)
    for number, event in enumerate(events):
        result.apply(event, RecordPlace(0, number))
    return result


def test_both_records_of_every_segment_are_written_and_then_none() -> None:
    events = list(missing_records(PLAN, history()))
    assert [event.state.name for event in events if not hasattr(event, "topic")] == [
        "COPY_SEGMENT_STARTED",
        "COPY_SEGMENT_FINISHED",
    ] * 2
    assert list(missing_records(PLAN, history(*events))) == []


def test_an_interrupted_registration_continues_with_the_missing_record() -> None:
    events = list(missing_records(PLAN, history()))
    for written in range(len(events) + 1):
        assert list(missing_records(PLAN, history(*events[:written]))) == events[written:]


def test_registered_segments_have_the_state_of_the_manifests() -> None:
    registered = history(*missing_records(PLAN, history()))
    assert tuple(registered.cache.segments()) == SEGMENTS
    assert list(registration_obstacles(PLAN, registered)) == []


def test_another_finished_segment_is_an_obstacle() -> None:
    (text,) = registration_obstacles(PLAN, history(copy_start(7, 20, 29), step(7, FINISHED)))
    assert "which is not restored" in text


def test_a_deleted_segment_is_an_obstacle() -> None:
    registered = history(copy_start(1, 10, 19), step(1, FINISHED), step(1, DELETING))
    (text,) = registration_obstacles(PLAN, registered)
    assert "has deleted segment 10-19" in text


def test_a_pending_deletion_of_the_partition_is_an_obstacle() -> None:
    registered = history(deletion(RemotePartitionDeleteState.DELETE_PARTITION_MARKED))
    (text,) = registration_obstacles(PLAN, registered)
    assert "is deleting the remote data" in text
