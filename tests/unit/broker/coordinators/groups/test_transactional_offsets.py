"""Offsets in transactions: visible after the end marker, and replayed from the log."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.configs import group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.records.offset_records import CommittedOffset, offset_commit
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.protocol.steps import run_steps

PRODUCER, OTHER_PRODUCER = 77, 78
TOPIC_ID = UUID(int=9)


class Transactions(GroupCoordinatorFixture):
    """A fixture that also replays the offsets that producers commit in transactions."""

    def in_transaction(self, producer_id: int, partition: int, offset: int) -> None:
        record = offset_commit(
            "g", "t", partition, CommittedOffset(offset=offset, commit_wall_ms=self.now_ms)
        )
        self.coordinator.replay(record, len(self.log), producer_id)
        self._append()

    def commit_in_transaction(
        self,
        offset: int = 5,
        *,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = None,
    ) -> ErrorCode:
        """Send a TxnOffsetCommit request; return the error of its partition or of the request."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            group_id="g",
            producer_id=PRODUCER,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
        )
        try:
            offsets = self.coordinator.transactional_offsets
            prepared = run_steps(offsets.prepare(request, {"t": TOPIC_ID}, self.now))
            reply, writes = offsets.commit(request, prepared)
        except KafkaError as error:
            return error.code
        for record in writes.records:
            self.coordinator.replay(record, len(self.log), PRODUCER)
            self._append()
        return ErrorCode(reply.topics[0].partitions[0].error_code)

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.append_end(producer_id, commit=commit)
        self.replicate()

    def append_end(self, producer_id: int, *, commit: bool) -> None:
        """Append a marker to the log of the leader; no follower has it."""
        self.coordinator.replay_transaction_end(producer_id, commit, len(self.log))
        self.log.append((b"", None))

    def replicate(self) -> None:
        self.coordinator.advance(len(self.log))

    def _append(self) -> None:
        self.log.append((b"", None))
        self.replicate()


def test_an_offset_in_a_transaction_is_visible_after_the_commit() -> None:
    fixture = Transactions()
    fixture.in_transaction(PRODUCER, 0, 5)
    assert fixture.offset("t", 0) == (-1, ErrorCode.NONE)
    assert fixture.offset("t", 0, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fixture.state() == "Empty"
    fixture.end(PRODUCER, commit=True)
    assert fixture.offset("t", 0, require_stable=True) == (5, ErrorCode.NONE)


def test_an_offset_in_an_aborted_transaction_is_not_visible() -> None:
    fixture = Transactions()
    fixture.commit({("t", 0): 3})
    fixture.in_transaction(PRODUCER, 0, 5)
    assert fixture.offset("t", 0) == (3, ErrorCode.NONE)
    fixture.end(PRODUCER, commit=False)
    assert fixture.offset("t", 0, require_stable=True) == (3, ErrorCode.NONE)


@pytest.mark.parametrize("commit", [False, True])
def test_an_offset_is_unstable_until_the_marker_of_its_transaction_is_replicated(commit: bool) -> None:
    fixture = Transactions()
    fixture.commit({("t", 0): 3})
    fixture.in_transaction(PRODUCER, 0, 5)
    fixture.append_end(PRODUCER, commit=commit)
    assert fixture.offset("t", 0, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fixture.offset("t", 0) == (3, ErrorCode.NONE)
    fixture.replicate()
    assert fixture.offset("t", 0, require_stable=True) == (5 if commit else 3, ErrorCode.NONE)


def test_partitions_outside_of_the_transaction_are_stable() -> None:
    fixture = Transactions()
    fixture.commit({("t", 1): 3})
    fixture.in_transaction(PRODUCER, 0, 5)
    assert fixture.offset("t", 1, require_stable=True) == (3, ErrorCode.NONE)


def test_a_later_committed_offset_prevails_over_the_transactions() -> None:
    fixture = Transactions()
    fixture.in_transaction(PRODUCER, 0, 5)
    fixture.commit({("t", 0): 9})
    fixture.end(PRODUCER, commit=True)
    assert fixture.offset("t", 0) == (9, ErrorCode.NONE)


def test_a_partition_is_unstable_until_both_of_its_transactions_end() -> None:
    fixture = Transactions()
    fixture.in_transaction(PRODUCER, 0, 5)
    fixture.in_transaction(PRODUCER, 0, 6)
    fixture.in_transaction(OTHER_PRODUCER, 0, 7)
    fixture.end(PRODUCER, commit=True)
    assert fixture.offset("t", 0, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    fixture.end(OTHER_PRODUCER, commit=False)
    assert fixture.offset("t", 0, require_stable=True) == (6, ErrorCode.NONE)


def test_the_end_of_a_transaction_without_offsets_changes_nothing() -> None:
    fixture = Transactions()
    fixture.end(PRODUCER, commit=True)
    assert fixture.offsets() == {}


def test_neither_offset_nor_group_expires_while_a_transaction_is_open() -> None:
    fixture = Transactions(group_config(offsets_retention_minutes=1))
    fixture.commit({("t", 0): 3})
    fixture.in_transaction(PRODUCER, 0, 5)
    fixture.pass_time(3_600_000)
    assert fixture.expire() == 0
    fixture.end(PRODUCER, commit=False)
    assert fixture.expire() == 2


def test_deleting_an_offset_removes_it_from_open_transactions() -> None:
    fixture = Transactions()
    fixture.in_transaction(PRODUCER, 0, 5)
    fixture.in_transaction(OTHER_PRODUCER, 0, 6)
    topic = OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),))
    fixture.finish(fixture.coordinator.offsets.delete(OffsetDeleteRequest(group_id="g", topics=(topic,))))
    assert fixture.offset("t", 0, require_stable=True) == (-1, ErrorCode.NONE)
    fixture.end(PRODUCER, commit=True)
    fixture.end(OTHER_PRODUCER, commit=True)
    assert fixture.offsets() == {}


def test_deleting_the_group_removes_its_offsets_from_open_transactions() -> None:
    fixture = Transactions()
    fixture.commit({("t", 1): 3})
    fixture.in_transaction(PRODUCER, 0, 5)
    (result,) = fixture.finish(fixture.coordinator.administration.delete_groups(("g",)))
    assert result.error_code == 0
    fixture.end(PRODUCER, commit=True)
    assert fixture.offsets() == {}


def test_kip_447_a_commit_with_the_current_generation_is_accepted() -> None:
    fixture = Transactions()
    (member,) = fixture.stable_group(1)
    assert fixture.commit_in_transaction(member_id=member, generation=1) is ErrorCode.NONE
    assert fixture.offset("t", 0, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    fixture.end(PRODUCER, commit=True)
    assert fixture.offset("t", 0, require_stable=True) == (5, ErrorCode.NONE)


def test_kip_447_a_commit_with_a_stale_generation_is_refused() -> None:
    fixture = Transactions()
    zombie, other = fixture.stable_group(2)
    fixture.leave((zombie, None))
    assert fixture.commit_in_transaction(member_id=zombie, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    rejoined = fixture.join(member_id=other)
    assert rejoined.error is ErrorCode.NONE
    assert fixture.commit_in_transaction(member_id=other, generation=1) is ErrorCode.ILLEGAL_GENERATION
    # The current generation is accepted also while the group waits for an assignment.
    assert fixture.commit_in_transaction(member_id=other, generation=2) is ErrorCode.NONE


def test_kip_447_a_commit_of_a_replaced_static_member_is_fenced() -> None:
    fixture = Transactions()
    first = fixture.join(instance="i")
    fixture.pass_time(3_000)
    member = first.reply.member_id
    fixture.sync_all([member], 1)
    again = fixture.join(instance="i").reply.member_id
    fenced = fixture.commit_in_transaction(member_id=member, generation=1, instance="i")
    assert fenced is ErrorCode.FENCED_INSTANCE_ID
    assert fixture.commit_in_transaction(member_id=again, generation=1, instance="i") is ErrorCode.NONE


@pytest.mark.parametrize("has_members", [False, True])
def test_commits_without_generation_from_before_kip_447_are_accepted(has_members: bool) -> None:
    fixture = Transactions()
    if has_members:
        fixture.stable_group(1)
    assert fixture.commit_in_transaction() is ErrorCode.NONE


def test_an_unknown_group_has_no_generations() -> None:
    fixture = Transactions()
    assert fixture.commit_in_transaction(member_id="m", generation=3) is ErrorCode.ILLEGAL_GENERATION
    assert fixture.commit_in_transaction() is ErrorCode.NONE
    assert fixture.state() == "Empty"


def test_a_transactional_commit_does_not_extend_a_session() -> None:
    fixture = Transactions()
    (member,) = fixture.stable_group(1)
    fixture.pass_time(6_000)
    assert fixture.commit_in_transaction(member_id=member, generation=1) is ErrorCode.NONE
    fixture.pass_time(5_000)
    assert fixture.state() == "Empty"


def test_oversized_metadata_is_refused_in_a_transaction() -> None:
    fixture = Transactions(group_config(offset_metadata_max_bytes=3))
    assert fixture.commit_in_transaction(metadata="four") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert fixture.commit_in_transaction(metadata="two") is ErrorCode.NONE
    fixture.end(PRODUCER, commit=True)
    (topic,) = run_steps(fixture.coordinator.offset_fetch.fetch_all("g", True))
    assert (topic.topic_id, topic.partitions[0].metadata) == (TOPIC_ID, "two")


def test_the_offset_of_a_deleted_topic_is_not_restored_by_the_end_of_a_transaction() -> None:
    fixture = Transactions()
    fixture.commit_in_transaction(5)
    fixture.perform(fixture.coordinator.offsets.delete_of_topics({"t": TOPIC_ID}))
    fixture.end(PRODUCER, commit=True)
    assert fixture.offsets() == {}
