"""The service of streams groups computes the target assignments of large groups in tasks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from tests.support.configs import group_config
from tests.support.groups.group_service import CLIENT, GROUP, GroupServiceFixture
from tests.support.groups.streams_members import WORD_COUNT
from tidelog.broker.coordinators.groups.streams import target_assignment
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

JOIN = StreamsGroupHeartbeatRequest(
    group_id=GROUP,
    member_id="m",
    rebalance_timeout_ms=1,
    process_id="p",
    topology=WORD_COUNT,
    active_tasks=(),
    standby_tasks=(),
    warmup_tasks=(),
)


@pytest.fixture
async def fixture(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GroupServiceFixture]:
    monkeypatch.setattr(target_assignment, "ELEMENTS_AT_ONCE_MAX", 0)
    fixture = await GroupServiceFixture(config=group_config()).start_serving(0)
    yield fixture
    await fixture.service.stop()


def group_of(fixture: GroupServiceFixture) -> StreamsGroup:
    (shard,) = fixture.service._shards.active_shards()
    group = shard.coordinator._groups.streams.find(GROUP)
    assert group is not None
    return group


async def test_the_target_of_a_large_group_is_written_after_the_response(
    fixture: GroupServiceFixture,
) -> None:
    await fixture.service.streams_groups.heartbeat(CLIENT, JOIN)
    fixture.time.pass_time(3_000)  # the initial delay
    epochs = group_of(fixture).epochs
    assert epochs.assignment_epoch < epochs.group_epoch
    await fixture.service.streams_groups.heartbeat(CLIENT, JOIN)
    assert epochs.assignment_epoch < epochs.group_epoch
    await fixture.settle()
    assert epochs.assignment_epoch == epochs.group_epoch


async def test_a_defect_of_the_assignor_is_logged_and_the_next_heartbeat_computes_again(
    fixture: GroupServiceFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: object) -> object:
        raise ArithmeticError("the test lets the assignor fail")
        yield None

    await fixture.service.streams_groups.heartbeat(CLIENT, JOIN)
    fixture.time.pass_time(3_000)
    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(target_assignment, "assign", fail)
        await fixture.service.streams_groups.heartbeat(CLIENT, JOIN)
        await fixture.settle()
    assert "A task of the coordinator of groups failed" in caplog.text
    epochs = group_of(fixture).epochs
    assert epochs.assignment_epoch < epochs.group_epoch
    await fixture.service.streams_groups.heartbeat(CLIENT, JOIN)
    await fixture.settle()
    assert epochs.assignment_epoch == epochs.group_epoch
