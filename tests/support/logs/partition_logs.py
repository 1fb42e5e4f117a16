"""Batches and complete logs for tests of storage."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import PRODUCER_ID_EXPIRATION_MS, log_config
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.record import Record, read_records
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.log.observer import LogObserver
from tidelog.storage.log.opening import CheckpointedState, LogLocation, LogOptions
from tidelog.storage.log.partition_log import PartitionLog

TOPIC_PARTITION = TopicPartition("events", 0)
DIRECTORY = "/data/events-0"


def batch(
    values: Iterable[bytes | str | None],
    *,
    timestamps: Sequence[int] | int = NOW_MS,
    key: bytes | None = b"k",
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    base_offset: Offset = 0,
    leader_epoch: LeaderEpoch = -1,
) -> bytearray:
    """Return a batch as a producer sends it; one timestamp for all records or one for each."""
    builder = BatchBuilder(
        compression=compression,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer=BatchProducer(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        ),
    )
    for index, value in enumerate(values):
        timestamp = timestamps if isinstance(timestamps, int) else timestamps[index]
        builder.append(timestamp, key, value.encode() if isinstance(value, str) else value)
    return builder.build()


def end_marker(
    producer_id: int,
    *,
    producer_epoch: int = 0,
    is_abort: bool = False,
    coordinator_epoch: int = 0,
    timestamp: int = NOW_MS,
) -> bytearray:
    """Return the control batch with which a coordinator ends a transaction."""
    builder = BatchBuilder(
        is_control=True,
        producer=BatchProducer(producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True),
    )
    builder.append(
        timestamp,
        struct.pack(">hh", 0, 0 if is_abort else 1),
        struct.pack(">hi", 0, coordinator_epoch),
    )
    return builder.build()


LOG_OPTIONS = LogOptions(
    producer_id_expiration_ms=PRODUCER_ID_EXPIRATION_MS, remote_storage_system_enable=True
)


def open_log(
    fs: FileSystem,
    config: LogConfig | None = None,
    *,
    directory: str = DIRECTORY,
    now_ms: int = NOW_MS,
    recovery_point: Offset = 0,
    log_start_offset: Offset = 0,
    clean: bool = False,
    observer: LogObserver | None = None,
) -> PartitionLog:
    """Return an open log without a log manager."""
    return PartitionLog.open(
        LogLocation(fs, directory, TOPIC_PARTITION),
        config or log_config(),
        CheckpointedState(clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset),
        now_ms=now_ms,
        options=LOG_OPTIONS,
        observer=observer,
    )


def append(log: PartitionLog, *values: str, leader_epoch: LeaderEpoch = 0, **options: object) -> Offset:
    """Append one batch as the leader, replicated at once; return its first offset."""
    data = batch(values, **options)  # type: ignore[arg-type]
    info = log.append_as_leader(data, leader_epoch, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


def append_marker(log: PartitionLog, producer_id: int, *, is_abort: bool, leader_epoch: int = 0) -> Offset:
    """End a producer's transaction, replicated at once; return the marker's offset."""
    data = end_marker(producer_id, is_abort=is_abort)
    info = log.append_as_leader(data, leader_epoch, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


def all_records(log: PartitionLog, start: Offset | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Return every record from `start` (default: log start) to the log end, read as by a consumer."""
    first = log.log_start_offset if start is None else start
    offset = first
    records: list[Record] = []
    while offset < log.log_end_offset:
        batches = log.read(offset, max_bytes, at_least_one=True).records
        assert batches is not None, f"nothing to read at {offset}, the log ends at {log.log_end_offset}"
        data = batches.read()
        for position, header in iterate_headers(data):
            records += read_records(data, position, header)
            offset = header.next_offset
    return [record for record in records if record.offset >= first]


def values_of(log: PartitionLog, start: Offset | None = None) -> list[str]:
    """Return the values of all records as text."""
    return [(record.value or b"").decode() for record in all_records(log, start)]
