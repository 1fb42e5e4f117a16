"""Expiration of offsets and groups (KIP-211, KAFKA-8069)."""

from __future__ import annotations

import pytest

from tests.support.configs import group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture, subscription
from tidelog.broker.coordinators.groups.records.coordinator_records import GroupMetadataRecord, decode_record
from tidelog.protocol.codec import encode
from tidelog.protocol.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.steps import run_steps

MINUTE_MS = 60_000
CONFIG = group_config(offsets_retention_minutes=10)
RETENTION_MS = 10 * MINUTE_MS


def group_ids(fixture: GroupCoordinatorFixture) -> list[str]:
    return [group.group_id for group in run_steps(fixture.coordinator.administration.list_groups((), ()))]


def test_offsets_of_a_simple_consumer_expire_individually_after_their_commit() -> None:
    fixture = GroupCoordinatorFixture(CONFIG)
    fixture.commit({("t", 0): 1})
    fixture.pass_time(5 * MINUTE_MS)
    fixture.commit({("t", 1): 2})
    fixture.pass_time(5 * MINUTE_MS - 1)
    assert fixture.expire() == 0
    fixture.pass_time(1)
    assert fixture.expire() == 1
    assert fixture.offsets() == {("t", 1): 2}
    fixture.pass_time(5 * MINUTE_MS)
    assert fixture.expire() == 2
    assert group_ids(fixture) == []
    assert run_steps(fixture.reload().coordinator.administration.list_groups((), ())) == []


def test_offsets_of_a_group_expire_after_it_became_empty() -> None:
    fixture = GroupCoordinatorFixture(CONFIG)
    (one,) = fixture.stable_group(1, session_ms=RETENTION_MS)
    fixture.commit({("t", 0): 1}, member_id=one, generation=1)
    fixture.pass_time(RETENTION_MS - 1)
    fixture.leave((one, None))
    fixture.pass_time(RETENTION_MS - 1)
    assert fixture.expire() == 0
    fixture.pass_time(1)
    assert fixture.expire() == 2
    assert (fixture.offsets(), group_ids(fixture)) == ({}, [])


def test_a_stable_group_keeps_only_offsets_of_subscribed_topics() -> None:
    fixture = GroupCoordinatorFixture(CONFIG)
    (one,) = fixture.stable_group(1, protocols=[("range", subscription("t"))], session_ms=RETENTION_MS * 2)
    fixture.commit({("t", 0): 1, ("u", 0): 2}, member_id=one, generation=1)
    fixture.pass_time(RETENTION_MS)
    assert fixture.expire() == 1
    assert fixture.offsets() == {("t", 0): 1}
    assert fixture.state() == "Stable"


def test_a_rebalancing_group_and_a_non_consumer_group_keep_all_offsets() -> None:
    fixture = GroupCoordinatorFixture(CONFIG)
    (one,) = fixture.stable_group(1, protocols=[("range", subscription("t"))], session_ms=RETENTION_MS * 2)
    fixture.commit({("u", 0): 2}, member_id=one, generation=1)
    fixture.pass_time(RETENTION_MS)
    fixture.join()
    fixture.join(member_id=one, session_ms=RETENTION_MS * 2)
    assert fixture.state() == "PreparingRebalance"
    assert fixture.expire() == 0

    other = GroupCoordinatorFixture(CONFIG)
    (one,) = other.stable_group(
        1, protocol_type="connect", protocols=[("compatible", b"")], session_ms=RETENTION_MS * 2
    )
    other.commit({("u", 0): 2}, member_id=one, generation=1)
    other.pass_time(RETENTION_MS)
    assert other.expire() == 0


def test_a_retention_time_of_a_commit_overrides_the_default() -> None:
    fixture = GroupCoordinatorFixture(CONFIG)
    fixture.commit({("t", 0): 1}, retention_ms=1_000, version=2)
    fixture.commit({("t", 1): 2}, retention_ms=3 * RETENTION_MS, version=2)
    reloaded = fixture.reload()
    for each in (fixture, reloaded):
        each.pass_time(999)
        assert each.expire() == 0
        each.pass_time(1)
        assert each.expire() == 1
        each.pass_time(2 * RETENTION_MS)
        assert each.expire() == 0
        assert each.offsets() == {("t", 1): 2}


def test_an_empty_group_without_offsets_is_removed_unless_a_member_is_joining() -> None:
    fixture = GroupCoordinatorFixture(CONFIG)
    member_id = fixture.join(session_ms=20_000).reply.member_id
    assert fixture.expire() == 0
    join = fixture.join(member_id=member_id)
    fixture.pass_time(3_000)
    assert join.error is ErrorCode.NONE
    assert fixture.expire() == 0
    fixture.leave((member_id, None))
    assert fixture.expire() == 1
    assert group_ids(fixture) == []


@pytest.mark.parametrize("version", [0, 1])
def test_kafka_8069_offsets_of_a_group_without_empty_timestamp_do_not_expire_on_reload(
    version: int,
) -> None:
    fixture = GroupCoordinatorFixture(CONFIG)
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol=None, leader=None)
    raw = version.to_bytes(2, "big") + encode(value, version)
    key = b"\0\2" + encode(GroupMetadataKey(group="g"), 0)
    record = decode_record(key, raw)
    assert isinstance(record, GroupMetadataRecord)
    fixture.commit({("t", 0): 7})
    fixture.log.append((key, raw))
    fixture.pass_time(MINUTE_MS)

    loaded = fixture.reload()
    assert loaded.state() == "Empty"
    assert loaded.expire() == 0
    assert loaded.offsets() == {("t", 0): 7}
    loaded.pass_time(RETENTION_MS - MINUTE_MS)
    assert loaded.expire() == 2


def test_kafka_8069_offsets_of_a_group_with_members_do_not_expire_on_reload() -> None:
    fixture = GroupCoordinatorFixture(CONFIG)
    (one,) = fixture.stable_group(1, session_ms=1_800_000, protocols=[("range", subscription("t"))])
    fixture.commit({("t", 0): 7}, member_id=one, generation=1)
    fixture.now_ms += 100 * RETENTION_MS
    loaded = fixture.reload()
    assert loaded.expire() == 0
    loaded.pass_time(1_800_000)
    assert loaded.state() == "Empty"
    assert loaded.expire() == 0
    assert loaded.offsets() == {("t", 0): 7}
    loaded.pass_time(RETENTION_MS)
    assert loaded.expire() == 2
