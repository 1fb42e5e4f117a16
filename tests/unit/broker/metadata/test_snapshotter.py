"""Snapshots of a leader: failures with their files do not end the node."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.configs import snapshot_settings
from tests.support.loops.both_loops import on_both_loops
from tests.support.metadata.stores import make_replica, start_replica
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.raft.log import MetadataLog
from tidelog.cluster.controller.result import ControllerResult
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.metadata_records.no_op_record import NoOpRecord
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@on_both_loops
async def test_a_failed_deletion_of_snapshots_does_not_end_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[None] = []

    def refuse(log: MetadataLog) -> bool:
        refused.append(None)
        raise PermissionError(13, "EACCES")

    monkeypatch.setattr(MetadataLog, "clean", refuse)
    replica = make_replica(
        CrashFileSystem(), snapshots=snapshot_settings(metadata_log_max_record_bytes_between_snapshots=1)
    )
    async with asyncio.timeout(TIMEOUT_S):
        store = (await start_replica(replica)).store
        await eventually(lambda: refused)
        await store.submit(lambda image: ControllerResult((NoOpRecord(),), None))
        assert replica.driver.failure is None
        await replica.stop()


@on_both_loops
async def test_a_snapshot_that_cannot_be_started_does_not_prevent_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the metadata log would grow as long as the node runs, without a log line."""
    offsets: list[int] = []
    timestamp_before = MetadataLog.timestamp_before

    def fail_once(log: MetadataLog, offset: int) -> int:
        offsets.append(offset)
        if len(offsets) == 1:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk cannot be read")
        return timestamp_before(log, offset)

    monkeypatch.setattr(MetadataLog, "timestamp_before", fail_once)
    replica = make_replica(
        CrashFileSystem(), snapshots=snapshot_settings(metadata_log_max_record_bytes_between_snapshots=1)
    )
    async with asyncio.timeout(TIMEOUT_S):
        store = (await start_replica(replica)).store
        await eventually(lambda: offsets)
        await store.submit(lambda image: ControllerResult((NoOpRecord(),), None))
        await eventually(lambda: replica.snapshotter.snapshots_written or len(offsets) > 5)
        assert replica.snapshotter.failures == 1
        await replica.stop()
