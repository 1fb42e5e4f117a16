"""Runs scenarios of tiered storage: text files as in `tests/scenarios/replication`, about a tiered topic.

All parts but the object store are real: the logs, the leader's copy task, the metadata cache, the follower's
state machine, local retention, the handlers, the reader of the tier. Additional lines:

    roll A                           A seals its active segment
    upload A                         A's copy task runs once, as a leader
    expire A below 3                 local retention: A keeps only segments that start at 3 or above
    no metadata for B                B does not read the tier's metadata from now on ...
    metadata for B                   ... until now
    tier down / tier up              the objects cannot be read
    last tiered offset               follower.fetch.last.tiered.offset.enable, for all
    producer 7 sends A m1            an idempotent producer of this id sends its next batch to A
    producer 7 repeats to A m1       it sends its last batch again
    > producers A 7:2 8:1            the producers known to A, and the last offset of each
    > tier A 0-2 0:0 | 3-5 1:3 2:5   the finished segments known to A, by start and then by age: first
                                     and last offset, and the starts of their leader epochs
    > stored 3-5 0:0 1:3 2:5         the leader epochs stored with the latest segment of these offsets
    > local A 3                      A's local log starts here
    > B builds / > B fetches         the state of B's copy
    > asks B -4                      B's next request is for the offset of this timestamp in the leader's log
    > asks B end of 1                B's next request is for the end of this epoch
    > read B 1 m3                    a consumer fetches from offset 1 of B, from disk or tier, and gets m3
    > read B 1 epoch 1 m3            the same; its previous record was of this epoch
    > read B 2 epoch 0 rejected      its previous records are of another history than B's
"""

from __future__ import annotations

import io
import random
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from tests.scenarios.replication.scenario import Scenario
from tests.scenarios.replication.scenario_broker import T0, TOPIC, TOPIC_ID, ScenarioBroker
from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch
from tests.support.replicas.replica_pair import LeaderConnection
from tests.support.tier.metadata_managers import InMemoryMetadataLog, InMemoryRemoteLogMetadataManager
from tests.support.tier.settings import remote_settings
from tests.support.tier.tier_cluster import run_to_end
from tidelog.broker.replication.remote_tier import FollowerTier
from tidelog.cluster.replication.follower_queries import EpochEndQuery, OffsetQuery, next_query
from tidelog.cluster.replication.follower_state import FetchAuxiliary, ReplicaState
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.record import read_records
from tidelog.remote.copying.task import CopyTask
from tidelog.remote.index_cache.cache import RemoteIndexCache
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import (
    IndexType,
    LogSegmentData,
    ReadableStream,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tidelog.remote.reading.reader import RemoteLogReader
from tidelog.remote.reading.requests import RemoteReadRequest
from tidelog.remote.tasks.byte_rate import UNLIMITED, ByteRate
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.outages import StoreOutages
from tidelog.remote.tasks.remote_state import update_copied_offset
from tidelog.remote.tasks.replica import Role, TieredReplica
from tidelog.storage.disk.checkpoints import decode_leader_epochs

PARTITION = TopicIdPartition(TOPIC_ID, TOPIC, 0)


@dataclass
class Objects:
    """The stored objects by segment and kind of file; the log itself has the kind None."""

    files: dict[tuple[RemoteLogSegmentMetadata, IndexType | None], bytes] = field(default_factory=dict)
    is_down: bool = False


class ObjectStorage:
    """A RemoteStorageManager that copies files from the disk of one broker."""

    def __init__(self, objects: Objects, broker: TieredBroker) -> None:
        self._objects = objects
        self._broker = broker

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> bytes | None:
        """Store all files of the segment."""
        read = self._broker.fs.read
        files = {
            None: read(segment.log),
            IndexType.OFFSET: read(segment.offset_index),
            IndexType.TIMESTAMP: read(segment.time_index),
            IndexType.PRODUCER_SNAPSHOT: read(segment.producer_snapshot),
            IndexType.LEADER_EPOCH: segment.leader_epochs,
        }
        if segment.transaction_index is not None:
            files[IndexType.TRANSACTION] = read(segment.transaction_index)
        for kind, data in files.items():
            self._objects.files[_key(metadata), kind] = data
        return None

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> ReadableStream:
        """Return a part of the log."""
        end = None if end_position is None else end_position + 1
        return io.BytesIO(self._read(metadata, None)[start_position:end])

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> ReadableStream:
        """Return one of the small files."""
        return io.BytesIO(self._read(metadata, index_type))

    def _read(self, metadata: RemoteLogSegmentMetadata, kind: IndexType | None) -> bytes:
        if self._objects.is_down:
            raise RemoteStorageError("the store is unavailable")
        data = self._objects.files.get((_key(metadata), kind))
        if data is None:
            raise RemoteResourceNotFound(f"{metadata.remote_log_segment_id}: {kind}")
        return data

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Raise AssertionError: no scenario deletes segments."""
        raise AssertionError(metadata)

    def close(self) -> None:
        """Do nothing."""


def _key(metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    """Return the segment in its first state, as a key that is independent of the state."""
    return replace(
        metadata,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        event_timestamp_ms=0,
        broker_id=0,
    )


class InlinePool:
    """Runs calls synchronously."""

    async def run(self, function: Any, /, *args: Any) -> Any:
        """Run the function, as BoundedPool does."""
        return function(*args)


class TieredBroker(ScenarioBroker):
    """A broker with its parts of the tier."""

    _scenario: TieredScenario

    def boot(self) -> None:
        """Start with the content of the disk, and read the metadata of the tier."""
        super().boot()
        storage = ObjectStorage(self._scenario.objects, self)
        self.metadata = InMemoryRemoteLogMetadataManager(self._scenario.metadata_log)
        if self.letter in self._scenario.without_metadata:
            self.metadata.held_back.add(PARTITION)
        self.metadata.on_partition_leadership_changes((PARTITION,), ())
        cache = RemoteIndexCache(self.fs, "/data", storage, 1 << 20)
        cache.load()
        self.reader = RemoteLogReader(storage, self.metadata, cache, cast(Any, InlinePool()))
        self.tier = FollowerTier(self.metadata, self.reader)
        inline = InlinePool().run
        self.context = RemoteLogContext(
            broker_id=self.id,
            settings=remote_settings(),
            storage=storage,
            metadata=self.metadata,
            clock=self.running_replicas.clock,
            randomness=random.Random(self.epoch),
            run_copy=inline,
            run_deletion=inline,
            copy_quota=ByteRate(UNLIMITED, 11, 1),
            outages=StoreOutages.create(
                remote_settings(), self.running_replicas.clock, random.Random(self.epoch)
            ),
        )

    def apply_metadata(self, steps: int) -> None:
        """Apply metadata, with the setting of followers."""
        super().apply_metadata(steps)
        if self.core is not None:
            self.core.prefer_last_tiered_offset(self._scenario.is_last_tiered_preferred)

    @property
    def replica(self) -> TieredReplica:
        """Return the replica for the tasks of the tier."""
        return TieredReplica(PARTITION, self.partition.log, self.partition.leader_epoch)

    def fetch_auxiliary(self, action: FetchAuxiliary) -> None:
        """Read the files stored with the segment, and perform the next action."""
        assert self.core is not None and isinstance(action.segment, RemoteLogSegmentMetadata)
        now_ms = self._scenario.now_ms
        try:
            epochs, producers = run_to_end(self.reader.fetch_auxiliary(action.segment))
        except Exception as error:
            self.core.on_auxiliary_failed(action, str(error), now_ms)
            return
        restart = self.core.on_auxiliary_fetched(action, epochs, producers, now_ms)
        assert restart is not None
        self.perform([restart])


class TieredScenario(Scenario):
    """One scenario of a tiered topic."""

    broker_type = TieredBroker
    topic_configs: ClassVar[dict[str, str]] = {"remote.storage.enable": "true"}
    brokers: dict[str, TieredBroker]  # type: ignore[assignment]

    def __init__(self, text: str, *arguments: Any) -> None:
        super().__init__(text, *arguments)
        self.objects = Objects()
        self.metadata_log = InMemoryMetadataLog()
        self.without_metadata: set[str] = set()
        self.is_last_tiered_preferred = False
        self.sequences: dict[str, int] = {}

    # -- commands

    def roll(self, letter: str) -> None:
        """Roll the active segment."""
        self.brokers[letter].partition.log.roll(NOW_MS)

    def upload(self, letter: str) -> None:
        """Run the leader's copy task."""
        broker = self.brokers[letter]
        assert broker.partition.leader is not None, f"{letter} is not the leader"
        run_to_end(CopyTask(broker.context, Role(broker.replica, is_leader=True)).run())

    def expire(self, letter: str, offset: str) -> None:
        """Apply local retention by bytes, with the size of the segments to keep."""
        broker, start = self.brokers[letter], int(offset)
        log = broker.partition.log
        update_copied_offset(broker.context, broker.replica)
        kept = sum(segment.size_bytes for segment in log.segments if segment.base_offset >= start)
        log.update_config(replace(log.config, local_retention_bytes=kept))
        log.retention.apply(NOW_MS)
        assert log.local_log_start_offset == start, f"local log start: {log.local_log_start_offset}"

    def no_metadata(self, letter: str) -> None:
        """Stop reading the metadata partition."""
        self.without_metadata.add(letter)
        broker = self.brokers[letter]
        if broker.replicas is not None:
            broker.metadata.on_stop_partitions([PARTITION])
            broker.metadata.held_back.add(PARTITION)
            broker.metadata.on_partition_leadership_changes((PARTITION,), ())

    def metadata(self, letter: str) -> None:
        """Read the metadata partition to its end."""
        self.without_metadata.discard(letter)
        metadata = self.brokers[letter].metadata
        metadata.held_back.clear()
        metadata.on_partition_leadership_changes((PARTITION,), ())

    def send(self, producer: str, letter: str, value: str) -> None:
        """Send the next batch of an idempotent producer."""
        self.sequences[producer] = self.sequences.get(producer, -1) + 1
        self.repeat(producer, letter, value)

    def repeat(self, producer: str, letter: str, value: str) -> None:
        """Send the last batch of an idempotent producer again."""
        sent = batch(
            [value], producer_id=int(producer), producer_epoch=0, base_sequence=self.sequences[producer]
        )
        self.brokers[letter].partition.append(sent, -1, NOW_MS)

    def last_tiered_offset(self) -> None:
        """Let followers start after the last tiered offset (KIP-1023)."""
        self.is_last_tiered_preferred = True

    def tier(self, state: str) -> None:
        """Make the object store available or unavailable."""
        self.objects.is_down = state == "down"

    # -- checks

    def _check(self, words: list[str]) -> None:
        kind = words[0]
        if kind == "tier":
            segments = [_describe(each) for each in self._segments(words[1])]
            assert " | ".join(segments) == " ".join(words[2:]), (
                f"segments in the tier: {' | '.join(segments)}"
            )
        elif kind == "stored":
            self._check_stored(words[1], words[2:])
        elif kind == "producers":
            producers = self.brokers[words[1]].partition.log.producers.producers
            last_offsets = [f"{producer}:{producers[producer].last_offset}" for producer in sorted(producers)]
            assert last_offsets == words[2:], f"producers: {last_offsets}"
        elif kind == "local":
            start = self.brokers[words[1]].partition.log.local_log_start_offset
            assert start == int(words[2]), f"local log start: {start}"
        elif kind == "read":
            epoch = int(words[4]) if words[3] == "epoch" else -1
            value = self._read(words[1], int(words[2]), epoch)
            assert value == words[-1], f"result: {value}"
        elif kind == "asks" and words[2] != "for":
            query = next_query(self._follower_partition(words[1]))
            expected = EpochEndQuery(int(words[4])) if words[2] == "end" else OffsetQuery(int(words[2]))
            assert query == expected, f"next request: {query}"
        elif words[1:] in (["builds"], ["fetches"]):
            state = self._follower_partition(kind).state
            building = ReplicaState.BUILDING_REMOTE_LOG_AUX
            assert state is (building if words[1] == "builds" else ReplicaState.FETCHING), state
        else:
            super()._check(words)

    def _follower_partition(self, letter: str) -> Any:
        core = self.brokers[letter].core
        assert core is not None, f"{letter} is not a follower"
        return core.partitions[T0]

    def _segments(self, letter: str) -> list[RemoteLogSegmentMetadata]:
        listed = self.brokers[letter].metadata.list_remote_log_segments(PARTITION)
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        return [segment for segment in listed if segment.state is finished]

    def _check_stored(self, offsets: str, epochs: list[str]) -> None:
        stored = [
            decode_leader_epochs(data, "stored")
            for (metadata, kind), data in self.objects.files.items()
            if kind is IndexType.LEADER_EPOCH and f"{metadata.start_offset}-{metadata.end_offset}" == offsets
        ]
        epoch_starts = [f"{epoch}:{start}" for epoch, start in stored[-1]]
        assert epoch_starts == epochs, f"leader epochs: {epoch_starts}"

    def _read(self, letter: str, offset: Offset, epoch: LeaderEpoch) -> str:
        """Return the value that a consumer gets at `offset` after a record of `epoch`."""
        broker = self.brokers[letter]
        log = broker.partition.log
        requested = FetchPartition(
            partition=0, fetch_offset=offset, last_fetched_epoch=epoch, partition_max_bytes=1
        )
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=1,
            session_epoch=-1,
            topics=(FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=(requested,)),),
        )
        response = LeaderConnection(broker.running_replicas).handle(request)
        assert isinstance(response, FetchResponse)
        data = response.responses[0].partitions[0]
        if data.diverging_epoch.end_offset >= 0:
            return "rejected"
        if offset >= log.local_log_start_offset:
            assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code).name
            records = bytes(data.records or b"")
        else:
            remote = RemoteReadRequest(PARTITION, offset, 1, True, log.high_watermark, False, log)
            records = bytes(run_to_end(broker.reader.read(remote)).records)
        values = [
            (record.value or b"").decode()
            for position, header in iterate_headers(records)
            for record in read_records(records, position, header)
            if header.base_offset <= offset < header.next_offset
        ]
        return " ".join(values)


def _describe(segment: RemoteLogSegmentMetadata) -> str:
    epochs = " ".join(f"{epoch}:{start}" for epoch, start in segment.segment_leader_epochs)
    return f"{segment.start_offset}-{segment.end_offset} {epochs}"


_L = r"([A-Z])"
TieredScenario.commands = [
    (rf"roll {_L}", TieredScenario.roll),
    (rf"upload {_L}", TieredScenario.upload),
    (rf"expire {_L} below (\d+)", TieredScenario.expire),
    (rf"no metadata for {_L}", TieredScenario.no_metadata),
    (rf"metadata for {_L}", TieredScenario.metadata),
    (r"tier (up|down)", TieredScenario.tier),
    (rf"producer (\d+) sends {_L} (\w+)", TieredScenario.send),
    (rf"producer (\d+) repeats to {_L} (\w+)", TieredScenario.repeat),
    (r"last tiered offset", TieredScenario.last_tiered_offset),
    *Scenario.commands,
]
