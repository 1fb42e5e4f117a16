"""The RemoteLogMetadataManager on `__remote_log_metadata` (shell).

    write     append to the user partition's metadata partition, acknowledged by all in-sync replicas; then
              wait until this node has read the record back, so that its own questions see it
    read      one task reads the tails of the metadata partitions that partitions here need, another brings
              newcomers up to them (`subscription`)
    start     in the background, tried again until it succeeds or its time is over (KIP-1197); what happens
              then is the node's matter (KAFKA-19425: it stops)
    restart   from snapshots (`snapshot_files`) and what was written since

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
    PartitionMetadataStore,
    RemoteLogEvent,
    StoreQuestions,
    partition_of,
    refuse_dropped,
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


class TopicBasedRemoteLogMetadataManager(StoreQuestions):
    """`on_failure` is told when the topic could not be reached or used in time; `files` None keeps nothing.

    `run_blocking` calls what blocks in a thread. Bounds: one write waits at most consume.wait.ms twice.
    Errors: RemoteMetadataError as the port says, also for an update that the segment's state does not allow.
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
        self.store = PartitionMetadataStore()
        self._config = config
        self._topic = topic
        self._on_failure = on_failure
        self._snapshot_interval_s = snapshot_interval_s
        self._subscription = Subscription()
        self._planner = SnapshotPlanner(self.store, self._subscription)
        self._keeper = None if files is None else SnapshotKeeper(files, self._planner, run_blocking)
        self._arriving: dict[TopicIdPartition, None] = {}
        self._waiting = ReadBack()
        self._writer: MetadataLogWriter | None = None
        self._failure: str | None = None
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None
        self._tails_changed = asyncio.Event()
        self._newcomers_changed = asyncio.Event()

    # --- life -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, in the background; the cluster need not be reachable yet."""
        assert self._task is None
        self._task = asyncio.get_running_loop().create_task(self._run(), name="remote log metadata")

    async def close(self) -> None:
        """Stop reading and writing; what is known is kept for the next start."""
        if self._is_closed:
            return
        self._is_closed = True
        self._waiting.fail(RemoteMetadataError("the metadata manager is closed"))
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._writer is not None:
            with suppress(*RETRIED):
                async with asyncio.timeout(_CLOSE_S):
                    await self._writer.close()
            await self._keep(is_last=True)

    def on_partition_leadership_changes(
        self, leaders: Iterable[TopicIdPartition], followers: Iterable[TopicIdPartition]
    ) -> None:
        """These partitions are here now: begin to read their metadata, if that is not done yet."""
        for partition in (*leaders, *followers):
            if not self.store.has(partition):
                self.store.open(partition)
                self._arriving[partition] = None
        self._newcomers_changed.set()

    def on_stop_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        """These partitions are here no more: forget what is known of them."""
        for partition in partitions:
            self._arriving.pop(partition, None)
            number = self.metadata_partition_of(partition)
            self._subscription.remove(partition, number)
            self._planner.forget(partition)
            self.store.drop(partition)
            if number not in self._subscription.tail:
                self._waiting.fail(RemoteMetadataError(f"{partition} has left this node"), number)

    def metadata_partition_of(self, partition: TopicIdPartition) -> int:
        """Where the metadata of `partition` is written."""
        return metadata_partition(partition, self._config.partitions)

    # --- writing --------------------------------------------------------------------------

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a copy that begins, in state COPY_SEGMENT_STARTED."""
        self.store.cache(metadata.topic_id_partition)
        await self._write(metadata)

    async def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Note a further step of a segment that was added. Custom metadata is passed on: Kafka needs it."""
        segment_id = update.remote_log_segment_id
        cache = self.store.cache(segment_id.topic_id_partition)
        refuse_dropped(update, cache.outcome_of(update))
        known = cache.get(segment_id)
        if update.custom_metadata is None and known is not None:
            update = replace(update, custom_metadata=known.custom_metadata)
        await self._write(update)

    async def put_remote_partition_delete_metadata(self, metadata: RemotePartitionDeleteMetadata) -> None:
        """Note a step in the deletion of a partition, which need not be here; the next start knows of it."""
        await self._write(metadata)
        if self._keeper is not None:
            await self._keeper.keep_deletions()

    async def _write(self, event: RemoteLogEvent) -> None:
        require_writable(event)
        writer = self._require_writer()
        number = self.metadata_partition_of(partition_of(event))
        with self._waiting.write(number) as written:
            try:
                async with asyncio.timeout(self._config.consume_wait_ms / 1000):
                    offset = await writer.append(number, encode_event(event))
                if number not in self._subscription.tail:
                    return
                async with asyncio.timeout(self._config.consume_wait_ms / 1000):
                    outcome = await written.read_back(offset, self._subscription.tail[number])
            except RETRIED as error:
                raise RemoteMetadataError(f"could not write and read back {event}: {error!r}") from error
        if outcome is not None:
            refuse_dropped(event, outcome)

    def _require_writer(self) -> MetadataLogWriter:
        if self._is_closed:
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
                group.create_task(self._reading(self._read_tails))
                group.create_task(self._reading(self._bring_up_newcomers))
                group.create_task(self._keep_now_and_then())
        except (RemoteMetadataError, WrongMetadataTopic) as error:
            self._fail(f"the remote log metadata manager cannot start: {error}")
        except Exception as error:
            _log.exception("the remote log metadata manager has ended")
            self._fail(f"the remote log metadata manager has ended: {error!r}")

    def _fail(self, text: str) -> None:
        self._failure = text
        self._waiting.fail(RemoteMetadataError(text))
        self._on_failure(text)

    async def _reading(self, step: Callable[[MetadataLogReader], Awaitable[None]]) -> None:
        """Do `step` again and again, with a new reader after a failure; positions are not the reader's.

        An outage is reported once, and ends with the next step that succeeds.
        """
        failures = 0
        while True:
            reader: MetadataLogReader | None = None
            try:
                reader = await self._topic.open_reader()
                while True:
                    await step(reader)
                    failures = 0
                    await asyncio.sleep(0)  # what was fetched ahead is handed out without waiting
            except RETRIED as error:
                level = logging.DEBUG if failures else logging.WARNING
                _log.log(level, "Cannot read %s; retrying with new connections: %r", METADATA_TOPIC, error)
                failures += 1
            finally:
                if reader is not None:
                    with suppress(*RETRIED):
                        await reader.close()
            await asyncio.sleep(min(_RETRY_S * failures, _RETRY_MAX_S))

    async def _read_tails(self, reader: MetadataLogReader) -> None:
        self._tails_changed.clear()
        if not self._subscription.tail:
            await self._tails_changed.wait()
        for read in await reader.read(dict(self._subscription.tail), _READ_WAIT_MS):
            self._take(read, is_tail=True)

    async def _bring_up_newcomers(self, reader: MetadataLogReader) -> None:
        self._newcomers_changed.clear()
        for partition in list(self._arriving):
            await self._load(partition)
        numbers = self._subscription.without_bounds()
        if numbers:
            for number, bounds in (await reader.bounds(numbers)).items():
                for partition in self._subscription.ahead_of_the_log(number, bounds):
                    self._planner.forget(partition)
                    self.store.install(partition, RemoteLogMetadataCache(partition))
                self._are_ready(self._subscription.begin(number, bounds))
            self._tails_changed.set()
        positions = dict(self._subscription.catch_up)
        if positions:
            for read in await reader.read(positions, _READ_WAIT_MS):
                self._take(read, is_tail=False)
        elif not self._subscription.without_bounds():
            await self._newcomers_changed.wait()

    async def _load_deletions(self) -> None:
        if self._keeper is not None:
            self.store.restore_deletions(await self._keeper.deletions())

    async def _load(self, partition: TopicIdPartition) -> None:
        number = self.metadata_partition_of(partition)
        found = None if self._keeper is None else await self._keeper.restored(partition, number)
        if partition not in self._arriving:
            return
        del self._arriving[partition]
        next_offset = 0
        self._planner.forget(partition)
        if found is not None:
            cache, next_offset = found
            self.store.install(partition, cache)
            self._planner.loaded(partition, next_offset)
        self._subscription.add(partition, number, next_offset)

    def _take(self, read: ReadRecords, *, is_tail: bool) -> None:
        """Take over what was read, unless its metadata partition is not read any more."""
        number = read.metadata_partition
        if number not in (self._subscription.tail if is_tail else self._subscription.catch_up):
            return
        if is_tail and read.records and read.records[0].offset < self._subscription.tail[number]:
            self._begin_again(number)
            return
        listeners = self._subscription.listeners(read, is_tail=is_tail)
        topic_ids = {partition.topic_id.bytes for partition in listeners}
        for offset, value in read.records:
            if not is_worth_decoding(value, topic_ids):
                continue
            try:
                event = decode_event(value)
            except DecodeError as error:
                _log.error("metadata partition %d, offset %d is passed over: %s", number, offset, error)
                continue
            partition = partition_of(event)
            if isinstance(event, RemotePartitionDeleteMetadata):
                is_news = self._subscription.hears_deletion(number, partition, offset, is_tail=is_tail)
            else:
                is_news = offset >= listeners.get(partition, _NEVER)
            if not is_news:
                continue
            outcome = self.store.apply(event)
            if outcome in (Outcome.APPLIED, Outcome.REPEATED) and partition in listeners:
                self._planner.changed(partition, offset)
            if is_tail:
                self._waiting.heard(number, offset, outcome)
        self._are_ready(self._subscription.advance(read, is_tail=is_tail))
        if is_tail:
            self._waiting.passed(number, read.next_offset)

    def _begin_again(self, number: int) -> None:
        """The metadata partition ends before what was read of it: its log was cut, so nothing read counts."""
        _log.warning("metadata partition %d was cut; all of it is read again", number)
        partitions = [
            one for one, each in self._subscription.followers() if each.metadata_partition == number
        ]
        self.on_stop_partitions(partitions)
        for partition in partitions:  # a snapshot may tell of what was cut off: all is read from the start
            self.store.open(partition)
            self._subscription.add(partition, number, 0)
        self._newcomers_changed.set()

    def _are_ready(self, partitions: Iterable[TopicIdPartition]) -> None:
        for partition in partitions:
            self.store.mark_ready(partition)

    # --- keeping --------------------------------------------------------------------------

    async def _keep_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._snapshot_interval_s)
            await self._keep(is_last=False)

    async def _keep(self, *, is_last: bool) -> None:
        if self._keeper is not None:
            await self._keeper.keep(lambda: not self._arriving, is_last=is_last)
