"""Actions of a follower's state machine on real logs."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import TOPIC_PARTITION, append, batch, open_log, values_of
from tests.support.logs.tiered_logs import tiered_log
from tidelog.broker.replication.follower_log import apply_action
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.cluster.replication.follower_state import (
    Append,
    FollowedPartition,
    RestartAt,
    RestartFromRemote,
    Truncate,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producers.producer_snapshot import encode_snapshot
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

SETTINGS = FollowerSettings(
    replica_id=2,
    partition_max_bytes=1 << 20,
    max_bytes=1 << 20,
    min_bytes=1,
    max_wait_ms=0,
    backoff_ms=1_000,
)


@dataclass
class FollowerFixture:
    """One real log that is followed in leader epoch 5."""

    log: PartitionLog
    fetcher: FollowerFetcher

    @property
    def partition(self) -> FollowedPartition:
        return self.fetcher.partitions[TOPIC_PARTITION]

    def append(
        self, records: bytes | bytearray, *, high_watermark: int = 0, log_start_offset: int = 0
    ) -> bool:
        action = Append(
            self.partition, self.log.log_end_offset, memoryview(records), high_watermark, log_start_offset
        )
        moved = apply_action(action, self.log, NOW_MS)
        self.fetcher.on_action_performed(action)
        return moved


@pytest.fixture
def follower() -> FollowerFixture:
    log = open_log(CrashFileSystem())
    fetcher = FollowerFetcher(SETTINGS)
    fetcher.add(TOPIC_PARTITION, UUID(int=1), 5, log)
    return FollowerFixture(log, fetcher)


@pytest.fixture
def follower_behind_the_tier() -> FollowerFixture:
    """Offsets 0 to 3 are in the tier, of epochs 0 and 2; the next records have epoch 5."""
    log = tiered_log()
    append(log, "what the leader does not have any more on its disk", leader_epoch=0)
    fetcher = FollowerFetcher(SETTINGS)
    fetcher.add(TOPIC_PARTITION, UUID(int=1), 5, log)
    following = FollowerFixture(log, fetcher)
    producer = ProducerEntry(producer_id=77, producer_epoch=0)
    producer.batches.append(BatchMetadata(0, 3, 0, NOW_MS))
    epochs = (EpochEntry(0, 0), EpochEntry(2, 2), EpochEntry(5, 4))
    restart = RestartFromRemote(following.partition, 4, 0, epochs, encode_snapshot([producer]), "test")
    assert not apply_action(restart, log, NOW_MS), "readers see no further records"
    return following


def records(*values: str, base_offset: int = 0, leader_epoch: int = 5) -> bytes:
    return bytes(batch(values, base_offset=base_offset, leader_epoch=leader_epoch))


def test_batches_are_appended_byte_for_byte_with_their_epochs(follower: FollowerFixture) -> None:
    sent = records("a", leader_epoch=3) + records("b", "c", base_offset=1, leader_epoch=5)
    assert follower.append(sent, high_watermark=1)
    read = follower.log.read(0, 1 << 20).records
    assert read is not None and read.read() == sent
    assert follower.log.leader_epochs.entries == [(3, 0), (5, 1)]
    assert (follower.log.log_end_offset, follower.log.high_watermark) == (3, 1)
    assert (follower.partition.fetch_offset, follower.partition.last_fetched_epoch) == (3, 5)


def test_the_high_watermark_is_at_most_the_log_end(follower: FollowerFixture) -> None:
    follower.append(records("a"), high_watermark=100)
    assert follower.log.high_watermark == 1
    assert not follower.append(b"", high_watermark=100), "nothing new can be seen"


def test_the_high_watermark_does_not_decrease_with_a_new_leader(
    follower: FollowerFixture,
) -> None:
    follower.append(records("a", "b"), high_watermark=2)
    follower.append(b"", high_watermark=0)
    assert follower.log.high_watermark == 2


def test_the_log_start_follows_the_leaders(follower: FollowerFixture) -> None:
    follower.append(records("a") + records("b", base_offset=1), high_watermark=2, log_start_offset=1)
    assert follower.log.log_start_offset == 1


def test_an_empty_log_can_start_within_a_batch(follower: FollowerFixture) -> None:
    apply_action(RestartAt(follower.partition, 2, "test"), follower.log, NOW_MS)
    assert follower.log.log_end_offset == 2
    follower.append(records("a", "b", "c", "d", base_offset=0), high_watermark=4, log_start_offset=2)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (2, 4)


def test_batches_of_a_later_epoch_than_the_followed_one_are_refused(follower: FollowerFixture) -> None:
    with pytest.raises(KafkaError) as caught:
        follower.append(records("a", leader_epoch=6))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log.log_end_offset == 0


def test_a_corrupt_batch_is_refused_with_the_whole_response(follower: FollowerFixture) -> None:
    damaged = bytearray(records("a") + records("b", base_offset=1))
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        follower.append(damaged)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log.log_end_offset == 0


def test_a_batch_truncated_by_the_response_limit_is_fetched_again(
    follower: FollowerFixture,
) -> None:
    follower.append(records("a") + records("b", base_offset=1)[:-3])
    assert follower.log.log_end_offset == 1


def test_a_truncation_below_the_high_watermark_is_performed_and_logged(
    follower: FollowerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    append(follower.log, "a", leader_epoch=0)
    append(follower.log, "b", leader_epoch=1)
    apply_action(Truncate(follower.partition, 1, True, "epoch 0 ends at 1"), follower.log, NOW_MS)
    assert values_of(follower.log) == ["a"]
    assert follower.log.high_watermark == 1
    (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "from offset 2 to 1, high watermark 2" in record.getMessage()


def test_a_log_is_restarted_after_remote_records_with_epochs_and_producers(
    follower_behind_the_tier: FollowerFixture,
) -> None:
    log = follower_behind_the_tier.log
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 4, 4)
    assert log.high_watermark == 4, "what is in the tier is committed"
    assert log.leader_epochs.entries == [(0, 0), (2, 2), (5, 4)]
    assert list(log.producers.producers) == [77]
    follower_behind_the_tier.append(records("e", base_offset=4), high_watermark=5)
    assert values_of(log, 4) == ["e"] and log.high_watermark == 5


def test_the_leaders_log_start_is_followed_within_remote_records(
    follower_behind_the_tier: FollowerFixture,
) -> None:
    log = follower_behind_the_tier.log
    follower_behind_the_tier.append(b"", log_start_offset=1)
    assert (log.log_start_offset, log.local_log_start_offset) == (1, 4)
    follower_behind_the_tier.append(b"", log_start_offset=3)
    assert (log.log_start_offset, log.local_log_start_offset) == (3, 4)
    assert log.leader_epochs.entries == [(2, 3), (5, 4)]


def test_an_epoch_without_records_is_removed_when_the_next_leader_lacks_it(
    follower_behind_the_tier: FollowerFixture,
) -> None:
    apply_action(
        Truncate(follower_behind_the_tier.partition, 4, True, "test"), follower_behind_the_tier.log, NOW_MS
    )
    assert follower_behind_the_tier.log.leader_epochs.entries == [(0, 0), (2, 2)]
