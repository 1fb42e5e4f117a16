"""A topic as of a time: which segments are references, and which one is copied in part."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import append
from tests.support.tier.bucket import TierBucket
from tests.support.tier.remote_tier import PARTITION
from tidelog.remote.inspection.deep import inspect_segment
from tidelog.remote.objects.layout.object_keys import is_reference
from tidelog.remote.restore.survey import survey
from tidelog.remote.restore.time_travel import Travel, TravelledPartition, travelled

BATCHES = 4


@pytest.fixture
def tier(tmp_path: Path) -> TierBucket:
    """Return a bucket with three segments of four batches, which are a second apart; two offsets each."""
    filled = TierBucket(tmp_path)
    for number in range(3 * BATCHES):
        is_transactional = number == 5
        append(
            filled.log,
            *("a", "b"),
            leader_epoch=number // 3,
            timestamps=NOW_MS + 1000 * number,
            **({"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True})
            if is_transactional
            else {},
        )
        if number % BATCHES == BATCHES - 1:
            filled.log.roll(NOW_MS)
    filled.copy()
    return filled


def topic_as_of(tier: TierBucket, timestamp_ms: int, folder: Path) -> TravelledPartition:
    (partition,) = survey(tier.bucket, [])[PARTITION.topic, PARTITION.topic_id]
    travel = Travel(name="before", source_id=PARTITION.topic_id, timestamp_ms=timestamp_ms)
    return travelled(tier.bucket, partition, travel, folder / "tails")


@pytest.mark.parametrize("batch", range(3 * BATCHES))
def test_the_new_topic_ends_before_the_first_batch_that_is_later(
    tier: TierBucket, batch: int, tmp_path: Path
) -> None:
    new_topic = topic_as_of(tier, NOW_MS + 1000 * batch, tmp_path)
    segments = new_topic.surveyed.segments
    end = 2 * (batch + 1)
    assert max(each.end_offset for each in segments) + 1 == end
    assert [is_reference(each) for each in segments].count(False) == len(new_topic.tails)
    assert len(new_topic.tails) == (batch % BATCHES != BATCHES - 1)
    epochs = new_topic.surveyed.checkpoint
    assert epochs[-1].epoch == batch // 3
    has_open = [each for each in new_topic.surveyed.producers if each.transaction_first_offset is not None]
    assert [each.producer_id for each in has_open] == ([7] if batch >= 5 else [])


def test_a_copied_segment_is_complete_and_undamaged(tier: TierBucket, tmp_path: Path) -> None:
    (tail,) = topic_as_of(tier, NOW_MS + 5_500, tmp_path).tails
    assert (tail.metadata.start_offset, tail.metadata.end_offset) == (8, 11)
    tier.bucket.storage.copy_log_segment_data(tail.metadata, tail.files)
    assert inspect_segment(tier.bucket.storage, tail.metadata) == []


@pytest.mark.parametrize(
    ("timestamp_ms", "copied"), [(NOW_MS + 50_000, [(0, 3)]), (NOW_MS + 2_500, [(0, 3), (4, 5)])]
)
def test_a_segment_whose_later_records_belong_to_another_lineage_is_copied_since_its_source_may_expire(
    timestamp_ms: int, copied: list[tuple[int, int]], tmp_path: Path
) -> None:
    tier = TierBucket(tmp_path)
    transaction = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(tier.log, *("a", "b"), timestamps=NOW_MS)
    append(tier.log, *("a", "b"), timestamps=NOW_MS + 1000, **transaction)
    append(tier.log, *("a", "b"), timestamps=NOW_MS + 100_000)
    tier.log.roll(NOW_MS)
    tier.copy()
    tier.log.truncate_to(4, NOW_MS, below_high_watermark=True)
    tier.log.roll(NOW_MS)
    append(tier.log, *("c", "d"), timestamps=NOW_MS + 2000, leader_epoch=1)
    append(tier.log, *("c", "d"), timestamps=NOW_MS + 3000, leader_epoch=1)
    tier.log.roll(NOW_MS)
    tier.copy(from_offset=4)
    new_topic = topic_as_of(tier, timestamp_ms, tmp_path)
    segments = new_topic.surveyed.segments
    assert all(each.max_timestamp_ms <= timestamp_ms for each in segments)
    own = [(each.start_offset, each.end_offset) for each in segments if not is_reference(each)]
    assert (
        own == copied == [(each.metadata.start_offset, each.metadata.end_offset) for each in new_topic.tails]
    )
    assert [each.start_offset for each in segments] == [0, 4]
    assert [each.producer_id for each in new_topic.surveyed.producers] == [7]


def test_nothing_is_as_old_as_a_time_before_the_first_record(tier: TierBucket, tmp_path: Path) -> None:
    new_topic = topic_as_of(tier, NOW_MS - 1, tmp_path)
    assert new_topic.surveyed.segments == () and new_topic.tails == ()


def test_a_repeated_command_has_the_same_ids_and_a_later_generation_others(
    tier: TierBucket, tmp_path: Path
) -> None:
    first, second = (topic_as_of(tier, NOW_MS + 5_500, tmp_path / folder) for folder in ("1", "2"))
    assert first.surveyed.segments == second.surveyed.segments
    travel = Travel(name="before", source_id=UUID(int=1), timestamp_ms=5)
    later = Travel(name="before", source_id=UUID(int=1), timestamp_ms=5, generation=1)
    assert travel.topic_id != later.topic_id
