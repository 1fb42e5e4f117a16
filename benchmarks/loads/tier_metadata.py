"""The metadata of remote segments in a broker: memory per segment, and loading time."""

from __future__ import annotations

import asyncio
import gc
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

from benchmarks.loads.options import main
from tidelog.clients.admin.admin import Admin
from tidelog.clients.producer.producer import Producer
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.metadata.record_codec import encode_event
from tidelog.remote.metadata.snapshot_files import DIRECTORY
from tidelog.remote.metadata.store import PartitionMetadataStore, RemoteLogEvent
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.testing.embedded import EmbeddedCluster

TOPIC: Final = "wide"
METADATA_TOPIC: Final = "__remote_log_metadata"
METADATA_PARTITIONS: Final = 5
PARTITIONS: Final = 100
RECORDS_PER_SEGMENT: Final = 1000
PAGE_BYTES: Final = 4096
READY_WITHIN_S: Final = 300.0
POLL_S: Final = 0.02
# The segments are old, and must not expire.
TIERED: Final = {"remote.storage.enable": "true", "retention.ms": "-1"}
SETTINGS: Final = {
    "rlmm.config.remote.log.metadata.topic.num.partitions": str(METADATA_PARTITIONS),
    # Nothing but the metadata shall be at work, and nothing be done about segments that are not there.
    "remote.log.manager.task.interval.ms": "86400000",
}


def tier_metadata(kind: str, **options: Any) -> dict[str, Any]:
    """Run the load called `kind`."""
    return {"memory": memory, "start": start}[kind](**options)


def memory(segments: int) -> dict[str, Any]:
    """Return bytes of resident memory per segment, for `segments` finished ones in PARTITIONS partitions."""
    store = PartitionMetadataStore()
    topic_id = uuid4()
    # Imports and whatever the first of them needs are no memory of segments.
    _fill(store, topic_id, 10)
    gc.collect()
    before = _resident_bytes()
    started = time.process_time()
    _fill(store, uuid4(), segments)
    elapsed = time.process_time() - started
    gc.collect()
    return {
        "bytes_per_segment": (_resident_bytes() - before) / segments,
        "us_per_segment": elapsed / segments * 1e6,
    }


def start(segments: int) -> dict[str, Any]:
    """Return seconds from the start of a node until it has loaded `segments`, with and without snapshots."""
    folder = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    try:
        with _cluster(folder) as cluster:
            partitions = asyncio.run(_write(cluster.bootstrap_servers, segments))
            _wait_until_known(cluster, partitions, segments)
        with_snapshot = _start(folder, partitions)
        shutil.rmtree(folder / "data" / DIRECTORY)
        without = _start(folder, partitions)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"with_snapshot_s": with_snapshot, "without_s": without}


def _events(partition: TopicIdPartition, count: int) -> Iterator[RemoteLogEvent]:
    """Yield the metadata records of `count` consecutive segments that were copied."""
    for number in range(count):
        first = number * RECORDS_PER_SEGMENT
        segment_id = RemoteLogSegmentId(partition, uuid4())
        yield RemoteLogSegmentMetadata(
            segment_id,
            first,
            first + RECORDS_PER_SEGMENT - 1,
            number,
            1,
            number,
            1 << 30,
            (EpochEntry(0, first),),
            RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            None,
            True,
        )
        yield RemoteLogSegmentMetadataUpdate(
            segment_id, number, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, 1
        )


def _fill(store: PartitionMetadataStore, topic_id: UUID, segments: int) -> None:
    for number in range(PARTITIONS):
        partition = TopicIdPartition(topic_id, TOPIC, number)
        store.open(partition)
        for event in _events(partition, segments // PARTITIONS):
            store.apply(event)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def _cluster(folder: Path) -> EmbeddedCluster:
    return EmbeddedCluster(tiered=True, data_dir=folder, config=SETTINGS)


async def _write(servers: str, segments: int) -> list[TopicIdPartition]:
    """Create the topic, and write metadata of segments that do not exist."""
    async with Admin(servers) as admin:
        await admin.create_topic(TOPIC, PARTITIONS, configs=TIERED)
        described = (await admin.describe_topics([TOPIC]))[TOPIC]
        assert not isinstance(described, Exception), described
        while True:
            # A producer that comes too early would make the topic as any other.
            if METADATA_TOPIC in await admin.list_topics(include_internal=True):
                break
            await asyncio.sleep(POLL_S)
    partitions = [TopicIdPartition(described.topic_id, TOPIC, number) for number in range(PARTITIONS)]
    async with Producer(servers, linger_ms=5) as producer:
        for partition in partitions:
            number = metadata_partition(partition, METADATA_PARTITIONS)
            for event in _events(partition, segments // PARTITIONS):
                await producer.send(METADATA_TOPIC, encode_event(event), partition=number)
        await producer.flush()
    return partitions


def _start(folder: Path, partitions: Sequence[TopicIdPartition]) -> float:
    started = time.perf_counter()
    with _cluster(folder) as cluster:
        # Ready means that all was read. Their number may fall at once: the log has no record of theirs.
        _wait_until_known(cluster, partitions, 1)
        return time.perf_counter() - started


def _wait_until_known(
    cluster: EmbeddedCluster, partitions: Sequence[TopicIdPartition], segments: int
) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not cluster.run(lambda node: _known_segments(node, partitions) >= segments):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{segments} segments were not known within {READY_WITHIN_S:.0f} s")
        time.sleep(POLL_S)


def _known_segments(node: Any, partitions: Sequence[TopicIdPartition]) -> int:
    metadata = node.remote.metadata
    if not all(metadata.is_ready(partition) for partition in partitions):
        return 0
    count: int = sum(len(cache) for cache in metadata.store._caches.values())
    return count


if __name__ == "__main__":
    main(tier_metadata)
