"""Fetchers whose leader has the start of its logs only in the remote tier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import append
from tests.support.replicas.replica_pair import LEADER, ReplicaPair
from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tests.support.waiting import eventually
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.replication.fetcher_metrics import report_fetchers
from tidelog.broker.replication.remote_tier import FollowerTier
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.reading.auxiliary import AuxiliaryState
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producers.producer_snapshot import encode_snapshot

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Reader:
    """Returns the same for every segment when `is_open` is set; fails `failures` times before."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.failures = 0
        self.fetch_count = 0
        self.given_up = 0

    async def fetch_auxiliary(self, metadata: RemoteLogSegmentMetadata) -> AuxiliaryState:
        self.fetch_count += 1
        try:
            await self.is_open.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if self.failures:
            self.failures -= 1
            raise RemoteStorageError("503 Slow Down")
        producer = ProducerEntry(producer_id=77, producer_epoch=0)
        producer.batches.append(BatchMetadata(0, metadata.end_offset, 0, NOW_MS))
        return AuxiliaryState([EpochEntry(0, 0)], encode_snapshot([producer]))


class TieredPair:
    """A topic of two partitions; the first one's leader has offsets 0 to 2 in remote storage only, 3
    on disk.
    """

    def __init__(self) -> None:
        self.metadata = InMemoryRemoteLogMetadataManager()
        self.reader = Reader()
        self.pair = ReplicaPair(tier=FollowerTier(self.metadata, self.reader))
        self.pair.create("t", 2, remote_storage_enable="true", local_retention_bytes="1")
        log = self.leader
        append(log, "a", "b", "c", leader_epoch=0)
        log.roll(NOW_MS)
        append(log, "d", leader_epoch=3)
        log.advance_high_watermark(4)
        log.remote_border.raise_highest_offset(2)
        log.retention.apply(NOW_MS)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 3)

    @property
    def leader(self) -> PartitionLog:
        return self.pair.logs(T0)[0]

    @property
    def follower(self) -> PartitionLog:
        return self.pair.logs(T0)[1]

    async def publish(self) -> None:
        """Add the metadata of a remote segment with the offsets 0 to 2."""
        topic_id = self.pair.leader.image.topics_by_name["t"].id
        partition = TopicIdPartition(topic_id, *T0)
        self.metadata.on_partition_leadership_changes((partition,), ())
        segment = RemoteLogSegmentId(partition, UUID(int=5))
        epochs = (EpochEntry(0, 0),)
        await self.metadata.add_remote_log_segment_metadata(
            RemoteLogSegmentMetadata(segment, 0, 2, NOW_MS, LEADER, NOW_MS, 100, epochs)
        )
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        await self.metadata.update_remote_log_segment_metadata(
            RemoteLogSegmentMetadataUpdate(segment, NOW_MS, finished, LEADER)
        )

    async def until_equal(self) -> None:
        """Advance the time until the follower has all records of the leader."""

        def advance() -> bool:
            self.pair.follower.clock.now_ms += 20
            return self.pair.are_equal(T0)

        await eventually(advance)


@pytest.fixture
async def tiered() -> AsyncIterator[TieredPair]:
    tiered = TieredPair()
    yield tiered
    await tiered.pair.fetchers.close()


async def test_a_follower_joins_without_copying_remote_segments(tiered: TieredPair) -> None:
    await tiered.publish()
    tiered.pair.begin()
    await tiered.until_equal()
    log = tiered.follower
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 3, 4)
    assert log.leader_epochs.entries == [(0, 0), (3, 3)]
    assert 77 in log.producers.producers
    assert tiered.reader.fetch_count == 1


async def test_kafka_16105_partitions_are_copied_while_one_waits_for_remote_storage(
    tiered: TieredPair,
) -> None:
    await tiered.publish()
    tiered.reader.is_open.clear()
    tiered.pair.begin()
    await eventually(lambda: tiered.reader.fetch_count == 1)
    for value in ("x", "y", "z"):
        tiered.pair.append(T1, value)
        await eventually(lambda: tiered.pair.are_equal(T1))
    assert tiered.follower.log_end_offset == 0
    tiered.reader.is_open.set()
    await tiered.until_equal()


async def test_late_remote_metadata_is_awaited(tiered: TieredPair) -> None:
    tiered.pair.begin()
    await eventually(lambda: tiered.pair.fetchers.remote_restart_errors == 1)
    await tiered.publish()
    await tiered.until_equal()


async def test_a_failing_remote_storage_is_retried_and_counted(
    tiered: TieredPair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await tiered.publish()
    tiered.reader.failures = 3
    metrics = BrokerMetrics()
    report_fetchers(metrics, tiered.pair.fetchers)
    tiered.pair.begin()
    await tiered.until_equal()
    assert "503 Slow Down" in caplog.text
    text = Exposition(metrics).text()[0].decode()
    assert "buildremotelogauxstaterequests_total 4" in text
    assert "buildremotelogauxstateerrors_total 3" in text


async def test_a_new_leader_epoch_cancels_requests_to_remote_storage(tiered: TieredPair) -> None:
    await tiered.publish()
    tiered.reader.is_open.clear()
    tiered.pair.begin()
    await eventually(lambda: tiered.reader.fetch_count == 1)
    topic_id = tiered.pair.leader.image.topics_by_name["t"].id
    tiered.pair.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=LEADER))
    await eventually(lambda: tiered.reader.given_up == 1)
    tiered.reader.is_open.set()
    tiered.pair.append(T0, "of the new epoch")
    await tiered.until_equal()


async def test_a_stopped_fetcher_sends_no_requests_to_remote_storage(tiered: TieredPair) -> None:
    await tiered.publish()
    tiered.reader.is_open.clear()
    tiered.pair.begin()
    await eventually(lambda: tiered.reader.fetch_count == 1)
    await tiered.pair.fetchers.close()
    assert tiered.reader.given_up == 1


async def test_kip_1023_the_config_is_followed_dynamically(tiered: TieredPair) -> None:
    tiered.pair.begin()
    key = "follower.fetch.last.tiered.offset.enable"
    for value, expected in (("true", True), ("false", False)):
        tiered.pair.follower.replay(
            ConfigRecord(resource_type=4, resource_name="", name=key, value=value),
        )
        (fetcher,) = tiered.pair.fetchers.fetchers
        assert fetcher.core._aux.prefers_last_tiered_offset is expected
