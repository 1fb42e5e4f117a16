"""Produce and Fetch with real partitions: acks, waiting, limits, fencing, and errors."""

from __future__ import annotations

from typing import cast

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import all_records
from tests.support.replicas.produce_and_fetch import (
    LeaderBroker,
    batch,
    fetch_at,
    fetched_partitions,
    produce_result,
    values,
)
from tests.support.replicas.replica_manager import NODE
from tidelog.base.log_limit import LINES_MAX
from tidelog.broker.partitions.partition import Partition
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


@pytest.fixture
def broker() -> LeaderBroker:
    broker = LeaderBroker()
    broker.replicas.create("t", 3)
    return broker


def test_produced_records_are_fetched(broker: LeaderBroker) -> None:
    assert produce_result(broker.produce(batch(b"a", b"b"))).base_offset == 0
    assert produce_result(broker.produce(batch(b"c"))).base_offset == 2
    (partition,) = fetched_partitions(broker.fetch(fetch_at(0)))
    assert values(partition) == [b"a", b"b", b"c"]
    assert partition.high_watermark == 3


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_with_topic_names_is_supported(broker: LeaderBroker, version: int) -> None:
    assert produce_result(broker.produce(batch(b"x"), version=version)).error_code == 0
    assert values(fetched_partitions(broker.fetch(fetch_at(0), version=max(4, version)))[0])[-1] == b"x"


def test_refused_records_are_reported_in_the_response(broker: LeaderBroker) -> None:
    broker.produce(batch(b"a", b"b"))
    broker.replicas.manager.find("t", None, 0).log.advance_log_start_offset(1)
    late = BatchBuilder()
    for timestamp in (NOW_MS, NOW_MS + 3_600_001, NOW_MS):
        late.append(timestamp, None, b"x")
    partition = produce_result(broker.produce(bytes(late.build())))
    assert (partition.error_code, partition.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert partition.log_start_offset == 1
    assert [error.batch_index for error in partition.record_errors] == [1]
    assert "timestamp" in (partition.record_errors[0].batch_index_error_message or "")


def test_acks_0_has_no_response_and_an_error_closes_the_connection(broker: LeaderBroker) -> None:
    assert broker.produce(batch(b"a"), acks=0).responses == [None]
    failed = broker.produce(batch(b"a"), acks=0, topic="nowhere")
    assert failed.responses == []
    assert "UNKNOWN_TOPIC_OR_PARTITION" in failed.closed[0]


def test_other_acks_than_0_1_and_all_are_refused(broker: LeaderBroker) -> None:
    assert produce_result(broker.produce(batch(b"a"), acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_unknown_partitions_and_internal_topics_are_refused(broker: LeaderBroker) -> None:
    broker.replicas.create("__consumer_offsets")
    unknown = produce_result(broker.produce(batch(b"a"), partition=9))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    internal = produce_result(broker.produce(batch(b"a"), topic="__consumer_offsets"))
    assert internal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    admin = broker.produce(batch(b"a"), topic="__consumer_offsets", client_id="__admin_client")
    assert produce_result(admin).error_code == 0


def test_corrupt_records_are_refused_and_nothing_is_appended(broker: LeaderBroker) -> None:
    damaged = bytearray(batch(b"abc"))
    damaged[-2] ^= 1
    assert produce_result(broker.produce(bytes(damaged))).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce_result(broker.produce(None)).error_code == ErrorCode.INVALID_RECORD
    assert broker.replicas.manager.partition(TopicPartition("t", 0)).log.log_end_offset == 0


def test_repeated_corrupt_batches_do_not_fill_the_log(
    broker: LeaderBroker, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = bytearray(batch())
    damaged[8:12] = b"\0\0\0\0"
    for _ in range(1_000):
        assert produce_result(broker.produce(bytes(damaged))).error_code == ErrorCode.CORRUPT_MESSAGE
    assert len(caplog.records) == LINES_MAX


def test_kip_890_records_without_a_known_transaction_do_not_delay_read_committed(
    broker: LeaderBroker,
) -> None:
    builder = BatchBuilder(
        producer=BatchProducer(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    builder.append(NOW_MS, None, b"hanging")
    refused = produce_result(broker.produce(bytes(builder.build())))
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    broker.produce(batch(b"next"))
    assert values(fetched_partitions(broker.fetch(fetch_at(0), isolation_level=1))[0]) == [b"next"]


def test_acks_all_is_refused_while_there_are_too_few_in_sync_replicas(broker: LeaderBroker) -> None:
    broker.replicas.create("two", replicas=(NODE, 2), min_insync_replicas="2")
    refused = produce_result(broker.produce(batch(b"a"), topic="two", acks=-1))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce_result(broker.produce(batch(b"a"), topic="two", acks=1)).error_code == 0


def test_acks_all_waits_for_the_high_watermark_and_times_out(broker: LeaderBroker) -> None:
    broker.replicas.create("two", isr=(NODE, 2))
    partition = broker.replicas.manager.partition(TopicPartition("two", 0))
    waiting = broker.produce(batch(b"a"), topic="two", acks=-1)
    late = broker.produce(batch(b"b"), topic="two", acks=-1)
    assert waiting.responses == late.responses == []
    partition.log.advance_high_watermark(1)
    broker.produces.check_and_complete(partition.topic_partition)
    assert produce_result(waiting).error_code == 0
    broker.pass_ms(1_001)
    assert produce_result(late).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_produce_with_a_repeated_partition_appends_the_last_entry_and_waits_once(
    broker: LeaderBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.replicas.create("two", isr=(NODE, 2))
    partition = broker.replicas.manager.partition(TopicPartition("two", 0))
    data = tuple(PartitionProduceData(index=0, records=batch(b"%d" % number)) for number in range(1_000))
    topics = tuple(TopicProduceData(name="two", partition_data=part) for part in (data[:500], data[500:]))
    waiting = broker.send_produce(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics))
    assert (broker.produces.delayed_count, broker.produces.watched_count) == (1, 1)
    assert partition.log.log_end_offset == 1
    checks = []
    committed = Partition.commit_outcome

    def count_call(partition: Partition, offset: int) -> ErrorCode | None:
        checks.append(offset)
        return committed(partition, offset)

    monkeypatch.setattr(Partition, "commit_outcome", count_call)
    partition.log.advance_high_watermark(1)
    broker.produces.check_and_complete(partition.topic_partition)
    assert checks == [1]
    (topic,) = cast(ProduceResponse, waiting.response).responses
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(0, 0)]
    assert [bytes(record.value or b"") for record in all_records(partition.log)] == [b"999"]


def test_a_parked_produce_holds_neither_frame_nor_records(broker: LeaderBroker) -> None:
    broker.replicas.create("two", isr=(NODE, 2))
    waiting = broker.produce(batch(b"a"), topic="two", acks=-1)
    assert (len(waiting.frame), len(waiting.body)) == (0, 0)
    assert broker.produce(batch(b"b"), topic="two", acks=1).responses


def test_a_parked_produce_that_fails_gets_a_response_without_its_frame(
    broker: LeaderBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.replicas.create("two", isr=(NODE, 2))
    partition = broker.replicas.manager.partition(TopicPartition("two", 0))
    waiting = broker.produce(batch(b"a"), topic="two", acks=-1)

    def fault(_partition: Partition, _offset: int) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(Partition, "commit_outcome", fault)
    broker.produces.check_and_complete(partition.topic_partition)
    assert produce_result(waiting).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_topic_metrics_count_produced_and_fetched_bytes(broker: LeaderBroker) -> None:
    data = batch(b"a", b"b")
    broker.produce(data)
    broker.produce(None)
    broker.fetch(fetch_at(0))
    traffic = broker.traffic
    assert (traffic.messages_in, traffic.bytes_in, traffic.bytes_out) == (2, len(data), len(data))
    assert (traffic.produce_requests, traffic.failed_produce_requests) == (2, 1)


def test_expected_client_errors_are_not_counted_as_failures(broker: LeaderBroker) -> None:
    """FailedFetchRequestsPerSec does not count leader changes and other expected errors."""
    broker.produce(batch(b"a")[:-1] + b"!")
    broker.produce(batch(b"a"), partition=7)
    broker.fetch(fetch_at(0, partition=7), fetch_at(99), fetch_at(0, partition=1, epoch=9))
    traffic = broker.traffic
    assert (traffic.produce_requests, traffic.failed_produce_requests) == (2, 0)
    assert (traffic.fetch_requests, traffic.failed_fetch_requests) == (3, 0)
