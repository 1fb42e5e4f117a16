"""Our consumers with the protocol of KIP-848 on our own broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.support.groups.readers import PARTITIONS, Reader, fill
from tests.support.waiting import eventually, eventually_returns
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.options import ConfigError
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.topic_subscription import SubscriptionPattern
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.testing.embedded import EmbeddedCluster

NEW: dict[str, Any] = {"group_protocol": "consumer"}
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}


async def wait_until_true(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return once `condition()` is true."""

    async def check() -> None:
        assert await condition()

    await eventually_returns(check, tolerated=(AssertionError,))


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster(config=CONFIG) as cluster:
        yield cluster.bootstrap_servers


async def test_members_share_partitions_and_only_moved_ones_are_revoked(
    servers: str, topic: str, group: str
) -> None:
    await fill(servers, topic, 0, 60)
    async with Reader(servers, topic, group, **NEW) as first:
        await eventually(lambda: len(first.values) == 60)
        async with Reader(servers, topic, group, **NEW) as second:
            await eventually(lambda: len(first.partitions) == len(second.partitions) == 3)
            await fill(servers, topic, 60, 60)
            await eventually(lambda: len(first.values) + len(second.values) == 120)
            assert set(first.values) | set(second.values) == set(range(120))
            revoked = [partitions for kind, partitions in first.log.events if kind == "revoked"]
            assert len(revoked) == 1, "positions were committed, so no record was read twice"
            assert sorted(revoked[0] + first.partitions) == list(range(PARTITIONS))
        await eventually(lambda: len(first.partitions) == PARTITIONS)
        async with Admin(servers) as admin:
            described = (await admin.describe_groups([group]))[group]
            assert not isinstance(described, KafkaError)
            assert (described.group_type, described.protocol, described.state) == (
                "consumer",
                "uniform",
                "Stable",
            )
            assert described.epochs is not None
            (member,) = described.members
            assert member.member_epoch == described.epochs.group_epoch == described.epochs.assignment_epoch
            assert not member.uses_classic_protocol
            assert member.assignment == member.target_assignment


async def test_a_member_that_was_removed_loses_its_partitions_and_joins_again(
    servers: str, topic: str, group: str
) -> None:
    async with Reader(servers, topic, group, **NEW) as reader:
        await eventually(lambda: len(reader.partitions) == PARTITIONS)
        assert reader.consumer._group is not None and reader.consumer._lookup is not None
        member_id = reader.consumer._group.membership.member_id
        leave = LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id=member_id),))
        await reader.consumer._lookup.request(leave, LeaveGroupResponse, 2**62)
        await eventually(lambda: ("lost", list(range(PARTITIONS))) in reader.log.events)
        await eventually(lambda: len(reader.partitions) == PARTITIONS)


async def test_a_consumer_that_does_not_poll_leaves_its_group_and_joins_again(
    servers: str, topic: str, group: str
) -> None:
    idle = Consumer(servers, group_id=group, max_poll_interval_ms=300, **NEW)
    async with idle, Admin(servers) as admin:
        idle.subscribe([topic])
        await wait_until_true(lambda: has_partitions(idle))

        async def is_empty() -> bool:
            return (await admin.list_groups(states=["Empty"])).get(group) is not None

        await wait_until_true(is_empty)
        await wait_until_true(lambda: has_partitions(idle))


async def has_partitions(consumer: Consumer) -> bool:
    await consumer.poll(50)
    return len(consumer.assignment()) == PARTITIONS


async def test_a_pattern_follows_new_topics(servers: str, topic: str, group: str) -> None:
    async with Consumer(servers, group_id=group, metadata_max_age_ms=300, **NEW) as consumer:
        consumer.subscribe(pattern=f"{topic}.*")
        await wait_until_true(lambda: has_partitions(consumer))
        async with Admin(servers) as admin:
            await admin.create_topic(f"{topic}-2", num_partitions=1)

        async def has_read() -> bool:
            await consumer.poll(50)
            return TopicPartition(f"{topic}-2", 0) in consumer.assignment()

        await wait_until_true(has_read)


async def read_values(consumer: Consumer, count: int) -> list[int]:
    """Poll until there are `count` records; return their values."""
    values: list[int] = []

    async def has_all() -> bool:
        for records in (await consumer.poll(50)).values():
            values.extend(int(record.value or b"-1") for record in records)
        return len(values) >= count

    await wait_until_true(has_all)
    return values


async def test_the_coordinator_matches_a_subscription_pattern_and_the_client_knows_only_its_topics(
    servers: str, topic: str, group: str
) -> None:
    await fill(servers, topic, 0, 10)
    await fill(servers, f"other-{topic}", 0, 1)
    consumer = Consumer(servers, group_id=group, auto_offset_reset="earliest", metadata_max_age_ms=300, **NEW)
    async with consumer, Admin(servers) as admin:
        consumer.subscribe(pattern=SubscriptionPattern(f"{topic}.*"))
        assert sorted(await read_values(consumer, 10)) == list(range(10))
        described = (await admin.describe_groups([group]))[group]
        assert not isinstance(described, KafkaError)
        assert [member.subscribed_pattern for member in described.members] == [f"{topic}.*"]
        assert set(consumer._client.metadata.topics) == {topic}
        assert consumer.subscription() == frozenset()
        consumer.subscribe([topic])
        await wait_until_true(lambda: has_partitions(consumer))
        assert {each.topic for each in consumer.assignment()} == {topic}
        consumer.subscribe(pattern=SubscriptionPattern(f"other-{topic}"))
        assert await read_values(consumer, 1) == [0]


@pytest.mark.long
async def test_a_topic_that_is_created_later_is_read_by_its_pattern(
    servers: str, topic: str, group: str
) -> None:
    """Coordinators match patterns at most every ten seconds; tests/interop has this test with librdkafka."""
    await fill(servers, topic, 0, 1)
    consumer = Consumer(servers, group_id=group, auto_offset_reset="earliest", metadata_max_age_ms=300, **NEW)
    async with consumer, Admin(servers) as admin:
        consumer.subscribe(pattern=SubscriptionPattern(f"{topic}.*"))
        assert await read_values(consumer, 1) == [0]
        await admin.create_topic(f"{topic}-2", num_partitions=1)

        async def has_new_topic() -> bool:
            await consumer.poll(50)
            return TopicPartition(f"{topic}-2", 0) in consumer.assignment()

        await wait_until_true(has_new_topic)


async def test_the_coordinator_rejects_an_invalid_subscription_pattern(
    servers: str, topic: str, group: str
) -> None:
    async with Consumer(servers, group_id=group, **NEW) as consumer:
        consumer.subscribe(pattern=SubscriptionPattern("(?=look)"))
        with pytest.raises(KafkaError, match="SubscribedTopicRegex") as error:
            await wait_until_true(lambda: has_partitions(consumer))
        assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("pattern", "options", "text"),
    [("", NEW, "at least one character"), ("t", {}, "needs the option group_protocol='consumer'")],
)
async def test_a_subscription_pattern_that_cannot_be_sent_is_refused(
    servers: str, group: str, pattern: str, options: dict[str, Any], text: str
) -> None:
    async with Consumer(servers, group_id=group, **options) as consumer:
        with pytest.raises(KafkaError, match=text):
            consumer.subscribe(pattern=SubscriptionPattern(pattern))


async def test_a_group_migrates_between_the_protocols(servers: str, topic: str, group: str) -> None:
    async with Reader(servers, topic, group) as classic:
        await eventually(lambda: len(classic.partitions) == PARTITIONS)
        async with Reader(servers, topic, group, **NEW) as new:
            await eventually(lambda: len(classic.partitions) == len(new.partitions) == 3)
        await eventually(lambda: len(classic.partitions) == PARTITIONS)


async def test_a_static_member_keeps_its_partitions_over_a_restart(
    servers: str, topic: str, group: str
) -> None:
    async with Reader(servers, topic, group, **NEW) as other:
        async with Reader(servers, topic, group, group_instance_id="i", **NEW) as static:
            await eventually(lambda: len(static.partitions) == len(other.partitions) == 3)
            before = static.partitions
        async with Reader(servers, topic, group, group_instance_id="i", **NEW) as again:
            await eventually(lambda: again.partitions == before)
        assert len(other.partitions) == 3


async def test_an_unknown_assignor_and_protocol_are_rejected(servers: str, topic: str, group: str) -> None:
    with pytest.raises(ConfigError):
        Consumer(servers, group_id=group, group_protocol="modern")
    async with Consumer(servers, group_id=group, group_remote_assignor="best", **NEW) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(KafkaError) as error:
            await wait_until_true(lambda: has_partitions(consumer))
        assert error.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
