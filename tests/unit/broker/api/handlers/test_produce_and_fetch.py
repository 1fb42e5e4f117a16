"""Produce and Fetch with real partitions: acks, waiting, limits, fencing, and errors."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import cast

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.logs.partition_logs import all_records, append, append_marker
from tests.support.replicas.replica_manager import NODE, NOW_MS, FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.scripted_coordinator import VerificationFixture
from tidelog.base.log_limit import LINES_MAX, LogLimit
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.api.handlers.produce import ProduceHandler
from tidelog.broker.api.handlers.produce_append import ProduceAppender
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.fetch import PartitionData as FetchedPartition
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.record import BatchBuilder, BatchProducer, read_records
from tidelog.storage.log.partition_log import AppendInfo


def batch(*values: bytes, timestamp: int = NOW_MS) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp, None, value)
    return bytes(builder.build())


class Broker:
    """The two handlers over partitions, with a clock that the test advances."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.replicas = Replicas()
        self.timers = Timers(self.clock.monotonic_ms)
        self.produces = Purgatory("Produce", self.timers)
        self.fetches = Purgatory("Fetch", self.timers)
        self.traffic = TopicTraffic()
        flusher = cast(Flusher, None)
        manager = self.replicas.manager
        leaders = CurrentLeaders(lambda: self.replicas.image, manager)
        self.verification = VerificationFixture(self.replicas, self.clock)
        self._produce = ProduceHandler(
            ProduceAppender(
                manager,
                self.fetches,
                self.traffic,
                LogLimit(self.clock.monotonic_ms),
                authorizer=ALLOW_EVERYTHING,
            ),
            manager,
            self.produces,
            flusher,
            leaders,
            self.verification.verifier,
            Slices(self.clock),
        )
        self._fetch = FetchHandler(
            manager,
            FetchSessionCache(10, lambda: 1),
            self.fetches,
            self.traffic,
            self.clock,
            leaders,
            FetchOptions(max_bytes=50_000_000, slices=Slices(self.clock), authorizer=ALLOW_EVERYTHING),
        )

    def produce(
        self,
        records: bytes | None,
        *,
        topic: str = "t",
        partition: int = 0,
        acks: int = 1,
        version: int = 9,
        client_id: str = "test",
    ) -> FakeRequest:
        data = PartitionProduceData(index=partition, records=records)
        message = ProduceRequest(
            acks=acks,
            timeout_ms=1_000,
            topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
        )
        return self.send_produce(message, version, client_id)

    def send_produce(self, message: ProduceRequest, version: int = 9, client_id: str = "test") -> FakeRequest:
        request = FakeRequest(message, version, client_id=client_id)
        self._produce.handle(request)
        return request

    def fetch(
        self,
        *partitions: FetchPartition,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        max_bytes: int = 1_000_000,
        isolation_level: int = 0,
        replica_id: int = -1,
        version: int = 12,
    ) -> FakeRequest:
        message = FetchRequest(
            replica_id=replica_id,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_epoch=-1,
            topics=(FetchTopic(topic="t", partitions=partitions),),
        )
        request = FakeRequest(message, version)
        self._fetch.handle(request)
        return request

    def pass_ms(self, delay_ms: int) -> None:
        self.clock.now_ms += delay_ms
        self.timers.advance()


def at(offset: int, partition: int = 0, max_bytes: int = 1_000_000, epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=epoch
    )


def produce_result(request: FakeRequest) -> PartitionProduceResponse:
    return cast(ProduceResponse, request.response).responses[0].partition_responses[0]


def fetched_partitions(request: FakeRequest) -> list[FetchedPartition]:
    return list(cast(FetchResponse, request.response).responses[0].partitions)


def values(partition: FetchedPartition) -> list[bytes | None]:
    values_read: list[bytes | None] = []
    data, position = bytes(partition.records or b""), 0
    while position < len(data):
        records = read_records(data, position)
        values_read += [record.value for record in records]
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return values_read


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.replicas.create("t", 3)
    return broker


def test_produced_records_are_fetched(broker: Broker) -> None:
    assert produce_result(broker.produce(batch(b"a", b"b"))).base_offset == 0
    assert produce_result(broker.produce(batch(b"c"))).base_offset == 2
    (partition,) = fetched_partitions(broker.fetch(at(0)))
    assert values(partition) == [b"a", b"b", b"c"]
    assert partition.high_watermark == 3


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_with_topic_names_is_supported(broker: Broker, version: int) -> None:
    assert produce_result(broker.produce(batch(b"x"), version=version)).error_code == 0
    assert values(fetched_partitions(broker.fetch(at(0), version=max(4, version)))[0])[-1] == b"x"


def test_refused_records_are_reported_in_the_response(broker: Broker) -> None:
    broker.produce(batch(b"a", b"b"))
    broker.replicas.manager.find("t", None, 0).log.advance_log_start_offset(1)
    late = BatchBuilder()
    for timestamp in (NOW_MS, NOW_MS + 3_600_001, NOW_MS):
        late.append(timestamp, None, b"x")
    answer = produce_result(broker.produce(bytes(late.build())))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert answer.log_start_offset == 1
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert "timestamp" in (answer.record_errors[0].batch_index_error_message or "")


def test_acks_0_has_no_response_and_an_error_closes_the_connection(broker: Broker) -> None:
    assert broker.produce(batch(b"a"), acks=0).answers == [None]
    failed = broker.produce(batch(b"a"), acks=0, topic="nowhere")
    assert failed.answers == []
    assert "UNKNOWN_TOPIC_OR_PARTITION" in failed.closed[0]


def test_other_acks_than_0_1_and_all_are_refused(broker: Broker) -> None:
    assert produce_result(broker.produce(batch(b"a"), acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_unknown_partitions_and_internal_topics_are_refused(broker: Broker) -> None:
    broker.replicas.create("__consumer_offsets")
    unknown = produce_result(broker.produce(batch(b"a"), partition=9))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    internal = produce_result(broker.produce(batch(b"a"), topic="__consumer_offsets"))
    assert internal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    admin = broker.produce(batch(b"a"), topic="__consumer_offsets", client_id="__admin_client")
    assert produce_result(admin).error_code == 0


def test_corrupt_records_are_refused_and_nothing_is_appended(broker: Broker) -> None:
    damaged = bytearray(batch(b"abc"))
    damaged[-2] ^= 1
    assert produce_result(broker.produce(bytes(damaged))).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce_result(broker.produce(None)).error_code == ErrorCode.INVALID_RECORD
    assert broker.replicas.manager.partition(TopicPartition("t", 0)).log.log_end_offset == 0


def test_repeated_corrupt_batches_do_not_fill_the_log(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = bytearray(batch())
    damaged[8:12] = b"\0\0\0\0"
    for _ in range(1_000):
        assert produce_result(broker.produce(bytes(damaged))).error_code == ErrorCode.CORRUPT_MESSAGE
    assert len(caplog.records) == LINES_MAX


def test_kip_890_records_without_a_known_transaction_do_not_delay_read_committed(broker: Broker) -> None:
    builder = BatchBuilder(
        producer=BatchProducer(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    builder.append(NOW_MS, None, b"hanging")
    refused = produce_result(broker.produce(bytes(builder.build())))
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    broker.produce(batch(b"next"))
    assert values(fetched_partitions(broker.fetch(at(0), isolation_level=1))[0]) == [b"next"]


def test_acks_all_is_refused_while_there_are_too_few_in_sync_replicas(broker: Broker) -> None:
    broker.replicas.create("two", replicas=(NODE, 2), min_insync_replicas="2")
    refused = produce_result(broker.produce(batch(b"a"), topic="two", acks=-1))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce_result(broker.produce(batch(b"a"), topic="two", acks=1)).error_code == 0


def test_acks_all_waits_for_the_high_watermark_and_times_out(broker: Broker) -> None:
    broker.replicas.create("two", isr=(NODE, 2))
    partition = broker.replicas.manager.partition(TopicPartition("two", 0))
    waiting = broker.produce(batch(b"a"), topic="two", acks=-1)
    late = broker.produce(batch(b"b"), topic="two", acks=-1)
    assert waiting.answers == late.answers == []
    partition.log.advance_high_watermark(1)
    broker.produces.check_and_complete(partition.topic_partition)
    assert produce_result(waiting).error_code == 0
    broker.pass_ms(1_001)
    assert produce_result(late).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_produce_with_a_repeated_partition_appends_the_last_entry_and_waits_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
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


def test_a_parked_produce_holds_neither_frame_nor_records(broker: Broker) -> None:
    broker.replicas.create("two", isr=(NODE, 2))
    waiting = broker.produce(batch(b"a"), topic="two", acks=-1)
    assert (len(waiting.frame), len(waiting.body)) == (0, 0)
    assert broker.produce(batch(b"b"), topic="two", acks=1).answers


def test_a_parked_produce_that_fails_gets_a_response_without_its_frame(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.replicas.create("two", isr=(NODE, 2))
    partition = broker.replicas.manager.partition(TopicPartition("two", 0))
    waiting = broker.produce(batch(b"a"), topic="two", acks=-1)

    def fault(_partition: Partition, _offset: int) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr(Partition, "commit_outcome", fault)
    broker.produces.check_and_complete(partition.topic_partition)
    assert produce_result(waiting).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_fetch_waits_for_records_and_is_completed_by_a_produce(broker: Broker) -> None:
    waiting = broker.fetch(at(0), max_wait_ms=500)
    assert waiting.answers == []
    broker.produce(batch(b"a"))
    assert values(fetched_partitions(waiting)[0]) == [b"a"]


def test_a_fetch_completes_after_max_wait_ms(broker: Broker) -> None:
    waiting = broker.fetch(at(0), max_wait_ms=500)
    broker.pass_ms(499)
    assert waiting.answers == []
    broker.pass_ms(2)
    (partition,) = fetched_partitions(waiting)
    assert values(partition) == []
    assert partition.error_code == 0


def test_a_waiting_fetch_ends_when_the_client_disconnects(broker: Broker) -> None:
    request = broker.fetch(at(0), max_wait_ms=2**31 - 1)
    assert broker.fetches.delayed_count == 1
    assert request.on_abandoned is not None
    request.on_abandoned(request)
    assert broker.fetches.delayed_count == 0
    broker.produce(batch(b"unread"))
    assert (request.answers, broker.fetches.watched_count) == ([], 0)


@pytest.mark.parametrize("end", ["data", "deadline", "gone"])
def test_a_parked_fetch_holds_no_frame_and_is_removed_at_its_end(broker: Broker, end: str) -> None:
    request = broker.fetch(at(0), max_wait_ms=500)
    assert (len(request.frame), len(request.body)) == (0, 0)
    if end == "data":
        broker.produce(batch(b"a"))
    elif end == "deadline":
        broker.pass_ms(501)
    else:
        request.abandon()
    assert bool(request.answers) == (end != "gone")
    assert (broker.fetches.delayed_count, broker.fetches.watched_count) == (0, 0)
    left = weakref.ref(request)
    del request
    assert left() is None, "neither the purgatory nor a cycle of references keeps the request"


def test_a_parked_fetch_with_a_repeated_partition_is_checked_once_per_produce(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, each Produce checked a thousand operations over a thousand partitions."""
    checks: list[int] = []
    upper_bound = Partition.upper_bound

    def count_call(partition: Partition, isolation: FetchIsolation) -> int:
        checks.append(partition.topic_partition.partition)
        return upper_bound(partition, isolation)

    repeated = [at(0, 1), *(at(number % 7) for number in range(1_000)), at(0)]
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
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.replicas.create("wide", 100)
    size = len(batch(b"a"))
    wide = FetchTopic(topic="wide", partitions=tuple(at(0, index) for index in range(100)))
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
        assert not waiting.answers
    broker.produce(batch(b"a"), topic="wide", partition=7)
    assert [values(each) for each in fetched_partitions(waiting) if each.records] == [[b"a", b"a"], [b"a"]]


def test_a_parked_fetch_that_fails_gets_a_response_without_its_frame(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = broker.fetch(at(0), max_wait_ms=500, version=4)

    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of our own")

    monkeypatch.setattr("tidelog.broker.api.handlers.fetch.read_partitions", fault)
    broker.produce(batch(b"a"))
    (partition,) = fetched_partitions(waiting)
    assert partition.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_fetch_waits_for_min_bytes_over_all_partitions(broker: Broker) -> None:
    size = len(batch(b"a"))
    waiting = broker.fetch(at(0, 0), at(0, 1), max_wait_ms=500, min_bytes=2 * size)
    broker.produce(batch(b"a"), partition=0)
    assert waiting.answers == []
    broker.produce(batch(b"a"), partition=1)
    assert [values(partition) for partition in fetched_partitions(waiting)] == [[b"a"], [b"a"]]


def test_a_fetch_does_not_wait_when_a_partition_has_an_error(broker: Broker) -> None:
    first, second = fetched_partitions(broker.fetch(at(0, 0), at(0, 9), max_wait_ms=500))
    assert first.error_code == 0
    assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_in_one_partition_does_not_affect_fetches_of_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one partition would stop the replication of a thousand partitions."""
    waiting = broker.fetch(at(0, 0), at(0, 1), max_wait_ms=500, min_bytes=10_000)
    broker.produce(batch(b"a"), partition=1)
    upper_bound = Partition.upper_bound

    def fails_at_0(partition: Partition, isolation: FetchIsolation) -> int:
        if partition.topic_partition.partition == 0:
            raise RuntimeError("a bug")
        return upper_bound(partition, isolation)

    monkeypatch.setattr(Partition, "upper_bound", fails_at_0)
    broken, whole = fetched_partitions(broker.fetch(at(0, 0), at(0, 1), max_wait_ms=500))
    assert (broken.error_code, values(whole)) == (ErrorCode.UNKNOWN_SERVER_ERROR, [b"a"])
    broker.produce(batch(b"b"), partition=1)
    broker.fetches.check_and_complete(TopicPartition("t", 0))
    assert [values(each) for each in fetched_partitions(waiting)] == [[], [b"a", b"b"]]


def test_an_error_in_one_partition_does_not_change_the_results_of_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
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
    answers = cast(ProduceResponse, broker.send_produce(message).response).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [0, ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_waiting_fetch_completes_when_its_topic_is_deleted(broker: Broker) -> None:
    from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord

    topic_id = broker.replicas.image.topics_by_name["t"].id
    waiting = broker.fetch(at(0), max_wait_ms=500)
    broker.replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    broker.fetches.check_and_complete(TopicPartition("t", 0))
    assert fetched_partitions(waiting)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_outside_the_log_are_out_of_range(broker: Broker) -> None:
    broker.produce(batch(b"a"))
    assert fetched_partitions(broker.fetch(at(2)))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched_partitions(broker.fetch(at(-1)))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched_partitions(broker.fetch(at(1)))[0].error_code == 0


def test_the_first_partition_with_records_returns_one_batch_of_any_size(broker: Broker) -> None:
    broker.produce(batch(b"x" * 1_000), partition=0)
    broker.produce(batch(b"y" * 1_000), partition=1)
    limited = fetched_partitions(broker.fetch(at(0, 2), at(0, 0, 10), at(0, 1, 10), max_bytes=10))
    assert [values(partition) for partition in limited] == [[], [b"x" * 1_000], []]


def test_older_and_newer_leader_epochs_are_refused(broker: Broker) -> None:
    broker.replicas.create("epochs", leader_epoch=5)
    partition = broker.replicas.manager.partition(TopicPartition("epochs", 0))
    assert partition.leader_epoch == 5
    codes = {}
    for epoch in (-1, 4, 5, 6):
        message = FetchRequest(
            session_epoch=-1, topics=(FetchTopic(topic="epochs", partitions=(at(0, epoch=epoch),)),)
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


def test_a_fetch_with_a_diverging_last_epoch_gets_the_end_of_the_epoch(broker: Broker) -> None:
    broker.produce(batch(b"a", b"b"))
    ahead = replace(at(2), last_fetched_epoch=0, fetch_offset=9)
    (partition,) = fetched_partitions(broker.fetch(ahead))
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (0, 2)


def test_a_client_that_sends_a_replica_id_is_refused(broker: Broker) -> None:
    """CVE-2018-1288: a replica id gives no access to records above the high watermark."""
    broker.produce(batch(b"a"))
    (partition,) = fetched_partitions(broker.fetch(at(0), replica_id=5))
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.records


def test_aborted_transactions_are_returned_for_read_committed_only(
    broker: Broker,
) -> None:
    broker.produce(batch(b"a"))
    assert fetched_partitions(broker.fetch(at(0), isolation_level=1))[0].aborted_transactions == ()
    assert fetched_partitions(broker.fetch(at(0), isolation_level=0))[0].aborted_transactions is None


def test_only_aborted_transactions_of_the_returned_records_are_listed(broker: Broker) -> None:
    log = broker.replicas.manager.partition(TopicPartition("t", 0)).log
    for producer_id in range(1, 4):
        append(log, "undone", producer_id=producer_id, base_sequence=0, is_transactional=True)
        append_marker(log, producer_id, is_abort=True)
    (partition,) = fetched_partitions(broker.fetch(at(2, max_bytes=1), isolation_level=1))
    aborted = partition.aborted_transactions or ()
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(2, 2)]


def test_topic_metrics_count_produced_and_fetched_bytes(broker: Broker) -> None:
    data = batch(b"a", b"b")
    broker.produce(data)
    broker.produce(None)
    broker.fetch(at(0))
    traffic = broker.traffic
    assert (traffic.messages_in, traffic.bytes_in, traffic.bytes_out) == (2, len(data), len(data))
    assert (traffic.produce_requests, traffic.failed_produce_requests) == (2, 1)


def test_expected_client_errors_are_not_counted_as_failures(broker: Broker) -> None:
    """FailedFetchRequestsPerSec does not count leader changes and other expected errors."""
    broker.produce(batch(b"a")[:-1] + b"!")
    broker.produce(batch(b"a"), partition=7)
    broker.fetch(at(0, partition=7), at(99), at(0, partition=1, epoch=9))
    traffic = broker.traffic
    assert (traffic.produce_requests, traffic.failed_produce_requests) == (2, 0)
    assert (traffic.fetch_requests, traffic.failed_fetch_requests) == (3, 0)
