"""Selection of the remote segments to delete, and the log start after it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from tests.support.configs import log_config
from tests.support.tier.segment_metadata import DELETING, FINISHED, STARTED, copy_start, segment_id
from tidelog.remote.expiry.plan import (
    ExpirationPlan,
    ExpirationView,
    Reason,
    Retention,
    plan_expiration,
)
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.storage.leader_epoch import EpochEntry

Segments = list[RemoteLogSegmentMetadata]


def finished_segment(
    number: int, start: int, end: int, epochs: int | tuple[tuple[int, int], ...] = 0, size_bytes: int = 1000
) -> RemoteLogSegmentMetadata:
    """Return a finished segment whose largest timestamp is 1000 + its last offset."""
    return replace(copy_start(number, start, end, epochs, size_bytes=size_bytes), state=FINISHED)


THREE = [finished_segment(1, 0, 99), finished_segment(2, 100, 199), finished_segment(3, 200, 299)]


def view(segments: Segments, **changes: object) -> ExpirationView:
    base = ExpirationView(
        segments=segments,
        epochs=[EpochEntry(0, 0)],
        log_start_offset=0,
        high_watermark=1000,
        log_end_offset=1000,
        copied_offset=max((s.end_offset for s in segments if s.state is FINISHED), default=-1),
        local_only_bytes=0,
        now_ms=5000,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def numbers(plan: ExpirationPlan) -> list[tuple[int, Reason]]:
    return [(each.segment.remote_log_segment_id.id.int - 1, each.reason) for each in plan.deletions]


def test_without_limits_nothing_is_deleted() -> None:
    assert plan_expiration(view(THREE)) == ExpirationPlan(None, ())
    assert plan_expiration(view([])) == ExpirationPlan(None, ())


@pytest.mark.parametrize(
    ("retention_ms", "expected", "log_start"),
    [
        # The largest timestamps are 1099, 1199, 1299; now is 5000.
        (3901, [1], 100),
        (3902, [], None),
        (3801, [1, 2], 200),
        (0, [1, 2, 3], 300),
        # This is longer than the time since 0.
        (5001, [], None),
    ],
)
def test_retention_ms_deletes_the_oldest_segments_and_moves_the_log_start(
    retention_ms: int, expected: list[int], log_start: int | None
) -> None:
    plan = plan_expiration(view(THREE, retention=Retention(retention_ms)))
    assert numbers(plan) == [(number, Reason.RETENTION_TIME) for number in expected]
    assert plan.log_start_offset == log_start


@pytest.mark.parametrize(
    ("retention_bytes", "local_only", "expected"),
    [
        (3000, 0, []),
        (2001, 0, []),  # the excess is one byte less than the segment: it is kept
        (2000, 0, [1]),
        (2000, 999, [1]),
        (2000, 1000, [1, 2]),
        (0, 0, [1, 2, 3]),
        (0, 10**9, [1, 2, 3]),
    ],
)
def test_retention_bytes_counts_remote_and_local_only_bytes(
    retention_bytes: int, local_only: int, expected: list[int]
) -> None:
    retention = Retention(None, retention_bytes)
    plan = plan_expiration(view(THREE, retention=retention, local_only_bytes=local_only))
    assert numbers(plan) == [(number, Reason.RETENTION_SIZE) for number in expected]


def test_segments_deleted_by_time_count_towards_the_size_reduction() -> None:
    plan = plan_expiration(view(THREE, retention=Retention(3901, 2000)))
    assert numbers(plan) == [(1, Reason.RETENTION_TIME)]


def test_the_first_retained_segment_ends_the_search() -> None:
    young_first = [replace(THREE[0], max_timestamp_ms=9999), *THREE[1:]]
    assert numbers(plan_expiration(view(young_first, retention=Retention(1)))) == []


def test_the_predicted_expiry_is_exact() -> None:
    random = Random(4)
    predicted = 0
    for _ in range(300):
        count = random.randrange(4)
        limits = Retention(
            random.choice([None, 3000, 4500]), random.choice([None, 1000, 3000, 3500]) if count else None
        )
        at = view(THREE[:count], retention=limits, local_only_bytes=random.randrange(3000))
        plan = plan_expiration(at)
        if plan.idle is None:
            continue
        predicted += 1
        assert plan == ExpirationPlan(None, ())
        for _ in range(30):
            later = replace(
                at,
                now_ms=random.randrange(5000, 7000),
                local_only_bytes=random.randrange(6000),
                high_watermark=random.randrange(2000),
                log_end_offset=random.randrange(2000),
            )
            where = (later.now_ms, later.local_only_bytes, later.high_watermark, later.log_end_offset)
            if plan.idle.contains(*where):
                assert plan_expiration(later) == ExpirationPlan(None, ())
    assert predicted > 50
    at = view(THREE, retention=Retention(3902, 3500))
    idle = plan_expiration(at).idle
    assert idle is not None
    assert idle.contains(5000, 1499, 1000, 1000)
    for now_ms, local_bytes in ((5001, 0), (5000, 1500)):
        assert not idle.contains(now_ms, local_bytes, 1000, 1000)
        assert plan_expiration(replace(at, now_ms=now_ms, local_only_bytes=local_bytes)).deletions


def test_no_expiry_is_predicted_during_a_copy_or_deletion() -> None:
    for state in (STARTED, DELETING):
        unfinished = [*THREE, replace(finished_segment(4, 300, 399), state=state)]
        assert plan_expiration(view(unfinished)).idle is None
    assert plan_expiration(view(THREE, in_progress={segment_id(2).id})).idle is None
    assert plan_expiration(view(THREE)).idle is not None


def test_records_without_the_delete_policy_are_kept() -> None:
    assert Retention.of(log_config(cleanup_policy=())) == Retention()
    assert Retention.of(log_config(retention_ms=-1, retention_bytes=5)) == Retention(None, 5)


def test_kafka_17062_unfinished_copies_do_not_count_for_size() -> None:
    failed = [copy_start(10 + attempt, 300, 399) for attempt in range(5)]
    plan = plan_expiration(view([*THREE, *failed], retention=Retention(None, 3000), local_only_bytes=0))
    assert numbers(plan) == []


def test_kafka_20732_records_copied_by_two_leaders_count_once() -> None:
    # Another leader had other segment boundaries: 100-199 is stored twice.
    overlapping = [
        finished_segment(1, 0, 99),
        finished_segment(2, 100, 199),
        finished_segment(3, 100, 299, size_bytes=2000),
    ]
    assert numbers(plan_expiration(view(overlapping, retention=Retention(None, 3000)))) == []
    copies = [finished_segment(1, 0, 99), finished_segment(2, 0, 99), finished_segment(3, 100, 199)]
    assert numbers(plan_expiration(view(copies, retention=Retention(None, 2000)))) == []
    plan = plan_expiration(view(copies, retention=Retention(None, 1000)))
    assert numbers(plan) == [(1, Reason.RETENTION_SIZE)]
    assert plan.log_start_offset == 100  # the other copy is below the log start now, and is deleted next time


def test_segments_of_another_lineage_are_ignored() -> None:
    other_lineage = finished_segment(9, 50, 150, ((0, 50), (3, 120)))
    plan = plan_expiration(view([*THREE, other_lineage], retention=Retention(None, 2000)))
    assert numbers(plan) == [(1, Reason.RETENTION_SIZE)]


def test_segments_below_the_log_start_are_deleted() -> None:
    plan = plan_expiration(view(THREE, log_start_offset=150, epochs=[EpochEntry(0, 150)]))
    assert numbers(plan) == [(1, Reason.LOG_START)]
    assert plan.log_start_offset is None
    plan = plan_expiration(view(THREE, log_start_offset=300, epochs=[EpochEntry(0, 300)]))
    assert [number for number, _ in numbers(plan)] == [1, 2, 3]


def test_epochs_below_the_log_start_do_not_retain_segments() -> None:
    segments = [finished_segment(1, 0, 99, ((0, 0), (1, 50))), finished_segment(2, 100, 199, 2)]
    plan = plan_expiration(view(segments, log_start_offset=100, epochs=[EpochEntry(2, 100)]))
    assert numbers(plan) == [(1, Reason.LOG_START)]


def test_after_unclean_election_segments_of_epochs_before_the_first_are_deleted() -> None:
    # A replica without any record became leader: its log starts at 0 in epoch 5.
    segments = [
        finished_segment(1, 0, 99, 3),
        finished_segment(2, 100, 199, 4),
        finished_segment(3, 0, 79, 5),
    ]
    plan = plan_expiration(view(segments, epochs=[EpochEntry(5, 0)], copied_offset=79))
    assert numbers(plan) == [(1, Reason.UNREACHABLE_EPOCH), (2, Reason.UNREACHABLE_EPOCH)]
    assert plan.log_start_offset is None


def test_kafka_15414_a_reassigned_leader_with_only_late_epochs_keeps_segments_in_use() -> None:
    segments = [
        finished_segment(1, 0, 99, 3),
        finished_segment(2, 100, 499, 4),
        finished_segment(3, 500, 599, 5),
    ]
    plan = plan_expiration(view(segments, epochs=[EpochEntry(5, 500)], log_start_offset=0))
    assert plan == ExpirationPlan(None, ())


def test_a_segment_with_a_known_epoch_is_reachable() -> None:
    segments = [finished_segment(1, 0, 99, ((3, 0), (5, 40)))]
    assert numbers(plan_expiration(view(segments, epochs=[EpochEntry(5, 0)]))) == []


def test_kafka_17428_a_dangling_copy_is_deleted_once_another_segment_has_its_records() -> None:
    dangling = copy_start(9, 200, 299)
    assert numbers(plan_expiration(view([*THREE, dangling]))) == [(9, Reason.DANGLING_COPY)]
    # Its leader may be alive and finish the copy, on which others would rely.
    assert numbers(plan_expiration(view([*THREE[:2], dangling]))) == []


def test_a_dangling_copy_of_local_records_does_not_move_the_log_start() -> None:
    dangling = copy_start(9, 300, 399)
    plan = plan_expiration(view([*THREE, dangling], retention=Retention(0, 0), local_only_bytes=5000))
    assert plan.log_start_offset == 300
    assert [number for number, _ in numbers(plan)] == [1, 2, 3]


def test_a_started_deletion_is_finished_regardless_of_retention() -> None:
    segments = [*THREE[:2], replace(THREE[2], state=DELETING)]
    assert numbers(plan_expiration(view(segments))) == [(3, Reason.UNFINISHED_DELETION)]


def test_a_segment_with_a_running_task_ends_the_search() -> None:
    busy: set[UUID] = {segment_id(2).id}
    plan = plan_expiration(view(THREE, retention=Retention(0), in_progress=busy))
    assert numbers(plan) == [(1, Reason.RETENTION_TIME)]
    copying = copy_start(7, 0, 99)
    assert numbers(plan_expiration(view([*THREE, copying], in_progress={segment_id(7).id}))) == []


def test_the_log_start_never_passes_the_high_watermark() -> None:
    # A leader that was just elected does not know yet that all records are committed.
    plan = plan_expiration(view(THREE, retention=Retention(0), high_watermark=200))
    assert [number for number, _ in numbers(plan)] == [1, 2]
    assert plan.log_start_offset == 200


def test_a_log_without_epochs_deletes_nothing() -> None:
    assert plan_expiration(view(THREE, epochs=[], retention=Retention(0, 0))) == ExpirationPlan(None, ())
