"""Invariants of the files of an open log, checked without using its indexes."""

from __future__ import annotations

from tidelog.protocol.batch import crc_is_valid, read_header
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.recovery.recovery import replay_producer
from tidelog.storage.segment.segment import LogSegment
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def check_log(log: PartitionLog) -> None:
    """Check that indexes, producers and offsets agree with the batches."""
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
    assert log.durability.recovery_point <= log.log_end_offset
    segments = list(log.segments)
    for segment in segments:
        check_indexes(segment, is_sealed=segment is not segments[-1])
    check_offsets(log)
    check_producers(log)


def check_indexes(segment: LogSegment, *, is_sealed: bool) -> None:
    """Check every index entry, and that the last time index entry is the maximum of a sealed segment."""
    batches = list(segment.batches())
    for offset, position in segment.offset_index.entries():
        header = read_header(segment.file.pread(61, position))
        assert header.last_offset == offset, (segment.offset_index.file.path, offset, position)
    for timestamp, offset in segment.time_index.entries():
        so_far = [header for _, header in batches if header.last_offset <= offset]
        assert max(header.max_timestamp for header in so_far) == timestamp
        assert so_far[-1].max_timestamp == timestamp
    largest = max((header.max_timestamp for _, header in batches), default=-1)
    assert segment.max_timestamp == largest
    if is_sealed:
        assert segment.time_index.last_entry.timestamp == largest


def check_offsets(log: PartitionLog) -> None:
    """Check that batches are complete, valid and in order, and that lookups by offset find them."""
    expected = log.segments.first.base_offset
    for segment in log.segments:
        assert segment.base_offset >= expected
        for position, header in segment.batches():
            data = segment.file.pread(header.size_bytes, position)
            assert crc_is_valid(data, 0, header), (segment.file.path, position)
            assert header.base_offset >= expected
            expected = header.next_offset
            for offset in range(header.base_offset, header.next_offset):
                assert segment.position_of(offset) == position
    assert expected <= log.log_end_offset


def check_producers(log: PartitionLog) -> None:
    """Check that the producer state equals a replay of the log from its start."""
    disk = CrashFileSystem()
    disk.makedirs("/replay")
    replayed = ProducerStateManager(
        log.topic_partition, disk, "/replay", log.producers.producer_id_expiration_ms
    )
    segments = list(log.segments)
    aborted = []
    for segment in segments:
        for position, header in segment.batches():
            if header.next_offset <= log.log_start_offset:
                continue
            data = segment.file.pread(header.size_bytes, position)
            replay_producer(replayed, header, data, 0, None)
        aborted += list(segment.txn_index.entries())
    is_whole = segments[0].base_offset == 0 and log.log_start_offset == 0
    for producer_id, entry in replayed.producers.items():
        producer = log.producers.producers[producer_id]
        if entry.batches:  # recovery reads complete segments, also records below the log start
            assert producer.last_sequence == entry.last_sequence
        assert producer.producer_epoch == entry.producer_epoch
        if is_whole:
            assert producer.transaction_first_offset == entry.transaction_first_offset
            assert producer.last_offset == entry.last_offset
    if is_whole:
        assert log.producers.producers.keys() == replayed.producers.keys()
        undecided = replayed.transactions.first_undecided_offset
        assert log.producers.transactions.first_undecided_offset == undecided
    for transaction in aborted:
        assert transaction.last_offset < log.log_end_offset
