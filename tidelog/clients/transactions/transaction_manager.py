"""The transactions of one producer: which request to send next, and what a response changes.

Pure; `TransactionLifecycle` has the states. One request to a coordinator is in flight at a time. A request
whose response was lost is sent again unchanged, in the same epoch, and the coordinator recognizes it. Below
transaction.version 2 the lost request may also arrive late and begin or end a later transaction
(KAFKA-17754). The producer therefore takes a new epoch after a transaction in which a request was lost.

Source: KIP-98, KIP-360, KIP-447, KIP-890; TransactionManager of Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from tidelog.base.count_text import count_text
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.transactions.producer_id import ProducerIdAndEpoch
from tidelog.clients.transactions.transaction_errors import (
    ErrorAction,
    action_for,
    action_for_batch,
    most_severe_error,
)
from tidelog.clients.transactions.transaction_lifecycle import (
    Operation,
    TransactionLifecycle,
    TransactionState,
)
from tidelog.clients.transactions.transaction_requests import (
    EPOCH_BUMP_LOWEST,
    CoordinatorRequest,
    TransactionalProducer,
    add_offsets,
    add_partitions,
    commit_offsets,
    end_transaction,
    init_producer_id,
)
from tidelog.clients.transport.failures import failure, known_code
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_PRODUCER_ID, TopicPartition
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from tidelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from tidelog.protocol.messages.end_txn import EndTxnResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdResponse
from tidelog.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage


class Step(Enum):
    """The next step after a response."""

    PROCEED = auto()
    RETRY = auto()
    """Send the same request again after backoff."""
    RETRY_SOON = auto()
    """Send the same request again after a short time: the previous transaction is about to end."""
    FIND_COORDINATOR = auto()
    """Look up the coordinator before the same request is sent again."""


_STEPS: Final = {
    ErrorAction.RETRY: Step.RETRY,
    ErrorAction.FIND_COORDINATOR: Step.FIND_COORDINATOR,
}


class OffsetsToCommit:
    """Offsets that become part of the transaction; complete when `remaining` is empty or `error` is set."""

    __slots__ = ("error", "group", "is_added", "remaining")

    def __init__(
        self, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        self.group = group
        self.remaining = dict(offsets)
        self.is_added = False
        self.error: KafkaError | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the offsets are committed or have failed."""
        return not self.remaining or self.error is not None


class TransactionManager:
    """The state of one transactional producer.

    `producer` is its id and epoch. `is_v2`: the open transaction uses transaction.version 2.
    """

    def __init__(self, transactional_id: str, transaction_timeout_ms: int) -> None:
        self.lifecycle = TransactionLifecycle(transactional_id)
        self.producer = ProducerIdAndEpoch()
        self.is_v2 = False
        self._next_is_v2 = False
        self._timeout_ms = transaction_timeout_ms
        self._can_bump_epoch = False
        self._needs_new_epoch = False
        self._is_started = False
        self._may_have_started = False
        self._partitions: set[TopicPartition] = set()
        self._new_partitions: dict[TopicPartition, None] = {}
        self._requested_partitions: tuple[TopicPartition, ...] = ()
        self._offsets: list[OffsetsToCommit] = []
        self._in_flight: CoordinatorRequest | None = None

    @property
    def transactional_id(self) -> str:
        """The producer's transactional id."""
        return self.lifecycle.transactional_id

    # --- operations of the application ----------------------------------------------------

    def begin_init(self, *, is_v2: bool) -> None:
        """Begin init_transactions: a producer id is needed."""
        self.lifecycle.require(TransactionState.UNINITIALIZED, Operation.INIT.value)
        self.producer = ProducerIdAndEpoch()
        self.is_v2 = is_v2
        self.lifecycle.begin(Operation.INIT, TransactionState.INITIALIZING)

    def begin_transaction(self) -> None:
        """Open a transaction; no request is sent for this."""
        self.lifecycle.require(TransactionState.READY, "begin_transaction")
        self.lifecycle.open_transaction()

    def begin_commit(self, *, is_v2: bool) -> None:
        """Accept no more records, and commit when all are written; `is_v2` is for the next transaction."""
        self.lifecycle.require(TransactionState.IN_TRANSACTION, Operation.COMMIT.value)
        self._next_is_v2 = is_v2
        self.lifecycle.begin(Operation.COMMIT, TransactionState.COMMITTING)

    def begin_abort(self, *, is_v2: bool) -> None:
        """Send no new records, and abort when all sent batches have responses; see `begin_commit`."""
        if self.lifecycle.state is not TransactionState.ABORTABLE_ERROR:
            self.lifecycle.require(TransactionState.IN_TRANSACTION, Operation.ABORT.value)
        self._next_is_v2 = is_v2
        self.lifecycle.begin(Operation.ABORT, TransactionState.ABORTING)
        self._drop_unsent("the transaction was aborted")

    def add_partition(self, topic_partition: TopicPartition) -> None:
        """Make a partition part of the open transaction; a record for it was appended."""
        if topic_partition in self._partitions:
            return
        if self.is_v2:
            self._partitions.add(topic_partition)
            self._is_started = True
        else:
            self._new_partitions[topic_partition] = None

    def add_offsets(
        self, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> OffsetsToCommit:
        """Commit these offsets with the transaction; the result shows when they are recorded."""
        self.lifecycle.require(TransactionState.IN_TRANSACTION, "send_offsets_to_transaction")
        work = OffsetsToCommit(group, offsets)
        if not work.is_complete:
            self._offsets.append(work)
        return work

    def on_send_failed(self, error: KafkaError) -> None:
        """Prevent the commit of a transaction that lacks a record which the producer rejected."""
        is_of_another = error.code is ErrorCode.INVALID_TXN_STATE
        if self.lifecycle.state is TransactionState.IN_TRANSACTION and not is_of_another:
            self.lifecycle.require_abort(error.code, str(error))

    # --- batches --------------------------------------------------------------------------

    def can_send(self, topic_partition: TopicPartition, *, was_sent: bool) -> bool:
        """Return whether a batch may be sent, for the first time or (`was_sent`) again."""
        if self.lifecycle.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING):
            return topic_partition in self._partitions
        return was_sent and self.lifecycle.is_rolling_back

    def on_batch_failed(
        self, topic_partition: TopicPartition, record_count: int, code: ErrorCode, *, was_sent: bool
    ) -> None:
        """Act on a batch of the transaction that was not written, or whose result is unknown."""
        if self.lifecycle.is_fatal:
            return
        text = f"{count_text(record_count, 'record')} for {topic_partition} were not written [{code.name}]"
        action = action_for_batch(code)
        if action is ErrorAction.ABORT_AND_BUMP and not was_sent:
            action = ErrorAction.ABORT  # no broker knows the batch
        self._apply(action, code, text)

    # --- requests -------------------------------------------------------------------------

    def next_request(self, *, has_incomplete: bool) -> CoordinatorRequest | None:
        """Return the request to send now; `has_incomplete`: batches of the transaction are not complete."""
        assert self._in_flight is None
        if self.lifecycle.is_ending and not has_incomplete and not self._has_additions:
            if self._is_started or self._may_have_started:
                committed = self.lifecycle.state is TransactionState.COMMITTING
                self._in_flight = end_transaction(
                    self._request_producer(), committed=committed, is_v2=self.is_v2
                )
                return self._in_flight
            self._complete()
        if self.lifecycle.state is TransactionState.INITIALIZING:
            self._in_flight = init_producer_id(self._request_producer(), self._timeout_ms)
        elif self._has_additions:
            self._in_flight = self._next_addition()
        return self._in_flight

    @property
    def _has_additions(self) -> bool:
        return bool(self._new_partitions or self._offsets)

    def _next_addition(self) -> CoordinatorRequest:
        producer = self._request_producer()
        if self._new_partitions:
            self._may_have_started = True
            self._requested_partitions = tuple(self._new_partitions)
            return add_partitions(producer, self._requested_partitions)
        work = self._offsets[0]
        if self.is_v2:
            self._is_started = True
        elif not work.is_added:
            self._may_have_started = True
            return add_offsets(producer, work.group.group_id)
        return commit_offsets(producer, work.group, work.remaining, is_v2=self.is_v2)

    def _request_producer(self) -> TransactionalProducer:
        return TransactionalProducer(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
        )

    # --- responses ------------------------------------------------------------------------

    def on_no_response(self, *, was_sent: bool) -> Step:
        """Record that no response came; a request that `was_sent` may have reached the coordinator."""
        request = self._take_in_flight()
        if was_sent and request.api_key != ApiKey.INIT_PRODUCER_ID and not self.is_v2:
            self._needs_new_epoch = self._can_bump_epoch
        return Step.RETRY

    def on_not_sent(self, error: KafkaError) -> None:
        """Act on a request that cannot be sent, because its coordinator cannot be found or lacks the API."""
        self._take_in_flight()
        self._apply(action_for(ApiKey.FIND_COORDINATOR, error.code), error.code, str(error))

    def on_response(self, response: ApiMessage, version: int) -> Step:
        """Act on the response to the request in flight, which was sent in `version`."""
        self._take_in_flight()
        if self.lifecycle.is_fatal:
            return Step.PROCEED
        match response:
            case InitProducerIdResponse():
                return self._on_init_producer_id(response, version)
            case AddPartitionsToTxnResponse():
                return self._on_add_partitions(response)
            case AddOffsetsToTxnResponse():
                return self._on_add_offsets(response)
            case TxnOffsetCommitResponse():
                return self._on_offset_commit(response)
            case _:
                assert isinstance(response, EndTxnResponse)
                return self._on_end_transaction(response)

    def _take_in_flight(self) -> CoordinatorRequest:
        request, self._in_flight = self._in_flight, None
        assert request is not None
        return request

    def _on_init_producer_id(self, response: InitProducerIdResponse, version: int) -> Step:
        code = known_code(response.error_code)
        if code is not ErrorCode.NONE:
            return self._apply(action_for(ApiKey.INIT_PRODUCER_ID, code), code, "InitProducerId")
        self._can_bump_epoch = version >= EPOCH_BUMP_LOWEST
        self._needs_new_epoch = False
        self.producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        self.lifecycle.succeed(TransactionState.READY)
        return Step.PROCEED

    def _on_add_partitions(self, response: AddPartitionsToTxnResponse) -> Step:
        codes = {
            TopicPartition(topic.name, entry.partition_index): entry.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for entry in topic.results_by_partition
        }
        worst = most_severe_error(ApiKey.ADD_PARTITIONS_TO_TXN, self._requested_partitions, codes)
        if worst is None:
            self._is_started = True
            for topic_partition in self._requested_partitions:
                self._new_partitions.pop(topic_partition, None)
                self._partitions.add(topic_partition)
            return Step.PROCEED
        topic_partition, code = worst
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and not self._partitions:
            return Step.RETRY_SOON
        text = f"{topic_partition} cannot be added to the transaction"
        return self._apply(action_for(ApiKey.ADD_PARTITIONS_TO_TXN, code), code, text)

    def _on_add_offsets(self, response: AddOffsetsToTxnResponse) -> Step:
        code = known_code(response.error_code)
        if code is not ErrorCode.NONE:
            text = "offsets cannot be added to the transaction"
            return self._apply(action_for(ApiKey.ADD_OFFSETS_TO_TXN, code), code, text)
        self._is_started = True
        if self._offsets:
            self._offsets[0].is_added = True
        return Step.PROCEED

    def _on_offset_commit(self, response: TxnOffsetCommitResponse) -> Step:
        if not self._offsets:
            return Step.PROCEED  # the transaction has begun to roll back
        codes = {
            TopicPartition(topic.name, entry.partition_index): entry.error_code
            for topic in response.topics
            for entry in topic.partitions
        }
        work = self._offsets[0]
        worst = most_severe_error(ApiKey.TXN_OFFSET_COMMIT, work.remaining, codes)
        work.remaining = {tp: at for tp, at in work.remaining.items() if codes.get(tp) != ErrorCode.NONE}
        if worst is None:
            del self._offsets[0]
            return Step.PROCEED
        topic_partition, code = worst
        text = f"commit of {topic_partition} for group {work.group.group_id!r} in the transaction"
        return self._apply(action_for(ApiKey.TXN_OFFSET_COMMIT, code), code, text)

    def _on_end_transaction(self, response: EndTxnResponse) -> Step:
        code = known_code(response.error_code)
        action = action_for(ApiKey.END_TXN, code)
        if self.lifecycle.state is TransactionState.ABORTING:
            if code is ErrorCode.INVALID_TXN_STATE and not self._is_started:
                action = ErrorAction.PROCEED  # the lost request did not begin a transaction
            elif action is ErrorAction.ABORT_AND_BUMP and self._can_bump_epoch:
                self._needs_new_epoch = True  # the coordinator has deleted the producer and its transaction
                action = ErrorAction.PROCEED
            elif action is ErrorAction.ABORT:
                action = ErrorAction.RETRY
        if action is not ErrorAction.PROCEED:
            return self._apply(action, code, "EndTxn")
        if response.producer_id != NO_PRODUCER_ID:
            self.producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        self._complete()
        return Step.PROCEED

    # --- the end of a transaction ---------------------------------------------------------

    def _complete(self) -> None:
        """Prepare for the next transaction, under a new epoch if one is needed."""
        if self._next_is_v2 and not self.is_v2 and self._can_bump_epoch:
            # A late request of the old protocol must not affect a transaction of the new one (KIP-890).
            self._needs_new_epoch = True
        self.is_v2 = self._next_is_v2
        self._is_started = self._may_have_started = False
        self._partitions.clear()
        needs_id = self._needs_new_epoch
        self.lifecycle.succeed(TransactionState.INITIALIZING if needs_id else TransactionState.READY)

    def _apply(self, action: ErrorAction, code: ErrorCode, subject: str) -> Step:
        """Change the state as `action` requires; return how to continue."""
        text = str(failure(code, subject))
        match action:
            case ErrorAction.ABORT:
                self.lifecycle.require_abort(code, text)
            case ErrorAction.ABORT_AND_BUMP if self.is_v2:
                self.lifecycle.require_abort(code, text)  # EndTxn returns the new epoch
            case ErrorAction.ABORT_AND_BUMP if self._can_bump_epoch:
                self._needs_new_epoch = True
                self.lifecycle.require_abort(code, text)
            case ErrorAction.UNINITIALIZE:
                self.lifecycle.fail_initialization(code, text)
            case ErrorAction.ABORT_AND_BUMP | ErrorAction.FAIL:
                self.lifecycle.fail(code, text)
        if self.lifecycle.is_rolling_back or self.lifecycle.is_fatal:
            self._drop_unsent(text)
        return _STEPS.get(action, Step.PROCEED)

    def _drop_unsent(self, reason: str) -> None:
        """Remove the partitions and offsets that were not added to the transaction yet."""
        self._new_partitions.clear()
        for work in self._offsets:
            work.error = self.lifecycle.error or KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, reason)
        self._offsets.clear()
