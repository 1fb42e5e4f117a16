"""The checks of StreamsGroupHeartbeat requests, with the texts of Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.streams_members import (
    WORD_COUNT,
    streams_coordinator,
)
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)


@pytest.fixture
def coordinator() -> GroupCoordinatorFixture:
    """Return a coordinator that assigns at once."""
    return streams_coordinator()


def refusal(coordinator: GroupCoordinatorFixture, **fields: Any) -> tuple[ErrorCode, str]:
    """Return the error of a joining request with changed fields."""
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        rebalance_timeout_ms=1000,
        topology=WORD_COUNT,
        process_id="p",
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    )
    with pytest.raises(KafkaError) as error:
        coordinator.coordinator.streams.heartbeat(
            Client("c", "h"), replace(request, **fields), coordinator.now
        )
    return error.value.code, str(error.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"task_offsets": (TaskOffset(),)}, "TaskOffsets are not supported yet."),
        ({"task_end_offsets": ()}, "TaskEndOffsets are not supported yet."),
        ({"warmup_tasks": (RequestTaskIds(),)}, "WarmupTasks are not supported yet."),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": (RequestTaskIds(),)}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": None}, "StandbyTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (
            {"member_epoch": 1, "topology": None, "standby_tasks": None},
            "If one task-type is non-null, all must be non-null.",
        ),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
        (
            {"topology": Topology(subtopologies=(Subtopology(source_topic_regex=("a.*",)),))},
            "Regular expressions for source topics are not supported yet.",
        ),
    ],
)
def test_invalid_requests_have_kafkas_errors(
    coordinator: GroupCoordinatorFixture, fields: dict[str, Any], text: str
) -> None:
    assert refusal(coordinator, **fields) == (ErrorCode.INVALID_REQUEST, text)


def test_a_changelog_topic_must_not_have_a_partition_count(coordinator: GroupCoordinatorFixture) -> None:
    topic = TopicInfo(name="changelog", partitions=3)
    topology = Topology(
        subtopologies=(Subtopology(source_topics=("lines",), state_changelog_topics=(topic,)),)
    )
    assert refusal(coordinator, topology=topology) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "Changelog topic changelog must have an undefined partition count, but it is set to 3.",
    )
