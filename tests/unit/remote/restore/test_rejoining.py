"""A topic as of a time that has lived since: which segments are its own, and which are referenced again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import append
from tests.support.tier.bucket import TierBucket
from tests.support.tier.remote_tier import PARTITION
from tests.support.tier.segment_metadata import copy_start
from tidelog.remote.objects.layout.object_keys import is_reference
from tidelog.remote.restore.plan import SurveyedPartition
from tidelog.remote.restore.rejoining import rejoined
from tidelog.remote.restore.survey import survey
from tidelog.remote.restore.time_travel import Travel, TravelledPartition, travel_of, travelled
from tidelog.storage.config.topic_source import TopicSource
from tidelog.storage.leader_epoch import EpochEntry

TRAVEL = Travel(name="before", source_id=PARTITION.topic_id, timestamp_ms=NOW_MS + 2_500)


def topic_as_of(folder: Path) -> TravelledPartition:
    """Return a topic as of a time, whose offsets 0 and 1 are a reference; 2 is in a segment of its own."""
    tier = TierBucket(folder)
    for number in range(4):
        append(tier.log, "a", timestamps=NOW_MS + 1000 * number)
        if number % 2:
            tier.log.roll(NOW_MS)
    tier.copy()
    (partition,) = survey(tier.bucket, [])[PARTITION.topic, PARTITION.topic_id]
    return travelled(tier.bucket, partition, TRAVEL, folder / "tails")


def own_partition(by_reference: TravelledPartition) -> SurveyedPartition:
    """Return the survey of the segments that the new topic has: the copied one, and a later one."""
    (tail,) = by_reference.tails
    later = replace(
        copy_start(7, 3, 9, [(1_001, 3)]),
        remote_log_segment_id=tail.metadata.remote_log_segment_id._replace(id=UUID(int=7)),
    )
    return replace(
        by_reference.surveyed,
        segments=(tail.metadata, later),
        newest=later,
        checkpoint=(EpochEntry(0, 0), EpochEntry(1_001, 3)),
    )


def test_a_segment_that_is_in_the_bucket_is_not_copied_again(tmp_path: Path) -> None:
    by_reference = topic_as_of(tmp_path)
    own = own_partition(by_reference)
    joined = rejoined(by_reference, own, 0)
    offsets = sorted((each.start_offset, each.end_offset) for each in joined.surveyed.segments)
    assert offsets == [(0, 1), (2, 2), (3, 9)]
    assert [is_reference(each) for each in joined.surveyed.segments].count(True) == 1
    assert joined.tails == ()
    assert joined.surveyed.newest == own.newest
    assert joined.surveyed.checkpoint == own.checkpoint


def test_without_own_segments_it_is_the_topic_as_of_the_time(tmp_path: Path) -> None:
    by_reference = topic_as_of(tmp_path)
    joined = rejoined(by_reference, None, 0)
    assert set(joined.surveyed.segments) == set(by_reference.surveyed.segments)
    assert joined.tails == by_reference.tails
    assert joined.surveyed.newest == by_reference.surveyed.newest


def test_references_that_the_topic_had_deleted_are_not_restored(tmp_path: Path) -> None:
    by_reference = topic_as_of(tmp_path)
    joined = rejoined(by_reference, own_partition(by_reference), 2)
    assert sorted(each.start_offset for each in joined.surveyed.segments) == [2, 3]


def test_the_travel_of_a_topic_that_was_deleted_and_created_again_is_found() -> None:
    source = TopicSource(topic="events", topic_id=PARTITION.topic_id, timestamp_ms=TRAVEL.timestamp_ms)
    third = replace(TRAVEL, generation=2)
    assert travel_of("before", third.topic_id, source) == third
    assert travel_of("before", UUID(int=1), source) is None
