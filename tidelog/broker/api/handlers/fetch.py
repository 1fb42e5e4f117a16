"""Fetch (key 1): read batches from partitions, now or as soon as there is enough (versions 4-18).

Batches leave as the bytes they are in the log; what fits a reader is decided by offsets alone.
A fetch that finds less than `min_bytes` waits in the fetch purgatory, at most `max_wait_ms`. One that
needs remote storage waits for that, in a purgatory of its own.
Followers of other brokers read by it as well: with a replica id, to the log end.

Source: KIP-227 (sessions), KIP-98 (isolation), KIP-320 (epochs), KIP-516 (topic ids), KIP-392 (reading
from followers), KIP-903 (broker epochs), KIP-951 (the leader in errors).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, cast

from tidelog.base.clock import Clock
from tidelog.broker.fetching.delayed_fetch import DelayedFetch
from tidelog.broker.fetching.delayed_remote_fetch import DelayedRemoteFetch
from tidelog.broker.fetching.fetch_read import FetchLimits, FetchRead, PreferredReplica, read_partitions
from tidelog.broker.fetching.fetch_sessions import FetchContext, FetchSessionCache
from tidelog.broker.fetching.remote_fetch import RemoteAccess
from tidelog.broker.network.request import AnswerPart, Request
from tidelog.broker.observability.topic_traffic import EXPECTED_OF_FETCH, TopicTraffic
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.replication.current_leaders import ERRORS_THAT_NAME_THE_LEADER, CurrentLeaders
from tidelog.broker.replication.replica_selector import ReplicaSelector
from tidelog.cluster.image import BrokerImage
from tidelog.cluster.replication.throttle import ReplicationQuota
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.fetch_request_view import FetchPartition, FetchRequestView, read_fetch_request
from tidelog.protocol.fetch_response_view import FetchPartitionResult, FetchResult, encode_fetch_response
from tidelog.protocol.ids import BrokerId, Offset
from tidelog.protocol.response_parts import NodeEndpoint

READ_COMMITTED = 1
FIRST_VERSION_WITH_RACK: Final = 11
FIRST_VERSION_WITH_NODE_ENDPOINTS: Final = 16


class FetchHandler:
    """Reads within the request's limits and the broker's `fetch.max.bytes`."""

    def __init__(
        self,
        replicas: ReplicaManager,
        sessions: FetchSessionCache,
        purgatory: Purgatory,
        traffic: TopicTraffic,
        clock: Clock,
        max_bytes: int,
        leaders: CurrentLeaders,
        selector: ReplicaSelector | None = None,
        brokers: Callable[[], Mapping[BrokerId, BrokerImage]] | None = None,
        quota: ReplicationQuota | None = None,
        remote: RemoteAccess | None = None,
    ) -> None:
        """`selector` and `brokers` send readers to a replica near them; `quota` throttles followers.

        `remote` is there on a node with remote storage.
        """
        self._replicas = replicas
        self._sessions = sessions
        self._purgatory = purgatory
        self._traffic = traffic
        self._clock = clock
        self._max_bytes = max_bytes
        self._leaders = leaders
        self._selector = selector
        self._brokers = brokers
        self._quota = quota
        self._remote = remote

    def handle(self, request: Request) -> None:
        """Take one fetch request to its end, or park it; DecodeError when it is malformed."""
        version = request.header.api_version
        view = read_fetch_request(request.body, version)
        try:
            context = self._sessions.context(view, version, self._clock.monotonic_ms())
        except KafkaError as error:
            self._respond(request, (), error_code=error.code)
            return
        limits = self._limits(request, view)
        read = read_partitions(self._replicas, context.partitions, limits)
        if read.moved is not None:
            self._read_remote(request, context, read, limits)
        elif (
            read.is_final
            or read.size_bytes >= limits.min_bytes
            or view.max_wait_ms <= 0
            or not context.partitions
        ):
            self._answer(request, context, read, limits)
        else:
            self._park(request, context, view, limits)

    def _limits(self, request: Request, view: FetchRequestView) -> FetchLimits:
        max_bytes = min(view.max_bytes, self._max_bytes)
        min_bytes = min(view.min_bytes, max_bytes)
        if view.replica_id >= 0:
            limits = FetchLimits(view.replica_id, FetchIsolation.LOG_END, min_bytes, max_bytes)
            limits.replica_epoch = view.replica_epoch
            if self._quota is not None and self._quota.rate is not None:
                limits.is_throttled = self._is_throttled
            return limits
        committed = view.isolation_level == READ_COMMITTED
        isolation = FetchIsolation.READ_COMMITTED if committed else FetchIsolation.READ_UNCOMMITTED
        limits = FetchLimits(view.replica_id, isolation, min_bytes, max_bytes)
        if self._remote is not None:
            limits.remote = self._remote.reader
        limits.leader_only = request.header.api_version < FIRST_VERSION_WITH_RACK
        if view.rack_id and self._selector is not None:
            limits.preferred_replica = self._preferred(view.rack_id, request.listener)
        return limits

    def _is_throttled(self, partition: Partition, broker: BrokerId) -> bool:
        """Whether a follower has to wait; never one in the ISR, which would fall out of it (KIP-73)."""
        quota, leader = self._quota, partition.leader
        return (
            quota is not None
            and leader is not None
            and broker not in leader.isr
            and quota.is_throttled(partition.topic_partition)
            and quota.is_exceeded(self._clock.monotonic_ms())
        )

    def _record_throttled(self, read: FetchRead) -> None:
        """Count what followers of throttled replicas get."""
        assert self._quota is not None
        now_ms = self._clock.monotonic_ms()
        for asked, result in read.results:
            if result.records_length:
                name = self._replicas.resolve(asked.topic, asked.topic_id, asked.partition)
                self._quota.record(name, result.records_length, now_ms)

    def _preferred(self, rack: str, listener: str) -> PreferredReplica:
        """What the selector says to a client of `rack`."""
        selector, brokers = self._selector, self._brokers
        assert selector is not None
        assert brokers is not None

        def preferred(partition: Partition, offset: Offset) -> BrokerId | None:
            return selector(partition, offset, rack, listener, brokers())

        return preferred

    def _park(
        self, request: Request, context: FetchContext, view: FetchRequestView, limits: FetchLimits
    ) -> None:
        def on_read(read: FetchRead) -> None:
            self._answer(request, context, read, limits)

        def on_failed(_: Exception) -> None:
            self._answer_failed(request, context, limits)

        resolve = self._replicas.resolve
        requested: dict[Hashable, FetchPartition] = {
            resolve(asked.topic, asked.topic_id, asked.partition): asked for asked in context.partitions
        }
        operation = DelayedFetch(view.max_wait_ms, self._replicas, requested, limits, on_read, on_failed)
        if not self._purgatory.try_complete_else_watch(operation, requested):
            # `max_wait_ms` may be weeks, which a reader that comes back again and again must not pile up.
            request.on_abandoned = lambda _: operation.cancel()
            request.release_frame()

    def _read_remote(
        self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits
    ) -> None:
        """Have remote storage asked, and answer when that is done; who asked may go away before."""
        remote = self._remote
        assert remote is not None

        def on_read(complete: FetchRead) -> None:
            self._answer(request, context, complete, limits)

        def on_failed(_: Exception) -> None:
            self._answer_failed(request, context, limits)

        operation = DelayedRemoteFetch(
            remote.fetch_max_wait_ms(), self._replicas, read, limits, remote.reader, on_read, on_failed
        )
        resolve = self._replicas.resolve
        keys = [resolve(asked.topic, asked.topic_id, asked.partition) for asked in context.partitions]
        if not remote.fetches.try_complete_else_watch(operation, keys):
            request.on_abandoned = lambda _: operation.cancel()
            request.release_frame()

    def _answer(self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits) -> None:
        if limits.is_throttled is not None:
            self._record_throttled(read)
        self._traffic.fetch_requests += len(read.results)
        if limits.replica_id >= 0:
            self._traffic.replication_bytes_out += read.size_bytes
        else:
            self._traffic.bytes_out += read.size_bytes
        endpoints: tuple[NodeEndpoint, ...] = ()
        if read.is_final:
            self._traffic.failed_fetch_requests += sum(
                1 for _, r in read.results if r.error_code and r.error_code not in EXPECTED_OF_FETCH
            )
            endpoints = self._name_leaders(request, read)
        self._respond(
            request, context.select(read.results), session_id=context.session_id, endpoints=endpoints
        )

    def _answer_failed(self, request: Request, context: FetchContext, limits: FetchLimits) -> None:
        """Answer a parked request that cannot be completed with an error for each of its partitions."""
        error = FetchPartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        results = [(asked, error) for asked in context.partitions]
        self._answer(request, context, FetchRead(results, 0, True), limits)

    def _name_leaders(self, request: Request, read: FetchRead) -> tuple[NodeEndpoint, ...]:
        """Say at each partition that is led elsewhere by whom, and where those leaders are."""
        if request.header.api_version < FIRST_VERSION_WITH_NODE_ENDPOINTS:
            return ()
        leaders: list[tuple[int, int] | None] = []
        for asked, result in read.results:
            if result.error_code in ERRORS_THAT_NAME_THE_LEADER:
                result.current_leader = self._leaders.leader_of(asked.topic, asked.topic_id, asked.partition)
                leaders.append(result.current_leader)
        return self._leaders.endpoints(leaders, request.listener) if leaders else ()

    @staticmethod
    def _respond(
        request: Request,
        results: Sequence[FetchResult],
        *,
        error_code: int = 0,
        session_id: int = 0,
        endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        header = request.header
        parts = encode_fetch_response(
            header.api_version,
            header.correlation_id,
            results,
            error_code=error_code,
            session_id=session_id,
            node_endpoints=endpoints,
        )
        # Records are file slices of the log, which the network sends without reading them.
        request.respond(cast(list[AnswerPart], parts))
