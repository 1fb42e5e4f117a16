"""Fetch (key 1): read batches from partitions, at once or when enough bytes are available (versions 4-18).

Batches are sent as the bytes that the log contains; only offsets decide what a reader gets.
A fetch that finds less than `min_bytes` waits in the fetch purgatory for at most `max_wait_ms`. A fetch that
needs remote storage waits for it in a purgatory of its own.
Followers on other brokers use the same API: they send a replica id and read up to the log end.
A fetch of many partitions is served in slices: decoded, read, parked and encoded some partitions at a time.

Source: KIP-227 (sessions), KIP-98 (isolation), KIP-320 (epochs), KIP-516 (topic ids), KIP-392 (reading
from followers), KIP-903 (broker epochs), KIP-951 (the leader in errors).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from tidelog.base.clock import Clock
from tidelog.broker.api.request_steps import run_raw_steps
from tidelog.broker.fetching.delayed_fetch import DelayedFetch, WaitingFetch
from tidelog.broker.fetching.delayed_remote_fetch import DelayedRemoteFetch
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_read import (
    PARTITIONS_PER_STEP,
    FetchLimits,
    FetchRead,
    read_in_steps,
    read_partitions,
)
from tidelog.broker.fetching.fetch_sessions import FetchContext, FetchSessionCache, distinct_in_steps
from tidelog.broker.network.request import Request, ResponsePart
from tidelog.broker.observability.topic_traffic import EXPECTED_FETCH_ERRORS, OTHER_TOPICS, TopicTraffic
from tidelog.broker.partitions.current_leaders import (
    ERRORS_THAT_NAME_THE_LEADER,
    CurrentLeader,
    CurrentLeaders,
)
from tidelog.broker.partitions.partition import FetchIsolation
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.security.authorization.access import may_access_cluster, require_access
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.fetch_request_view import (
    FetchPartition,
    FetchRequestView,
    read_fetch_request,
    read_fetch_request_in_steps,
)
from tidelog.protocol.fetch_response_view import (
    FetchPartitionResult,
    FetchResult,
    encode_fetch_response,
    encode_fetch_response_in_steps,
)
from tidelog.protocol.response_parts import NodeEndpoint
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

READ_COMMITTED: Final = 1
LARGE_BODY_BYTES: Final = 16 * 1024
"""A longer body is decoded in steps; it has about 500 partitions."""
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
        if len(request.body) > LARGE_BODY_BYTES:
            self._run(request, self._decode_and_serve(request))
            return
        version = request.header.api_version
        self._serve(request, read_fetch_request(request.body, version), is_distinct=False)

    def _decode_and_serve(self, request: Request) -> Steps[None]:
        view = yield from read_fetch_request_in_steps(request.body, request.header.api_version)
        view.partitions = yield from distinct_in_steps(view.partitions)
        self._serve(request, view, is_distinct=True)

    def _serve(self, request: Request, view: FetchRequestView, *, is_distinct: bool) -> None:
        """Read the partitions of a decoded request; respond, park the request, or read remote storage."""
        try:
            context = self._sessions.context(
                view, request.header.api_version, self._clock.monotonic_ms(), is_distinct=is_distinct
            )
        except KafkaError as error:
            throttle_time_ms = 0 if request.quota is None else request.quota.throttle(request)
            self._respond(request, (), error_code=error.code, throttle_time_ms=throttle_time_ms)
            return
        limits = self._limits(request, view)
        if len(context.partitions) > PARTITIONS_PER_STEP:
            self._run(request, self._serve_in_steps(request, view, context, limits))
            return
        read = read_partitions(self._replicas, context.partitions, limits)
        if read.remote:
            self._read_remote(request, context, read, limits)
        elif _must_wait(read, view, limits) and context.partitions:
            self._park(request, context, view, limits)
        else:
            self._complete(request, context, read, limits)

    def _serve_in_steps(
        self, request: Request, view: FetchRequestView, context: FetchContext, limits: FetchLimits
    ) -> Steps[None]:
        """Do what `_serve` does for many partitions."""
        read = yield from read_in_steps(self._replicas, context.partitions, limits)
        if read.remote:
            self._read_remote(request, context, read, limits)
        elif _must_wait(read, view, limits):
            yield from self._park_in_steps(request, context, view, limits)
        else:
            yield from self._complete_in_steps(request, context, read, limits)

    def _run(
        self, request: Request, steps: Steps[None], on_failed: Callable[[Exception], None] | None = None
    ) -> None:
        run_raw_steps(self._options.slices, request, steps, on_failed)

    def _limits(self, request: Request, view: FetchRequestView) -> FetchLimits:
        """Return the limits of a request, and what its sender may read."""
        options = self._options
        max_bytes = min(view.max_bytes, options.max_bytes)
        min_bytes = min(view.min_bytes, max_bytes)
        if view.replica_id >= 0:
            return self._follower_limits(request, view, min_bytes, max_bytes)
        if request.quota is not None:
            max_bytes = min(max_bytes, request.quota.fetch_bytes_max())
            min_bytes = min(min_bytes, max_bytes)
        committed = view.isolation_level == READ_COMMITTED
        isolation = FetchIsolation.READ_COMMITTED if committed else FetchIsolation.READ_UNCOMMITTED
        limits = FetchLimits(view.replica_id, isolation, min_bytes, max_bytes)
        if options.authorizer.is_enabled:
            limits.check_access = partial(self._check_client_access, request)
        if options.remote is not None:
            limits.remote = options.remote.reader
        limits.leader_only = request.header.api_version < FIRST_VERSION_WITH_RACK
        if view.rack_id and options.preferred_read_replicas is not None:
            limits.preferred_replica = options.preferred_read_replicas.for_client(
                view.rack_id, request.listener
            )
        return limits

    def _follower_limits(
        self, request: Request, view: FetchRequestView, min_bytes: int, max_bytes: int
    ) -> FetchLimits:
        options = self._options
        limits = FetchLimits(view.replica_id, FetchIsolation.LOG_END, min_bytes, max_bytes)
        if not may_access_cluster(options.authorizer, request, AclOperation.CLUSTER_ACTION):
            limits.check_access = _deny_follower
        limits.replica_epoch = view.replica_epoch
        if options.throttle is not None and options.throttle.is_active:
            limits.is_throttled = options.throttle.is_throttled
        if request.quota is not None:
            request.quota.exempt()
        return limits

    def _check_client_access(self, request: Request, requested: FetchPartition) -> None:
        """Raise KafkaError if a client may not read a partition; an unknown topic has its own error."""
        name = requested.topic
        if requested.topic_id is not None and not name:
            name = self._replicas.topic_name(requested.topic_id)
        if name is not None:
            require_access(self._options.authorizer, request, AclOperation.READ, AclResourceType.TOPIC, name)

    def _park(
        self, request: Request, context: FetchContext, view: FetchRequestView, limits: FetchLimits
    ) -> None:
        """Let a request wait in the purgatory until enough bytes are available, or its delay has passed."""
        resolve = self._replicas.resolve
        requested: dict[Hashable, FetchPartition] = {
            resolve(each.topic, each.topic_id, each.partition): each for each in context.partitions
        }
        operation = self._delayed_fetch(request, context, view, limits, requested)
        if not self._purgatory.try_complete_else_watch(operation, requested):
            # `max_wait_ms` may be weeks: operations of a client that reconnects often must not accumulate.
            request.begin_waiting(lambda _: operation.cancel())
            request.release_frame()
            request.begin_remote_time()

    def _park_in_steps(
        self, request: Request, context: FetchContext, view: FetchRequestView, limits: FetchLimits
    ) -> Steps[None]:
        """Do what `_park` does for many partitions.

        Partitions may change between the steps. They are therefore checked after they are watched.
        """
        requested: dict[Hashable, FetchPartition] = {}
        for number, each in enumerate(context.partitions, 1):
            if each.topic_id is not None and self._replicas.topic_name(each.topic_id) is None:
                # The topic was deleted after it was read.
                yield from self._read_and_complete_in_steps(request, context, limits)
                return
            requested[self._replicas.resolve(each.topic, each.topic_id, each.partition)] = each
            if not number % PARTITIONS_PER_STEP:
                yield None
        operation = self._delayed_fetch(request, context, view, limits, requested)
        request.begin_waiting(lambda _: operation.cancel())
        try:
            yield from self._purgatory.watch_in_steps(operation, requested)
            for number, (key, each) in enumerate(requested.items(), 1):
                if operation.is_completed or operation.check_one(key, each):
                    return
                if not number % PARTITIONS_PER_STEP:
                    yield None
        except Exception:
            operation.cancel()
            raise
        request.release_frame()
        request.begin_remote_time()

    def _delayed_fetch(
        self,
        request: Request,
        context: FetchContext,
        view: FetchRequestView,
        limits: FetchLimits,
        requested: Mapping[Hashable, FetchPartition],
    ) -> DelayedFetch:
        """Return the operation that reads the partitions again and responds; `requested` are its keys."""

        def on_ready() -> None:
            if len(context.partitions) > PARTITIONS_PER_STEP:
                steps = self._read_and_complete_in_steps(request, context, limits)
                self._run(request, steps, on_steps_failed)
                return
            read = read_partitions(self._replicas, context.partitions, limits, records_positions=False)
            self._complete(request, context, read, limits)

        def on_steps_failed(error: Exception) -> None:
            logger.error("A waiting fetch of %s failed", request.peer, exc_info=error)
            self._complete_with_errors(request, context, limits)

        def on_failed(_: Exception) -> None:
            self._complete_with_errors(request, context, limits)

        fetch = WaitingFetch(self._replicas, limits, requested)
        return DelayedFetch(view.max_wait_ms, fetch, on_ready, on_failed)

    def _read_and_complete_in_steps(
        self, request: Request, context: FetchContext, limits: FetchLimits
    ) -> Steps[None]:
        read = yield from read_in_steps(self._replicas, context.partitions, limits, records_positions=False)
        yield from self._complete_in_steps(request, context, read, limits)

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

        resolve = self._replicas.resolve
        # A partition with an error may be unknown.
        requested: dict[Hashable, FetchPartition] = {
            resolve(each.topic, each.topic_id, each.partition): each
            for each, result in read.results
            if not result.error_code
        }
        operation = DelayedRemoteFetch(
            remote.fetch_max_wait_ms(),
            WaitingFetch(self._replicas, limits, requested),
            read,
            remote.reader,
            on_read,
            on_failed,
        )
        if not remote.fetches.try_complete_else_watch(operation, requested):
            request.begin_waiting(lambda _: operation.cancel())
            request.release_frame()
            request.begin_remote_time()

    def _complete(
        self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits
    ) -> None:
        """Respond with what was read."""
        if len(read.results) > PARTITIONS_PER_STEP:
            self._run(request, self._complete_in_steps(request, context, read, limits))
            return
        if request.quota is not None and self._is_throttled(request, context, read, limits):
            return
        leaders = self._record(request, read, read.results, limits)
        endpoints = self._leaders.endpoints(leaders, request.listener) if leaders else ()
        self._respond(
            request, context.select(read.results), session_id=context.session_id, endpoints=endpoints
        )

    def _complete_in_steps(
        self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits
    ) -> Steps[None]:
        """Do what `_complete` does for many partitions."""
        if request.quota is not None and self._is_throttled(request, context, read, limits):
            return
        selected: list[FetchResult] = []
        leaders: list[CurrentLeader | None] = []
        for start in range(0, len(read.results), PARTITIONS_PER_STEP):
            results = read.results[start : start + PARTITIONS_PER_STEP]
            leaders += self._record(request, read, results, limits)
            selected += context.select(results)
            yield None
        header = request.header
        parts = yield from encode_fetch_response_in_steps(
            header.api_version,
            header.correlation_id,
            selected,
            session_id=context.session_id,
            node_endpoints=self._leaders.endpoints(leaders, request.listener) if leaders else (),
        )
        request.respond(cast(list[ResponsePart], parts))

    def _is_throttled(
        self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits
    ) -> bool:
        """Respond without records if the client exceeds a quota; return whether it does."""
        assert request.quota is not None
        if limits.replica_id >= 0:
            return False
        throttle_time_ms = request.quota.throttle_fetch(request, read.size_bytes)
        if not throttle_time_ms:
            return False
        session_id = self._sessions.session_id_without_data(context)
        self._respond(request, (), session_id=session_id, throttle_time_ms=throttle_time_ms)
        return True

    def _record(
        self, request: Request, read: FetchRead, results: Sequence[FetchResult], limits: FetchLimits
    ) -> list[CurrentLeader | None]:
        """Count some results of `read`; set and return the leaders of partitions with other leaders."""
        traffic = self._traffic
        throttle = self._options.throttle
        if throttle is not None and limits.is_throttled is not None:
            throttle.record(results, self._replicas)
        replicated_bytes = 0
        if limits.replica_id >= 0:
            replicated_bytes = (
                read.size_bytes if results is read.results else sum(r.records_length for _, r in results)
            )
        elif read.size_bytes:
            self._count_bytes_out(results)
        traffic.record_fetch(len(results), replicated_bytes=replicated_bytes)
        if not read.is_final:
            return []
        traffic.record_failed_fetches(
            sum(1 for _, r in results if r.error_code and r.error_code not in EXPECTED_FETCH_ERRORS)
        )
        return self._set_current_leaders(request, results)

    def _count_bytes_out(self, results: Sequence[FetchResult]) -> None:
        for requested, result in results:
            size_bytes = result.records_length
            if not size_bytes:
                continue
            topic = requested.topic
            if topic is None and requested.topic_id is not None:
                topic = self._replicas.topic_name(requested.topic_id)
            # A topic that was deleted while the request waited has no name.
            self._traffic.record_fetched(topic or OTHER_TOPICS, size_bytes)

    def _complete_with_errors(self, request: Request, context: FetchContext, limits: FetchLimits) -> None:
        """Respond to a parked request that cannot be completed: an error for each of its partitions."""
        error = FetchPartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        results = [(requested, error) for requested in context.partitions]
        self._complete(request, context, FetchRead(results, is_final=True), limits)

    def _set_current_leaders(
        self, request: Request, results: Sequence[FetchResult]
    ) -> list[CurrentLeader | None]:
        """Set the current leader in the results of partitions with other leaders; return these leaders."""
        if request.header.api_version < FIRST_VERSION_WITH_NODE_ENDPOINTS:
            return []
        leaders: list[CurrentLeader | None] = []
        for requested, result in results:
            if result.error_code in ERRORS_THAT_NAME_THE_LEADER:
                result.current_leader = self._leaders.leader_of(
                    requested.topic, requested.topic_id, requested.partition
                )
                leaders.append(result.current_leader)
        return leaders

    @staticmethod
    def _respond(
        request: Request,
        results: Sequence[FetchResult],
        *,
        error_code: int = 0,
        session_id: int = 0,
        endpoints: Sequence[NodeEndpoint] = (),
        throttle_time_ms: int = 0,
    ) -> None:
        header = request.header
        parts = encode_fetch_response(
            header.api_version,
            header.correlation_id,
            results,
            error_code=error_code,
            session_id=session_id,
            throttle_time_ms=throttle_time_ms,
            node_endpoints=endpoints,
        )
        # Records are file slices of the log. The network sends them without copying.
        request.respond(cast(list[ResponsePart], parts))


def _deny_follower(requested: FetchPartition) -> None:
    """Raise KafkaError: the sender may not read as a replica of another broker (CVE-2018-1288)."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    raise KafkaError(code, code.text)


def _must_wait(read: FetchRead, view: FetchRequestView, limits: FetchLimits) -> bool:
    """Return whether the response must wait for more data."""
    return not read.is_final and read.size_bytes < limits.min_bytes and view.max_wait_ms > 0
