"""A consumer's positions: seeking, pausing, and asking where partitions begin and end (shell)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.consumer_types import FetchPosition, OffsetAndTimestamp
from tidelog.clients.consumer.fetch_driver import FetchDriver
from tidelog.clients.consumer.handed_out import HandedOut
from tidelog.clients.consumer.offset_checks import require_offset
from tidelog.clients.consumer.offset_questions import OffsetsByTimestamp
from tidelog.clients.consumer.partition_state import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AssignedPartitions,
    FetchState,
    PartitionState,
)
from tidelog.clients.consumer.position_initializer import PositionInitializer
from tidelog.clients.transport.client import ClientBase
from tidelog.clients.transport.leader_requests import ask_leaders
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition


class ConsumerPositions:
    """The part of `Consumer` that concerns positions; `Consumer` sets what is declared here."""

    config: ConsumerConfig
    _client: ClientBase
    _assigned: AssignedPartitions
    _handed_out: HandedOut
    _driver: FetchDriver
    _initializer: PositionInitializer
    _started: bool
    _is_closing: bool
    _is_closed: bool

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from `offset`; what was fetched ahead is dropped."""
        require_offset(offset, f"seek of {partition}")
        state = self._require_assigned(partition)
        state.seek(FetchPosition(offset), self._client.metadata.leader_epoch(state.topic_partition))
        self._driver.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first offset there is; of all assigned partitions if none is named."""
        self._seek_to(EARLIEST_TIMESTAMP, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on behind the last record; of all assigned partitions if none is named."""
        self._seek_to(LATEST_TIMESTAMP, partitions)

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record that will be handed out."""
        state = self._require_assigned(partition)
        deadline_ms = self._deadline_ms(timeout_ms)
        while state.state in (FetchState.INITIALIZING, FetchState.AWAIT_RESET):
            self._driver.data_arrived.clear()
            self._initializer.advance()
            if state.error is not None:
                error, state.error = state.error, None
                raise error
            self._driver.wake()
            left_ms = deadline_ms - self._client.now_ms()
            if left_ms <= 0:
                text = f"position of {state.topic_partition} did not come in time"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
            await self._wait_for_data(left_ms)
        return self._handed_out.position(state).offset

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until `resume`."""
        for partition in partitions:
            self._require_assigned(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`."""
        for partition in partitions:
            self._require_assigned(partition).paused = False
        self._driver.wake()

    def paused(self) -> tuple[TopicPartition, ...]:
        """The paused partitions."""
        return tuple(state.topic_partition for state in self._assigned if state.paused)

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The high watermark in the last fetch of an assigned partition; None before the first."""
        return self._require_assigned(partition).high_watermark

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        found = await self._list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        return {tp: at.offset for tp, at in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (read_committed: the last stable one)."""
        found = await self._list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {tp: at.offset for tp, at in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each timestamp (ms since 1970); None where there is none."""
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                text = f"timestamp {timestamp} for {partition} is negative"
                raise KafkaError(ErrorCode.INVALID_TIMESTAMP, text)
        found = await self._list_offsets(timestamps)
        return {tp: at if at.offset >= 0 else None for tp, at in found.items()}

    # --- inside ---------------------------------------------------------------------------

    def _seek_to(self, timestamp: int, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions or self._assigned.topic_partitions:
            self._require_assigned(partition).await_reset(timestamp)
        self._driver.wake()

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._require_usable()
        asked = {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}
        question = OffsetsByTimestamp(
            asked,
            self._client.metadata,
            read_committed=self.config.read_committed,
            timeout_ms=self.config.request_timeout_ms,
        )
        answers = await ask_leaders(self._client, asked, question, self._deadline_ms())
        answers.raise_first()
        return answers.results

    async def _wait_for_data(self, timeout_ms: int) -> None:
        """Wait for something to look at; KafkaError when another task closes the consumer meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._driver.data_arrived.wait()
        self._require_open()

    def _wake_poll(self) -> None:
        self._driver.data_arrived.set()
        self._driver.wake()

    def _require_usable(self) -> None:
        if not self._started:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the consumer is not started")
        if self._is_closed:
            raise _closed()

    def _require_open(self) -> None:
        self._require_usable()
        if self._is_closing:
            raise _closed()
        if self._driver.failure is not None:
            raise self._driver.failure

    def _require_assigned(self, partition: TopicPartition) -> PartitionState:
        self._require_usable()
        state = self._assigned.get(TopicPartition(*partition))
        if state is None:
            text = f"{TopicPartition(*partition)} is not assigned to this consumer"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return state

    def _deadline_ms(self, timeout_ms: int | None = None) -> int:
        limit = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self._client.now_ms() + limit


def _closed() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "the consumer is closed")
