"""Offsets that transactions commit: unseen until the end marker, and replayed sanely from the log."""

from __future__ import annotations

from broker.groups.config import GroupConfig
from broker.groups.records import CommittedOffset, offset_commit
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.group_bench import GroupBench

PRODUCER, OTHER_PRODUCER = 77, 78


class Transactions(GroupBench):
    """A bench that also replays what producers commit in transactions."""

    def in_transaction(self, producer_id: int, partition: int, offset: int) -> None:
        record = offset_commit(
            "g", "t", partition, CommittedOffset(offset=offset, commit_wall_ms=self.now_ms)
        )
        self.coordinator.replay(record, len(self.log), producer_id)
        self._appended()

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.coordinator.replay_transaction_end(producer_id, commit, len(self.log))
        self._appended()

    def _appended(self) -> None:
        self.log.append((b"", None))
        self.coordinator.advance(len(self.log))


def test_an_offset_in_a_transaction_is_not_seen_before_the_transaction_commits() -> None:
    bench = Transactions()
    bench.in_transaction(PRODUCER, 0, 5)
    assert bench.offset("t", 0) == (-1, ErrorCode.NONE)
    assert bench.offset("t", 0, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert bench.state() == "Empty"
    bench.end(PRODUCER, commit=True)
    assert bench.offset("t", 0, require_stable=True) == (5, ErrorCode.NONE)


def test_an_offset_in_an_aborted_transaction_is_never_seen() -> None:
    bench = Transactions()
    bench.commit({("t", 0): 3})
    bench.in_transaction(PRODUCER, 0, 5)
    assert bench.offset("t", 0) == (3, ErrorCode.NONE)
    bench.end(PRODUCER, commit=False)
    assert bench.offset("t", 0, require_stable=True) == (3, ErrorCode.NONE)


def test_partitions_outside_of_the_transaction_are_stable() -> None:
    bench = Transactions()
    bench.commit({("t", 1): 3})
    bench.in_transaction(PRODUCER, 0, 5)
    assert bench.offset("t", 1, require_stable=True) == (3, ErrorCode.NONE)


def test_an_offset_that_was_committed_later_in_the_log_wins_over_the_transactions() -> None:
    bench = Transactions()
    bench.in_transaction(PRODUCER, 0, 5)
    bench.commit({("t", 0): 9})
    bench.end(PRODUCER, commit=True)
    assert bench.offset("t", 0) == (9, ErrorCode.NONE)


def test_two_open_transactions_on_one_partition_are_both_waited_for() -> None:
    bench = Transactions()
    bench.in_transaction(PRODUCER, 0, 5)
    bench.in_transaction(PRODUCER, 0, 6)
    bench.in_transaction(OTHER_PRODUCER, 0, 7)
    bench.end(PRODUCER, commit=True)
    assert bench.offset("t", 0, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    bench.end(OTHER_PRODUCER, commit=False)
    assert bench.offset("t", 0, require_stable=True) == (6, ErrorCode.NONE)


def test_the_end_of_a_transaction_without_offsets_means_nothing() -> None:
    bench = Transactions()
    bench.end(PRODUCER, commit=True)
    assert bench.offsets() == {}


def test_neither_offset_nor_group_expires_while_a_transaction_is_open() -> None:
    bench = Transactions(GroupConfig(offsets_retention_minutes=1))
    bench.commit({("t", 0): 3})
    bench.in_transaction(PRODUCER, 0, 5)
    bench.pass_time(3_600_000)
    assert bench.expire() == 0
    bench.end(PRODUCER, commit=False)
    assert bench.expire() == 2


def test_deleting_an_offset_also_takes_it_out_of_open_transactions() -> None:
    bench = Transactions()
    bench.in_transaction(PRODUCER, 0, 5)
    bench.in_transaction(OTHER_PRODUCER, 0, 6)
    topic = OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),))
    bench.finish(bench.coordinator.delete_offsets(OffsetDeleteRequest(group_id="g", topics=(topic,))))
    assert bench.offset("t", 0, require_stable=True) == (-1, ErrorCode.NONE)
    bench.end(PRODUCER, commit=True)
    bench.end(OTHER_PRODUCER, commit=True)
    assert bench.offsets() == {}


def test_deleting_the_group_also_takes_its_offsets_out_of_open_transactions() -> None:
    bench = Transactions()
    bench.commit({("t", 1): 3})
    bench.in_transaction(PRODUCER, 0, 5)
    (result,) = bench.finish(bench.coordinator.delete_groups(("g",)))
    assert result.error_code == 0
    bench.end(PRODUCER, commit=True)
    assert bench.offsets() == {}
