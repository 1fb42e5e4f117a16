"""Tiered logs for tests of storage."""

from __future__ import annotations

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import append, open_log
from tidelog.protocol.ids import Offset
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.observer import LogObserver
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

TIERED = log_config(remote_storage_enable=True, retention_ms=-1, local_retention_bytes=0)


def tiered_log(
    config: LogConfig = TIERED,
    *,
    disk: CrashFileSystem | None = None,
    log_start_offset: Offset = 0,
    recovery_point: Offset = 0,
    clean: bool = False,
    observer: LogObserver | None = None,
) -> PartitionLog:
    """Return a tiered log with minimal local retention."""
    return open_log(
        disk or CrashFileSystem(),
        config,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        clean=clean,
        observer=observer,
    )


def three_segments(
    config: LogConfig = TIERED, *, highest_remote: Offset | None = None, observer: LogObserver | None = None
) -> PartitionLog:
    """Return a tiered log with offsets 0 to 5, two per segment, and an empty active segment."""
    log = tiered_log(config, observer=observer)
    for first in range(0, 6, 2):
        append(log, f"{first}", f"{first + 1}")
        log.roll(NOW_MS)
    if highest_remote is not None:
        log.remote_border.raise_highest_offset(highest_remote)
    return log
