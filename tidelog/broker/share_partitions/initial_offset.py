"""Where a share group without a stored offset starts: share.auto.offset.reset."""

from __future__ import annotations

from tidelog.base.clock import Clock
from tidelog.broker.fetching.remote_fetch import RemoteReader
from tidelog.broker.fetching.timestamp_search import first_record_from
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.share_partitions.settings import EARLIEST, LATEST, ShareGroupSettings, duration_ms
from tidelog.protocol.ids import Offset


class InitialOffsets:
    """Finds the initial offset of a partition for a group; `remote` reads remote storage, if there is any."""

    def __init__(
        self,
        settings: ShareGroupSettings,
        slices: Slices,
        clock: Clock,
        remote: RemoteReader | None,
    ) -> None:
        self._settings = settings
        self._slices = slices
        self._clock = clock
        self._remote = remote

    async def of(self, partition: Partition, group_id: str) -> Offset:
        """Return the offset. Errors: KafkaError OFFSET_NOT_AVAILABLE, and those of remote storage.

        The high watermark if no record is new enough for by_duration: the next record is.
        """
        reset = self._settings.offset_reset_of(group_id)
        log = partition.log
        if reset == EARLIEST:
            return log.log_start_offset
        if reset != LATEST:
            timestamp = self._clock.wall_ms() - duration_ms(reset)
            remote = self._remote if log.remote_log_enabled else None
            place = await first_record_from(partition, timestamp, self._slices, remote)
            if place is not None and place.offset < partition.upper_bound(FetchIsolation.READ_UNCOMMITTED):
                return place.offset
        partition.check_high_watermark_known()
        return log.high_watermark
