"""ShareFetch and ShareAcknowledge: sessions, waiting, acknowledgements, errors, and remote records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.support.logs.partition_logs import append, append_marker, batch
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import NOW_MS
from tests.support.security.authorizers import DenyingAuthorizer
from tests.support.share_groups.broker import ShareBroker
from tests.support.tier.scripted_reader import move_to_remote
from tidelog.broker.api.handlers.share_fetch import LIMIT_ERROR_WAIT_MS_MAX
from tidelog.broker.coordinators.share.persister import SharePartitionKey
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.share_fetch import ForgottenTopic, PartitionData
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.record import Record, read_records
from tidelog.remote.reading.requests import RemoteRead

GROUP_RESOURCE = 32


def values(result: PartitionData) -> list[str]:
    """Return the values of the acquired records."""
    acquired = {
        offset for one in result.acquired_records for offset in range(one.first_offset, one.last_offset + 1)
    }
    return [
        record.value.decode()
        for record in records_of(result)
        if record.offset in acquired and record.value is not None
    ]


def records_of(result: PartitionData) -> list[Record]:
    """Return all records of a result, without markers of transactions."""
    assert result.records is not None
    records = memoryview(result.records)
    return [
        record
        for position, header in iterate_headers(records)
        if not header.is_control
        for record in read_records(records[position : position + header.size_bytes])
    ]


def ranges(result: PartitionData) -> list[tuple[int, int, int]]:
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in result.acquired_records]


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
    assert not request.answers
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
    assert not request.answers, "100 records are in flight, as many as the group may have"
    await broker.acknowledge(2, (0, 99, [1]))
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["x"]


async def test_the_mode_record_limit_delivers_no_more_records_than_requested() -> None:
    broker = ShareBroker()
    broker.produce("a", "b", "c")
    first = await broker.fetch(0, max_records=2, share_acquire_mode=1)
    second = await broker.fetch(1, max_records=2, share_acquire_mode=1)
    assert (values(first), values(second)) == (["a", "b"], ["c"])


async def test_renewed_locks_expire_later_and_the_request_fetches_nothing() -> None:
    broker = ShareBroker()
    broker.produce("a")
    broker.produce("b")
    await broker.fetch(0, max_records=1)
    broker.pass_ms(20_000)
    request = broker.send(
        1,
        acknowledged=[(0, 0, [4])],
        is_renew_ack=True,
        max_bytes=0,
        min_bytes=0,
        max_records=0,
        max_wait_ms=0,
    )
    (result,) = (await broker.response(request)).responses[0].partitions
    assert result.acknowledge_error_code == 0 and not result.records
    broker.pass_ms(20_000)
    assert (await broker.acknowledge(2, (0, 0, [1]))).error_code == 0


async def test_a_renewal_that_also_fetches_is_invalid() -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0)
    request = broker.send(1, acknowledged=[(0, 0, [4])], is_renew_ack=True)
    response = await broker.response(request)
    assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_a_group_can_forbid_renewals() -> None:
    broker = ShareBroker()
    broker.replicas.replay(
        ConfigRecord(
            resource_type=GROUP_RESOURCE,
            resource_name="g",
            name="share.renew.acknowledge.enable",
            value="false",
        )
    )
    broker.produce("a")
    await broker.fetch(0)
    result = await broker.acknowledge(1, (0, 0, [4]), is_renewal=True)
    assert result.error_code == ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    "acknowledged",
    [
        [(1, 0, [1])],
        [(0, 1, [])],
        [(0, 1, [1, 1, 1])],
        [(0, 1, [5])],
        [(0, 1, [4])],
        [(1, 1, [1]), (0, 0, [1])],
        [(0, 7, [1])],
    ],
)
async def test_invalid_acknowledgements_change_nothing(
    acknowledged: Sequence[tuple[int, int, list[int]]],
) -> None:
    broker = ShareBroker()
    broker.produce("a", "b")
    await broker.fetch(0)
    result = await broker.acknowledge(1, *acknowledged)
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert (await broker.acknowledge(2, (0, 1, [1, 1]))).error_code == 0


async def test_sessions_check_their_epochs() -> None:
    broker = ShareBroker()
    unknown = await broker.response(broker.send(1))
    assert unknown.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    broker.produce("a")
    await broker.fetch(0)
    wrong = await broker.response(broker.send(7))
    assert wrong.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    acknowledging = await broker.response(broker.send(0, acknowledged=[(0, 0, [1])]))
    assert acknowledging.error_code == ErrorCode.INVALID_REQUEST


async def test_the_partitions_of_a_session_change() -> None:
    broker = ShareBroker()
    first = broker.send(0)
    broker.pass_ms(500)
    await broker.response(first)
    broker.produce("x", index=1)
    added = await broker.response(broker.send(1, indexes=(1,)))
    assert {each.partition_index for each in added.responses[0].partitions} >= {1}
    broker.produce("a", index=0)
    forgotten = (ForgottenTopic(topic_id=broker.topic_id, partitions=(0,)),)
    request = broker.send(2, indexes=(), forgotten_topics_data=forgotten)
    await loop_iterations()
    assert not request.answers, "partition 0 is forgotten, and partition 1 has no more records"


async def test_the_last_request_of_a_session_releases_the_records() -> None:
    broker = ShareBroker()
    broker.produce("a", "b")
    await broker.fetch(0, member="m")
    request = broker.send(-1, acknowledged=[(0, 0, [1])])
    await broker.response(request)
    await loop_iterations()
    result = await broker.fetch(0, member="n")
    assert ranges(result) == [(1, 1, 1)], "the delivery to a member that left does not count"
    assert len(broker.sessions.sessions) == 1


async def test_records_of_a_forgotten_partition_can_be_acknowledged_and_are_released_with_the_session() -> (
    None
):
    broker = ShareBroker()
    broker.produce("a", "b")
    await broker.fetch(0, member="m")
    forgotten = (ForgottenTopic(topic_id=broker.topic_id, partitions=(0,)),)
    removal = broker.send(1, indexes=(1,), forgotten_topics_data=forgotten)
    broker.produce("x", index=1)
    await broker.response(removal)
    assert (await broker.acknowledge(2, (0, 0, [1]))).error_code == 0
    await broker.response(broker.send(-1, indexes=()))
    result = await broker.fetch(0, member="n")
    assert ranges(result) == [(1, 1, 1)]


async def test_records_acquired_while_the_connection_ends_are_released() -> None:
    broker = ShareBroker()
    client = ConnectedClient()
    broker.persister.may_write.clear()
    broker.produce("a", "b")
    await broker.fetch(0, member="m", client=client)
    # The response of the second fetch waits for its acknowledgement.
    broker.produce("c")
    last = broker.send(1, member="m", client=client, acknowledged=[(0, 0, [1])])
    client.on_disconnected()
    broker.persister.may_write.set()
    await broker.response(last)
    await loop_iterations()
    result = await broker.fetch(0, member="n")
    assert ranges(result) == [(1, 1, 1), (2, 2, 1)]


async def test_a_limit_below_the_number_of_partitions_does_not_delay_a_fetch() -> None:
    broker = ShareBroker()
    broker.produce("a")
    broker.produce("b", index=1)
    response = await broker.response(broker.send(0, indexes=(0, 1, 2), max_bytes=2))
    records = [values(each) for topic in response.responses for each in topic.partitions]
    assert [text for each in records for text in each] == ["a"]


async def test_records_are_released_when_the_connection_of_the_member_ends() -> None:
    broker = ShareBroker()
    broker.produce("a")
    client = ConnectedClient()
    await broker.fetch(0, member="m", client=client)
    request = broker.send(0, member="n")
    await loop_iterations()
    client.on_disconnected()
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["a"]
    assert broker.sessions.disconnected_count == 1


async def test_share_partitions_of_a_group_without_members_are_dropped() -> None:
    broker = ShareBroker()
    broker.produce("a")
    client = ConnectedClient()
    await broker.fetch(0, client=client)
    assert len(broker.partitions) == 1
    client.on_disconnected()
    await loop_iterations()
    assert len(broker.partitions) == 0


async def test_records_of_a_group_whose_last_connection_ends_are_delivered_to_its_next_member() -> None:
    broker = ShareBroker()
    broker.produce("a")
    client = ConnectedClient()
    await broker.fetch(0, client=client)
    client.on_disconnected()
    await loop_iterations()
    assert [write.start_offset for write in broker.persister.writes] == [0]
    assert values(await broker.fetch(0, member="n")) == ["a"]


async def test_offsets_that_are_reset_after_the_last_session_has_ended_are_used_by_the_next_one() -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0)
    await broker.acknowledge(-1, (0, 0, [1]))
    await loop_iterations()
    assert len(broker.partitions) == 0
    (state,) = broker.persister.stored.values()
    state.start_offset = 0
    state.states.clear()
    assert values(await broker.fetch(0, member="n")) == ["a"]


async def test_a_share_partition_is_kept_if_a_member_fetches_it_before_its_changes_are_stored() -> None:
    broker = ShareBroker()
    broker.produce("a")
    client = ConnectedClient()
    await broker.fetch(0, client=client)
    broker.persister.may_write.clear()
    client.on_disconnected()
    request = broker.send(0, member="n")
    await loop_iterations()
    broker.persister.may_write.set()
    response = await broker.response(request)
    assert values(response.responses[0].partitions[0]) == ["a"]
    assert len(broker.partitions) == 1


async def test_changes_that_wait_when_the_leader_moves_are_rejected_and_not_stored() -> None:
    broker = ShareBroker()
    broker.produce("a", "b")
    await broker.fetch(0)
    broker.persister.may_write.clear()
    first = asyncio.ensure_future(broker.acknowledge(1, (0, 0, [1])))
    await loop_iterations()
    second = asyncio.ensure_future(broker.acknowledge(2, (1, 1, [1])))
    await loop_iterations()
    broker.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=broker.topic_id, leader=2))
    broker.persister.may_write.set()
    assert (await first).error_code == 0
    assert (await second).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [write.batches[0].last_offset for write in broker.persister.writes] == [0]


async def test_a_client_without_room_for_a_session_gets_the_error_after_the_longest_wait() -> None:
    broker = ShareBroker()
    for number in range(4):
        broker.send(0, member=f"m{number}")
    request = broker.send(0, member="too-many", max_wait_ms=500)
    await loop_iterations()
    assert not request.answers
    broker.pass_ms(500)
    response = await broker.response(request)
    assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


async def test_a_rejected_write_lets_the_member_keep_its_records() -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0)
    broker.persister.write_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    result = await broker.acknowledge(1, (0, 0, [1]))
    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.persister.write_error = ErrorCode.NONE
    assert (await broker.acknowledge(2, (0, 0, [1]))).error_code == 0


async def test_a_fenced_state_drops_the_share_partition() -> None:
    broker = ShareBroker()
    broker.produce("a")
    await broker.fetch(0)
    broker.persister.write_error = ErrorCode.FENCED_STATE_EPOCH
    result = await broker.acknowledge(1, (0, 0, [1]))
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(broker.partitions) == 0


async def test_changes_during_a_write_are_stored_by_the_next_one() -> None:
    broker = ShareBroker()
    broker.produce("a", "b", "c")
    await broker.fetch(0)
    broker.persister.may_write.clear()
    requests = []
    for epoch in (1, 2, 3):
        requests.append(broker.send(epoch, acknowledged=[(epoch - 1, epoch - 1, [1])]))
        await loop_iterations()
    assert not any(request.answers for request in requests)
    broker.pass_ms(500)
    broker.persister.may_write.set()
    for request in requests:
        await broker.response(request)
    assert [len(write.batches) for write in broker.persister.writes] == [1, 2]


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
            resource_type=GROUP_RESOURCE, resource_name="h", name="share.auto.offset.reset", value="earliest"
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
            resource_type=GROUP_RESOURCE,
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
            resource_type=GROUP_RESOURCE,
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
    assert read_request.offset == 0 and not request.answers
    other = broker.send(0, member="n")
    await loop_iterations()
    assert len(broker.tier.reader.reads) == 1 and not other.answers, "one fetch reads the remote records"
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


async def test_a_session_that_a_member_opens_before_the_last_one_has_ended_is_kept() -> None:
    broker = ShareBroker()
    broker.produce("a", "b")
    await broker.fetch(0, max_records=1)
    broker.persister.may_write.clear()
    last_fetch = broker.send(-1, acknowledged=[(0, 0, [1])])
    await loop_iterations()
    next_fetch = broker.send(0)
    await loop_iterations()
    broker.persister.may_write.set()
    assert not (await broker.response(last_fetch)).error_code
    broker.pass_ms(500)
    assert not (await broker.response(next_fetch)).error_code
    broker.produce("c")
    assert values(await broker.fetch(1)) == ["c"]


async def test_the_wait_before_the_error_of_too_many_sessions_is_bounded() -> None:
    broker = ShareBroker()
    for number in range(4):
        broker.send(0, member=f"m{number}")
    request = broker.send(0, member="too-many", max_wait_ms=2**31 - 1)
    await loop_iterations()
    broker.pass_ms(LIMIT_ERROR_WAIT_MS_MAX)
    response = await broker.response(request)
    assert response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


async def test_acknowledgements_of_records_lost_by_an_unclean_election_do_not_apply_to_new_records() -> None:
    broker = ShareBroker()
    broker.produce("a")
    lost = broker.persister.of(SharePartitionKey("g", broker.topic_id, 0))
    lost.states = {1: (2, 1), 2: (2, 1)}
    result = await broker.fetch(0)
    assert values(result) == ["a"]
    broker.produce("b", "c")
    assert values(await broker.fetch(1, acknowledged=[(0, 0, [1])])) == ["b", "c"]
    await broker.response(broker.send(-1))
    await loop_iterations()
    assert values(await broker.fetch(0, member="n")) == ["b", "c"], "also after a reload"
