"""Produce (key 0): append batches to their partitions (versions 3-13).

A request with acks=0 gets no response. On an error its connection is closed, so that the producer refreshes
its metadata. With acks=1 the response is sent as soon as the leader has appended the records. With acks=all
the response waits in the produce purgatory until every in-sync replica has the records. From version 10 on,
the response of a broker that is not the leader contains the leader.

A request with a transactional id may have to wait until its transaction coordinator has confirmed that the
partitions are part of the transaction (`tidelog.broker.coordinators.verification`). It is not parked during
this time: later requests of its connection wait, so that batches stay in order.

A request for many partitions, or with records that the log must validate, is appended in slices. The
partition and its leader are looked up just before each append. If the client disconnects, nothing more is
appended, as if the connection had broken earlier.

Source: KIP-98, KIP-890, KIP-516 (topic ids), KIP-467 (record errors), KIP-951 (the leader in errors).
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from tidelog.broker.api.handlers.produce_append import NO_RESPONSE, AppendState, ProduceAppender, Results
from tidelog.broker.api.request_steps import run_raw_steps
from tidelog.broker.coordinators.verification.produce import (
    ProduceVerifications,
    TransactionalBatches,
    transactional_batches,
)
from tidelog.broker.coordinators.verification.transaction import ClientSupport
from tidelog.broker.coordinators.verification.verifier import TransactionVerifier, Verifications
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.network.request import Request
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.partitions.delayed_produce import DelayedProduce, PartitionAppend
from tidelog.broker.partitions.partition import ACKS_ALL
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import DecodeError, ErrorCode
from tidelog.protocol.steps import Steps, run_steps
from tidelog.protocol.views.produce_request_view import (
    PARTITIONS_PER_STEP,
    ProducePartition,
    ProduceRequestView,
    read_produce_request,
)
from tidelog.protocol.views.produce_response_view import (
    FIRST_VERSION_WITH_CURRENT_LEADER,
    encode_produce_response,
    encode_produce_response_in_steps,
)
from tidelog.protocol.views.response_parts import NodeEndpoint

_NAMES_LEADERS: Final = FIRST_VERSION_WITH_CURRENT_LEADER


class ProduceHandler:
    """Serves produce requests: verifies transactions, appends, waits for acks and responds."""

    def __init__(
        self,
        appender: ProduceAppender,
        replicas: ReplicaManager,
        produce_purgatory: Purgatory,
        flusher: Flusher,
        leaders: CurrentLeaders,
        verifier: TransactionVerifier,
        slices: Slices,
    ) -> None:
        self._appender = appender
        self._replicas = replicas
        self._produce_purgatory = produce_purgatory
        self._flusher = flusher
        self._leaders = leaders
        self._verifier = verifier
        self._slices = slices
        self._verification_tasks: set[asyncio.Task[Verifications]] = set()

    def handle(self, request: Request) -> None:
        """Append and respond, or park the request. Raise DecodeError if it is malformed."""
        view = read_produce_request(request.body, request.header.api_version)
        if not isinstance(view, ProduceRequestView):
            self._run(request, self._read_and_append(request, view))
            return
        state = AppendState(view, None)
        if self._appender.is_access_limited:
            run_steps(self._appender.remove_unauthorized(request, state))
        if view.transactional_id is None:
            self._append_all(request, state)
        else:
            self._append_in_transaction(request, state)

    def _read_and_append(self, request: Request, reading: Steps[ProduceRequestView]) -> Steps[None]:
        """Do what `handle` does for a request that is read in steps."""
        view = yield from reading
        state = AppendState(view, None)
        if self._appender.is_access_limited:
            yield from self._appender.remove_unauthorized(request, state)
        if view.transactional_id is None:
            yield from self._append_in_steps(request, state)
        else:
            self._append_in_transaction(request, state)

    def _run(self, request: Request, steps: Steps[None]) -> None:
        run_raw_steps(self._slices, request, steps)

    def _append_in_transaction(self, request: Request, state: AppendState) -> None:
        """Append at once if the transaction is open in every partition; otherwise verify it first."""
        view = state.view
        support = ClientSupport.of_produce(request.header.api_version)
        transactional = transactional_batches(view, support, self._replicas)
        verifications = {} if transactional is None else self._verifier.begin(*transactional)
        if transactional is None or not self._verifier.unverified(verifications):
            state.verifications = ProduceVerifications(support, verifications)
            self._append_all(request, state)
        else:
            self._append_when_verified(request, state, transactional)

    def _append_when_verified(
        self, request: Request, state: AppendState, transactional: TransactionalBatches
    ) -> None:
        """Verify the transaction with its coordinator, and then append."""
        verification_task = asyncio.get_running_loop().create_task(
            self._verifier.verify_with_retries(*transactional)
        )
        self._verification_tasks.add(verification_task)

        def on_abandoned(_: Request) -> None:
            verification_task.cancel()

        def on_verified(task: asyncio.Task[Verifications]) -> None:
            self._verification_tasks.discard(task)
            if task.cancelled() or not request.is_open:
                return  # The memory of the frame, and of the records in it, has been reused.
            request.end_waiting()
            try:
                state.verifications = ProduceVerifications(transactional.transaction.support, task.result())
                self._append_all(request, state)
            except DecodeError as error:
                request.close(str(error))
            except Exception as error:
                request.fail(error)

        request.begin_waiting(on_abandoned)
        request.begin_remote_time()
        verification_task.add_done_callback(on_verified)

    def _append_all(self, request: Request, state: AppendState) -> None:
        """Append the records of every partition; then respond or park the request."""
        partitions = state.view.partitions
        if len(partitions) == 1 and self._appender.append(request, partitions[0], state):
            self._on_appended(request, state)
        else:
            self._run(request, self._append_in_steps(request, state))

    def _append_in_steps(self, request: Request, state: AppendState) -> Steps[None]:
        """Do the same as `_append_all` for several partitions, or for records that must be validated."""
        partitions = state.view.partitions
        if len(partitions) > 1:
            partitions = yield from _distinct_partitions(partitions)
        for requested in partitions:
            yield from self._appender.append_in_steps(request, requested, state)
            yield None
        self._on_appended(request, state)

    def _on_appended(self, request: Request, state: AppendState) -> None:
        """Respond or park; with acks=1, after a flush if a log requires one.

        With acks=all the response waits for the high watermark, which waits for the flush.
        """
        appended = state.appended
        if state.view.acks != ACKS_ALL:
            for append in appended:
                if append.partition.log.durability.must_flush:
                    self._respond_when_flushed(request, state)
                    return
        self._respond_or_park(request, state, appended)

    def _respond_or_park(self, request: Request, state: AppendState, appended: list[PartitionAppend]) -> None:
        """Respond, or park a request with acks=all until the records in `appended` are committed."""
        view, results = state.view, state.results
        if view.acks == ACKS_ALL and any(not append.is_committed for append in appended):
            self._park(request, view.timeout_ms, results, appended)
        elif len(appended) == len(results) == 1 and view.acks:
            # One partition without an error: nearly every request.
            header = request.header
            throttle_time_ms = 0 if request.quota is None else request.quota.throttle(request)
            request.respond(
                encode_produce_response(header.api_version, header.correlation_id, results, throttle_time_ms)
            )
        else:
            self._respond(request, view.acks, results)

    def _park(
        self,
        request: Request,
        timeout_ms: int,
        results: Results,
        appended: list[PartitionAppend],
    ) -> None:
        """Let a request with acks=all wait until its records are committed, or its timeout has passed."""

        def on_failed(error: Exception) -> None:
            for append in appended:
                append.result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._respond(request, ACKS_ALL, results)

        operation = DelayedProduce(
            max(timeout_ms, 0), appended, lambda: self._respond(request, ACKS_ALL, results), on_failed
        )
        keys = [append.partition.topic_partition for append in appended]
        if not self._produce_purgatory.try_complete_else_watch(operation, keys):
            _release_records(results)
            request.begin_waiting(lambda _: operation.cancel())
            request.park()

    def _respond_when_flushed(self, request: Request, state: AppendState) -> None:
        """Respond when the logs are flushed that flush.messages requires to be on disk."""
        appended = state.appended
        unflushed = [append for append in appended if append.partition.log.durability.must_flush]
        waiting = asyncio.gather(
            *(self._flusher.flush(append.partition.log) for append in unflushed), return_exceptions=True
        )

        def on_flushed(flushes: asyncio.Future[list[BaseException | None]]) -> None:
            for append, outcome in zip(unflushed, flushes.result(), strict=True):
                if outcome is not None:
                    append.result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    append.result.error_message = str(outcome)
            self._respond(request, state.view.acks, state.results)

        _release_records(state.results)
        request.release_frame()
        waiting.add_done_callback(on_flushed)

    def _respond(self, request: Request, acks: int, results: Results) -> None:
        if acks == NO_RESPONSE:
            self._complete_without_response(request, results)
            return
        if len(results) <= PARTITIONS_PER_STEP:
            request.respond((run_steps(self._encode(request, results)),))
        else:
            self._run(request, self._respond_in_steps(request, results))

    def _respond_in_steps(self, request: Request, results: Results) -> Steps[None]:
        frame = yield from self._encode(request, results)
        request.respond((frame,))

    def _encode(self, request: Request, results: Results) -> Steps[bytearray]:
        version, correlation_id = request.header.api_version, request.header.correlation_id
        endpoints: tuple[NodeEndpoint, ...] = ()
        if version >= _NAMES_LEADERS:
            endpoints = yield from self._set_current_leaders(request, results)
        throttle_time_ms = 0 if request.quota is None else request.quota.throttle(request)
        return (
            yield from encode_produce_response_in_steps(
                version, correlation_id, results, throttle_time_ms, node_endpoints=endpoints
            )
        )

    def _set_current_leaders(self, request: Request, results: Results) -> Steps[tuple[NodeEndpoint, ...]]:
        """Set the current leader in the results of other leaders' partitions; return the endpoints."""
        leaders: list[tuple[int, int] | None] = []
        for requested, result in results:
            yield None
            if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                result.current_leader = self._leaders.leader_of(
                    requested.topic, requested.topic_id, requested.partition
                )
                leaders.append(result.current_leader)
        return self._leaders.endpoints(leaders, request.listener) if leaders else ()

    @staticmethod
    def _complete_without_response(request: Request, results: Results) -> None:
        """End a request with acks=0; close its connection if a partition has an error."""
        for requested, result in results:
            if result.error_code:
                code = ErrorCode(result.error_code).name
                partition = f"partition {requested.partition} of {requested.topic or requested.topic_id}"
                request.close(f"acks=0 to {partition} failed with {code}")
                return
        if request.quota is not None:
            request.quota.exempt()
            request.quota.throttle(request)
        request.respond(None)


def _distinct_partitions(partitions: list[ProducePartition]) -> Steps[list[ProducePartition]]:
    """Return each partition of a request once; the last entry of a repeated partition counts, as in Kafka."""
    latest: dict[tuple[str | UUID | None, int], ProducePartition] = {}
    for partition in partitions:
        latest[partition.topic or partition.topic_id, partition.partition] = partition
        yield None
    return partitions if len(latest) == len(partitions) else list(latest.values())


def _release_records(results: Results) -> None:
    """Drop the views of the request frame, because the records have been appended."""
    for requested, _ in results:
        requested.records = None
