"""The RemoteLogMetadataManager on `__remote_log_metadata` (shell).

    write     append to the user partition's metadata partition, acknowledged by all in-sync replicas; then
              wait until this node has read the record back, so that its own queries include it
    read      one task reads the tails of the metadata partitions of this node's partitions, another one reads
              older records for new partitions (`subscription`)
    start     in the background, retried until it succeeds or its time has expired (KIP-1197); then the node
              decides (KAFKA-19425: it stops)
    restart   from snapshots (`snapshot_files`) and the records written since

Source: TopicBasedRemoteLogMetadataManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tidelog.protocol.errors import DecodeError
from tidelog.remote.metadata.cache import Outcome, RemoteLogMetadataCache
from tidelog.remote.metadata.config import METADATA_TOPIC, MetadataTopicConfig
from tidelog.remote.metadata.initialization import MetadataTopicInitializer
from tidelog.remote.metadata.log_ports import (
    RETRIED,
    MetadataLogReader,
    MetadataLogWriter,
    MetadataTopic,
    ReadRecords,
    WrongMetadataTopic,
)
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.metadata.read_back import ReadBack
from tidelog.remote.metadata.record_codec import decode_event, encode_event, is_worth_decoding
from tidelog.remote.metadata.snapshot_files import SnapshotFiles
from tidelog.remote.metadata.snapshot_keeper import RunBlocking, SnapshotKeeper
from tidelog.remote.metadata.snapshot_plan import SnapshotPlanner
from tidelog.remote.metadata.store import (
    RemoteLogEvent,
    StoreQueries,
    partition_of,
    raise_if_dropped,
    require_writable,
)
from tidelog.remote.metadata.subscription import Subscription
from tidelog.remote.ports.metadata_manager import RemoteMetadataError, RemoteMetadataNotReady
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)

_READ_WAIT_MS: Final = 200
_RETRY_S: Final = 0.5
_RETRY_MAX_S: Final = 5.0
_CLOSE_S: Final = 10.0
_NEVER: Final = 1 << 63

_log = logging.getLogger(__name__)


class TopicBasedRemoteLogMetadataManager(StoreQueries):
    """Stores remote metadata in a topic.

    `on_failure` is called if the topic could not be reached or used in time. Without `files`, nothing is kept
    for a restart. `run_blocking` runs blocking calls in a thread. Bounds: one write waits at most twice
    consume.wait.ms.
    Errors: RemoteMetadataError as specified by the port, also for an update that the segment's state does not
    allow.
    """

    def __init__(
        self,
        config: MetadataTopicConfig,
        topic: MetadataTopic,
        *,
        files: SnapshotFiles | None = None,
        run_blocking: RunBlocking = asyncio.to_thread,
        on_failure: Callable[[str], None] = _log.error,
        snapshot_interval_s: float = 60.0,
    ) -> None:
        super().__init__()
        self._config = config
        self._topic = topic
        self._on_failure = on_failure
        self._snapshot_interval_s = snapshot_interval_s
        self._subscription = Subscription()
        self._planner = SnapshotPlanner(self.store, self._subscription)
        self._keeper = None if files is None else SnapshotKeeper(files, self._planner, run_blocking)
        self._added: dict[TopicIdPartition, None] = {}
        self._waiting = ReadBack()
        self._writer: MetadataLogWriter | None = None
        self._failure: str | None = None
        self._is_closed = False
        self._is_writable = True
        self._task: asyncio.Task[None] | None = None
        self._tails_changed = asyncio.Event()
        self._new_partitions_changed = asyncio.Event()

    # --- lifecycle ------------------------------------------------------------------------

    def start(self) -> None:
        """Start in the background; the cluster does not have to be reachable yet."""
        assert self._task is None
        self._task = asyncio.get_running_loop().create_task(self._run(), name="remote log metadata")

    async def close(self) -> None:
        """Stop reading and writing, and write snapshots for the next start."""
        if self._is_closed:
            return
        self._is_closed = True
        self._waiting.fail(RemoteMetadataError("the metadata manager is closed"))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._writer is not None:
            await self.stop_writing()
            await self._write_snapshots(is_last=True)

    async def stop_writing(self) -> None:
        """Wait until records in flight are written, and reject further ones; reading continues.

        A record whose caller was cancelled is written too, so that no other node repeats the work.
        """
        self._is_writable = False
        if self._writer is not None:
            with suppress(*RETRIED):
                async with asyncio.timeout(_CLOSE_S):
                    await self._writer.close()

    def on_partition_leadership_changes(
        self, leaders: Iterable[TopicIdPartition], followers: Iterable[TopicIdPartition]
    ) -> None:
        """Start to read the metadata of assigned partitions, unless it is read already."""
        for partition in (*leaders, *followers):
            if not self.store.has(partition):
                self.store.open(partition)
                self._added[partition] = None
        self._new_partitions_changed.set()

    def on_stop_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Drop the metadata of partitions that are no longer assigned to this node."""
        for partition in partitions:
            self._added.pop(partition, None)
            number = self.metadata_partition_of(partition)
            self._subscription.remove(partition, number)
            self._planner.forget(partition)
            self.store.drop(partition)
            if number not in self._subscription.tail:
                self._waiting.fail(RemoteMetadataError(f"{partition} has left this node"), number)

    def metadata_partition_of(self, partition: TopicIdPartition) -> int:
        """Return the metadata partition of `partition`."""
        return metadata_partition(partition, self._config.partitions)

    # --- writing --------------------------------------------------------------------------

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Record the start of a copy, in state COPY_SEGMENT_STARTED."""
        self.store.cache(metadata.topic_id_partition)
        await self._write(metadata)

    async def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Record the next state of a segment.

        Known custom metadata is included, because Kafka requires it.
        """
        segment_id = update.remote_log_segment_id
        cache = self.store.cache(segment_id.topic_id_partition)
        raise_if_dropped(update, cache.outcome_of(update))
        segment = cache.get(segment_id)
        if update.custom_metadata is None and segment is not None:
            update = replace(update, custom_metadata=segment.custom_metadata)
        await self._write(update)

    async def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Record a step of the deletion of a partition on any node, and keep it for the next start."""
        await self._write(metadata)
        if self._keeper is not None:
            await self._keeper.keep_deletions()

    async def _write(self, event: RemoteLogEvent) -> None:
        require_writable(event)
        writer = self._require_writer()
        number = self.metadata_partition_of(partition_of(event))
        with self._waiting.write(number) as pending:
            try:
                async with asyncio.timeout(self._config.consume_wait_ms / 1000):
                    offset = await writer.append(number, encode_event(event))
                if number not in self._subscription.tail:
                    return
                async with asyncio.timeout(self._config.consume_wait_ms / 1000):
                    outcome = await pending.read_back(offset, self._subscription.tail[number])
            except RETRIED as error:
                raise RemoteMetadataError(f"cannot write and read back {event}: {error!r}") from error
        if outcome is not None:
            raise_if_dropped(event, outcome)

    def _require_writer(self) -> MetadataLogWriter:
        if not self._is_writable:
            raise RemoteMetadataError("the metadata manager is closed")
        if self._failure is not None:
            raise RemoteMetadataError(self._failure)
        if self._writer is None:
            raise RemoteMetadataNotReady("the metadata topic has not been reached yet")
        return self._writer

    # --- reading --------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            self._writer = await MetadataTopicInitializer(self._config, self._topic).open_writer()
            await self._load_deletions()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_step_repeatedly(self._read_tails))
                group.create_task(self._run_step_repeatedly(self._read_new_partitions))
                group.create_task(self._write_snapshots_periodically())
        except (RemoteMetadataError, WrongMetadataTopic) as error:
            self._fail(f"the remote log metadata manager cannot start: {error}")
        except Exception as error:
            _log.exception("The remote log metadata manager failed")
            self._fail(f"the remote log metadata manager has failed: {error!r}")

    def _fail(self, text: str) -> None:
        self._failure = text
        self._waiting.fail(RemoteMetadataError(text))
        self._on_failure(text)

    async def _run_step_repeatedly(self, step: Callable[[MetadataLogReader], Awaitable[None]]) -> None:
        """Run `step` repeatedly, with a new reader after a failure.

        The positions are kept outside the reader. An outage is logged once; it ends with the next successful
        step.
        """
        failures = 0
        while True:
            reader: MetadataLogReader | None = None
            try:
                reader = await self._topic.open_reader()
                while True:
                    await step(reader)
                    failures = 0
                    await asyncio.sleep(0)  # records that were fetched ahead are returned without a wait
            except RETRIED as error:
                level = logging.DEBUG if failures else logging.WARNING
                _log.log(
                    level, "Cannot read topic %s; retrying with new connections: %r", METADATA_TOPIC, error
                )
                failures += 1
            finally:
                if reader is not None:
                    with suppress(*RETRIED):
                        await reader.close()
            await asyncio.sleep(min(_RETRY_S * failures, _RETRY_MAX_S))

    async def _read_tails(self, reader: MetadataLogReader) -> None:
        self._tails_changed.clear()
        if not self._subscription.tail:
            reader.stop_fetching()
            await self._tails_changed.wait()
        for read in await reader.read(dict(self._subscription.tail), _READ_WAIT_MS):
            self._apply_records(read, is_tail=True)

    async def _read_new_partitions(self, reader: MetadataLogReader) -> None:
        self._new_partitions_changed.clear()
        for partition in list(self._added):
            await self._load(partition)
        numbers = self._subscription.without_bounds()
        if numbers:
            for number, bounds in (await reader.bounds(numbers)).items():
                for partition in self._subscription.reset_ahead_of_log(number, bounds):
                    self._planner.forget(partition)
                    self.store.install(partition, RemoteLogMetadataCache(partition))
                self._mark_ready(self._subscription.begin(number, bounds))
            self._tails_changed.set()
        positions = dict(self._subscription.catch_up)
        if positions:
            for read in await reader.read(positions, _READ_WAIT_MS):
                self._apply_records(read, is_tail=False)
        elif not self._subscription.without_bounds():
            reader.stop_fetching()
            await self._new_partitions_changed.wait()

    async def _load_deletions(self) -> None:
        if self._keeper is not None:
            self.store.restore_deletions(await self._keeper.deletions())

    async def _load(self, partition: TopicIdPartition) -> None:
        number = self.metadata_partition_of(partition)
        snapshot = None if self._keeper is None else await self._keeper.restore(partition, number)
        if partition not in self._added:
            return
        del self._added[partition]
        next_offset = 0
        self._planner.forget(partition)
        if snapshot is not None:
            cache, next_offset = snapshot
            self.store.install(partition, cache)
            self._planner.on_loaded(partition, next_offset)
        self._subscription.add(partition, number, next_offset)

    def _apply_records(self, read: ReadRecords, *, is_tail: bool) -> None:
        """Apply the records, unless their metadata partition is no longer read."""
        number = read.metadata_partition
        if number not in (self._subscription.tail if is_tail else self._subscription.catch_up):
            return
        if is_tail and read.records and read.records[0].offset < self._subscription.tail[number]:
            self._read_again(number)
            return
        receivers = self._subscription.receivers(read, is_tail=is_tail)
        topic_ids = {partition.topic_id.bytes for partition in receivers}
        for offset, value in read.records:
            if not is_worth_decoding(value, topic_ids):
                continue
            try:
                event = decode_event(value)
            except DecodeError as error:
                _log.error(
                    "Ignoring the record at offset %d of metadata partition %d: %s", offset, number, error
                )
                continue
            partition = partition_of(event)
            if isinstance(event, RemotePartitionDeleteMetadata):
                is_relevant = self._subscription.receives_deletion(number, partition, offset, is_tail=is_tail)
            else:
                is_relevant = offset >= receivers.get(partition, _NEVER)
            if not is_relevant:
                continue
            outcome = self.store.apply(event)
            if outcome in (Outcome.APPLIED, Outcome.REPEATED) and partition in receivers:
                self._planner.on_change(partition, offset)
            if is_tail:
                self._waiting.on_applied(number, offset, outcome)
        self._mark_ready(self._subscription.advance(read, is_tail=is_tail))
        if is_tail:
            self._waiting.on_read_up_to(number, read.next_offset)

    def _read_again(self, number: int) -> None:
        """Read a metadata partition again that was truncated below the read position."""
        _log.warning("Partition %d of %s was truncated; reading all of it again", number, METADATA_TOPIC)
        partitions = [
            partition
            for partition, follower in self._subscription.followers()
            if follower.metadata_partition == number
        ]
        self.on_stop_partitions(partitions)
        for partition in partitions:  # a snapshot may contain truncated records: read from the start
            self.store.open(partition)
            self._subscription.add(partition, number, 0)
        self._new_partitions_changed.set()

    def _mark_ready(self, partitions: Iterable[TopicIdPartition]) -> None:
        for partition in partitions:
            self.store.mark_ready(partition)

    # --- snapshots ------------------------------------------------------------------------

    async def _write_snapshots_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._snapshot_interval_s)
            await self._write_snapshots(is_last=False)

    async def _write_snapshots(self, *, is_last: bool) -> None:
        if self._keeper is not None:
            await self._keeper.keep(lambda: not self._added, is_last=is_last)
