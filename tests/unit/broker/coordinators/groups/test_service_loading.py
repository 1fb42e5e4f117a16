"""Partitions that the group service loads, cannot load, and stops serving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.groups.group_service import GROUP, GroupServiceFixture
from tests.support.groups.state_log import MemoryStateLog
from tests.support.waiting import TIMEOUT_S
from tidelog.broker.coordinators.groups.records.coordinator_records import GroupMetadataRecord, encode_record
from tidelog.broker.coordinators.groups.records.offset_records import CommittedOffset, offset_commit
from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import run_steps


@pytest.fixture
async def fixture() -> AsyncIterator[GroupServiceFixture]:
    fixture = await GroupServiceFixture().start_serving(0)
    yield fixture
    await fixture.service.stop()


async def test_requests_are_refused_before_the_start_and_after_the_stop() -> None:
    fixture = GroupServiceFixture()
    expected = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(2):
        assert await fixture.commit(5) is expected
        assert (await fixture.join()).error_code == expected
        assert fixture.heartbeat("m") is expected
        with pytest.raises(KafkaError) as raised:
            run_steps(fixture.service.list_groups((), ()))
        assert raised.value.code is expected
        await fixture.start_serving(0)
        await fixture.service.stop()


async def test_while_a_partition_is_loading_only_heartbeats_succeed() -> None:
    fixture = GroupServiceFixture()
    await fixture.start_serving()
    fixture.log.read_gate = asyncio.Event()
    fixture.service.on_leadership(0)
    await fixture.settle()
    expected = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await fixture.commit(5) is expected
    assert await fixture.fetch() == (-1, expected)
    assert (await fixture.join()).error_code == expected
    assert fixture.heartbeat("m") is ErrorCode.NONE
    with pytest.raises(KafkaError) as raised:
        run_steps(fixture.service.list_groups((), ()))
    assert raised.value.code is expected
    fixture.log.read_gate.set()
    await fixture.settle()
    assert await fixture.commit(5) is ErrorCode.NONE
    await fixture.service.stop()


async def test_a_partition_that_moves_away_while_loading_is_not_served() -> None:
    fixture = GroupServiceFixture()
    await fixture.start_serving()
    fixture.log.read_gate = asyncio.Event()
    fixture.service.on_leadership(0)
    await fixture.settle()
    fixture.service.on_resignation(0)
    fixture.log.read_gate.set()
    await fixture.settle()
    assert await fixture.commit(5) is ErrorCode.NOT_COORDINATOR
    fixture.service.on_leadership(0)
    await fixture.settle()
    assert await fixture.commit(5) is ErrorCode.NONE
    await fixture.service.stop()


async def test_repeated_leadership_notifications_change_nothing(fixture: GroupServiceFixture) -> None:
    member_id = await fixture.stable_member()
    fixture.service.on_leadership(0)
    await fixture.settle()
    assert fixture.heartbeat(member_id) is ErrorCode.NONE
    fixture.service.on_resignation(1)


async def test_waiting_joins_and_syncs_get_not_coordinator_when_the_partition_moves(
    fixture: GroupServiceFixture,
) -> None:
    joined = fixture.join()
    fixture.service.on_resignation(0)
    assert (await joined).error_code == ErrorCode.NOT_COORDINATOR
    fixture.time.pass_time(1_000_000)


@pytest.mark.parametrize("error", [OSError(5, "EIO"), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)])
async def test_an_unreadable_partition_is_not_served(error: Exception) -> None:
    fixture = GroupServiceFixture()
    fixture.log.read_error = error
    await fixture.start_serving(0)
    assert await fixture.commit(5) is ErrorCode.NOT_COORDINATOR
    assert run_steps(fixture.service.list_groups((), ())) == []
    fixture.service.on_resignation(0)
    fixture.log.read_error = None
    fixture.service.on_leadership(0)
    await fixture.settle()
    assert await fixture.commit(5) is ErrorCode.NONE
    await fixture.service.stop()


async def test_an_unreadable_partition_is_loaded_again_in_the_next_leader_epoch() -> None:
    fixture = GroupServiceFixture()
    fixture.log.read_error = OSError(5, "EIO")
    await fixture.start_serving(0)
    fixture.log.read_error = None
    fixture.service.on_leadership(0)
    await fixture.settle()
    assert await fixture.commit(5) is ErrorCode.NONE
    await fixture.service.stop()


async def test_a_stopped_coordinator_loads_no_partition(fixture: GroupServiceFixture) -> None:
    await fixture.service.stop()
    fixture.service.on_leadership(0)
    await fixture.settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    fixture.service.on_resignation(0)


async def test_a_corrupt_record_prevents_serving_of_its_partition() -> None:
    fixture = GroupServiceFixture()
    fixture.log.append(0, EncodedRecords([(b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\4damaged")]))
    await fixture.start_serving(0)
    assert await fixture.commit(5) is ErrorCode.NOT_COORDINATOR
    await fixture.service.stop()


async def test_an_invalid_group_record_prevents_serving_of_its_partition_only() -> None:
    """Two members claim one instance id; the groups of this node could not even be listed any more."""
    fixture = GroupServiceFixture()
    members = tuple(
        MemberMetadata(
            member_id=member_id,
            group_instance_id="same",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=1_000,
            session_timeout=10_000,
            subscription=b"",
            assignment=b"",
        )
        for member_id in ("one", "other")
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="one", members=members
    )
    record = GroupMetadataRecord(GroupMetadataKey(group=GROUP), value)
    fixture.log.append(0, EncodedRecords([encode_record(record)]))
    await fixture.start_serving(0, 1)
    assert await fixture.commit(5) is ErrorCode.NOT_COORDINATOR
    assert await fixture.commit(5, "a") is ErrorCode.NONE
    assert [group.group_id for group in run_steps(fixture.service.list_groups((), ()))] == ["a"]
    await fixture.service.stop()


async def test_loading_yields_to_others_and_reads_every_record() -> None:
    log = MemoryStateLog()
    log.chunk_batches = 7
    for number in range(40):
        commits = (
            offset_commit(GROUP, "t", index, CommittedOffset(offset=number, commit_wall_ms=1))
            for index in range(100)
        )
        await GroupServiceFixture(log).settle()
        log.append(0, EncodedRecords(map(encode_record, commits)))
    fixture = GroupServiceFixture(log)
    fixture.service.start()
    fixture.service.on_leadership(0)
    turns = 0
    async with asyncio.timeout(TIMEOUT_S):
        while await fixture.fetch() != (39, ErrorCode.NONE):
            turns += 1
            await asyncio.sleep(0)
    assert turns >= 4_000 // 500
    await fixture.service.stop()


def transactional(offset: int, group_offset: int) -> BatchBuilder:
    builder = BatchBuilder(
        base_offset=offset,
        producer=BatchProducer(producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True),
    )
    commit = offset_commit(GROUP, "t", 0, CommittedOffset(offset=group_offset, commit_wall_ms=1))
    builder.append(1, *encode_record(commit))
    return builder


def marker(offset: int, kind: int) -> BatchBuilder:
    builder = BatchBuilder(
        base_offset=offset,
        is_control=True,
        producer=BatchProducer(producer_id=9, producer_epoch=0, is_transactional=True),
    )
    builder.append(1, b"\0\0" + kind.to_bytes(2), b"\0\0\0\0\0\0")
    return builder


@pytest.mark.parametrize(
    ("kinds", "expected", "stable"),
    [
        ([], (-1, ErrorCode.NONE), (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)),
        ([0], (-1, ErrorCode.NONE), (-1, ErrorCode.NONE)),
        ([1], (5, ErrorCode.NONE), (5, ErrorCode.NONE)),
        ([2, 1], (5, ErrorCode.NONE), (5, ErrorCode.NONE)),
    ],
)
async def test_transactions_in_the_log_are_loaded_by_their_end_markers(
    kinds: list[int], expected: tuple[int, ErrorCode], stable: tuple[int, ErrorCode]
) -> None:
    fixture = GroupServiceFixture()
    fixture.log.append_batch(0, lambda offset: transactional(offset, 5))
    for kind in kinds:
        fixture.log.append_batch(0, lambda offset, kind=kind: marker(offset, kind))  # type: ignore[misc]
    await fixture.start_serving(0)
    assert await fixture.fetch() == expected
    assert await fixture.fetch(require_stable=True) == stable
    await fixture.service.stop()
