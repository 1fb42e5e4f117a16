"""A consumer's positions: seek, pause, and the first and last offsets of partitions (shell)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.consumer_lifecycle import ConsumerLifecycle, deadline_ms
from tidelog.clients.consumer.consumer_types import FetchPosition, OffsetAndTimestamp
from tidelog.clients.consumer.fetch_driver import FetchDriver
from tidelog.clients.consumer.offset_requests import OffsetsByTimestamp
from tidelog.clients.consumer.partition_state import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AssignedPartitions,
    FetchState,
    PartitionState,
)
from tidelog.clients.consumer.pending_records import PendingRecords
from tidelog.clients.consumer.position_initializer import PositionInitializer
from tidelog.clients.groups.group_offsets import require_offset
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.metadata.leader_requests import send_to_leaders
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition


class ConsumerPositions:
    """The positions of one consumer in its assigned partitions.

    `lifecycle` has the stage of the consumer, `driver` fetches, and `initializer` finds the first positions.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        client: ClusterClient,
        assigned: AssignedPartitions,
        pending: PendingRecords,
        driver: FetchDriver,
        initializer: PositionInitializer,
        lifecycle: ConsumerLifecycle,
    ) -> None:
        self._config = config
        self._client = client
        self._assigned = assigned
        self._pending = pending
        self._driver = driver
        self._initializer = initializer
        self._lifecycle = lifecycle

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue to read at `offset`; drop the records fetched in advance."""
        require_offset(offset, f"seek of {partition}")
        state = self._require_assigned(partition)
        state.seek(FetchPosition(offset), self._client.metadata.leader_epoch(state.topic_partition))
        self._driver.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first offset of these partitions, or of all assigned ones without arguments."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record of these partitions, or of all assigned ones without arguments."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """Return the offset of the next record that will be returned."""
        state = self._require_assigned(partition)
        ends_ms = deadline_ms(self._client, self._config, timeout_ms)
        while state.state in (FetchState.INITIALIZING, FetchState.AWAIT_RESET):
            self._driver.data_arrived.clear()
            self._initializer.advance()
            error = state.take_error()
            if error is not None:
                raise error
            self._driver.wake()
            remaining_ms = ends_ms - self._client.now_ms()
            if remaining_ms <= 0:
                text = f"timed out waiting for the position of {state.topic_partition}"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
            await self._lifecycle.wait_for_data(self._driver, remaining_ms)
        return self._pending.position(state).offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        for partition in partitions:
            self._require_assigned(partition).pause()

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        for partition in partitions:
            self._require_assigned(partition).resume()
        self._driver.wake()

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the high watermark in the last fetch of an assigned partition; None before the first."""
        return self._require_assigned(partition).high_watermark

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        offsets = await self._list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        return {tp: at.offset for tp, at in offsets.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition (read_committed: the last stable one)."""
        offsets = await self._list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {tp: at.offset for tp, at in offsets.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each timestamp (ms since 1970); None if there is none."""
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                text = f"timestamp {timestamp} for {partition} is negative"
                raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
        offsets = await self._list_offsets(timestamps)
        return {tp: at if at.offset >= 0 else None for tp, at in offsets.items()}

    # --- inside ---------------------------------------------------------------------------

    def _seek_to(self, timestamp: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions or self._assigned.topic_partitions:
            self._require_assigned(partition).await_reset(timestamp)
        self._driver.wake()

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._lifecycle.require_usable()
        requested = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}
        api = OffsetsByTimestamp(
            requested,
            self._client.metadata,
            read_committed=self._config.read_committed,
            timeout_ms=self._config.request_timeout_ms,
        )
        ends_ms = deadline_ms(self._client, self._config)
        responses = await send_to_leaders(self._client, requested, api, ends_ms)
        responses.raise_first()
        return responses.results

    def _require_assigned(self, partition: TopicPartition) -> PartitionState:
        self._lifecycle.require_usable()
        state = self._assigned.get(TopicPartition(*partition))
        if state is None:
            text = f"{TopicPartition(*partition)} is not assigned to this consumer"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return state
