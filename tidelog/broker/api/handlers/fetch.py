"""Fetch (key 1): read batches from partitions, at once or when enough bytes are available (versions 4-18).

Batches are sent as the bytes that the log contains; only offsets decide what a reader gets.
A fetch that finds less than `min_bytes` waits in the fetch purgatory for at most `max_wait_ms`. A fetch that
needs remote storage waits for it in a purgatory of its own.
Followers on other brokers use the same API: they send a replica id and read up to the log end.

Source: KIP-227 (sessions), KIP-98 (isolation), KIP-320 (epochs), KIP-516 (topic ids), KIP-392 (reading
from followers), KIP-903 (broker epochs), KIP-951 (the leader in errors).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, cast

from tidelog.base.clock import Clock
from tidelog.broker.api.handlers.fetch_options import FetchOptions
from tidelog.broker.fetching.delayed_fetch import DelayedFetch
from tidelog.broker.fetching.delayed_remote_fetch import DelayedRemoteFetch
from tidelog.broker.fetching.fetch_read import FetchLimits, FetchRead, read_partitions
from tidelog.broker.fetching.fetch_sessions import FetchContext, FetchSessionCache
from tidelog.broker.network.request import AnswerPart, Request
from tidelog.broker.observability.topic_traffic import EXPECTED_OF_FETCH, TopicTraffic
from tidelog.broker.partitions.current_leaders import ERRORS_THAT_NAME_THE_LEADER, CurrentLeaders
from tidelog.broker.partitions.partition import FetchIsolation
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.fetch_request_view import FetchPartition, FetchRequestView, read_fetch_request
from tidelog.protocol.fetch_response_view import FetchPartitionResult, FetchResult, encode_fetch_response
from tidelog.protocol.response_parts import NodeEndpoint

READ_COMMITTED: Final = 1
FIRST_VERSION_WITH_RACK: Final = 11
FIRST_VERSION_WITH_NODE_ENDPOINTS: Final = 16


class FetchHandler:
    """Serves fetches within the limits of the request and of `options`."""

    def __init__(
        self,
        replicas: ReplicaManager,
        sessions: FetchSessionCache,
        purgatory: Purgatory,
        traffic: TopicTraffic,
        clock: Clock,
        leaders: CurrentLeaders,
        options: FetchOptions,
    ) -> None:
        self._replicas = replicas
        self._sessions = sessions
        self._purgatory = purgatory
        self._traffic = traffic
        self._clock = clock
        self._leaders = leaders
        self._options = options

    def handle(self, request: Request) -> None:
        """Read and respond, or park the request. Raise DecodeError if it is malformed."""
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
            self._complete(request, context, read, limits)
        else:
            self._park(request, context, view, limits)

    def _limits(self, request: Request, view: FetchRequestView) -> FetchLimits:
        options = self._options
        max_bytes = min(view.max_bytes, options.max_bytes)
        min_bytes = min(view.min_bytes, max_bytes)
        if view.replica_id >= 0:
            limits = FetchLimits(view.replica_id, FetchIsolation.LOG_END, min_bytes, max_bytes)
            limits.replica_epoch = view.replica_epoch
            if options.throttle is not None and options.throttle.is_active:
                limits.is_throttled = options.throttle.is_throttled
            return limits
        committed = view.isolation_level == READ_COMMITTED
        isolation = FetchIsolation.READ_COMMITTED if committed else FetchIsolation.READ_UNCOMMITTED
        limits = FetchLimits(view.replica_id, isolation, min_bytes, max_bytes)
        if options.remote is not None:
            limits.remote = options.remote.reader
        limits.leader_only = request.header.api_version < FIRST_VERSION_WITH_RACK
        if view.rack_id and options.near_replicas is not None:
            limits.preferred_replica = options.near_replicas.for_client(view.rack_id, request.listener)
        return limits

    def _park(
        self, request: Request, context: FetchContext, view: FetchRequestView, limits: FetchLimits
    ) -> None:
        def on_read(read: FetchRead) -> None:
            self._complete(request, context, read, limits)

        def on_failed(_: Exception) -> None:
            self._complete_with_errors(request, context, limits)

        resolve = self._replicas.resolve
        requested: dict[Hashable, FetchPartition] = {
            resolve(each.topic, each.topic_id, each.partition): each for each in context.partitions
        }
        operation = DelayedFetch(view.max_wait_ms, self._replicas, requested, limits, on_read, on_failed)
        if not self._purgatory.try_complete_else_watch(operation, requested):
            # `max_wait_ms` may be weeks: a client that reconnects often must not accumulate operations.
            request.on_abandoned = lambda _: operation.cancel()
            request.release_frame()

    def _read_remote(
        self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits
    ) -> None:
        """Read from remote storage, and respond when that has ended. The client may disconnect before."""
        remote = self._options.remote
        assert remote is not None

        def on_read(complete: FetchRead) -> None:
            self._complete(request, context, complete, limits)

        def on_failed(_: Exception) -> None:
            self._complete_with_errors(request, context, limits)

        operation = DelayedRemoteFetch(
            remote.fetch_max_wait_ms(), self._replicas, read, limits, remote.reader, on_read, on_failed
        )
        resolve = self._replicas.resolve
        keys = [resolve(each.topic, each.topic_id, each.partition) for each in context.partitions]
        if not remote.fetches.try_complete_else_watch(operation, keys):
            request.on_abandoned = lambda _: operation.cancel()
            request.release_frame()

    def _complete(
        self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits
    ) -> None:
        throttle = self._options.throttle
        if throttle is not None and limits.is_throttled is not None:
            throttle.record(read, self._replicas)
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

    def _complete_with_errors(self, request: Request, context: FetchContext, limits: FetchLimits) -> None:
        """Respond to a parked request that cannot be completed: an error for each of its partitions."""
        error = FetchPartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        results = [(requested, error) for requested in context.partitions]
        self._complete(request, context, FetchRead(results, 0, True), limits)

    def _name_leaders(self, request: Request, read: FetchRead) -> tuple[NodeEndpoint, ...]:
        """Set the current leader in the results of other leaders' partitions; return the endpoints."""
        if request.header.api_version < FIRST_VERSION_WITH_NODE_ENDPOINTS:
            return ()
        leaders: list[tuple[int, int] | None] = []
        for requested, result in read.results:
            if result.error_code in ERRORS_THAT_NAME_THE_LEADER:
                result.current_leader = self._leaders.leader_of(
                    requested.topic, requested.topic_id, requested.partition
                )
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
        # Records are file slices of the log. The network sends them without copying.
        request.respond(cast(list[AnswerPart], parts))
