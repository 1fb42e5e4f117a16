"""Acknowledgements of share groups: their checks, renewals, and changes that are stored or rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.support.loops.yields import loop_iterations
from tests.support.share_groups.broker import ShareBroker
from tests.support.share_groups.results import values
from tidelog.broker.coordinators.share.persister import SharePartitionKey
from tidelog.cluster.image import ResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord


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
            resource_type=int(ResourceType.GROUP),
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
    assert not any(request.responses for request in requests)
    broker.pass_ms(500)
    broker.persister.may_write.set()
    for request in requests:
        await broker.response(request)
    assert [len(write.batches) for write in broker.persister.writes] == [1, 2]


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
