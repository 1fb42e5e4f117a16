"""The log that remote segments contain: its lineage, its start and its gaps."""

from __future__ import annotations

import pytest

from tests.support.tier.segment_metadata import copy_start
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.tasks.recovered_log import OffsetRange, RecoveredLog, log_position, recovered_log
from tidelog.storage.leader_epoch import EpochEntry


def recover(
    *segments: RemoteLogSegmentMetadata, checkpoint: tuple[tuple[int, int], ...] = ()
) -> RecoveredLog:
    newest = max(segments, key=log_position)
    return recovered_log(segments, newest, [EpochEntry(*each) for each in checkpoint])


def test_consecutive_segments_are_one_log() -> None:
    log = recover(copy_start(1, 10, 49, 5), copy_start(2, 50, 99, 5), checkpoint=((5, 10),))
    assert log == RecoveredLog(10, 100, (EpochEntry(5, 10),))


def test_after_an_unclean_election_the_highest_epoch_has_the_lineage() -> None:
    log = recover(
        copy_start(1, 0, 49, 5),
        copy_start(2, 50, 119, 5),
        copy_start(3, 50, 99, ((5, 50), (7, 80))),
        checkpoint=((5, 0), (7, 80)),
    )
    assert log == RecoveredLog(0, 100, (EpochEntry(5, 0), EpochEntry(7, 80)))


def test_the_log_starts_after_the_last_gap() -> None:
    log = recover(copy_start(1, 0, 9, 5), copy_start(2, 20, 29, 5), checkpoint=((5, 0),))
    assert log == RecoveredLog(20, 30, (EpochEntry(5, 20),), (OffsetRange(10, 20),))


def test_records_of_another_lineage_do_not_fill_a_gap() -> None:
    log = recover(
        copy_start(1, 0, 99, ((5, 0), (6, 40))),
        copy_start(2, 60, 99, 7),
        checkpoint=((5, 0), (7, 50)),
    )
    assert log.gaps == (OffsetRange(40, 60),)
    assert log.start_offset == 60


def test_the_log_start_within_a_segment_is_that_of_the_checkpoint() -> None:
    log = recover(copy_start(1, 0, 49, 5), copy_start(2, 50, 99, 5), checkpoint=((5, 30),))
    assert (log.start_offset, log.end_offset) == (30, 100)


def test_without_a_checkpoint_the_epochs_of_the_newest_segment_are_used() -> None:
    log = recover(copy_start(1, 0, 49, 5), copy_start(2, 50, 99, ((5, 50), (6, 70))))
    assert log.leader_epochs == (EpochEntry(5, 50), EpochEntry(6, 70))
    assert (log.start_offset, log.end_offset) == (50, 100)


def test_epochs_after_the_end_of_the_newest_segment_are_omitted() -> None:
    log = recover(copy_start(1, 0, 49, 5), checkpoint=((5, 0), (9, 50)))
    assert log.leader_epochs == (EpochEntry(5, 0),)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_repeated_copies_of_the_same_records_are_no_gap(count: int) -> None:
    copies = [copy_start(number, 0, 49, 5) for number in range(count)]
    assert recover(*copies, checkpoint=((5, 0),)).gaps == ()
