"""Control batches equal Kafka's bytes, and corrupt ones are refused."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.kafka_batches import golden_batch
from tidelog.protocol.batch import read_header
from tidelog.protocol.control_batch import (
    ControlMessage,
    ControlRecordType,
    control_batch,
    control_type,
    end_transaction_batch,
    read_control_record,
)
from tidelog.protocol.control_records import (
    EndTxnMarker,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VotersRecord,
    VotersRecordEndpoint,
    VotersRecordVoter,
)
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import Record, read_records

TIMESTAMP = 1_700_000_000_000
VOTERS = (Voter(voter_id=1), Voter(voter_id=2))
QUORUM_BATCHES: list[tuple[str, int, ControlRecordType, ControlMessage]] = [
    (
        "leader change",
        60,
        ControlRecordType.LEADER_CHANGE,
        LeaderChangeMessage(leader_id=1, voters=VOTERS, granting_voters=VOTERS[:1]),
    ),
    (
        "snapshot header",
        0,
        ControlRecordType.SNAPSHOT_HEADER,
        SnapshotHeaderRecord(last_contained_log_timestamp=1_699_999_999_999),
    ),
    ("snapshot footer", 9, ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord()),
    ("kraft version", 1, ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(k_raft_version=1)),
    (
        "voters",
        2,
        ControlRecordType.KRAFT_VOTERS,
        VotersRecord(
            voters=(
                VotersRecordVoter(
                    voter_id=1,
                    voter_directory_id=UUID(int=(1 << 64) + 2),
                    endpoints=(VotersRecordEndpoint(name="CONTROLLER", host="host", port=9093),),
                    k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
                ),
            )
        ),
    ),
]


@pytest.mark.parametrize(("name", "committed"), [("commit", True), ("abort", False)])
def test_transaction_markers_equal_kafkas_bytes(name: str, committed: bool) -> None:
    data = golden_batch(name)
    batch = end_transaction_batch(
        committed=committed,
        coordinator_epoch=21,
        producer_id=77,
        producer_epoch=3,
        timestamp=TIMESTAMP,
        base_offset=50 if committed else 51,
        leader_epoch=4,
    )
    assert batch == data
    header = read_header(batch)
    assert header.is_control and header.is_transactional
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    assert [read_control_record(record) for record in read_records(data)] == [
        (kind, EndTxnMarker(coordinator_epoch=21))
    ]


@pytest.mark.parametrize(("name", "offset", "kind", "message"), QUORUM_BATCHES)
def test_quorum_control_batches_equal_kafkas_bytes(
    name: str, offset: int, kind: ControlRecordType, message: ControlMessage
) -> None:
    batch = control_batch([(kind, message)], timestamp=TIMESTAMP, base_offset=offset, leader_epoch=4)
    assert batch == golden_batch(name)
    header = read_header(batch)
    assert header.is_control and not header.is_transactional
    assert [read_control_record(record) for record in read_records(batch)] == [(kind, message)]


def test_a_batch_may_hold_several_control_records() -> None:
    records_in_batch = [(kind, message) for _, _, kind, message in QUORUM_BATCHES]
    batch = control_batch(records_in_batch, timestamp=TIMESTAMP)
    assert [read_control_record(record) for record in read_records(batch)] == records_in_batch


def control_record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, TIMESTAMP, key, value, ())


def test_unknown_control_types_are_skipped() -> None:
    record = control_record(struct.pack(">hh", 0, 7), b"whatever")
    assert control_type(record.key) == 7
    assert read_control_record(record) is None
    assert read_control_record(control_record(struct.pack(">hh", 0, -1), None)) is None


def test_trailing_bytes_of_newer_versions_are_ignored() -> None:
    record = control_record(struct.pack(">hhi", 1, 1, 99), struct.pack(">hiq", 1, 21, 99))
    assert read_control_record(record) == (ControlRecordType.COMMIT, EndTxnMarker(coordinator_epoch=21))


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1", b"\x80\x00\0\1"])
def test_damaged_keys_are_refused(key: bytes | None) -> None:
    with pytest.raises(DecodeError):
        read_control_record(control_record(key, b"\0\0\0\0\0\1"))


@pytest.mark.parametrize("value", [None, b"", b"\0", b"\0\0", b"\0\0\0\0\0", b"\xff\xff\0\0\0\1"])
def test_damaged_transaction_markers_are_refused(value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        read_control_record(control_record(b"\0\0\0\1", value))


@settings(max_examples=200, deadline=None)
@given(kind=st.sampled_from(ControlRecordType), value=st.binary(max_size=40))
def test_random_values_are_decoded_or_refused(kind: ControlRecordType, value: bytes) -> None:
    try:
        read = read_control_record(control_record(struct.pack(">hh", 0, kind), value))
    except DecodeError:
        return
    assert read is not None and read[0] is kind
