"""The epochs of a group: when a target assignment is replaced, and when the metadata of topics is checked."""

from __future__ import annotations

from tidelog.broker.coordinators.groups.epochs import FIRST_EPOCH, GroupEpochs


def test_a_target_assignment_is_kept_for_its_epoch_and_until_the_interval_has_passed() -> None:
    epochs = GroupEpochs()
    assert epochs.assignment_epoch == FIRST_EPOCH, "that of the empty target of a new group"
    assert not epochs.keeps_assignment(FIRST_EPOCH + 1, 1_000, now_wall_ms=0)
    epochs.set_assignment_epoch(2, wall_ms=5_000)
    assert epochs.keeps_assignment(2, 1_000, now_wall_ms=9_000)
    assert epochs.keeps_assignment(3, 1_000, now_wall_ms=5_999)
    assert not epochs.keeps_assignment(3, 1_000, now_wall_ms=6_000)


def test_a_clock_that_was_set_back_does_not_delay_the_next_target_assignment() -> None:
    """The next coordinator has another clock too; its members would wait for the difference."""
    epochs = GroupEpochs()
    epochs.set_assignment_epoch(2, wall_ms=3_605_000)
    assert not epochs.keeps_assignment(3, 1_000, now_wall_ms=5_000)
    assert epochs.keeps_assignment(2, 1_000, now_wall_ms=5_000)


def test_a_target_assignment_without_a_time_is_replaced_in_the_next_epoch() -> None:
    epochs = GroupEpochs()
    epochs.set_assignment_epoch(2, wall_ms=0)
    assert epochs.keeps_assignment(2, 1_000, now_wall_ms=1)
    assert not epochs.keeps_assignment(3, 1_000, now_wall_ms=1)


def test_metadata_is_checked_after_a_change_of_topics_and_after_an_epoch_that_was_not_written() -> None:
    epochs = GroupEpochs()
    assert epochs.must_check_metadata
    epochs.set_group_epoch(2, metadata_hash=7)
    epochs.on_metadata_checked(2)
    assert not epochs.must_check_metadata
    epochs.on_topics_changed()
    assert epochs.must_check_metadata
    epochs.on_metadata_checked(3)
    assert epochs.must_check_metadata, "the record of epoch 3 was not replayed"
