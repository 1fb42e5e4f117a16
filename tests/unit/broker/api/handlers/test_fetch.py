"""Fetch of a leader: waiting, errors of partitions, epochs and aborted transactions."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import cast

import pytest

from tests.support.logs.partition_logs import append, append_marker
from tests.support.replicas.produce_and_fetch import LeaderBroker, batch, fetch_at, fetched_partitions, values
from tests.support.replicas.replica_manager import FakeRequest
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchRequest, FetchTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.storage.log.partition_log import AppendInfo


@pytest.fixture
def broker() -> LeaderBroker:
    broker = LeaderBroker()
    broker.replicas.create("t", 3)
    return broker


def test_a_fetch_waits_for_records_and_is_completed_by_a_produce(broker: LeaderBroker) -> None:
    waiting = broker.fetch(fetch_at(0), max_wait_ms=500)
    assert waiting.responses == []
    broker.produce(batch(b"a"))
    assert values(fetched_partitions(waiting)[0]) == [b"a"]


def test_a_fetch_completes_after_max_wait_ms(broker: LeaderBroker) -> None:
    waiting = broker.fetch(fetch_at(0), max_wait_ms=500)
    broker.pass_ms(499)
    assert waiting.responses == []
    broker.pass_ms(2)
    (partition,) = fetched_partitions(waiting)
    assert values(partition) == []
    assert partition.error_code == 0


def test_a_waiting_fetch_ends_when_the_client_disconnects(broker: LeaderBroker) -> None:
    request = broker.fetch(fetch_at(0), max_wait_ms=2**31 - 1)
    assert broker.fetches.delayed_count == 1
    assert request.on_abandoned is not None
    request.on_abandoned(request)
    assert broker.fetches.delayed_count == 0
    broker.produce(batch(b"unread"))
    assert (request.responses, broker.fetches.watched_count) == ([], 0)


@pytest.mark.parametrize("end", ["data", "deadline", "gone"])
def test_a_parked_fetch_holds_no_frame_and_is_removed_at_its_end(broker: LeaderBroker, end: str) -> None:
    request = broker.fetch(fetch_at(0), max_wait_ms=500)
    assert (len(request.frame), len(request.body)) == (0, 0)
    if end == "data":
        broker.produce(batch(b"a"))
    elif end == "deadline":
        broker.pass_ms(501)
    else:
        request.abandon()
    assert bool(request.responses) == (end != "gone")
    assert (broker.fetches.delayed_count, broker.fetches.watched_count) == (0, 0)
    left = weakref.ref(request)
    del request
    assert left() is None, "neither the purgatory nor a cycle of references keeps the request"


def test_a_parked_fetch_with_a_repeated_partition_is_checked_once_per_produce(
    broker: LeaderBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, each Produce checked a thousand operations over a thousand partitions."""
    checks: list[int] = []
    upper_bound = Partition.upper_bound

    def count_call(partition: Partition, isolation: FetchIsolation) -> int:
        checks.append(partition.topic_partition.partition)
        return upper_bound(partition, isolation)

    repeated = [fetch_at(0, 1), *(fetch_at(number % 7) for number in range(1_000)), fetch_at(0)]
    waiting = broker.fetch(*repeated, max_wait_ms=10_000, min_bytes=2**30, max_bytes=2**30)
    assert (broker.fetches.delayed_count, broker.fetches.watched_count) == (1, 2)
    monkeypatch.setattr(Partition, "upper_bound", count_call)
    broker.produce(batch(b"a"))
    assert checks == [0]
    broker.pass_ms(10_001)
    other, repeated_once = fetched_partitions(waiting)
    assert (other.partition_index, repeated_once.partition_index) == (1, 0)
    assert values(repeated_once) == [b"a"], "the last entry counts; the offsets of others are out of range"


def test_a_parked_fetch_of_many_partitions_checks_only_the_one_that_has_changed(
    broker: LeaderBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.replicas.create("wide", 100)
    size = len(batch(b"a"))
    wide = FetchTopic(topic="wide", partitions=tuple(fetch_at(0, index) for index in range(100)))
    message = FetchRequest(
        replica_id=-1,
        max_wait_ms=10_000,
        min_bytes=3 * size,
        max_bytes=2**30,
        session_epoch=-1,
        topics=(wide,),
    )
    waiting = FakeRequest(message, 12)
    broker._fetch.handle(waiting)
    checks: list[int] = []
    upper_bound = Partition.upper_bound

    def count_call(partition: Partition, isolation: FetchIsolation) -> int:
        checks.append(partition.topic_partition.partition)
        return upper_bound(partition, isolation)

    with monkeypatch.context() as patch:
        patch.setattr(Partition, "upper_bound", count_call)
        broker.produce(batch(b"a"), topic="wide", partition=7)
        broker.produce(batch(b"a"), topic="wide", partition=9)
        assert checks == [7, 9]
        assert not waiting.responses
    broker.produce(batch(b"a"), topic="wide", partition=7)
    assert [values(each) for each in fetched_partitions(waiting) if each.records] == [[b"a", b"a"], [b"a"]]


def test_a_parked_fetch_that_fails_gets_a_response_without_its_frame(
    broker: LeaderBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = broker.fetch(fetch_at(0), max_wait_ms=500, version=4)

    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr("tidelog.broker.api.handlers.fetch.read_partitions", fault)
    broker.produce(batch(b"a"))
    (partition,) = fetched_partitions(waiting)
    assert partition.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_fetch_waits_for_min_bytes_over_all_partitions(broker: LeaderBroker) -> None:
    size = len(batch(b"a"))
    waiting = broker.fetch(fetch_at(0, 0), fetch_at(0, 1), max_wait_ms=500, min_bytes=2 * size)
    broker.produce(batch(b"a"), partition=0)
    assert waiting.responses == []
    broker.produce(batch(b"a"), partition=1)
    assert [values(partition) for partition in fetched_partitions(waiting)] == [[b"a"], [b"a"]]


def test_a_fetch_does_not_wait_when_a_partition_has_an_error(broker: LeaderBroker) -> None:
    first, second = fetched_partitions(broker.fetch(fetch_at(0, 0), fetch_at(0, 9), max_wait_ms=500))
    assert first.error_code == 0
    assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_in_one_partition_does_not_affect_fetches_of_others(
    broker: LeaderBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one partition would stop the replication of a thousand partitions."""
    waiting = broker.fetch(fetch_at(0, 0), fetch_at(0, 1), max_wait_ms=500, min_bytes=10_000)
    broker.produce(batch(b"a"), partition=1)
    upper_bound = Partition.upper_bound

    def fail_at_partition_0(partition: Partition, isolation: FetchIsolation) -> int:
        if partition.topic_partition.partition == 0:
            raise RuntimeError("a bug")
        return upper_bound(partition, isolation)

    monkeypatch.setattr(Partition, "upper_bound", fail_at_partition_0)
    broken, whole = fetched_partitions(broker.fetch(fetch_at(0, 0), fetch_at(0, 1), max_wait_ms=500))
    assert (broken.error_code, values(whole)) == (ErrorCode.UNKNOWN_SERVER_ERROR, [b"a"])
    broker.produce(batch(b"b"), partition=1)
    broker.fetches.check_and_complete(TopicPartition("t", 0))
    assert [values(each) for each in fetched_partitions(waiting)] == [[], [b"a", b"b"]]


def test_an_error_in_one_partition_does_not_change_the_results_of_others(
    broker: LeaderBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that receives an error may send records again that are in the log already."""
    append = Partition.append

    def fails_at_1(partition: Partition, *arguments: object) -> AppendInfo:
        if partition.topic_partition.partition == 1:
            raise RuntimeError("a bug")
        return append(partition, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Partition, "append", fails_at_1)
    data = tuple(PartitionProduceData(index=index, records=batch(b"a")) for index in (0, 1))
    message = ProduceRequest(
        acks=1, timeout_ms=1_000, topic_data=(TopicProduceData(name="t", partition_data=data),)
    )
    responses = cast(ProduceResponse, broker.send_produce(message).response).responses[0].partition_responses
    assert [response.error_code for response in responses] == [0, ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_waiting_fetch_completes_when_its_topic_is_deleted(broker: LeaderBroker) -> None:
    from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord

    topic_id = broker.replicas.image.topics_by_name["t"].id
    waiting = broker.fetch(fetch_at(0), max_wait_ms=500)
    broker.replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    broker.fetches.check_and_complete(TopicPartition("t", 0))
    assert fetched_partitions(waiting)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_outside_the_log_are_out_of_range(broker: LeaderBroker) -> None:
    broker.produce(batch(b"a"))
    assert fetched_partitions(broker.fetch(fetch_at(2)))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched_partitions(broker.fetch(fetch_at(-1)))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched_partitions(broker.fetch(fetch_at(1)))[0].error_code == 0


def test_the_first_partition_with_records_returns_one_batch_of_any_size(broker: LeaderBroker) -> None:
    broker.produce(batch(b"x" * 1_000), partition=0)
    broker.produce(batch(b"y" * 1_000), partition=1)
    limited = fetched_partitions(
        broker.fetch(fetch_at(0, 2), fetch_at(0, 0, 10), fetch_at(0, 1, 10), max_bytes=10)
    )
    assert [values(partition) for partition in limited] == [[], [b"x" * 1_000], []]


def test_older_and_newer_leader_epochs_are_refused(broker: LeaderBroker) -> None:
    broker.replicas.create("epochs", leader_epoch=5)
    partition = broker.replicas.manager.partition(TopicPartition("epochs", 0))
    assert partition.leader_epoch == 5
    codes = {}
    for epoch in (-1, 4, 5, 6):
        message = FetchRequest(
            session_epoch=-1, topics=(FetchTopic(topic="epochs", partitions=(fetch_at(0, epoch=epoch),)),)
        )
        request = FakeRequest(message, 12)
        broker._fetch.handle(request)
        codes[epoch] = fetched_partitions(request)[0].error_code
    assert codes == {
        -1: 0,
        4: ErrorCode.FENCED_LEADER_EPOCH,
        5: 0,
        6: ErrorCode.UNKNOWN_LEADER_EPOCH,
    }


def test_a_fetch_with_a_diverging_last_epoch_gets_the_end_of_the_epoch(broker: LeaderBroker) -> None:
    broker.produce(batch(b"a", b"b"))
    ahead = replace(fetch_at(2), last_fetched_epoch=0, fetch_offset=9)
    (partition,) = fetched_partitions(broker.fetch(ahead))
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (0, 2)


def test_a_client_that_sends_a_replica_id_is_refused(broker: LeaderBroker) -> None:
    """CVE-2018-1288: a replica id gives no access to records above the high watermark."""
    broker.produce(batch(b"a"))
    (partition,) = fetched_partitions(broker.fetch(fetch_at(0), replica_id=5))
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.records


def test_aborted_transactions_are_returned_for_read_committed_only(
    broker: LeaderBroker,
) -> None:
    broker.produce(batch(b"a"))
    assert fetched_partitions(broker.fetch(fetch_at(0), isolation_level=1))[0].aborted_transactions == ()
    assert fetched_partitions(broker.fetch(fetch_at(0), isolation_level=0))[0].aborted_transactions is None


def test_only_aborted_transactions_of_the_returned_records_are_listed(broker: LeaderBroker) -> None:
    log = broker.replicas.manager.partition(TopicPartition("t", 0)).log
    for producer_id in range(1, 4):
        append(log, "undone", producer_id=producer_id, base_sequence=0, is_transactional=True)
        append_marker(log, producer_id, is_abort=True)
    (partition,) = fetched_partitions(broker.fetch(fetch_at(2, max_bytes=1), isolation_level=1))
    aborted = partition.aborted_transactions or ()
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(2, 2)]
