"""The cache of segment metadata of one partition."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from random import Random

import pytest

from tests.support.tier.segment_metadata import DELETED, DELETING, FINISHED, PARTITION, copy_start, step
from tidelog.remote.metadata.cache import Outcome, RemoteLogMetadataCache
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata

APPLIED, REPEATED = Outcome.APPLIED, Outcome.REPEATED
UNKNOWN, ILLEGAL = Outcome.UNKNOWN_SEGMENT, Outcome.ILLEGAL_MOVE


def cache_of(*segments: RemoteLogSegmentMetadata) -> RemoteLogMetadataCache:
    """Return a cache in which these copies were finished one after the other."""
    cache = RemoteLogMetadataCache(PARTITION)
    for metadata in segments:
        cache.add(metadata)
        cache.update(step(number_of(metadata), FINISHED))
    return cache


def number_of(metadata: RemoteLogSegmentMetadata | None) -> int:
    """Return the number of the segment, or -1 for None."""
    return -1 if metadata is None else metadata.remote_log_segment_id.id.int - 1


def find_segments(cache: RemoteLogMetadataCache, epoch: int, offsets: Sequence[int]) -> list[int]:
    return [number_of(cache.segment(epoch, offset)) for offset in offsets]


def numbers(cache: RemoteLogMetadataCache, epoch: int | None = None) -> list[int]:
    return [number_of(metadata) for metadata in cache.segments(epoch)]


def test_a_segment_with_several_epochs_is_found_in_each_within_its_offsets() -> None:
    cache = cache_of(copy_start(1, 0, 299, ((0, 0), (1, 100), (4, 250))), copy_start(2, 300, 399, 4))
    assert find_segments(cache, 0, (0, 99, 100)) == [1, 1, -1]
    assert find_segments(cache, 1, (99, 100, 249, 250)) == [-1, 1, 1, -1]
    assert find_segments(cache, 4, (249, 250, 299, 300, 399, 400)) == [-1, 1, 1, 2, 2, -1]
    assert [cache.highest_offset(epoch) for epoch in (0, 1, 2, 4)] == [99, 249, None, 399]
    assert numbers(cache, 4) == [1, 2]
    assert numbers(cache) == [1, 2]


def test_kafka_16890_the_overlapping_segment_with_the_offset_is_found() -> None:
    """The old leader copied 10-90; the new one began at 5 and copied 5-100, then 101-200."""
    cache = cache_of(copy_start(1, 10, 90), copy_start(2, 5, 100), copy_start(3, 101, 200))
    assert find_segments(cache, 0, (5, 10, 90, 95, 101)) == [2, 2, 2, 2, 3]
    assert numbers(cache, 0) == [2, 1, 3], "replaced segments are known until they are deleted"


def test_segments_of_an_epoch_are_ordered_by_their_start_in_it() -> None:
    cache = cache_of(copy_start(1, 9, 9, 2), copy_start(2, 8, 10, [(0, 8), (1, 9), (2, 10)]))
    assert numbers(cache, 2) == [2, 1]


def test_a_copy_with_the_same_start_replaces_the_older_one() -> None:
    cache = cache_of(copy_start(1, 0, 100), copy_start(2, 0, 200))
    assert find_segments(cache, 0, (0, 100, 200)) == [2, 2, 2]
    cache.update(step(1, DELETING))
    cache.update(step(1, DELETED))
    assert find_segments(cache, 0, (0, 200)) == [2, 2]
    assert numbers(cache) == [2]


def test_a_shorter_copy_does_not_hide_later_offsets() -> None:
    """The former leader's copy of 0-200 ends after the new leader has begun to copy 0-100."""
    cache = cache_of(copy_start(1, 0, 200), copy_start(2, 0, 100))
    assert find_segments(cache, 0, (50, 100, 101, 200)) == [2, 2, 1, 1]
    assert cache.highest_offset(0) == 200


def test_after_unclean_election_the_new_lineage_is_used() -> None:
    """Epoch 0 has reached offset 200 in the tier; epoch 1 began at 150 on a lagging replica."""
    cache = cache_of(copy_start(1, 0, 200), copy_start(2, 0, 250, ((0, 0), (1, 150))))
    assert find_segments(cache, 0, (149,)) == [2]
    assert find_segments(cache, 1, (149, 150, 250)) == [-1, 2, 2]


def test_kafka_17062_unfinished_copies_are_ignored() -> None:
    cache = cache_of(copy_start(1, 0, 99))
    cache.add(copy_start(2, 100, 199))
    assert cache.highest_offset(0) == 99
    assert find_segments(cache, 0, (100,)) == [-1]
    assert numbers(cache, 0) == [1, 2], "clean-up finds it"
    cache.update(step(2, DELETING))
    cache.update(step(2, DELETED))
    assert numbers(cache, 0) == [1]


def test_deletions_do_not_decrease_the_highest_offset() -> None:
    cache = cache_of(copy_start(1, 0, 99))
    for state in (DELETING, DELETED):
        assert cache.update(step(1, state)) is APPLIED
        assert cache.highest_offset(0) == 99
    assert len(cache) == 0


def test_repeated_records_change_nothing() -> None:
    cache = RemoteLogMetadataCache(PARTITION)
    segment = copy_start(1, 0, 99)
    assert [cache.add(segment), cache.add(segment)] == [APPLIED, REPEATED]
    for state in (FINISHED, DELETING):
        assert [cache.update(step(1, state)) for _ in range(2)] == [APPLIED, REPEATED]
        assert cache.add(segment) is ILLEGAL
    assert cache.update(step(1, FINISHED)) is ILLEGAL
    assert [cache.update(step(1, DELETED)) for _ in range(2)] == [APPLIED, UNKNOWN]
    assert len(cache) == 0


def test_a_deletion_is_finished_only_after_it_started() -> None:
    cache = cache_of(copy_start(1, 0, 99))
    assert cache.update(step(1, DELETED)) is ILLEGAL
    assert find_segments(cache, 0, (50,)) == [1]
    assert cache.update(step(2, FINISHED)) is UNKNOWN


def test_updates_without_custom_metadata_keep_it() -> None:
    cache = RemoteLogMetadataCache(PARTITION)
    cache.add(copy_start(1, 0, 99))
    cache.update(step(1, FINISHED, custom_metadata=b"here"))
    segment = cache.segment(0, 1)
    assert segment is not None
    assert (segment.custom_metadata, segment.broker_id, segment.event_timestamp_ms) == (b"here", 2, 3001)
    cache.update(step(1, DELETING))
    assert [metadata.custom_metadata for metadata in cache.segments()] == [b"here"]


def test_kafka_16780_segments_without_aborted_transactions_are_skipped() -> None:
    cache = cache_of(
        *(
            copy_start(number, number * 10, number * 10 + 9, is_txn_index_empty=number not in (2, 5))
            for number in range(7)
        )
    )
    numbers = [number_of(cache.next_with_txn_index(0, offset)) for offset in (0, 29, 30, 59, 60, 1000)]
    assert numbers == [2, 2, 5, 5, -1, -1]
    assert cache.next_with_txn_index(1, 0) is None


def test_a_listing_is_correct_during_concurrent_changes() -> None:
    cache = cache_of(*(copy_start(number, number * 10, number * 10 + 9) for number in range(4)))
    listed = cache.segments(0)
    assert number_of(next(listed)) == 0
    for number in (1, 2):
        cache.update(step(number, DELETING))
    cache.update(step(1, DELETED))
    cache.add(copy_start(9, 40, 49))
    assert [(number_of(metadata), metadata.state) for metadata in listed] == [(2, DELETING), (3, FINISHED)]


def test_a_covered_segment_is_used_again_after_the_covering_copy_is_deleted() -> None:
    cache = cache_of(
        copy_start(1, 0, 100), copy_start(2, 101, 200), copy_start(3, 50, 150), copy_start(4, 60, 70)
    )
    assert find_segments(cache, 0, (49, 50, 65, 150, 151)) == [1, 3, 4, 3, 2]
    cache.update(step(3, DELETING))
    assert find_segments(cache, 0, (49, 50, 65, 100, 101, 151)) == [1, 1, 4, 1, 2, 2]
    cache.update(step(4, DELETING))
    assert find_segments(cache, 0, (65,)) == [1]


def test_a_segment_uses_about_a_hundred_bytes() -> None:
    """KIP-405 estimates 100 bytes per segment; a table of 20,000 is measured with all its parts."""
    tracemalloc.start()
    cache = RemoteLogMetadataCache(PARTITION)
    for number in range(20_000):
        cache.add(copy_start(number, number * 100, number * 100 + 99))
        cache.update(step(number, FINISHED))
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size_bytes / len(cache) < 120


@pytest.mark.parametrize("seed", range(40))
def test_the_next_segment_with_aborted_transactions_equals_a_linear_search(
    seed: int,
) -> None:
    random, cache = Random(seed), RemoteLogMetadataCache(PARTITION)
    finished: set[int] = set()
    for number in range(40):
        start = random.randrange(100)
        end = start + random.randrange(25)
        is_empty = random.random() < 0.6
        cache.add(copy_start(number, start, end, is_txn_index_empty=is_empty))
        cache.update(step(number, FINISHED))
        finished.add(number)
        if random.random() < 0.5:
            deleted_number = random.choice(sorted(finished))
            finished.discard(deleted_number)
            cache.update(step(deleted_number, DELETING))
        for offset in range(0, 130, 3):
            served = (cache.segment(0, each) for each in range(offset, 130))
            expected = next((each for each in served if each and not each.is_txn_index_empty), None)
            assert cache.next_with_txn_index(0, offset) == expected
