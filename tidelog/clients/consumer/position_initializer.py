"""Sets the first positions of newly assigned partitions (shell): committed offsets, or by reset policy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from tidelog.clients.consumer.consumer_types import FetchPosition
from tidelog.clients.consumer.partition_state import AssignedPartitions, FetchState, PartitionState
from tidelog.clients.groups.committed_offsets import fetch_committed
from tidelog.clients.groups.coordinator_lookup import CoordinatorLookup
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition

_log = logging.getLogger("tidelog.clients.consumer.consumer")


class PositionInitializer:
    """Sets positions to the group's committed offsets, or to `reset_timestamp`.

    `lookup` is None without a group. If `reset_timestamp` is None, a partition without a committed offset is
    an error. `on_change` is called when partitions have positions, or when `advance` will raise an error.
    """

    def __init__(
        self,
        client: ClusterClient,
        assigned: AssignedPartitions,
        lookup: CoordinatorLookup | None,
        reset_timestamp: int | None,
        timeout_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        self._client = client
        self._assigned = assigned
        self._lookup = lookup
        self._reset_timestamp = reset_timestamp
        self._timeout_ms = timeout_ms
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None
        self._error: KafkaError | None = None

    def advance(self) -> None:
        """Start to initialize new partitions; raise the error of an earlier attempt."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._task is not None and not self._task.done():
            return
        states = [state for state in self._assigned if state.state is FetchState.INITIALIZING]
        if not states:
            return
        if self._lookup is None:
            self._start_from(states, {})
            self._on_change()
            return
        self._task = asyncio.create_task(self._fetch(self._lookup, states), name="tidelog-positions")

    async def close(self) -> None:
        """Stop an attempt in progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _fetch(self, lookup: CoordinatorLookup, states: list[PartitionState]) -> None:
        partitions = [state.topic_partition for state in states]
        deadline_ms = self._client.now_ms() + self._timeout_ms
        try:
            # With both isolation levels: records that an open transaction has read must not be read twice.
            committed = await fetch_committed(
                self._client, lookup, partitions, deadline_ms, require_stable=True
            )
        except KafkaError as error:
            # A transaction may be open for longer than the timeout; the next `advance` tries again.
            if error.code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self._error = error
            _log.info("Cannot fetch committed offsets: %s", error)
        else:
            self._start_from(states, committed)
        self._on_change()

    def _start_from(
        self, states: list[PartitionState], committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        for state in states:
            if state.state is not FetchState.INITIALIZING:
                continue  # a seek has set the position
            at = committed.get(state.topic_partition)
            if at is not None:
                epoch = self._client.metadata.leader_epoch(state.topic_partition)
                state.seek(FetchPosition(at.offset, at.leader_epoch), epoch)
            elif self._reset_timestamp is not None:
                state.await_reset(self._reset_timestamp)
            else:
                text = f'{state.topic_partition} has no committed offset and auto_offset_reset is "none"'
                self._error = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
