"""Fetch (key 1): read batches from partitions, now or as soon as there is enough (versions 4-18).

Batches leave as the bytes they are in the log; what fits a reader is decided by offsets alone.
A fetch that finds less than `min_bytes` waits in the fetch purgatory, at most `max_wait_ms`.

Source: KIP-227 (sessions), KIP-98 (isolation), KIP-320 (epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from broker.clock import Clock
from broker.delayed_fetch import DelayedFetch
from broker.fetch_read import FetchLimits, FetchRead, read_partitions
from broker.fetch_sessions import FetchContext, FetchSessionCache
from broker.network.request import AnswerPart, Request
from broker.partition import FetchIsolation
from broker.purgatory.purgatory import Purgatory
from broker.replica_manager import ReplicaManager
from broker.topic_traffic import TopicTraffic
from protocol.errors import KafkaError
from protocol.fetch_view import FetchRequestView, FetchResult, encode_fetch_response, read_fetch_request

READ_COMMITTED = 1


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
    ) -> None:
        self._replicas = replicas
        self._sessions = sessions
        self._purgatory = purgatory
        self._traffic = traffic
        self._clock = clock
        self._max_bytes = max_bytes

    def handle(self, request: Request) -> None:
        """Take one fetch request to its end, or park it; DecodeError when it is malformed."""
        version = request.header.api_version
        view = read_fetch_request(request.body, version)
        try:
            context = self._sessions.context(view, version, self._clock.monotonic_ms())
        except KafkaError as error:
            self._respond(request, (), error_code=error.code)
            return
        limits = self._limits(view)
        read = read_partitions(self._replicas, context.partitions, limits)
        if (
            read.is_final
            or read.size_bytes >= limits.min_bytes
            or view.max_wait_ms <= 0
            or not context.partitions
        ):
            self._answer(request, context, read)
        else:
            self._park(request, context, view, limits)

    def _limits(self, view: FetchRequestView) -> FetchLimits:
        max_bytes = min(view.max_bytes, self._max_bytes)
        if view.replica_id >= 0:
            isolation = FetchIsolation.LOG_END
        elif view.isolation_level == READ_COMMITTED:
            isolation = FetchIsolation.READ_COMMITTED
        else:
            isolation = FetchIsolation.READ_UNCOMMITTED
        return FetchLimits(view.replica_id, isolation, min(view.min_bytes, max_bytes), max_bytes)

    def _park(
        self, request: Request, context: FetchContext, view: FetchRequestView, limits: FetchLimits
    ) -> None:
        def on_read(read: FetchRead) -> None:
            self._answer(request, context, read)

        operation = DelayedFetch(
            view.max_wait_ms, self._replicas, context.partitions, limits, on_read, request.fail
        )
        resolve = self._replicas.resolve
        keys = [resolve(asked.topic, asked.topic_id, asked.partition) for asked in context.partitions]
        if not self._purgatory.try_complete_else_watch(operation, keys):
            # `max_wait_ms` may be weeks, which a reader that comes back again and again must not pile up.
            request.on_abandoned = lambda _: operation.cancel()

    def _answer(self, request: Request, context: FetchContext, read: FetchRead) -> None:
        self._traffic.fetch_requests += len(read.results)
        self._traffic.bytes_out += read.size_bytes
        if read.is_final:
            self._traffic.failed_fetch_requests += sum(1 for _, r in read.results if r.error_code)
        self._respond(request, context.select(read.results), session_id=context.session_id)

    @staticmethod
    def _respond(
        request: Request, results: Sequence[FetchResult], *, error_code: int = 0, session_id: int = 0
    ) -> None:
        header = request.header
        parts = encode_fetch_response(
            header.api_version,
            header.correlation_id,
            results,
            error_code=error_code,
            session_id=session_id,
        )
        # Records are file slices of the log, which the network sends without reading them.
        request.respond(cast(list[AnswerPart], parts))
