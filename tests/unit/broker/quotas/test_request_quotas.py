"""Produce and Fetch under quotas: throttle times, muted connections, empty responses."""

from __future__ import annotations

import pytest

from tests.support.replicas.produce_and_fetch import LeaderBroker, batch
from tests.support.replicas.replica_manager import FakeRequest
from tidelog.base.sampled_rate import Windows
from tidelog.broker.quotas.request_quotas import (
    EXEMPT_ON_CONTROLLERS,
    NANOSECONDS_PER_PERCENT,
    RequestQuotas,
)
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.messages.vote import VoteRequest
from tidelog.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps


class QuotaBroker(LeaderBroker):
    """A broker with the topic t, and quotas for the user alice."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas.create("t")
        self.quotas = RequestQuotas(self.clock, Windows(11, 1_000))
        self._image = MetadataImage(cluster_id="test")

    def alter(self, key: str, value: float | None) -> None:
        """Set or remove a quota of alice."""
        entity = (EntityData(entity_type="user", entity_name="alice"),)
        delta = MetadataDelta(self._image)
        delta.replay(
            ClientQuotaRecord(entity=entity, key=key, remove=True)
            if value is None
            else ClientQuotaRecord(entity=entity, key=key, value=value)
        )
        self._image = delta.image(self._image.offset + 1, 1)
        self.quotas.update(self._image.client_quotas)

    def request(self, message: ApiMessage, version: int) -> FakeRequest:
        """Return a request as the dispatcher passes it to a handler."""
        request = FakeRequest(message, version)
        if self.quotas.is_enabled:
            request.quota = self.quotas.of(request)
        return request

    def send(self, acks: int = 1, size: int = 1_000) -> FakeRequest:
        data = PartitionProduceData(index=0, records=batch(bytes(size)))
        topics = (TopicProduceData(name="t", partition_data=(data,)),)
        request = self.request(ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics), 9)
        self._produce.handle(request)
        return request

    def read(self, *, replica_id: int = -1, session_epoch: int = -1, session_id: int = 0) -> FakeRequest:
        partitions = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000),)
        message = FetchRequest(
            replica_id=replica_id,
            max_wait_ms=0,
            min_bytes=1,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=(FetchTopic(topic="t", partitions=partitions),),
        )
        request = self.request(message, 12)
        self._fetch.handle(request)
        return request


def produce_response(request: FakeRequest) -> ProduceResponse:
    response = request.response
    assert isinstance(response, ProduceResponse)
    return response


def fetch_response(request: FakeRequest) -> FetchResponse:
    response = request.response
    assert isinstance(response, FetchResponse)
    return response


@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_over_its_quota_is_throttled_and_its_records_are_appended(acks: int) -> None:
    broker = QuotaBroker()
    broker.alter("producer_byte_rate", 100)
    first = broker.send(acks)
    response = produce_response(first)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert response.throttle_time_ms > 0
    assert first.throttle_times_ms == [response.throttle_time_ms]
    broker.pass_ms(response.throttle_time_ms + 11_000)
    assert broker.quotas.produce.entities.items().__next__()[1].rate.value(broker.clock.monotonic_ms()) == 0


def test_a_producer_without_acks_is_muted_for_its_bytes_and_not_for_its_time() -> None:
    broker = QuotaBroker()
    broker.alter("producer_byte_rate", 100)
    request = broker.send(acks=0)
    assert request.responses == [None]
    assert request.throttle_times_ms[0] > 0
    broker.alter("producer_byte_rate", None)
    broker.alter("request_percentage", 0.001)
    request = broker.send(acks=0)
    assert request.quota is not None
    request.quota.on_handler_return(NANOSECONDS_PER_PERCENT)
    assert broker.send(acks=0).throttle_times_ms == []
    assert broker.quotas.exempt_time.value(broker.clock.monotonic_ms()) > 0


def test_a_throttled_fetch_returns_no_records_and_its_bytes_are_not_counted() -> None:
    broker = QuotaBroker()
    broker.send(size=50_000)
    broker.alter("consumer_byte_rate", 1_000)
    request = broker.read()
    response = fetch_response(request)
    assert response.throttle_time_ms == request.throttle_times_ms[0] > 0
    assert response.responses == ()
    ((_, state),) = broker.quotas.fetch.entities.items()
    assert state.rate.value(broker.clock.monotonic_ms()) == 0
    assert (state.throttles, state.throttle_time_ms) == (1, response.throttle_time_ms)
    broker.alter("consumer_byte_rate", 1_000_000)
    response = fetch_response(broker.read())
    assert response.throttle_time_ms == 0
    assert response.responses[0].partitions[0].records


def test_a_fetch_is_limited_to_what_the_quota_allows_at_once() -> None:
    broker = QuotaBroker()
    for _ in range(30):
        broker.send(size=1_000)
    broker.alter("consumer_byte_rate", 1_000)
    records = fetch_response(broker.read()).responses[0].partitions[0].records
    assert records is not None
    assert 5_000 < len(records) <= 10_000


def test_a_throttled_full_fetch_leaves_no_session_and_an_incremental_one_keeps_it() -> None:
    broker = QuotaBroker()
    broker.send(size=50_000)
    broker.alter("consumer_byte_rate", 1_000)
    assert fetch_response(broker.read(session_epoch=0)).session_id == 0
    broker.alter("consumer_byte_rate", None)
    session_id = fetch_response(broker.read(session_epoch=0)).session_id
    assert session_id, "the throttled request has left no session with this id"
    broker.alter("consumer_byte_rate", 1_000)
    throttled = fetch_response(broker.read(session_epoch=1, session_id=session_id))
    assert (throttled.session_id, throttled.responses) == (session_id, ())
    broker.alter("consumer_byte_rate", None)
    assert fetch_response(broker.read(session_epoch=2, session_id=session_id)).error_code == 0


def test_followers_and_transaction_markers_are_exempt() -> None:
    broker = QuotaBroker()
    broker.send(size=50_000)
    for key in ("consumer_byte_rate", "request_percentage"):
        broker.alter(key, 0.001)
    follower = broker.read(replica_id=2)
    markers = broker.request(WriteTxnMarkersRequest(markers=()), 1)
    for request in (follower, markers):
        assert request.quota is not None
        request.quota.on_handler_return(NANOSECONDS_PER_PERCENT)
    assert markers.quota is not None
    assert markers.quota.throttle(markers) == 0
    assert follower.throttle_times_ms == []
    assert len(broker.quotas.request.entities) == 0


def test_requests_of_the_quorum_are_exempt_on_a_controller() -> None:
    broker = QuotaBroker()
    broker.quotas = RequestQuotas(broker.clock, Windows(11, 1_000), EXEMPT_ON_CONTROLLERS)
    broker.alter("request_percentage", 1)
    for message, version, throttle_time_ms in ((VoteRequest(), 2, 0), (DescribeClusterRequest(), 1, 1_000)):
        request = broker.request(message, version)
        assert request.quota is not None
        request.quota.on_handler_return(20 * NANOSECONDS_PER_PERCENT)
        assert request.quota.throttle(request) == throttle_time_ms


def test_a_client_that_uses_too_much_time_is_throttled_for_at_most_one_window() -> None:
    broker = QuotaBroker()
    broker.alter("request_percentage", 1)
    first = broker.request(ListGroupsRequest(), 3)
    assert first.quota is not None
    assert first.quota.throttle(first) == 0
    first.quota.on_handler_return(20 * NANOSECONDS_PER_PERCENT)
    second = broker.request(ListGroupsRequest(), 3)
    assert second.quota is not None
    assert second.quota.throttle(second) == 1_000
    assert second.throttle_times_ms == [1_000]
    assert fetch_response(broker.read()).throttle_time_ms == 1_000


def test_steps_after_the_handler_count_and_give_the_same_result() -> None:
    broker = QuotaBroker()
    broker.alter("request_percentage", 1)
    request = broker.request(ListGroupsRequest(), 3)
    assert request.quota is not None

    def steps() -> Steps[str]:
        broker.clock.now_ms += 100
        with pytest.raises(KeyError):
            yield None
        broker.clock.now_ms += 100
        return f"got {(yield None)}"

    measured = request.quota.measured(steps())
    next(measured)
    assert len(broker.quotas.request.entities) == 0, "the handler counts as a whole"
    request.quota.on_handler_return(0)
    measured.throw(KeyError())
    with pytest.raises(StopIteration) as ended:
        measured.send("bytes")
    assert ended.value.value == "got bytes"
    ((_, state),) = broker.quotas.request.entities.items()
    assert state.rate.value(broker.clock.monotonic_ms()) == pytest.approx(1, rel=0.1)


def test_a_request_without_any_quota_has_none() -> None:
    broker = QuotaBroker()
    assert broker.send().quota is None
    broker.alter("producer_byte_rate", 1_000_000)
    assert broker.send().quota is not None
    broker.alter("producer_byte_rate", None)
    assert broker.send().quota is None
