"""A log that is replayed in parts restores the same offsets as one that is replayed record by record."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.groups.coordinator import GroupCoordinatorFixture
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.loading import replay_batches
from tidelog.broker.coordinators.groups.records.coordinator_records import (
    CoordinatorRecord,
    GroupMetadataRecord,
    encode_record,
    group_tombstone,
)
from tidelog.broker.coordinators.groups.records.offset_records import (
    CommittedOffset,
    OffsetCommitRecord,
    offset_commit,
    offset_tombstone,
)
from tidelog.protocol.batch_builder import NO_PRODUCER, BatchBuilder, BatchProducer
from tidelog.protocol.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from tidelog.protocol.errors import DecodeError


class Batch(NamedTuple):
    """Records, those of the transaction of a producer, or the end of its transaction."""

    records: tuple[CoordinatorRecord, ...] = ()
    producer_id: int = -1
    is_commit: bool | None = None


GROUPS, TOPICS, PARTITIONS = st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 2)
OFFSETS = st.tuples(
    st.integers(0, 99), st.integers(0, 9), st.integers(-1, 2), st.sampled_from(("", "", "m"))
).map(lambda values: CommittedOffset(*values))
COMMITS = st.builds(offset_commit, GROUPS, TOPICS, PARTITIONS, OFFSETS)
TOMBSTONES = st.builds(offset_tombstone, GROUPS, TOPICS, PARTITIONS)
PRODUCERS = st.integers(1, 2)


def new_generation(group_id: str) -> GroupMetadataRecord:
    return GroupMetadataRecord(GroupMetadataKey(group=group_id), GroupMetadataValue(generation=1))


RECORDS = COMMITS | COMMITS | TOMBSTONES | st.builds(new_generation, GROUPS) | GROUPS.map(group_tombstone)
# `builds` would also choose the values of parameters that are not named.
BATCHES = (
    st.lists(RECORDS, min_size=1, max_size=8).map(lambda records: Batch(tuple(records)))
    | st.tuples(st.lists(COMMITS, min_size=1, max_size=3).map(tuple), PRODUCERS).map(
        lambda each: Batch(*each)
    )
    | st.tuples(PRODUCERS, st.booleans()).map(lambda each: Batch((), *each))
)


def encoded(batches: list[Batch]) -> bytes:
    """Return the bytes of a log."""
    log = bytearray()
    offset = 0
    for records, producer_id, is_commit in batches:
        producer = BatchProducer(producer_id, 0, is_transactional=True) if producer_id > 0 else NO_PRODUCER
        builder = BatchBuilder(base_offset=offset, producer=producer, is_control=is_commit is not None)
        if is_commit is None:
            for record in records:
                builder.append(1, *encode_record(record))
        else:
            builder.append(1, struct.pack(">hh", 0, int(is_commit)), struct.pack(">hi", 0, 0))
        log += builder.build()
        offset += max(1, len(records))
    return bytes(log)


def replayed_one_by_one(batches: list[Batch]) -> GroupCoordinator:
    coordinator = GroupCoordinatorFixture(log=[(b"", None)]).coordinator
    offset = 0
    for records, producer_id, is_commit in batches:
        if is_commit is not None:
            coordinator.replay_transaction_end(producer_id, is_commit, offset)
            coordinator.advance(offset + 1)
        for number, record in enumerate(records):
            coordinator.replay(record, offset + number, producer_id)
            coordinator.advance(offset + number + 1)
        offset += max(1, len(records))
    return coordinator


def replayed_in_parts(log: bytes) -> GroupCoordinator:
    coordinator = GroupCoordinatorFixture(log=[(b"", None)]).coordinator
    for _, next_offset in replay_batches(coordinator, log):
        coordinator.advance(next_offset)
    return coordinator


def offsets_of(coordinator: GroupCoordinator) -> tuple[object, ...]:
    """Return all that a restart restores of offsets, and the ids of the groups."""
    store = coordinator._offsets
    return (
        dict(store.latest.items()),
        store.latest.size,
        dict(store.committed.items()),
        store.committed.size,
        sorted(store.in_open_transactions(), key=str),
        {group: sorted(store.keys_in_transactions(group)) for group in "gh"},
        sorted(group.group_id for group in coordinator._groups),
    )


COMMIT = offset_commit("g", "t", 0, CommittedOffset(5, 1))
LATER = offset_commit("g", "t", 0, CommittedOffset(6, 1))


@settings(max_examples=300, deadline=None)
@given(batches=st.lists(BATCHES, max_size=12))
@example([Batch((COMMIT, offset_tombstone("g", "t", 0), LATER))])
@example([Batch((COMMIT,), 1), Batch((LATER,)), Batch(producer_id=1, is_commit=True)])
@example([Batch((COMMIT, group_tombstone("g"), LATER))])
def test_a_log_that_is_replayed_in_parts_restores_the_same_offsets(batches: list[Batch]) -> None:
    assert offsets_of(replayed_in_parts(encoded(batches))) == offsets_of(replayed_one_by_one(batches))


def test_a_batch_with_many_commits_is_replayed_in_parts_of_500_records() -> None:
    records: tuple[OffsetCommitRecord, ...] = tuple(
        offset_commit("g", "t", partition, CommittedOffset(1, 1)) for partition in range(1_001)
    )
    coordinator = GroupCoordinatorFixture(log=[(b"", None)]).coordinator
    assert list(replay_batches(coordinator, encoded([Batch(records)]))) == [
        (500, 500),
        (500, 1_000),
        (1, 1_001),
    ]
    assert coordinator.committed_offsets.size == 1_001


def test_a_damaged_record_is_named_by_its_offset() -> None:
    builder = BatchBuilder(base_offset=7)
    builder.append(1, *encode_record(COMMIT))
    builder.append(1, encode_record(COMMIT)[0], b"\0\4damaged")
    with pytest.raises(DecodeError, match="record at offset 8"):
        replayed_in_parts(bytes(builder.build()))
