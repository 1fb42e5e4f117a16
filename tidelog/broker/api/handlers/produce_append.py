"""Appends the batches of a produce request to their partitions, one partition at a time.

The records stay in the receive buffer: the log checks and stamps them in place. A batch whose records
the log must check (`tidelog.storage.log.record_validation`) is validated in steps before it is appended.

Source: KIP-98, KIP-467 (record errors), KIP-516 (topic ids).
"""

from __future__ import annotations

import logging
from dataclasses import field
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.base.log_limit import LogLimit
from tidelog.broker.coordinators.verification.produce import ProduceVerifications
from tidelog.broker.network.request import Request
from tidelog.broker.observability.topic_traffic import EXPECTED_PRODUCE_ERRORS, TopicTraffic
from tidelog.broker.partitions.delayed_produce import PartitionAppend
from tidelog.broker.partitions.partition import ACKS_ALL, Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.partitions.waiting_requests import WaitingReaders
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.security.authorization.access import require_access
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.batch import claims_transaction
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.steps import Steps
from tidelog.protocol.views.produce_request_view import ProducePartition, ProduceRequestView
from tidelog.protocol.views.produce_response_view import ProducePartitionResult
from tidelog.storage.disk.errors import InvalidRecords
from tidelog.storage.log.partition_log import AppendInfo
from tidelog.storage.log.validation_rules import ValidatedBatch
from tidelog.storage.producers.verification import Verification

logger = logging.getLogger(__name__)

NO_RESPONSE: Final = 0
ALLOWED_ACKS: Final = (ACKS_ALL, NO_RESPONSE, 1)
ADMIN_CLIENT_ID: Final = "__admin_client"
"""Kafka's own tools use this client id when they write to internal topics."""
QUIET_ERRORS: Final = frozenset(ErrorCode) - {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE}
"""Errors that are not logged: the client can correct them or retry. The storage logs its own errors."""

Results = list[tuple[ProducePartition, ProducePartitionResult]]


@dataclass(slots=True)
class AppendState:
    """The progress of one request: the results of its partitions so far."""

    view: ProduceRequestView
    verifications: ProduceVerifications | None
    results: Results = field(default_factory=list)
    appended: list[PartitionAppend] = field(default_factory=list)


@dataclass(slots=True)
class _Validated:
    """The records of one partition after their validation."""

    partition: Partition
    batch: ValidatedBatch


class ProduceAppender:
    """Appends to the partitions that this node leads, and completes the fetches that wait for records."""

    def __init__(
        self,
        replicas: ReplicaManager,
        readers: Purgatory | WaitingReaders,
        traffic: TopicTraffic,
        log_limit: LogLimit,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self.is_access_limited = authorizer.is_enabled
        """Whether `remove_unauthorized` must be called for every request."""
        self._replicas = replicas
        self._readers = readers
        self._traffic = traffic
        self._log_limit = log_limit

    def remove_unauthorized(self, request: Request, state: AppendState) -> Steps[None]:
        """Remove the partitions to which the client may not write from the request; add their results.

        Raise KafkaError if the client may not write with the transactional id of transactional records.
        """
        view = state.view
        if any(each.records is not None and claims_transaction(each.records) for each in view.partitions):
            self._require_transactional_id(request, view.transactional_id)
        allowed = []
        writable: dict[str, bool] = {}
        for requested in view.partitions:
            yield None
            name = requested.topic
            if requested.topic_id is not None and not name:
                name = self._replicas.topic_name(requested.topic_id)
            if name is not None and name not in writable:
                writable[name] = self._authorizer.is_authorized(
                    request, AclOperation.WRITE, AclResourceType.TOPIC, name
                )
            # An unknown topic id has its own error.
            if name is None or writable[name]:
                allowed.append(requested)
            else:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                result = ProducePartitionResult(error_code=code, error_message=code.text)
                self._add(state, requested, result)
        view.partitions = allowed

    def _require_transactional_id(self, request: Request, transactional_id: str | None) -> None:
        if transactional_id is None:
            text = "transactional records need a transactional id in the request"
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
        require_access(
            self._authorizer,
            request,
            AclOperation.WRITE,
            AclResourceType.TRANSACTIONAL_ID,
            transactional_id,
        )

    def append(
        self,
        request: Request,
        requested: ProducePartition,
        state: AppendState,
        validated: _Validated | None = None,
    ) -> bool:
        """Append one partition's records and add the result to `state`.

        Return False, and change nothing, if the log must validate the records before.
        """
        try:
            partition = self._find(request, requested, state.view.acks)
            if partition.log.rules.may_open_batches and validated is None:
                return False
            info = _append_to(partition, request, requested, state, validated)
        except DecodeError:
            raise
        except InvalidRecords as error:
            result = self._invalid(request, requested, error, partition)
        except Exception as error:
            # Any error affects this partition only: the records of the others are appended.
            result = self._failure(request, requested, error)
        else:
            if info.is_duplicate:
                self._traffic.record_produce_request()
            else:
                self._traffic.record_append(
                    partition.topic_partition.topic,
                    info.size_bytes,
                    info.last_offset - info.first_offset + 1,
                )
            result = ProducePartitionResult(0, info.first_offset, info.log_append_time, info.log_start_offset)
            state.appended.append(PartitionAppend(partition, partition.leader, info.last_offset + 1, result))
            self._readers.check_and_complete(partition.topic_partition)
            state.results.append((requested, result))
            return True
        self._add(state, requested, result)
        return True

    def append_in_steps(
        self, request: Request, requested: ProducePartition, state: AppendState
    ) -> Steps[None]:
        """Do the same as `append`, with the validation that it may need."""
        if self.append(request, requested, state):
            return
        assert requested.records is not None, "`append` rejects a partition without records"
        # The error must not be stored: its traceback refers to the request, which would form a cycle.
        try:
            partition = self._replicas.find(requested.topic, requested.topic_id, requested.partition)
            partition.require_leader()
            batch = yield from partition.log.validate(requested.records, request.received_ms)
        except InvalidRecords as error:
            result = self._invalid(request, requested, error, partition)
        except Exception as error:
            result = self._failure(request, requested, error)
        else:
            self.append(request, requested, state, _Validated(partition, batch))
            return
        self._add(state, requested, result)

    def _find(self, request: Request, requested: ProducePartition, acks: int) -> Partition:
        """Return the partition of the records. Raise KafkaError if the request may not append to it."""
        if acks not in ALLOWED_ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it must be -1, 0 or 1")
        partition = self._replicas.find(requested.topic, requested.topic_id, requested.partition)
        if partition.is_internal and request.header.client_id != ADMIN_CLIENT_ID:
            topic = partition.topic_partition.topic
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is an internal topic")
        if requested.records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"no records for {partition.topic_partition}")
        return partition

    def _add(self, state: AppendState, requested: ProducePartition, result: ProducePartitionResult) -> None:
        self._traffic.record_produce_request()
        state.results.append((requested, result))

    def _invalid(
        self, request: Request, requested: ProducePartition, error: InvalidRecords, partition: Partition
    ) -> ProducePartitionResult:
        """Return the result of a partition whose log rejected some of the records (KIP-467)."""
        result = self._failure(request, requested, error)
        result.record_errors = error.record_errors
        result.log_start_offset = partition.log.log_start_offset
        return result

    def _failure(
        self, request: Request, requested: ProducePartition, error: Exception
    ) -> ProducePartitionResult:
        """Return the result of a partition whose append failed; log an error that clients cannot correct."""
        if not isinstance(error, KafkaError):
            self._log_limit.log(
                logger, logging.ERROR, "Produce to partition %d of %s failed",
                requested.partition, requested.topic or requested.topic_id, error=error,
            )  # fmt: skip
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text)
        if error.code not in QUIET_ERRORS:
            # A batch that is damaged on arrival is an error of the client or of the network.
            is_damaged = error.code == ErrorCode.CORRUPT_MESSAGE
            self._log_limit.log(
                logger,
                logging.WARNING if is_damaged else logging.ERROR,
                "Damaged batch from %s for partition %d of %s: %s: %s"
                if is_damaged
                else "Produce from %s to partition %d of %s failed with %s: %s",
                request.peer, requested.partition, requested.topic or requested.topic_id,
                error.code.name, error,
            )  # fmt: skip
        if error.code not in EXPECTED_PRODUCE_ERRORS:
            self._traffic.record_failed_produce()
        return ProducePartitionResult(error_code=error.code, error_message=str(error))


def _append_to(
    partition: Partition,
    request: Request,
    requested: ProducePartition,
    state: AppendState,
    validated: _Validated | None,
) -> AppendInfo:
    """Append the records of one partition; transactional ones with their verification."""
    records, acks, now_ms = requested.records, state.view.acks, request.received_ms
    assert records is not None, "`_find` rejects a partition without records"
    batch = None
    if validated is not None:
        if validated.partition is not partition:
            text = f"{partition.topic_partition} was re-created while its records were validated"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        batch = validated.batch
    if not claims_transaction(records):
        if batch is None:
            return partition.append(records, acks, now_ms)
        return partition.append(records, acks, now_ms, validated=batch)
    verification = _verification(state.verifications, partition, requested)
    return partition.append(records, acks, now_ms, verification=verification, validated=batch)


def _verification(
    verifications: ProduceVerifications | None, partition: Partition, requested: ProducePartition
) -> Verification | None:
    """Return the verification of transactional records; None if they need none.

    Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and those of `ProduceVerifications.of`.
    """
    if verifications is None:
        text = "transactional records need a transactional id in the request"
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
    return verifications.of(partition.topic_partition, requested)
