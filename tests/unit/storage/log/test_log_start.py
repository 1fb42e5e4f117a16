"""The log start rises by DeleteRecords."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import append, batch, open_log, values_of
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def log() -> PartitionLog:
    return open_log(CrashFileSystem())


def test_deleted_records_are_not_readable_at_once(log: PartitionLog) -> None:
    append(log, "a", "b", "c")
    assert log.advance_log_start_offset(2)
    assert not log.advance_log_start_offset(1)
    assert values_of(log) == ["c"]
    with pytest.raises(KafkaError) as caught:
        log.read(1, 100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_log_start_never_passes_the_high_watermark(log: PartitionLog) -> None:
    log.append_as_leader(batch(["a"]), 0, NOW_MS)
    with pytest.raises(KafkaError) as caught:
        log.advance_log_start_offset(1)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
