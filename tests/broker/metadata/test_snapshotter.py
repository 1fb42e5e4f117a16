"""Snapshots that are written while the node leads: what goes wrong with their files ends nobody."""

from __future__ import annotations

import asyncio

import pytest

from broker.metadata.snapshotter import SnapshotSettings
from broker.raft.log import MetadataLog
from cluster.controller.result import ControllerResult
from protocol.metadata_records.no_op_record import NoOpRecord
from tests.support.crash_fs import CrashFileSystem
from tests.support.loops import on_both_loops, until
from tests.support.metadata_store import make_replica, started


@on_both_loops
async def test_a_disk_that_keeps_old_snapshots_from_being_removed_does_not_end_the_voter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[None] = []

    def refuse(log: MetadataLog) -> bool:
        refused.append(None)
        raise PermissionError(13, "EACCES")

    monkeypatch.setattr(MetadataLog, "clean", refuse)
    replica = make_replica(CrashFileSystem(), snapshots=SnapshotSettings(max_bytes=1))
    async with asyncio.timeout(30):
        store = (await started(replica)).store
        await until(lambda: refused)
        await store.submit(lambda image: ControllerResult((NoOpRecord(),), None))
        assert replica.driver.failure is None
        await replica.stop()
