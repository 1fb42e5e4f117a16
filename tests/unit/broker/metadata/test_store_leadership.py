"""The metadata store with a scripted quorum: first records, high watermarks of leaders and followers."""

from __future__ import annotations

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import snapshot_settings
from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.images import CLUSTER_ID
from tests.support.metadata.stores import (
    InlineExecutor,
    open_log,
    running_store,
)
from tests.support.waiting import eventually
from tidelog.broker.metadata.batches import encode_records
from tidelog.broker.metadata.leadership import ControllerLeadership
from tidelog.broker.metadata.snapshotter import Snapshotter
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.raft.log import MetadataLog
from tidelog.broker.raft.steps import Callback
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.controller.bootstrap import bootstrap_records
from tidelog.cluster.features import METADATA_VERSION_4_3
from tidelog.cluster.quorum.effects import RecordsAppended
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import run_steps
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def append(log: MetadataLog, records: list[MetadataRecord]) -> None:
    """Append a batch without any check, as a former leader of epoch 1."""
    builder = BatchBuilder(base_offset=log.end_offset, leader_epoch=1)
    for value in run_steps(encode_records(records, METADATA_VERSION_4_3)):
        builder.append(5, None, value)
    log.append(builder.build(), 1)


class FullLog:
    """A quorum that was elected and whose disk is full; `resigned` counts how often it resigned."""

    kraft_version = 0

    def __init__(self) -> None:
        self.resigned = 0
        self.callbacks: list[Callback] = []

    def schedule(self, callback: Callback) -> None:
        self.callbacks.append(callback)

    def upgrade_rejection(self, epoch: int) -> str | None:
        return None

    def upgrade_voters(self, epoch: int) -> RecordsAppended:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    def append(self, records: list[bytes], epoch: int) -> RecordsAppended:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    def resign(self) -> None:
        self.resigned += 1


def store_over(quorum: FullLog) -> MetadataStore:
    """Return the store of node 1 with an empty log."""
    log = open_log(CrashFileSystem())
    snapshotter = Snapshotter(
        log,
        snapshot_settings(),
        clock=ManualClock(),
        executor=InlineExecutor(),
        voters_at=lambda offset: (0, None),
        schedule=quorum.schedule,
    )
    slices = Slices(ManualClock())
    leadership = ControllerLeadership(
        1,
        quorum,
        log_end_offset=lambda: log.end_offset,
        first_records=lambda: bootstrap_records(1),
        slices=slices,
    )

    def fail(error: Exception) -> None:
        raise error

    return MetadataStore(
        log,
        quorum,
        cluster_id=CLUSTER_ID,
        leadership=leadership,
        snapshotter=snapshotter,
        slices=slices,
        on_fatal=fail,
    )


@on_both_loops
async def test_a_leader_that_cannot_write_its_first_records_resigns() -> None:
    quorum = FullLog()
    store = store_over(quorum)
    store.start()
    store.on_leader_changed(1, 1)
    await eventually(lambda: bool(quorum.callbacks))
    quorum.callbacks.pop()()
    assert quorum.resigned == 1
    assert store.active_epoch is None
    store.on_leader_changed(1, None)
    await store.close()


@on_both_loops
async def test_a_follower_has_caught_up_when_it_has_applied_what_the_leader_has_committed() -> None:
    store = store_over(FullLog())
    append(store._log, list(bootstrap_records(1)))
    store.start()
    store.on_leader_changed(1, 2)
    # The high watermark of the log is that of the last snapshot: committed records may be missing.
    await loop_iterations(5)
    assert not store.has_caught_up
    store._log.advance_high_watermark(store._log.end_offset)
    store.on_committed(store._log.end_offset)
    await eventually(lambda: store.has_caught_up)
    store.on_leader_changed(2, None)
    assert store.has_caught_up
    await store.close()


@on_both_loops
async def test_an_active_controller_has_caught_up() -> None:
    async with running_store() as store:
        assert store.has_caught_up
