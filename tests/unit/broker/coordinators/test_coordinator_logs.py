"""Internal topics of coordinators, on the partitions of a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_pair import FOLLOWER, ReplicaPair
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.coordinators import coordinator_logs
from tidelog.broker.coordinators.coordinator_logs import StateTopic, TopicStateLog
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.partitions.leadership_lease import LeadershipLease
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.cluster.topic_names import TRANSACTION_STATE_TOPIC
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.record import read_records

PARTITION = TopicPartition(TRANSACTION_STATE_TOPIC, 0)


@pytest.fixture
async def pair() -> AsyncIterator[ReplicaPair]:
    """Create a topic whose in-sync follower has not fetched anything."""
    pair = ReplicaPair()
    pair.create(TRANSACTION_STATE_TOPIC)
    yield pair
    await pair.fetchers.close()


def log_of(pair: ReplicaPair, *, loads_committed: bool) -> TopicStateLog:
    topic = StateTopic(
        name=TRANSACTION_STATE_TOPIC,
        num_partitions=7,
        load_buffer_size=1_000,
        loads_committed=loads_committed,
    )
    leader = pair.leader
    lease = LeadershipLease(leader.clock, 9_000, leader.clock.monotonic_ms)
    fetches = Purgatory("Fetch", Timers(leader.clock.monotonic_ms))
    return TopicStateLog(topic, leader.manager, lambda: leader.image, fetches, leader.clock, lease)


async def values(log: TopicStateLog) -> list[bytes | None]:
    """Return the values that a coordinator has loaded from the partition."""
    values_read: list[bytes | None] = []
    end_offset = 0
    async for batches in log.read(0):
        for position, header in iterate_headers(batches):
            values_read += [record.value for record in read_records(batches, position, header)]
            end_offset = header.next_offset
    await log.wait_until_committed(0, end_offset)
    return values_read


async def test_appended_records_are_read_from_the_log_start(pair: ReplicaPair) -> None:
    log = log_of(pair, loads_committed=False)
    for number in range(100):
        log.append(0, EncodedRecords([(b"key", b"%d" % number)]))
    assert await values(log) == [b"%d" % number for number in range(100)]


async def test_an_append_is_committed_when_it_is_replicated(pair: ReplicaPair) -> None:
    appended = log_of(pair, loads_committed=True).append(
        0, EncodedRecords([(b"key", b"value"), (b"key", None)])
    )
    committed = asyncio.ensure_future(appended.committed)
    await asyncio.sleep(0)
    assert (appended.base_offset, committed.done()) == (0, False)
    pair.begin()
    await asyncio.wait_for(committed, TIMEOUT_S)


def flush_every_record(pair: ReplicaPair) -> None:
    record = ConfigRecord(
        resource_type=2, resource_name=TRANSACTION_STATE_TOPIC, name="flush.messages", value="1"
    )
    pair.leader.replay(record)


async def test_with_flush_messages_an_append_is_committed_when_the_leader_has_flushed_it_too(
    pair: ReplicaPair,
) -> None:
    """Without that, a power failure of the leader after the response can lose a committed transaction."""
    flush_every_record(pair)
    appended = log_of(pair, loads_committed=True).append(0, EncodedRecords([(b"key", b"value")]))
    committed = asyncio.ensure_future(appended.committed)
    pair.begin()
    leader = pair.leader.manager.partition(PARTITION).leader
    assert leader is not None
    await eventually(lambda: leader.followers[FOLLOWER].log_end_offset == 1)
    await loop_iterations(5)
    assert not committed.done()
    await pair.leader.flusher.finish()
    await asyncio.wait_for(committed, TIMEOUT_S)


async def test_an_append_that_cannot_be_flushed_has_failed(pair: ReplicaPair) -> None:
    flush_every_record(pair)
    appended = log_of(pair, loads_committed=True).append(0, EncodedRecords([(b"key", b"value")]))
    pair.leader.manager.on_directory_failed([PARTITION], "the disk has failed")
    with pytest.raises(KafkaError) as raised:
        await asyncio.wait_for(asyncio.ensure_future(appended.committed), TIMEOUT_S)
    assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_transaction_coordinator_is_loaded_when_the_records_it_read_are_committed(
    pair: ReplicaPair,
) -> None:
    """A decision of the former leader that the followers lack may also be lost with this leader."""
    pair.append(PARTITION, "prepared")
    log = log_of(pair, loads_committed=True)
    loading = asyncio.create_task(values(log))
    await loop_iterations(20)
    assert not loading.done()
    assert await values(log_of(pair, loads_committed=False)) == [b"prepared"]
    pair.begin()
    assert await asyncio.wait_for(loading, TIMEOUT_S) == [b"prepared"]


async def test_loading_ends_when_the_leadership_is_lost(pair: ReplicaPair) -> None:
    pair.append(PARTITION, "prepared")
    loading = asyncio.create_task(values(log_of(pair, loads_committed=True)))
    await asyncio.sleep(0)
    topic_id = pair.leader.image.topics_by_name[TRANSACTION_STATE_TOPIC].id
    pair.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
    with pytest.raises(KafkaError):
        await asyncio.wait_for(loading, TIMEOUT_S)


async def test_the_partition_count_of_a_missing_topic_is_its_configured_one() -> None:
    pair = ReplicaPair()
    assert log_of(pair, loads_committed=False).partition_count() == 7
    pair.create(TRANSACTION_STATE_TOPIC, 2)
    assert log_of(pair, loads_committed=False).partition_count() == 2


async def test_records_that_are_too_large_for_a_batch_are_rejected_before_the_batch_is_built(
    pair: ReplicaPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(pair, loads_committed=False)
    monkeypatch.setattr(coordinator_logs, "BatchBuilder", None)
    with pytest.raises(KafkaError) as refused:
        log.append(0, EncodedRecords([(b"key", bytes(1_000))] * 2_000))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert pair.leader.manager.partition(PARTITION).log.log_end_offset == 0
