"""Decides which partitions to fetch from which broker, and buffers the fetched data.

Pure. One fetch request to each broker is in flight. A partition is fetched while it is FETCHING, not paused,
and has fewer than two buffered ranges. The next range is therefore fetched while the application processes
the last one.

Bounds: fetching stops while `fetch_max_bytes` or more are buffered.

Source: KIP-227 (sessions), KIP-320 (epochs), KIP-392 (preferred replica), KIP-516 (topic ids).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from uuid import UUID

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.randomness import Randomness
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.clients.consumer.fetch_session import FetchSession, SessionPartition, SessionRequest
from tidelog.clients.consumer.fetched_data import FetchedData
from tidelog.clients.consumer.partition_state import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AssignedPartitions,
    FetchState,
    PartitionState,
)
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.failures import STALE_METADATA, failure, known_code
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tidelog.protocol.schema import ZERO_UUID

_log = logging.getLogger("tidelog.clients.consumer.consumer")
_CONSUMER_REPLICA_ID = -1
_BUFFERED_RANGES_MAX = 2
_HIGHEST_VERSION_BY_NAME = 12
_HARMLESS = frozenset(
    {ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR}
)


class Fetcher:
    """Plans the fetches of the assigned partitions, and buffers their data."""

    def __init__(
        self,
        config: ConsumerConfig,
        assigned: AssignedPartitions,
        metadata: ClusterMetadata,
        *,
        retry_backoff: ExponentialBackoff,
        rng: Randomness,
    ) -> None:
        self._config = config
        self._assigned = assigned
        self._metadata = metadata
        self._rng = rng
        self._backoff = retry_backoff
        self._sessions: dict[BrokerId, FetchSession] = {}
        self._pending: set[BrokerId] = set()

    # --- requests -------------------------------------------------------------------------

    @property
    def reset_timestamp(self) -> int | None:
        """The timestamp of `auto_offset_reset` in ListOffsets; None for "none"."""
        policy = self._config.auto_offset_reset
        if policy == "none":
            return None
        return EARLIEST_TIMESTAMP if policy == "earliest" else LATEST_TIMESTAMP

    def plan(self, now_ms: int) -> dict[BrokerId, list[PartitionState]]:
        """Return the partitions to fetch now by broker, without brokers that have a fetch in flight."""
        plan: dict[BrokerId, list[PartitionState]] = {}
        buffered_bytes = 0
        for state in self._assigned:
            if state.buffered and not state.paused:
                buffered_bytes += sum(data.size_bytes for data in state.buffered)
            if not state.is_fetchable or state.error is not None or state.retry_at_ms > now_ms:
                continue
            if len(state.buffered) >= _BUFFERED_RANGES_MAX:
                continue
            node_id = self._node_for(state, now_ms)
            if node_id is not None and node_id not in self._pending:
                plan.setdefault(node_id, []).append(state)
        return plan if buffered_bytes < max(1, self._config.fetch_max_bytes) else {}

    def has_unknown_leader(self) -> bool:
        """Return whether a partition cannot be fetched because its leader is unknown."""
        leader = self._metadata.leader
        return any(leader(state.topic_partition) is None for state in self._assigned)

    def next_retry_ms(self, now_ms: int) -> int | None:
        """Return the time until a partition in backoff may be fetched again; None if there is none."""
        waits = [state.retry_at_ms - now_ms for state in self._assigned if state.retry_at_ms > now_ms]
        return min(waits, default=None)

    def request(self, node_id: BrokerId, states: Iterable[PartitionState]) -> tuple[FetchRequest, int | None]:
        """Return the request to one broker, and its highest version (None: any)."""
        partitions: dict[TopicPartition, SessionPartition] = {}
        for state in states:
            position = state.next_fetch
            partitions[state.topic_partition] = SessionPartition(
                self._metadata.topic_id(state.topic_partition.topic),
                position.offset,
                position.leader_epoch,
                self._config.max_partition_fetch_bytes,
            )
        by_topic_id = all(partition.topic_id != ZERO_UUID for partition in partitions.values())
        session = self._sessions.setdefault(node_id, FetchSession())
        request = self._request(session.build(partitions, by_topic_id=by_topic_id))
        self._pending.add(node_id)
        return request, None if by_topic_id else _HIGHEST_VERSION_BY_NAME

    def closing_requests(self) -> dict[BrokerId, FetchRequest]:
        """Return the requests that close all open sessions."""
        requests = {}
        for node_id, session in self._sessions.items():
            closing = session.close()
            if closing is not None:
                requests[node_id] = self._request(closing)
        return requests

    def _request(self, session: SessionRequest) -> FetchRequest:
        config = self._config
        is_closing = session.epoch < 0
        return FetchRequest(
            replica_id=_CONSUMER_REPLICA_ID,
            max_wait_ms=0 if is_closing else config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.read_committed),
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=_fetch_topics(session),
            forgotten_topics_data=_forgotten_topics(session),
            rack_id=config.client_rack,
        )

    def _node_for(self, state: PartitionState, now_ms: int) -> BrokerId | None:
        replica = state.preferred_replica
        if replica is not None:
            if now_ms < state.preferred_until_ms and replica in self._metadata.brokers:
                return replica
            state.fetch_from_leader()
        return self._metadata.leader(state.topic_partition)

    # --- responses ------------------------------------------------------------------------

    def on_failure(self, node_id: BrokerId, now_ms: int) -> None:
        """Record that the request to this broker has no response."""
        self._pending.discard(node_id)
        session = self._sessions.get(node_id)
        if session is not None:
            session.on_failure(ErrorCode.NETWORK_EXCEPTION)
            self._back_off(session.partitions, now_ms)

    def on_response(self, node_id: BrokerId, response: FetchResponse, now_ms: int) -> bool:
        """Buffer the data of a response; return whether it shows that the metadata is stale."""
        self._pending.discard(node_id)
        session = self._sessions[node_id]
        if response.error_code != ErrorCode.NONE:
            code = known_code(response.error_code)
            _log.info("Fetch session with broker %d failed: %s; starting a new one", node_id, code.name)
            session.on_failure(code)
            return code in (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.UNKNOWN_TOPIC_ID)
        session.on_success(response.session_id)
        names = {partition.topic_id: name.topic for name, partition in session.partitions.items()}
        endpoints = [
            BrokerAddress(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints
        ]
        stale = False
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                topic_partition = TopicPartition(name, data.partition_index)
                requested = session.partitions.get(topic_partition)
                state = self._assigned.get(topic_partition)
                if requested is None or state is None or not self._is_current(state, requested):
                    continue
                stale |= self._on_partition_data(node_id, state, requested, data, endpoints, now_ms)
        return stale

    @staticmethod
    def _is_current(state: PartitionState, requested: SessionPartition) -> bool:
        """Return whether the partition's position is the same as when the request was built."""
        return state.state is FetchState.FETCHING and state.next_fetch.offset == requested.fetch_offset

    def _on_partition_data(
        self,
        node_id: BrokerId,
        state: PartitionState,
        requested: SessionPartition,
        data: PartitionData,
        endpoints: list[BrokerAddress],
        now_ms: int,
    ) -> bool:
        code = known_code(data.error_code)
        if code is ErrorCode.NONE:
            self._buffer(state, requested, data, now_ms)
            return False
        state.back_off(now_ms + self._backoff.delay_ms(0, self._rng))
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(node_id, state, requested)
        elif code in STALE_METADATA or code in _HARMLESS:
            leader = data.current_leader
            if leader.leader_id >= 0:
                hint = (leader.leader_id, leader.leader_epoch)
                if self._metadata.update_leader(state.topic_partition, *hint, endpoints):
                    state.on_leader_changed(leader.leader_epoch)
                    state.back_off(0)
            state.fetch_from_leader()
            return True
        else:
            state.fail(failure(data.error_code, f"fetch of {state.topic_partition}"))
        return False

    def _buffer(
        self, state: PartitionState, requested: SessionPartition, data: PartitionData, now_ms: int
    ) -> None:
        state.on_fetch_response(data, now_ms + self._config.metadata_max_age_ms)
        if not data.records:
            return
        aborted = None
        if self._config.read_committed:
            aborted = [(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()]
        try:
            fetched = FetchedData(
                state.topic_partition,
                data.records,
                requested.fetch_offset,
                state.next_fetch.offset_epoch,
                aborted=aborted,
                check_crcs=self._config.check_crcs,
                max_decompressed_bytes=self._config.max_decompressed_bytes,
            )
        except KafkaError as error:
            state.fail(error)
            return
        if not fetched.is_drained:
            state.buffered.append(fetched)

    def _on_out_of_range(self, node_id: BrokerId, state: PartitionState, requested: SessionPartition) -> None:
        if state.preferred_replica == node_id:
            # Request it from the leader, because a follower may lag behind (KIP-392).
            state.fetch_from_leader()
            state.back_off(0)
            return
        if state.buffered:
            # Reset when the application has taken the buffered records.
            return
        timestamp = self.reset_timestamp
        if timestamp is None:
            text = (
                f"offset {requested.fetch_offset} of {state.topic_partition} is out of range"
                ' and auto_offset_reset is "none"'
            )
            state.fail(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text))
            return
        offset, partition = requested.fetch_offset, state.topic_partition
        _log.info("Offset %d of %s is out of range; resetting the position", offset, partition)
        state.await_reset(timestamp)

    def _back_off(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
        until_ms = now_ms + self._backoff.delay_ms(0, self._rng)
        for topic_partition in topic_partitions:
            state = self._assigned.get(topic_partition)
            if state is not None:
                state.back_off(until_ms)

    # --- taking records -------------------------------------------------------------------

    def take(self, max_records: int) -> list[tuple[PartitionState, list[ConsumerRecord]]]:
        """Return buffered records, at most `max_records`, and move the positions after them.

        Raise a partition's error once, in a call that has no records to return.
        """
        result: list[tuple[PartitionState, list[ConsumerRecord]]] = []
        failed: PartitionState | None = None
        room = max_records
        for state in self._assigned:
            if room <= 0:
                break
            if state.paused:
                continue
            records = self._take_from(state, room) if state.is_fetchable else []
            if records:
                room -= len(records)
                result.append((state, records))
            elif state.error is not None and failed is None:
                failed = state
        if failed is not None and not result:
            error = failed.take_error()
            assert error is not None
            raise error
        for state, _ in result:
            self._assigned.move_to_end(state.topic_partition)
        return result

    def _take_from(self, state: PartitionState, room: int) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        while state.buffered and room > 0:
            data = state.buffered[0]
            try:
                taken = data.take(room)
            except KafkaError as error:
                # Keep the position before the damaged batch; the records before it are valid.
                state.drop_damaged(error)
                break
            state.advance(*data.consumed_position)
            room -= len(taken)
            records = records + taken if records else taken
            if data.is_drained:
                state.buffered.popleft()
        return records


def _fetch_topics(session: SessionRequest) -> tuple[FetchTopic, ...]:
    by_topic: dict[tuple[str, UUID], list[FetchPartition]] = {}
    for (topic, partition), requested in session.to_send.items():
        entry = FetchPartition(
            partition=partition,
            current_leader_epoch=requested.current_leader_epoch,
            fetch_offset=requested.fetch_offset,
            partition_max_bytes=requested.max_bytes,
        )
        by_topic.setdefault((topic, requested.topic_id), []).append(entry)
    return tuple(
        FetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(entries))
        for (topic, topic_id), entries in by_topic.items()
    )


def _forgotten_topics(session: SessionRequest) -> tuple[ForgottenTopic, ...]:
    by_topic: dict[tuple[str, UUID], list[int]] = {}
    for (topic, partition), topic_id in session.forgotten.items():
        by_topic.setdefault((topic, topic_id), []).append(partition)
    return tuple(
        ForgottenTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))
        for (topic, topic_id), partitions in by_topic.items()
    )
