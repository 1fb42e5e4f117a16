"""Produce (key 0): append batches to the partitions they are for (versions 3-13).

acks=0 gets no answer, and on an error the end of the connection, so that the producer looks
for the leader anew; acks=1 is answered once the leader has the records; acks=all once every
in-sync replica has them, until then the answer waits in the produce purgatory. Who is not the
leader names it (from version 10 on).

The records stay where the network read them: the log checks and stamps them in place.

A request with a transactional id may have to wait until the coordinator of its transaction has said that the
partitions are part of it (`tidelog.broker.coordinators.verification`). It is not parked meanwhile: what comes
behind it on
its
connection waits, so that the order of batches is kept. The same holds for a request for many partitions, and
for batches that the log has to look into (`tidelog.storage.log.record_validation`), which are appended in
slices:
each
partition is looked up, and its leader checked, when its turn comes. If the client goes away, the remaining
partitions get nothing, as if the connection had broken before.

Source: KIP-98, KIP-890, KIP-516 (topic ids), KIP-467 (record errors), KIP-951 (the leader in errors).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tidelog.base.log_limit import LogLimit
from tidelog.broker.coordinators.verification.produce import (
    ProduceVerifications,
    TransactionalBatches,
    transactional_batches,
)
from tidelog.broker.coordinators.verification.transaction import ClientSupport
from tidelog.broker.coordinators.verification.verifier import TransactionVerifier, Verifications
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.network.request import Request
from tidelog.broker.observability.topic_traffic import EXPECTED_OF_PRODUCE, TopicTraffic
from tidelog.broker.partitions.delayed_produce import Appended, DelayedProduce
from tidelog.broker.partitions.partition import ACKS_ALL, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.replication.current_leaders import CurrentLeaders
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.batch import claims_transaction
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.produce_view import (
    FIRST_VERSION_WITH_CURRENT_LEADER,
    PARTITIONS_PER_STEP,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequestView,
    encode_produce_response,
    encode_produce_response_in_steps,
    read_produce_request,
)
from tidelog.protocol.response_parts import NodeEndpoint
from tidelog.protocol.steps import Steps, completed
from tidelog.storage.disk.errors import InvalidRecords
from tidelog.storage.log.partition_log import AppendInfo
from tidelog.storage.log.validation_rules import ValidatedBatch
from tidelog.storage.producers.verification import Verification

logger = logging.getLogger(__name__)

_NAMES_LEADERS: Final = FIRST_VERSION_WITH_CURRENT_LEADER

NO_ANSWER: Final = 0
ALLOWED_ACKS: Final = (ACKS_ALL, NO_ANSWER, 1)
# Kafka's own tools may write to internal topics, by this client id.
ADMIN_CLIENT_ID: Final = "__admin_client"
# What a client can mend or wait out is not worth a line in the broker's log; storage reports its own errors.
QUIET_ERRORS: Final = frozenset(ErrorCode) - {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE}

Results = list[tuple[ProducePartition, ProducePartitionResult]]


@dataclass(slots=True)
class _Appending:
    """A request that is being appended: what has become of its partitions so far."""

    view: ProduceRequestView
    verifications: ProduceVerifications | None
    results: Results = field(default_factory=list)
    appended: list[Appended] = field(default_factory=list)


@dataclass(slots=True)
class _Validated:
    """What looking into the batch for a partition has led to."""

    partition: Partition
    outcome: ValidatedBatch | Exception


class ProduceHandler:
    """Appends, answers, and wakes the fetches that wait for what was appended."""

    def __init__(
        self,
        replicas: ReplicaManager,
        produce_purgatory: Purgatory,
        fetch_purgatory: Purgatory,
        traffic: TopicTraffic,
        flusher: Flusher,
        leaders: CurrentLeaders,
        verifier: TransactionVerifier,
        slices: Slices,
        log_limit: LogLimit,
    ) -> None:
        self._replicas = replicas
        self._produce_purgatory = produce_purgatory
        self._fetch_purgatory = fetch_purgatory
        self._traffic = traffic
        self._flusher = flusher
        self._leaders = leaders
        self._verifier = verifier
        self._slices = slices
        self._log_limit = log_limit
        self._verifying: set[asyncio.Task[Verifications]] = set()

    def handle(self, request: Request) -> None:
        """Take one produce request to its end, or park it; DecodeError when it is malformed."""
        view = read_produce_request(request.body, request.header.api_version)
        if isinstance(view, Generator):
            self._run(request, self._read_and_append(request, view))
        elif view.transactional_id is None:
            self._append_all(request, _Appending(view, None))
        else:
            self._append_in_transaction(request, view)

    def _read_and_append(self, request: Request, reading: Steps[ProduceRequestView]) -> Steps[None]:
        """Do what `handle` does for a request that is read in steps."""
        view = yield from reading
        if view.transactional_id is None:
            yield from self._append_in_steps(request, _Appending(view, None))
        else:
            self._append_in_transaction(request, view)

    def _run(self, request: Request, steps: Steps[None]) -> None:
        """Run steps for the request in hand; if its client goes away, they end between two of them."""

        def failed(error: Exception) -> None:
            if isinstance(error, DecodeError):
                request.close(str(error))
            else:
                request.fail(error)

        work = self._slices.start(steps, lambda _: None, failed)
        if work is not None:
            request.on_lost = lambda _: work.cancel()

    def _append_in_transaction(self, request: Request, view: ProduceRequestView) -> None:
        """Append at once if the transaction is open everywhere; else its coordinator is asked before."""
        support = ClientSupport.of_produce(request.header.api_version)
        found = transactional_batches(view, support, self._replicas)
        begun = {} if found is None else self._verifier.begin(*found)
        if found is None or not self._verifier.must_ask(begun):
            self._append_all(request, _Appending(view, ProduceVerifications(support, begun)))
        else:
            self._append_when_verified(request, view, found)

    def _append_when_verified(
        self, request: Request, view: ProduceRequestView, found: TransactionalBatches
    ) -> None:
        asking = asyncio.get_running_loop().create_task(self._verifier.verify_patiently(*found))
        self._verifying.add(asking)

        def abandoned(_: Request) -> None:
            asking.cancel()

        def verified(done: asyncio.Task[Verifications]) -> None:
            self._verifying.discard(done)
            if done.cancelled() or not request.is_open:
                return  # The frame, and with it the records, is another's by now.
            request.on_abandoned = None
            try:
                verifications = ProduceVerifications(found.transaction.support, done.result())
                self._append_all(request, _Appending(view, verifications))
            except DecodeError as error:
                request.close(str(error))
            except Exception as error:
                request.fail(error)

        request.on_abandoned = abandoned
        asking.add_done_callback(verified)

    def _append_all(self, request: Request, appending: _Appending) -> None:
        """Append the records of every partition, and answer or have the answer wait."""
        partitions = appending.view.partitions
        if len(partitions) == 1 and self._append(request, partitions[0], appending):
            self._appended(request, appending)
        else:
            self._run(request, self._append_in_steps(request, appending))

    def _append_in_steps(self, request: Request, appending: _Appending) -> Steps[None]:
        """Do what `_append_all` does for several partitions, or for batches that are to be looked into."""
        partitions = appending.view.partitions
        if len(partitions) > 1:
            partitions = yield from _named_once(partitions)
        for asked in partitions:
            if not self._append(request, asked, appending):
                validated = yield from self._validate(request, asked)
                self._append(request, asked, appending, validated)
            yield None
        self._appended(request, appending)

    def _appended(self, request: Request, appending: _Appending) -> None:
        view, results, appended = appending.view, appending.results, appending.appended
        for one in appended:
            if one.partition.log.must_flush:
                self._answer_when_flushed(request, view, results, appended)
                return
        self._answer_or_park(request, view, results, appended)

    def _answer_or_park(
        self, request: Request, view: ProduceRequestView, results: Results, appended: list[Appended]
    ) -> None:
        if view.acks == ACKS_ALL and any(not one.is_committed for one in appended):
            self._park(request, view.timeout_ms, results, appended)
        elif len(appended) == len(results) == 1 and view.acks:
            # Nothing failed: the way of nearly every request.
            header = request.header
            request.respond(encode_produce_response(header.api_version, header.correlation_id, results))
        else:
            self._answer(request, view.acks, results)

    def _append(
        self,
        request: Request,
        asked: ProducePartition,
        appending: _Appending,
        validated: _Validated | None = None,
    ) -> bool:
        """Append one partition's records and note the result; False if they are to be looked into before."""
        try:
            partition = self._find(request, asked, appending.view.acks)
            if partition.log.rules.may_open_batches and validated is None:
                return False
            info = _append_to(partition, request, asked, appending, validated)
        except DecodeError:
            raise
        except InvalidRecords as error:
            result = self._failed(request, asked, error)
            result.record_errors = error.record_errors
            result.log_start_offset = partition.log.log_start_offset
        except Exception as error:
            # Of whatever kind it is: the other partitions' records are appended, or will be.
            result = self._failed(request, asked, error)
        else:
            if not info.is_duplicate:
                self._traffic.bytes_in += info.size_bytes
                self._traffic.messages_in += info.last_offset - info.first_offset + 1
            result = ProducePartitionResult(0, info.first_offset, info.log_append_time, info.log_start_offset)
            appending.appended.append(Appended(partition, partition.leader, info.last_offset + 1, result))
            if self._fetch_purgatory.watched:
                self._fetch_purgatory.check_and_complete(partition.topic_partition)
        self._traffic.produce_requests += 1
        appending.results.append((asked, result))
        return True

    def _find(self, request: Request, asked: ProducePartition, acks: int) -> Partition:
        """The partition that records are for; KafkaError if this request may not append to it."""
        if acks not in ALLOWED_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {acks} is not one of -1, 0, 1")
        partition = self._replicas.find(asked.topic, asked.topic_id, asked.partition)
        if partition.is_internal and request.header.client_id != ADMIN_CLIENT_ID:
            topic = partition.topic_partition.topic
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal")
        if asked.records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"no records for {partition.topic_partition}")
        return partition

    def _validate(self, request: Request, asked: ProducePartition) -> Steps[_Validated]:
        """Look into the batch of one partition, whose log says that it must."""
        assert asked.records is not None, "the partition was found"
        partition = self._replicas.find(asked.topic, asked.topic_id, asked.partition)
        try:
            partition.led()
            outcome = yield from partition.log.validate(asked.records, request.received_ms)
        except Exception as error:
            return _Validated(partition, error)
        return _Validated(partition, outcome)

    def _failed(self, request: Request, asked: ProducePartition, error: Exception) -> ProducePartitionResult:
        """Return the result of a partition that took no records; what clients cannot mend is logged."""
        if not isinstance(error, KafkaError):
            self._log_limit.log(
                logger, logging.ERROR, "produce to partition %d of %s",
                asked.partition, asked.topic or asked.topic_id, error=error,
            )  # fmt: skip
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text)
        if error.code not in QUIET_ERRORS:
            # A batch that is damaged on arrival is the peer's fault, or the network's.
            is_damaged = error.code == ErrorCode.CORRUPT_MESSAGE
            self._log_limit.log(
                logger,
                logging.WARNING if is_damaged else logging.ERROR,
                "damaged batch from %s for partition %d of %s: %s: %s"
                if is_damaged
                else "produce from %s to partition %d of %s failed with %s: %s",
                request.peer, asked.partition, asked.topic or asked.topic_id, error.code.name, error,
            )  # fmt: skip
        if error.code not in EXPECTED_OF_PRODUCE:
            self._traffic.failed_produce_requests += 1
        return ProducePartitionResult(error_code=error.code, error_message=str(error))

    def _park(
        self,
        request: Request,
        timeout_ms: int,
        results: Results,
        appended: list[Appended],
    ) -> None:
        def on_failed(error: Exception) -> None:
            for one in appended:
                one.result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._answer(request, ACKS_ALL, results)

        operation = DelayedProduce(
            max(timeout_ms, 0), appended, lambda: self._answer(request, ACKS_ALL, results), on_failed
        )
        keys = [one.partition.topic_partition for one in appended]
        if not self._produce_purgatory.try_complete_else_watch(operation, keys):
            _forget_records(results)
            request.on_abandoned = lambda _: operation.cancel()
            request.park()

    def _answer_when_flushed(
        self, request: Request, view: ProduceRequestView, results: Results, appended: list[Appended]
    ) -> None:
        """flush.messages promises that what is answered is on disk."""
        unflushed = [one for one in appended if one.partition.log.must_flush]
        waiting = asyncio.gather(
            *(self._flusher.flush(one.partition.log) for one in unflushed), return_exceptions=True
        )

        def answer(done: asyncio.Future[list[BaseException | None]]) -> None:
            for one, outcome in zip(unflushed, done.result(), strict=True):
                if outcome is not None:
                    one.result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    one.result.error_message = str(outcome)
            in_doubt = [one for one in appended if not one.result.error_code]
            self._answer_or_park(request, view, results, in_doubt)

        _forget_records(results)
        request.release_frame()
        waiting.add_done_callback(answer)

    def _answer(self, request: Request, acks: int, results: Results) -> None:
        if acks == NO_ANSWER:
            self._end_without_answer(request, results)
            return
        if len(results) <= PARTITIONS_PER_STEP:
            request.respond((completed(self._encoded(request, results)),))
        else:
            self._run(request, self._respond_in_steps(request, results))

    def _respond_in_steps(self, request: Request, results: Results) -> Steps[None]:
        frame = yield from self._encoded(request, results)
        request.respond((frame,))

    def _encoded(self, request: Request, results: Results) -> Steps[bytearray]:
        version, correlation_id = request.header.api_version, request.header.correlation_id
        endpoints: tuple[NodeEndpoint, ...] = ()
        if version >= _NAMES_LEADERS:
            endpoints = yield from self._name_leaders(request, results)
        return (
            yield from encode_produce_response_in_steps(
                version, correlation_id, results, node_endpoints=endpoints
            )
        )

    def _name_leaders(self, request: Request, results: Results) -> Steps[tuple[NodeEndpoint, ...]]:
        """Say at each partition that is led elsewhere by whom, and where those leaders are."""
        leaders: list[tuple[int, int] | None] = []
        for asked, result in results:
            yield None
            if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                result.current_leader = self._leaders.leader_of(asked.topic, asked.topic_id, asked.partition)
                leaders.append(result.current_leader)
        return self._leaders.endpoints(leaders, request.listener) if leaders else ()

    @staticmethod
    def _end_without_answer(request: Request, results: Results) -> None:
        for asked, result in results:
            if result.error_code:
                code = ErrorCode(result.error_code).name
                request.close(f"acks=0 to partition {asked.partition} of {asked.topic} failed with {code}")
                return
        request.respond(None)


def _named_once(partitions: list[ProducePartition]) -> Steps[list[ProducePartition]]:
    """The partitions of a request; of one that is named several times the last entry counts, as in Kafka."""
    latest: dict[tuple[str | UUID | None, int], ProducePartition] = {}
    for each in partitions:
        latest[each.topic or each.topic_id, each.partition] = each
        yield None
    return partitions if len(latest) == len(partitions) else list(latest.values())


def _forget_records(results: Results) -> None:
    """Drop the views of the frame, whose records are in the log now."""
    for asked, _ in results:
        asked.records = None


def _append_to(
    partition: Partition,
    request: Request,
    asked: ProducePartition,
    appending: _Appending,
    validated: _Validated | None,
) -> AppendInfo:
    records, acks, now_ms = asked.records, appending.view.acks, request.received_ms
    assert records is not None, "the partition was found"
    batch = None
    if validated is not None:
        if validated.partition is not partition:
            text = f"{partition.topic_partition} was re-created while its batch was looked into"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        if isinstance(validated.outcome, Exception):
            raise validated.outcome
        batch = validated.outcome
    if not claims_transaction(records):
        if batch is None:
            return partition.append(records, acks, now_ms)
        return partition.append(records, acks, now_ms, validated=batch)
    verification = _verification(appending.verifications, partition, asked)
    return partition.append(records, acks, now_ms, verification=verification, validated=batch)


def _verification(
    verifications: ProduceVerifications | None, partition: Partition, asked: ProducePartition
) -> Verification | None:
    if verifications is None:
        # Nobody without a transactional id may write to a transaction, and none is named.
        text = "records of a transaction need a transactional id"
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
    return verifications.of(partition.topic_partition, asked)
