"""The remote segments that belong to a log, and the log's remote end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.tier.segment_metadata import DELETING, FINISHED, copy_start
from tidelog.remote.tasks.remote_lineage import (
    EpochLineage,
    first_readable_offset,
    highest_remote_offset,
)
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache


def lineage_of(entries: list[tuple[int, int]]) -> EpochLineage:
    return EpochLineage(EpochEntry(*entry) for entry in entries)


LOG = lineage_of([(5, 10), (7, 15), (9, 100)])


@pytest.mark.parametrize(
    ("start", "end", "epochs", "log_end", "is_part"),
    [
        (10, 14, ((5, 10),), 200, True),
        (5, 50, ((5, 10), (7, 15)), 200, True),
        (14, 150, ((5, 14), (7, 15), (9, 100)), 200, True),
        (100, 150, ((9, 100),), 200, True),
        (120, 150, ((9, 120),), 200, True),
        # The log ends before, or with, the segment's last offset.
        (100, 150, ((9, 100),), 151, True),
        (100, 150, ((9, 100),), 150, False),
        # Epochs that the log does not have: older than all, newer than all, between.
        (0, 9, ((4, 0),), 200, False),
        (150, 180, ((10, 150),), 200, False),
        (60, 120, ((7, 60), (8, 90)), 200, False),
        # The epoch continues in the segment after its end in the log.
        (60, 120, ((7, 60),), 200, False),
        # The same epochs, with another start.
        (60, 120, ((7, 60), (9, 110)), 200, False),
        # An epoch other than the first begins earlier than in the log.
        (12, 90, ((7, 12),), 200, False),
        # The log's first epoch may have begun before the log start.
        (3, 14, ((5, 3),), 200, True),
        # Epochs without records do not count: the second one begins where the first did.
        (15, 99, ((6, 15), (7, 15)), 200, True),
        # Epochs before the log's first are removed with the log start; the rest of the segment counts.
        (0, 50, ((3, 0), (5, 10), (7, 15)), 200, True),
    ],
)
def test_a_segment_belongs_to_the_log_in_the_epochs_it_was_written_in(
    start: int, end: int, epochs: tuple[tuple[int, int], ...], log_end: int, is_part: bool
) -> None:
    assert LOG.contains(copy_start(1, start, end, epochs), log_end) is is_part


def test_a_segment_across_the_log_start_stays_part_of_the_log() -> None:
    # Apache Kafka's example: segment 5-50 is deleted, the log starts at 51, epoch 5 is removed.
    moved = lineage_of([(7, 51), (9, 100)])
    assert moved.contains(copy_start(2, 14, 150, ((5, 14), (7, 15), (9, 100))), 200)


def test_epochs_without_records_are_not_in_a_lineage() -> None:
    assert lineage_of([(0, 0), (4, 40), (5, 60), (6, 60), (7, 70)]).epochs == [0, 4, 6, 7]


def highest(epochs: list[tuple[int, int]], log_end: int, remote: dict[int, int]) -> int:
    cache = LeaderEpochCache.of(EpochEntry(*entry) for entry in epochs)
    return highest_remote_offset(cache, log_end, remote.get)


@pytest.mark.parametrize(
    ("epochs", "log_end", "remote", "expected"),
    [
        ([], 0, {}, -1),
        ([(0, 0)], 100, {}, -1),
        ([(0, 0)], 100, {0: 49}, 49),
        # No segment of the newest epochs is remote: older epochs are searched.
        ([(0, 0), (1, 50), (4, 80)], 100, {0: 49}, 49),
        ([(0, 0), (1, 50), (4, 80)], 100, {0: 49, 1: 69}, 69),
        # An epoch that the log never had is not searched.
        ([(0, 0), (4, 80)], 100, {0: 49, 3: 500}, 49),
        # The former leader continued in its epoch after the epoch's end in this log (unclean election).
        ([(0, 0), (2, 30)], 100, {0: 49}, 29),
        # The remote log ends beyond the log's end: a follower that has not caught up.
        ([(0, 0)], 20, {0: 49}, 19),
        # An epoch was assigned at the election and has no record yet.
        ([(0, 0), (1, 50)], 50, {0: 49}, 49),
        ([(3, 200)], 300, {0: 199}, -1),
    ],
)
def test_the_highest_copied_offset_is_searched_from_the_latest_epoch_down(
    epochs: list[tuple[int, int]], log_end: int, remote: dict[int, int], expected: int
) -> None:
    assert highest(epochs, log_end, remote) == expected


def test_the_log_start_moves_past_segments_deleted_by_a_former_leader() -> None:
    lineage = lineage_of([(0, 0)])
    deleted = replace(copy_start(1, 0, 99), state=DELETING)
    kept = replace(copy_start(2, 100, 199), state=FINISHED)
    assert first_readable_offset(lineage, [deleted, kept], 0, 200) == 100
    assert first_readable_offset(lineage, [deleted], 0, 200) == 200
    # Local records are readable.
    assert first_readable_offset(lineage, [deleted, kept], 0, 50) == 50
    assert first_readable_offset(lineage, [deleted, kept], 0, 0) == 0
    # The log start never decreases.
    assert first_readable_offset(lineage, [deleted, kept], 150, 200) == 150


def test_a_replica_without_its_old_epochs_does_not_move_the_log_start() -> None:
    short = lineage_of([(5, 500)])
    old = replace(copy_start(1, 0, 499, 3), state=FINISHED)
    assert first_readable_offset(short, [old], 0, 500) == 0
