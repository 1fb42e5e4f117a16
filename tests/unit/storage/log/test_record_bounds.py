"""Bounds on the number of records that the broker parses in a batch."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import open_log
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import run_steps
from tidelog.storage.log.record_bounds import MEBIBYTE, RECORDS_MAX, decompressed_bytes_max
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def test_the_bound_is_derived_from_max_message_bytes_within_two_limits() -> None:
    assert decompressed_bytes_max(1000) == 16 * MEBIBYTE
    assert decompressed_bytes_max(4 * MEBIBYTE) == 64 * MEBIBYTE
    assert decompressed_bytes_max(2**31 - 1) == 256 * MEBIBYTE


def test_a_batch_above_the_record_bound_is_refused_where_records_are_parsed() -> None:
    builder = BatchBuilder(compression=Compression.ZSTD)
    for _ in range(RECORDS_MAX + 1):
        builder.append(NOW_MS, b"", None)
    many = builder.build()
    log = open_log(CrashFileSystem())
    assert log.append_as_leader(bytearray(many), 0, NOW_MS).last_offset == RECORDS_MAX
    place = run_steps(log.timestamps.first_record_from(NOW_MS))
    assert place is not None and place.offset == 0
    compacted = open_log(CrashFileSystem(), log_config(cleanup_policy=("compact",)))
    with pytest.raises(KafkaError, match=f"{RECORDS_MAX + 1} records") as caught:
        compacted.append_as_leader(bytearray(many), 0, NOW_MS)
    assert caught.value.code is ErrorCode.INVALID_RECORD
