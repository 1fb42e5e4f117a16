"""Fetch (key 1): read batches from partitions, at once or when enough bytes are available (versions 4-18).

Batches are sent as the bytes that the log contains; only offsets decide what a reader gets.
A fetch that finds less than `min_bytes` waits in the fetch purgatory for at most `max_wait_ms`. A fetch that
needs remote storage waits for it in a purgatory of its own.
Followers on other brokers use the same API: they send a replica id and read up to the log end.
A fetch of many partitions is served in slices: decoded, read, parked and encoded some partitions at a time.

Source: KIP-227 (sessions), KIP-320 (epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.api.handlers.fetch_limits import limits_of_request
from tidelog.broker.api.handlers.fetch_responder import FetchResponder
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
from tidelog.broker.network.request import Request
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import (
    CurrentLeaders,
)
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.fetch_request_view import (
    FetchPartition,
    FetchRequestView,
    read_fetch_request,
    read_fetch_request_in_steps,
)

logger = logging.getLogger(__name__)

LARGE_BODY_BYTES: Final = 16 * 1024
"""A longer body is decoded in steps; it has about 500 partitions."""


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
        self._clock = clock
        self._options = options
        self._responder = FetchResponder(replicas, sessions, traffic, leaders, options)

    def handle(self, request: Request) -> None:
        """Read and respond, or park the request. Raise DecodeError if it is malformed."""
        if len(request.body) > LARGE_BODY_BYTES:
            # It is not known yet whether a follower waits for it.
            run_raw_steps(self._options.slices, request, self._decode_and_serve(request), may_wait=False)
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
            self._responder.fail(request, error)
            return
        limits = limits_of_request(request, view, self._options, self._replicas)
        if len(context.partitions) > PARTITIONS_PER_STEP:
            self._run(request, limits, self._serve_in_steps(request, view, context, limits))
            return
        read = read_partitions(self._replicas, context.partitions, limits)
        if read.remote:
            self._read_remote(request, context, read, limits)
        elif _must_wait(read, view, limits) and context.partitions:
            self._park(request, context, view, limits)
        else:
            self._responder.complete(request, context, read, limits)

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
            yield from self._responder.complete_in_steps(request, context, read, limits)

    def _run(
        self,
        request: Request,
        limits: FetchLimits,
        steps: Steps[None],
        on_failed: Callable[[Exception], None] | None = None,
    ) -> None:
        run_raw_steps(self._options.slices, request, steps, on_failed, may_wait=not limits.is_of_follower)

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
                self._run(request, limits, steps, on_steps_failed)
                return
            read = read_partitions(self._replicas, context.partitions, limits, records_positions=False)
            self._responder.complete(request, context, read, limits)

        def on_steps_failed(error: Exception) -> None:
            logger.error("A waiting fetch of %s failed", request.peer, exc_info=error)
            self._responder.complete_with_errors(request, context, limits)

        def on_failed(_: Exception) -> None:
            self._responder.complete_with_errors(request, context, limits)

        fetch = WaitingFetch(self._replicas, limits, requested)
        return DelayedFetch(view.max_wait_ms, fetch, on_ready, on_failed)

    def _read_and_complete_in_steps(
        self, request: Request, context: FetchContext, limits: FetchLimits
    ) -> Steps[None]:
        read = yield from read_in_steps(self._replicas, context.partitions, limits, records_positions=False)
        yield from self._responder.complete_in_steps(request, context, read, limits)

    def _read_remote(
        self, request: Request, context: FetchContext, read: FetchRead, limits: FetchLimits
    ) -> None:
        """Read from remote storage, and respond when that has ended. The client may disconnect before."""
        remote = self._options.remote
        assert remote is not None

        def on_read(complete: FetchRead) -> None:
            self._responder.complete(request, context, complete, limits)

        def on_failed(_: Exception) -> None:
            self._responder.complete_with_errors(request, context, limits)

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


def _must_wait(read: FetchRead, view: FetchRequestView, limits: FetchLimits) -> bool:
    """Return whether the response must wait for more data."""
    return not read.is_final and read.size_bytes < limits.min_bytes and view.max_wait_ms > 0
