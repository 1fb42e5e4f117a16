"""Responds to Fetch requests: selects and counts results, throttles clients, names current leaders.

Source: KIP-227 (sessions), KIP-951 (the leader in errors).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from tidelog.broker.api.request_steps import run_raw_steps
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_read import PARTITIONS_PER_STEP, FetchLimits, FetchRead
from tidelog.broker.fetching.fetch_sessions import FetchContext, FetchSessionCache
from tidelog.broker.network.request import Request, ResponsePart
from tidelog.broker.observability.topic_traffic import EXPECTED_FETCH_ERRORS, OTHER_TOPICS, TopicTraffic
from tidelog.broker.partitions.current_leaders import (
    ERRORS_THAT_NAME_THE_LEADER,
    CurrentLeader,
    CurrentLeaders,
)
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.fetch_response_view import (
    FetchPartitionResult,
    FetchResult,
    encode_fetch_response,
    encode_fetch_response_in_steps,
)
from tidelog.protocol.views.response_parts import NodeEndpoint

FIRST_VERSION_WITH_NODE_ENDPOINTS: Final = 16


class FetchResponder:
    """Sends the responses of fetches, with at most `PARTITIONS_PER_STEP` partitions in a step."""

    def __init__(
        self,
        replicas: ReplicaManager,
        sessions: FetchSessionCache,
        traffic: TopicTraffic,
        leaders: CurrentLeaders,
        options: FetchOptions,
    ) -> None:
        self._replicas = replicas
        self._sessions = sessions
        self._traffic = traffic
        self._leaders = leaders
        self._options = options

    def fail(self, request: Request, error: KafkaError) -> None:
        """Respond with an error of the whole request."""
        throttle_time_ms = 0 if request.quota is None else request.quota.throttle(request)
        _respond(request, (), error_code=error.code, throttle_time_ms=throttle_time_ms)

    def complete(self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits) -> None:
        """Respond with what was read, in steps if it is of many partitions."""
        if len(read.results) > PARTITIONS_PER_STEP:
            steps = self.complete_in_steps(request, context, read, limits)
            run_raw_steps(self._options.slices, request, steps, may_wait=not limits.is_of_follower)
            return
        if request.quota is not None and self._is_throttled(request, context, read, limits):
            return
        leaders = self._record(request, read, read.results, limits)
        endpoints = self._leaders.endpoints(leaders, request.listener) if leaders else ()
        _respond(request, context.select(read.results), session_id=context.session_id, endpoints=endpoints)

    def complete_in_steps(
        self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits
    ) -> Steps[None]:
        """Do what `complete` does for many partitions."""
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
        _respond(request, (), session_id=session_id, throttle_time_ms=throttle_time_ms)
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

    def complete_with_errors(self, request: Request, context: FetchContext, limits: FetchLimits) -> None:
        """Respond to a parked request that cannot be completed: an error for each of its partitions."""
        error = FetchPartitionResult(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        results = [(requested, error) for requested in context.partitions]
        self.complete(request, context, FetchRead(results, is_final=True), limits)

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
