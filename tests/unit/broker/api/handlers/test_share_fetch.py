"""ShareFetch: acquired records, waiting, the start of a group, errors, and remote records."""

from __future__ import annotations

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import append, append_marker, batch
from tests.support.loops.yields import loop_iterations
from tests.support.security.authorizers import DenyingAuthorizer
from tests.support.share_groups.broker import ShareBroker
from tests.support.share_groups.results import ranges, records_of, values
from tests.support.tier.scripted_reader import move_to_remote
from tidelog.broker.coordinators.share.persister import SharePartitionKey
from tidelog.cluster.image import ResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.remote.reading.requests import RemoteRead


async def test_a_member_gets_records_and_accepts_them_with_its_next_fetch() -> None:
    broker = ShareBroker()
    broker.produce("a", "b")
    first = await broker.fetch(0)
    assert values(first) == ["a", "b"] and ranges(first) == [(0, 1, 1)]
    broker.produce("c")
    second = await broker.fetch(1, acknowledged=[(0, 1, [1])])
    assert values(second) == ["c"] and not second.acknowledge_error_code
    state = broker.persister.of(SharePartitionKey("g", broker.topic_id, 0))
    assert state.states == {0: (2, 1), 1: (2, 1)}


async def test_two_members_get_different_records() -> None:
    broker = ShareBroker()
    broker.produce("a")
    broker.produce("b")
    first = await broker.fetch(0, member="m", max_records=1)
    second = await broker.fetch(0, member="n", max_records=1)
    assert (values(first), values(second)) == (["a"], ["b"])


async def test_the_response_has_only_the_batches_with_acquired_records() -> None:
    broker = ShareBroker()
    for value in ("a", "b", "c"):
        broker.produce(value)
    await broker.fetch(0, member="m", max_records=1)
    result = await broker.fetch(0, member="n", max_records=1)
    assert [record.offset for record in records_of(result)] == [1]


async def test_a_fetch_waits_for_records() -> None:
    broker = ShareBroker()
    request = broker.send(0)
    await loop_iterations()
    assert not request.responses
    broker.produce("a")
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["a"]


async def test_a_fetch_without_records_is_empty_after_its_delay() -> None:
    broker = ShareBroker()
    request = broker.send(0)
    await loop_iterations()
    broker.pass_ms(500)
    response = await broker.response(request)
    assert response.responses == () and response.acquisition_lock_timeout_ms == 30_000


async def test_a_waiting_fetch_gets_the_records_that_another_member_releases() -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0, member="m")
    request = broker.send(0, member="n")
    await loop_iterations()
    result = await broker.acknowledge(1, (0, 0, [2]))
    assert result.error_code == 0
    response = await broker.response(request)
    assert ranges(response.responses[0].partitions[0]) == [(0, 0, 2)]


async def test_a_waiting_fetch_gets_records_whose_lock_has_expired() -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0, member="m")
    request = broker.send(0, member="n", max_wait_ms=60_000)
    await loop_iterations()
    broker.pass_ms(30_000)
    response = await broker.response(request)
    assert ranges(response.responses[0].partitions[0]) == [(0, 0, 2)]
    late = await broker.acknowledge(1, (0, 0, [1]))
    assert late.error_code == ErrorCode.INVALID_RECORD_STATE


async def test_a_full_share_partition_delivers_again_only_after_acknowledgements() -> None:
    broker = ShareBroker()
    broker.produce(*map(str, range(100)))
    broker.produce("x")
    await broker.fetch(0)
    request = broker.send(1)
    await loop_iterations()
    assert not request.responses, "100 records are in flight, as many as the group may have"
    await broker.acknowledge(2, (0, 99, [1]))
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["x"]


async def test_the_mode_record_limit_delivers_no_more_records_than_requested() -> None:
    broker = ShareBroker()
    broker.produce("a", "b", "c")
    first = await broker.fetch(0, max_records=2, share_acquire_mode=1)
    second = await broker.fetch(1, max_records=2, share_acquire_mode=1)
    assert (values(first), values(second)) == (["a", "b"], ["c"])


async def test_a_limit_below_the_number_of_partitions_does_not_delay_a_fetch() -> None:
    broker = ShareBroker()
    broker.produce("a")
    broker.produce("b", index=1)
    response = await broker.response(broker.send(0, indexes=(0, 1, 2), max_bytes=2))
    records = [values(each) for topic in response.responses for each in topic.partitions]
    assert [text for each in records for text in each] == ["a"]


async def test_a_state_that_cannot_be_read_is_an_error_of_the_partition() -> None:
    broker = ShareBroker()
    broker.persister.read_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    result = await broker.fetch(0)
    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.persister.read_error = ErrorCode.NONE
    broker.produce("a")
    assert values(await broker.fetch(1)) == ["a"]


async def test_a_new_group_starts_at_the_end_unless_it_is_configured() -> None:
    broker = ShareBroker()
    broker.persister.start_offset = -1
    broker.produce("old")
    request = broker.send(0)
    await loop_iterations()
    broker.produce("new")
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["new"]
    broker.replicas.replay(
        ConfigRecord(
            resource_type=int(ResourceType.GROUP),
            resource_name="h",
            name="share.auto.offset.reset",
            value="earliest",
        )
    )
    assert values(await broker.fetch(0, group_id="h")) == ["old", "new"]


async def test_a_group_can_start_at_a_time_before_now() -> None:
    broker = ShareBroker()
    broker.persister.start_offset = -1
    log = broker.partition().log
    append(log, "old", timestamps=NOW_MS - 100_000)
    append(log, "new", timestamps=NOW_MS - 10_000)
    broker.replicas.replay(
        ConfigRecord(
            resource_type=int(ResourceType.GROUP),
            resource_name="g",
            name="share.auto.offset.reset",
            value="by_duration:PT50S",
        )
    )
    assert values(await broker.fetch(0)) == ["new"]


async def test_aborted_records_are_not_delivered_with_read_committed() -> None:
    broker = ShareBroker()
    broker.replicas.replay(
        ConfigRecord(
            resource_type=int(ResourceType.GROUP),
            resource_name="g",
            name="share.isolation.level",
            value="read_committed",
        )
    )
    log = broker.partition().log
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(log, "aborted", **producer)
    append_marker(log, 5, is_abort=True)
    append(log, "plain")
    append(log, "open", producer_id=6, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert values(await broker.fetch(0)) == ["plain"]


async def test_deleted_records_are_skipped() -> None:
    broker = ShareBroker()
    broker.produce("a", "b")
    broker.produce("c")
    await broker.fetch(0, max_records=1)
    broker.partition().log.advance_log_start_offset(2)
    result = await broker.fetch(1, acknowledged=[(0, 1, [1])])
    assert values(result) == ["c"] and not result.acknowledge_error_code


async def test_waiting_fetches_end_when_the_leader_moves() -> None:
    broker = ShareBroker()
    request = broker.send(0, max_wait_ms=60_000)
    await loop_iterations()
    broker.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=broker.topic_id, leader=2))
    response = await broker.response(request)
    (result,) = response.responses[0].partitions
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (2, 1)
    assert len(broker.partitions) == 0


async def test_waiting_fetches_end_when_the_topic_is_deleted() -> None:
    broker = ShareBroker()
    request = broker.send(0, max_wait_ms=60_000)
    await loop_iterations()
    broker.replicas.replay(RemoveTopicRecord(topic_id=broker.topic_id))
    response = await broker.response(request)
    assert response.responses[0].partitions[0].error_code
    assert len(broker.partitions) == 0
    unknown = await broker.fetch(1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_an_unauthorized_topic_is_an_error_of_its_partitions() -> None:
    broker = ShareBroker(DenyingAuthorizer({"t"}))
    result = await broker.fetch(0)
    assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_an_unauthorized_group_is_an_error_of_the_request() -> None:
    broker = ShareBroker(DenyingAuthorizer({"g"}))
    response = await broker.response(broker.send(0))
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_invalid_members_and_a_disabled_feature_are_rejected() -> None:
    broker = ShareBroker()
    for fields in ({"member_id": ""}, {"member_id": "x" * 37}, {"group_id": ""}, {"group_id": None}):
        response = await broker.response(broker.send(0, **fields))
        assert response.error_code == ErrorCode.INVALID_REQUEST
    broker.is_enabled = False
    response = await broker.response(broker.send(0))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_an_abandoned_fetch_is_removed_from_the_purgatory() -> None:
    broker = ShareBroker()
    request = broker.send(0)
    await loop_iterations()
    assert broker.fetches.delayed_count == 1
    request.abandon()
    assert broker.fetches.delayed_count == 0


async def test_records_in_remote_storage_are_delivered() -> None:
    broker = ShareBroker(remote_storage_enable="true", local_retention_bytes="0")
    log = broker.partition().log
    append(log, "a", "b")
    log.roll(NOW_MS)
    append(log, "c")
    log.roll(NOW_MS)
    move_to_remote(log, 2, NOW_MS)
    request = broker.send(0)
    await loop_iterations()
    ((read_request, outcome),) = broker.tier.reader.reads
    assert read_request.offset == 0 and not request.responses
    other = broker.send(0, member="n")
    await loop_iterations()
    assert len(broker.tier.reader.reads) == 1 and not other.responses, "one fetch reads the remote records"
    outcome.set_result(RemoteRead(bytes(batch(["a", "b"])), 2))
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["a", "b"]
    response = await broker.response(other)
    assert values(response.responses[0].partitions[0]) == ["c"]


async def test_a_failed_remote_read_is_an_error_of_the_partition() -> None:
    broker = ShareBroker(remote_storage_enable="true", local_retention_bytes="0")
    log = broker.partition().log
    append(log, "a")
    log.roll(NOW_MS)
    append(log, "b")
    log.roll(NOW_MS)
    move_to_remote(log, 1, NOW_MS)
    request = broker.send(0)
    await loop_iterations()
    ((_, outcome),) = broker.tier.reader.reads
    outcome.set_exception(OSError("no store"))
    response = await broker.response(request)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.send(1) and len(broker.tier.reader.reads) == 2, "the next fetch reads again"
