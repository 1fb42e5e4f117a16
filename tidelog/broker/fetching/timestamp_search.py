"""The search for the first record at or after a timestamp, in remote storage and in the local log."""

from __future__ import annotations

from tidelog.broker.fetching.remote_fetch import RemoteReader
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.scheduling.slices import Slices
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.reading.requests import TimestampSearch
from tidelog.storage.log.partition_log import RecordPlace


async def first_record_from(
    partition: Partition, timestamp: int, slices: Slices, remote: RemoteReader | None
) -> RecordPlace | None:
    """Return the first record of a partition at or after `timestamp`; None if there is none.

    `remote` reads remote storage, which has the older records; None searches the local log only.
    """
    log, name = partition.log, partition.topic_partition
    while remote is not None:
        local_log_start_offset = log.local_log_start_offset
        place = await remote.offset_for_timestamp(
            TimestampSearch(
                topic_id_partition=TopicIdPartition(partition.topic_id, name.topic, name.partition),
                timestamp=timestamp,
                starting_offset=log.log_start_offset,
                log=log,
            )
        )
        # Meanwhile, local records may have become remote only, and remote ones may be deleted.
        if place is not None and place.offset >= log.log_start_offset:
            return place
        if place is None and log.local_log_start_offset == local_log_start_offset:
            break
    return await slices.complete(log.timestamps.first_record_from(timestamp))
