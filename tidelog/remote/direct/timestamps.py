"""Records by timestamp, found through the time indexes of remote segments without a broker.

I/O: blocks. Errors: RemoteStorageError.
"""

from __future__ import annotations

from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.protocol.ids import Offset
from tidelog.remote.direct.fetched_indexes import FetchedIndexes
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.ports.storage_manager import RemoteStorageManager
from tidelog.remote.reading.lineage import parts_with_timestamp
from tidelog.remote.reading.timestamp_search import TimestampReader


def first_at_or_after(
    storage: RemoteStorageManager, tier: PartitionTier, timestamp_ms: int, starting_offset: Offset
) -> Offset | None:
    """Return the offset of the first record at or after `timestamp_ms`, from `starting_offset`.

    None if there is none.
    """
    reader = TimestampReader(storage, FetchedIndexes(storage), SYSTEM_CLOCK)
    parts = parts_with_timestamp(tier.metadata, tier.partition, tier.epochs, timestamp_ms, starting_offset)
    for part in parts:
        place = None if part is None else reader.first_at_or_after(part, timestamp_ms)
        if place is not None:
            return place.offset
    return None
