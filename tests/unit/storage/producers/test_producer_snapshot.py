"""Producer snapshots: Kafka's bytes, and detection of corruption."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import GOLDEN_FILES
from tidelog.storage.disk.errors import CorruptSnapshot
from tidelog.storage.producers.producer_entry import BatchMetadata, ProducerEntry
from tidelog.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot

GOLDEN = GOLDEN_FILES / "storage"
KAFKAS = (GOLDEN / "producers.snapshot").read_bytes()


def text_of(entry: ProducerEntry) -> str:
    first = entry.transaction_first_offset
    batch = next(iter(entry.batches), None)
    return "{} {} {} {} {} {}".format(
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        "none" if first is None else first,
        "none" if batch is None else f"{batch.first_sequence}-{batch.last_sequence}@{batch.first_offset}",
    )


def test_kafkas_snapshot_is_read() -> None:
    entries = decode_snapshot(KAFKAS, "golden")
    assert [text_of(entry) for entry in entries] == (
        GOLDEN / "producers.snapshot.txt"
    ).read_text().splitlines()
    assert len(entries) > 4
    assert any(entry.transaction_first_offset is not None for entry in entries)


def test_kafkas_snapshot_is_rewritten_with_equal_bytes() -> None:
    assert encode_snapshot(decode_snapshot(KAFKAS, "golden")) == KAFKAS


def test_a_snapshot_without_producers_round_trips() -> None:
    assert decode_snapshot(encode_snapshot([]), "none") == []


def test_a_flipped_bit_is_detected() -> None:
    for bit in range(len(KAFKAS) * 8):
        damaged = bytearray(KAFKAS)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshot, match=r"^/t-0/x\.snapshot: "):
            decode_snapshot(bytes(damaged), "/t-0/x.snapshot")


def test_a_truncated_snapshot_is_detected() -> None:
    for size in range(len(KAFKAS)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(KAFKAS[:size], "x")


@pytest.mark.parametrize("count", [-1, 0, 6, 2**31 - 1])
def test_a_wrong_count_is_detected_before_any_allocation(count: int) -> None:
    body = count.to_bytes(4, "big", signed=True) + KAFKAS[10:]
    data = KAFKAS[:2] + crc32c(body).to_bytes(4, "big") + body
    with pytest.raises(CorruptSnapshot, match=f"{count} entries"):
        decode_snapshot(data, "x")


entries_strategy = st.builds(
    lambda producer_id, epoch, coordinator, timestamp, first, batch: ProducerEntry(
        producer_id, epoch, coordinator, timestamp, first, [] if batch is None else [batch]
    ),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 2**62),
    st.one_of(st.none(), st.integers(0, 2**62)),
    st.none(),
)


@settings(max_examples=100, deadline=None)
@given(
    entries=st.lists(entries_strategy, max_size=20),
    last_sequence=st.integers(0, 2**31 - 1),
    last_offset=st.integers(0, 2**62),
    delta=st.integers(0, 1000),
)
def test_snapshots_round_trip(
    entries: list[ProducerEntry], last_sequence: int, last_offset: int, delta: int
) -> None:
    for entry in entries[::2]:
        entry.batches = [BatchMetadata(last_sequence, last_offset, delta, entry.last_timestamp)]
    assert decode_snapshot(encode_snapshot(entries), "x") == entries


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=120))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        decode_snapshot(data, "x")
    except CorruptSnapshot as damage:
        assert damage.path == "x"
