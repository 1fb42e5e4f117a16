"""The location of an offset, the reason why it is not remote, and the next expiry."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tier.partition_views import NOW_MS, TIERED, copy_events, ids, view_of
from tests.support.tier.segment_metadata import DELETED, DELETING, copy_start, step
from tidelog.remote.expiry.plan import Reason
from tidelog.remote.inspection.placing import Obstacle, Place, locate, pending_offset, upload_reasons
from tidelog.remote.inspection.scheduled_deletions import local_only_bytes, scheduled_deletions
from tidelog.remote.inspection.views import PartitionView

LINEAGE = ((5, 0), (7, 100))
EVENTS = [
    *copy_events(0, 0, 59, 5),
    *copy_events(1, 60, 119, [(5, 60), (7, 100)]),
    *copy_events(2, 120, 199, 7),
]


def events_view(**changes: object) -> PartitionView:
    return view_of(EVENTS, LINEAGE, **{"log_start": 30, "local_start": 130, "end": 300, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("offset", "place", "epoch", "segment"),
    [
        (29, Place.BELOW_START, None, None),
        (30, Place.REMOTE, 5, 0),
        (99, Place.REMOTE, 5, 1),
        (100, Place.REMOTE, 7, 1),
        (129, Place.REMOTE, 7, 2),
        (130, Place.BOTH, 7, 2),
        (200, Place.LOCAL, 7, None),
        (300, Place.BEYOND_END, None, None),
    ],
)
def test_an_offset_is_located_locally_and_remotely(
    offset: int, place: Place, epoch: int | None, segment: int | None
) -> None:
    location = locate(events_view(), offset)
    assert (location.place, location.epoch) == (place, epoch)
    assert (None if location.segment is None else ids([location.segment])[0]) == segment


def test_an_offset_missing_in_the_tier_is_reported() -> None:
    view = view_of(EVENTS[:2] + EVENTS[4:], LINEAGE, local_start=130)
    assert locate(view, 70).place is Place.NOWHERE


def obstacles(view: PartitionView, offset: int) -> list[Obstacle]:
    return [reason.obstacle for reason in upload_reasons(view, offset)]


def test_the_active_segment_is_the_reason_without_another() -> None:
    assert obstacles(events_view(), 200) == [Obstacle.ACTIVE]


def test_topic_configs_that_disable_copying_are_the_reason() -> None:
    assert obstacles(events_view(config=replace(TIERED, remote_storage_enable=False)), 200) == [
        Obstacle.TOPIC_NOT_TIERED
    ]
    assert obstacles(events_view(config=replace(TIERED, remote_log_copy_disable=True)), 200) == [
        Obstacle.COPY_DISABLED
    ]


def test_an_open_transaction_is_the_reason() -> None:
    reasons = list(upload_reasons(events_view(last_stable=220), 230))
    assert [reason.obstacle for reason in reasons] == [
        Obstacle.NOT_STABLE,
        Obstacle.EARLIER_FIRST,
        Obstacle.ACTIVE,
    ]
    assert reasons[0].detail == "it is 220, the high watermark is 300"
    assert reasons[1].detail == "next is offset 200"


def test_a_failed_copy_is_the_reason() -> None:
    view = view_of([*EVENTS, copy_start(3, 200, 250, 7)], LINEAGE, local_start=130, end=300)
    assert obstacles(view, 260) == [Obstacle.FAILED_COPY, Obstacle.EARLIER_FIRST, Obstacle.ACTIVE]
    young = replace(view, now_ms=4000)
    assert obstacles(young, 260) == [Obstacle.COPYING, Obstacle.EARLIER_FIRST, Obstacle.ACTIVE]


def test_a_repeatedly_failing_copy_is_the_reason() -> None:
    attempts = [
        event
        for number in (7, 8, 9)
        for event in (copy_start(number, 200, 250, 7), step(number, DELETING), step(number, DELETED))
    ]
    view = view_of([*EVENTS, *attempts], LINEAGE, local_start=130, end=300)
    reasons = list(upload_reasons(view, 200))
    assert [reason.obstacle for reason in reasons] == [Obstacle.FAILED_COPY, Obstacle.ACTIVE]
    assert reasons[0].detail == "offsets 200-250, 3 attempts given up"
    ended = view_of([*EVENTS, *attempts, *copy_events(10, 200, 250, 7)], LINEAGE, local_start=130, end=300)
    assert obstacles(ended, 251) == [Obstacle.ACTIVE]


def test_equal_rows_are_collapsed() -> None:
    copies = [copy_start(number, 200, 250, 7) for number in range(20, 49)]
    view = view_of([*EVENTS, *copies], LINEAGE, local_start=130, end=300)
    reasons = upload_reasons(replace(view, now_ms=4000), 200)
    assert [(reason.obstacle, reason.detail) for reason in reasons[1:2]] == [
        (Obstacle.FAILED_COPY, "offsets 200-250, another copy has begun since, 28 times")
    ]
    assert [reason.obstacle for reason in reasons] == [
        Obstacle.COPYING,
        Obstacle.FAILED_COPY,
        Obstacle.ACTIVE,
    ]


def test_the_error_of_the_store_is_the_first_reason() -> None:
    reasons = upload_reasons(events_view(), 200, "s3://tides: AccessDenied (HTTP 403)")
    assert [reason.obstacle for reason in reasons] == [Obstacle.STORE_FAILS, Obstacle.ACTIVE]
    assert reasons[0] == (Obstacle.STORE_FAILS, "s3://tides: AccessDenied (HTTP 403)", None)


def test_an_outage_lasts_since_the_copy_began_that_waits_for_the_store() -> None:
    waiting = copy_start(3, 200, 250, 7)
    view = view_of([*EVENTS, waiting], LINEAGE, local_start=130, end=300)
    later = replace(view, now_ms=waiting.event_timestamp_ms + 3_600_000)
    reasons = upload_reasons(later, 260, "s3://tides: AccessDenied (HTTP 403)")
    assert reasons[0] == (
        Obstacle.STORE_FAILS,
        "s3://tides: AccessDenied (HTTP 403)",
        waiting.event_timestamp_ms,
    )


def test_more_pending_bytes_than_an_active_segment_are_reported() -> None:
    config = replace(TIERED, segment_bytes=1000)
    view = events_view(config=config, local_start=200, local_size_bytes=1001)
    assert obstacles(view, 200) == [Obstacle.BACKLOG]
    assert obstacles(view, 250) == [Obstacle.EARLIER_FIRST, Obstacle.BACKLOG, Obstacle.ACTIVE]
    assert obstacles(replace(view, local_size_bytes=1000), 200) == [Obstacle.ACTIVE]


def test_kip_1241_the_copy_lag_is_the_reason() -> None:
    config = replace(TIERED, remote_copy_lag_ms=60_000, remote_copy_lag_bytes=1 << 20)
    assert obstacles(events_view(config=config), 200) == [Obstacle.COPY_LAG, Obstacle.ACTIVE]


def test_the_pending_copy_is_reported_by_the_leader_or_follows_the_remote_end() -> None:
    view = events_view()
    assert pending_offset(view) == 200
    reported = replace(view, offsets=replace(view.offsets, earliest_pending_upload_offset=210))
    assert pending_offset(reported) == 210


# --- expiry ---


def test_without_a_limit_nothing_expires() -> None:
    assert scheduled_deletions(events_view(), 3) == []


def test_retention_ms_applies_to_each_segment_in_order() -> None:
    # Timestamps of segments are 1000 ms + their last offset.
    config = replace(TIERED, retention_ms=NOW_MS - 1100)
    deletions = scheduled_deletions(events_view(config=config), 3)
    assert [(ids([deletion.segment]), deletion.reason) for deletion in deletions] == [
        ([0], Reason.RETENTION_TIME),
        ([1], None),
        ([2], None),
    ]
    assert [deletion.at_ms for deletion in deletions] == [None, NOW_MS - 1100 + 1119, NOW_MS - 1100 + 1199]
    assert all(deletion.after_bytes is None for deletion in deletions)


def test_retention_bytes_counts_remote_and_local_only_bytes() -> None:
    config = replace(TIERED, retention_bytes=5000)
    view = events_view(config=config, local_size_bytes=1500)
    assert local_only_bytes(view) == 1500
    # 3 segments of 1000 bytes and 1500 local ones: the first expires at 6000 bytes, 1500 more.
    assert [(ids([one.segment])[0], one.after_bytes) for one in scheduled_deletions(view, 9)] == [
        (0, 1500),
        (1, 2500),
        (2, 3500),
    ]
    now = scheduled_deletions(
        events_view(config=replace(TIERED, retention_bytes=3000), local_size_bytes=1500), 1
    )
    assert [(ids([one.segment])[0], one.reason) for one in now] == [(0, Reason.RETENTION_SIZE), (1, None)]


def test_records_in_both_places_are_not_local_only() -> None:
    view = events_view(local_start=120, local_size_bytes=1700)
    assert local_only_bytes(view) == 700


@given(
    retention_bytes=st.integers(0, 6000),
    local_bytes=st.integers(0, 3000),
    growth=st.integers(0, 6000),
)
def test_the_predicted_expiry_by_size_is_exact(retention_bytes: int, local_bytes: int, growth: int) -> None:
    config = replace(TIERED, retention_bytes=retention_bytes)
    before = scheduled_deletions(events_view(config=config, local_size_bytes=local_bytes), 3)
    after = scheduled_deletions(events_view(config=config, local_size_bytes=local_bytes + growth), 3)
    expired_ids = {ids([one.segment])[0] for one in after if one.reason is not None}
    predicted = {
        ids([one.segment])[0]
        for one in before
        if one.reason is not None or (one.after_bytes is not None and one.after_bytes <= growth)
    }
    assert expired_ids == predicted


@given(retention_ms=st.integers(0, NOW_MS), later_ms=st.integers(0, NOW_MS))
def test_the_predicted_expiry_by_time_is_exact(retention_ms: int, later_ms: int) -> None:
    view = events_view(config=replace(TIERED, retention_ms=retention_ms))
    before = scheduled_deletions(view, 3)
    after = scheduled_deletions(replace(view, now_ms=view.now_ms + later_ms), 3)
    expired_ids = {ids([one.segment])[0] for one in after if one.reason is not None}
    predicted = {
        ids([one.segment])[0]
        for one in before
        if one.reason is not None or (one.at_ms is not None and one.at_ms <= view.now_ms + later_ms)
    }
    assert expired_ids == predicted
