"""The records of a remote segment, fetched from one replica (shell).

A fetch from the local log returns the bytes that were copied. Below the local log start, a broker would read
the damaged object itself. It does not matter which of them happens: only bytes with the size, the offsets,
the leader epochs and the checksums of the segment are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, read_header
from tidelog.protocol.errors import DecodeError, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.storage.leader_epoch import LeaderEpochCache

_TIMEOUT_MS: Final = 10_000
"""The time without progress after which the next replica is tried."""


class RecordsNotAvailable(Exception):
    """A replica does not have the records of the segment."""


async def fetch_segment_records(
    bootstrap_servers: str | Sequence[str],
    options: Mapping[str, Any],
    replica: BrokerId,
    metadata: RemoteLogSegmentMetadata,
    file: BinaryIO,
) -> list[BatchHeader]:
    """Write the segment's batches to `file` as `replica` has them, and return their headers.

    Errors: RecordsNotAvailable, after which `file` may have some bytes.
    """
    name = metadata.topic_id_partition.topic_partition
    headers: list[BatchHeader] = []
    reader = PartitionReader(
        bootstrap_servers,
        name,
        start_offset=metadata.start_offset,
        end_offset=metadata.end_offset + 1,
        replica=replica,
        **{**options, "check_crcs": True, "default_api_timeout_ms": _TIMEOUT_MS},
    )
    try:
        async with reader:
            async for fetched in reader.fetched_ranges():
                headers += _write_batches(fetched.records, metadata, file)
    except (KafkaError, DecodeError) as error:
        raise RecordsNotAvailable(f"broker {replica}: {error}") from error
    problem = difference(headers, metadata)
    if problem is not None:
        raise RecordsNotAvailable(f"broker {replica}: {problem}")
    return headers


def _write_batches(
    records: memoryview, metadata: RemoteLogSegmentMetadata, file: BinaryIO
) -> list[BatchHeader]:
    """Write the complete batches of the segment, and return their headers."""
    headers: list[BatchHeader] = []
    end = 0
    while len(records) - end >= BATCH_OVERHEAD:
        header = read_header(records, end)
        if end + header.size_bytes > len(records) or header.base_offset > metadata.end_offset:
            break
        headers.append(header)
        end += header.size_bytes
    file.write(records[:end])
    return headers


def difference(headers: Sequence[BatchHeader], metadata: RemoteLogSegmentMetadata) -> str | None:
    """Return how the batches differ from those of the segment; None if they do not."""
    size_bytes = sum(header.size_bytes for header in headers)
    if not headers or size_bytes != metadata.segment_size_bytes:
        return f"its batches have {size_bytes} bytes, the segment has {metadata.segment_size_bytes}"
    if headers[0].base_offset < metadata.start_offset or headers[-1].last_offset > metadata.end_offset:
        return f"it has the offsets {headers[0].base_offset} to {headers[-1].last_offset}"
    epochs = LeaderEpochCache.of(metadata.segment_leader_epochs)
    for header in headers:
        epoch = epochs.epoch_for_offset(header.base_offset)
        # Offsets before its first epoch were below the log start already when it was copied.
        if epoch is not None and epoch != header.partition_leader_epoch:
            return (
                f"offset {header.base_offset} is of leader epoch {header.partition_leader_epoch}, not {epoch}"
            )
    return None
