"""A remote tier in the simulation: shared objects, and metadata that each broker reads with a delay.

Leaders, also those of earlier epochs, copy committed entries with boundaries of their own. Therefore
segments overlap, and after unclean elections they contradict each other. Replicas delete local entries that
are in the tier, according to the metadata that they have read and their own leader epochs. The metadata cache
is the real one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from tests.sim.replication.sim_log import Entry, SimLog
from tidelog.cluster.replication.follower_state import FetchAuxiliary
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.metadata.store import PartitionMetadataStore, RemoteLogEvent
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.tasks.remote_lineage import (
    EpochLineage,
    first_readable_offset,
    highest_remote_offset,
)
from tidelog.storage.leader_epoch import EpochEntry

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimBroker
    from tests.sim.replication.cluster import SimulatedCluster

TIERED = TopicIdPartition(UUID(int=1), "t", 0)
SEGMENT_MAX_ENTRIES = 6
OVERLAP_MAX_ENTRIES = 2


class StoredSegment(NamedTuple):
    """The objects of one segment."""

    entries: tuple[Entry, ...]
    leader_epochs: tuple[EpochEntry, ...]
    producer_snapshot: bytes


class RemoteLogView:
    """The metadata that one broker has read; it replaces RemoteTier for its fetcher."""

    def __init__(self) -> None:
        self.store = PartitionMetadataStore()
        self.store.open(TIERED)
        self.read_count = 0

    def find_segment(
        self, topic_id: UUID, topic_partition: TopicPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """Return the finished segment with `offset` of `epoch`."""
        try:
            return self.store.remote_log_segment_metadata(TIERED, epoch, offset)
        except RemoteMetadataError:
            return None

    def highest_offset(self, log: SimLog) -> int:
        """Return the last remote offset of this lineage; -1 if there is none."""
        if not self.store.is_ready(TIERED):
            return -1
        highest_for = partial(self.store.highest_offset_for_epoch, TIERED)
        return highest_remote_offset(log.leader_epochs, log.log_end_offset, highest_for)


class SimTier:
    """Objects and metadata records. `is_down`: nothing can be read or written."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.objects: dict[UUID, StoredSegment] = {}
        self.events: list[RemoteLogEvent] = []
        self.is_down = False
        self.restart_count = 0
        """How often a follower has restarted its log with the state from the tier."""
        self._uploads = 0

    # -- metadata

    def listen(self, broker: SimBroker) -> None:
        """Start reading the metadata from the first record."""
        view = broker.tier
        assert view is not None

        def read_new_records() -> None:
            for event in self.events[view.read_count :]:
                view.store.apply(event)
            view.read_count = len(self.events)
            view.store.mark_ready(TIERED)
            self._cluster.schedule_at(
                broker, 1 if self._cluster.is_calm else self._cluster.rng.randint(1, 60), read_new_records
            )

        self._cluster.schedule_at(broker, self._cluster.rng.randint(1, 150), read_new_records)

    # -- leaders

    def upload(self, broker: SimBroker) -> None:
        """Copy the next segment, as a leader that may have been deposed without knowing."""
        rng, log = self._cluster.rng, broker.log
        if broker.partition.leader is None or broker.tier is None or not broker.tier.store.is_ready(TIERED):
            return
        start = broker.tier.highest_offset(log) + 1 - rng.randint(0, OVERLAP_MAX_ENTRIES)
        start = max(start, log.base)
        end = min(start + rng.randint(1, SEGMENT_MAX_ENTRIES), log.high_watermark)
        if self.is_down or end <= max(start, broker.tier.highest_offset(log) + 1):
            return
        self._uploads += 1
        metadata = RemoteLogSegmentMetadata(
            remote_log_segment_id=RemoteLogSegmentId(TIERED, UUID(int=self._uploads)),
            start_offset=start,
            end_offset=end - 1,
            max_timestamp_ms=0,
            broker_id=broker.id,
            event_timestamp_ms=self._cluster.now_ms,
            segment_size_bytes=end - start,
            segment_leader_epochs=tuple(
                EpochEntry(*e) for e in log.leader_epochs.entries_in_range(start, end)
            ),
        )
        stored = StoredSegment(
            tuple(log.entries[start - log.base : end - log.base]),
            tuple(log.leader_epochs.entries_in_range(log.log_start_offset, end)),
            log.producers_at(end),
        )
        self.events.append(metadata)
        self._cluster.trace(f"{broker.id}: uploads {start}..{end - 1}, {metadata.segment_leader_epochs}")

        def finish() -> None:
            if not self.is_down:
                self.objects[metadata.remote_log_segment_id.id] = stored
                self._append_update(metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, broker)

        self._cluster.schedule_at(broker, rng.randint(1, 80), finish)

    def expire(self, broker: SimBroker) -> None:
        """Delete segments below the log start, and raise the log start to the first readable offset.

        A former leader may have had a higher log start, and may have deleted segments of this log.
        """
        if broker.partition.leader is None or broker.tier is None or not broker.tier.store.is_ready(TIERED):
            return
        log, listed = broker.log, list(broker.tier.store.list_remote_log_segments(TIERED))
        lineage = EpochLineage(log.leader_epochs.entries)
        first = first_readable_offset(lineage, listed, log.log_start_offset, log.base)
        if log.log_start_offset < first <= log.high_watermark:
            log.advance_log_start_offset(first)
        for metadata in listed:
            is_whole = metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            if is_whole and metadata.end_offset < log.log_start_offset:
                self._append_update(metadata, RemoteLogSegmentState.DELETE_SEGMENT_STARTED, broker)
                self._append_update(metadata, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED, broker)
                self.objects.pop(metadata.remote_log_segment_id.id, None)

    def _append_update(
        self, metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState, broker: SimBroker
    ) -> None:
        self.events.append(
            RemoteLogSegmentMetadataUpdate(
                metadata.remote_log_segment_id, self._cluster.now_ms, state, broker.id
            )
        )

    # -- all replicas

    def delete_locally(self, broker: SimBroker) -> None:
        """Delete some remote segments from the local disk."""
        log = broker.log
        if broker.tier is None or not broker.tier.store.is_ready(TIERED):
            return
        end = min(broker.tier.highest_offset(log) + 1, log.high_watermark)
        if end > log.base:
            log.delete_local(self._cluster.rng.randint(log.base, end))

    def fetch(self, broker: SimBroker, action: FetchAuxiliary) -> None:
        """Return the auxiliary state of a segment for a follower."""
        core, segment = broker.fetcher, action.segment
        assert core is not None and isinstance(segment, RemoteLogSegmentMetadata)

        def respond() -> None:
            if broker.fetcher is not core:
                return
            now_ms = self._cluster.now_ms
            stored = self.objects.get(segment.remote_log_segment_id.id)
            if self.is_down or stored is None:
                core.on_auxiliary_failed(action, "the tier does not respond", now_ms)
                return
            restart = core.on_auxiliary_fetched(
                action, stored.leader_epochs, stored.producer_snapshot, now_ms
            )
            if restart is not None:
                broker.perform([restart])

        self._cluster.schedule_at(broker, self._cluster.rng.randint(1, 100), respond)

    def value_at(self, broker: SimBroker, offset: int) -> Entry | None:
        """Return the value that a reader gets from `broker` for a remote offset."""
        epoch = broker.log.leader_epochs.epoch_for_offset(offset)
        if epoch is None or broker.tier is None:
            return None
        segment = broker.tier.find_segment(TIERED.topic_id, TIERED.topic_partition, epoch, offset)
        stored = None if segment is None else self.objects.get(segment.remote_log_segment_id.id)
        if segment is None or stored is None:
            return None
        return stored.entries[offset - segment.start_offset]
