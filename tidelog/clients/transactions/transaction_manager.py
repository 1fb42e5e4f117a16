"""The transactions of one producer: what is to be sent next, and what an answer changes.

Pure; the states are those of `TransactionLife`. One request to a coordinator is in flight at a time. One
whose answer was lost is sent again as it was, in the same epoch: the coordinator knows it again. Before
transaction.version 2 the lost one might also arrive late, and begin or end a later transaction
(KAFKA-17754): the producer takes a new epoch after a transaction in which that happened.

Source: KIP-98, KIP-360, KIP-447, KIP-890; TransactionManager of Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.producer.producer_batch import ProducerBatch
from tidelog.clients.producer.transactional_identity import TransactionalIdentity
from tidelog.clients.transactions.transaction_errors import Verdict, verdict_of, verdict_of_batch, worst_of
from tidelog.clients.transactions.transaction_life import Operation, TransactionLife, TransactionState
from tidelog.clients.transactions.transaction_requests import (
    EPOCH_BUMP_LOWEST,
    CoordinatorRequest,
    Producing,
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
    """What to do after an answer."""

    PROCEED = auto()
    RETRY = auto()
    """Send the same again after backoff."""
    RETRY_SOON = auto()
    """The same, but the end of the previous transaction will not take long."""
    FIND_COORDINATOR = auto()
    """Look up the coordinator before the same is sent again."""


_STEPS: Final = {Verdict.RETRY: Step.RETRY, Verdict.FIND_COORDINATOR: Step.FIND_COORDINATOR}


class OffsetsToCommit:
    """Offsets that are to become part of the transaction; done when none are `left`, or with `error`."""

    __slots__ = ("error", "group", "is_added", "left")

    def __init__(
        self, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        self.group = group
        self.left = dict(offsets)
        self.is_added = False
        self.error: KafkaError | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing more will come of it."""
        return not self.left or self.error is not None


class TransactionManager(TransactionLife):
    """The state of one transactional producer; `is_v2`: transaction.version 2 counts for what is open."""

    def __init__(self, transactional_id: str, transaction_timeout_ms: int) -> None:
        super().__init__(transactional_id)
        self.identity = TransactionalIdentity(self)
        self.is_v2 = False
        self._next_is_v2 = False
        self._timeout_ms = transaction_timeout_ms
        self._can_bump_epoch = False
        self._wants_epoch = False
        self._is_started = False
        self._may_have_started = False
        self._partitions: set[TopicPartition] = set()
        self._new_partitions: dict[TopicPartition, None] = {}
        self._asked: tuple[TopicPartition, ...] = ()
        self._offsets: list[OffsetsToCommit] = []
        self._in_flight: CoordinatorRequest | None = None

    # --- what the application does --------------------------------------------------------

    def begin_init(self, *, is_v2: bool) -> None:
        """Want a producer id."""
        self.require(TransactionState.UNINITIALIZED, Operation.INIT.value)
        self.identity.forget_id()
        self.is_v2 = is_v2
        self._begin(Operation.INIT, TransactionState.INITIALIZING)

    def begin_transaction(self) -> None:
        """Open a transaction; nothing is sent for it yet."""
        self.require(TransactionState.READY, "begin_transaction")
        self.serial += 1
        self._move(TransactionState.IN_TRANSACTION)

    def begin_commit(self, *, is_v2: bool) -> None:
        """Take no more records, and commit when all are written; `is_v2` counts for the next transaction."""
        self.require(TransactionState.IN_TRANSACTION, Operation.COMMIT.value)
        self._next_is_v2 = is_v2
        self._begin(Operation.COMMIT, TransactionState.COMMITTING)

    def begin_abort(self, *, is_v2: bool) -> None:
        """Send nothing new, and abort when what was sent has been answered."""
        if self.state is not TransactionState.ABORTABLE_ERROR:
            self.require(TransactionState.IN_TRANSACTION, Operation.ABORT.value)
        self._next_is_v2 = is_v2
        self._begin(Operation.ABORT, TransactionState.ABORTING)
        self._drop_what_was_not_sent("the transaction was aborted")

    def add_partition(self, topic_partition: TopicPartition) -> None:
        """A record for this partition belongs to the open transaction."""
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
        """Commit these offsets with the transaction; what is returned tells when they are recorded."""
        self.require(TransactionState.IN_TRANSACTION, "send_offsets_to_transaction")
        work = OffsetsToCommit(group, offsets)
        if not work.is_done:
            self._offsets.append(work)
        return work

    def send_failed(self, error: KafkaError) -> None:
        """A record could not be taken: without it the transaction must not be committed."""
        is_of_another = error.code is ErrorCode.INVALID_TXN_STATE
        if self.state is TransactionState.IN_TRANSACTION and not is_of_another:
            self._abortable(error.code, str(error))

    # --- what batches ask and tell --------------------------------------------------------

    def allows(self, topic_partition: TopicPartition, *, was_sent: bool) -> bool:
        """Whether a batch may be sent, for the first time or again."""
        if self.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING):
            return topic_partition in self._partitions
        return was_sent and self.is_rolling_back

    def batch_failed(self, batch: ProducerBatch, code: ErrorCode) -> None:
        """A batch of the transaction was not written, or nobody knows."""
        if self.is_fatal:
            return
        text = f"{batch.record_count} records for {batch.topic_partition} were not written [{code.name}]"
        verdict = verdict_of_batch(code)
        if verdict is Verdict.BUMP and not batch.has_sequence:
            verdict = Verdict.ABORTABLE  # nobody but us knows of it
        self._conclude(verdict, code, text)

    # --- what is sent ---------------------------------------------------------------------

    def next_request(self, *, has_incomplete: bool) -> CoordinatorRequest | None:
        """What to send now; `has_incomplete`: batches of the transaction are not done."""
        assert self._in_flight is None
        if self.is_ending and not has_incomplete and not self._has_more_to_add:
            if self._is_started or self._may_have_started:
                committed = self.state is TransactionState.COMMITTING
                self._in_flight = end_transaction(self._producing(), committed=committed, is_v2=self.is_v2)
                return self._in_flight
            self._complete()
        if self.state is TransactionState.INITIALIZING:
            self._in_flight = init_producer_id(self._producing(), self._timeout_ms)
        elif self._has_more_to_add:
            self._in_flight = self._next_addition()
        return self._in_flight

    @property
    def _has_more_to_add(self) -> bool:
        return bool(self._new_partitions or self._offsets)

    def _next_addition(self) -> CoordinatorRequest:
        producing = self._producing()
        if self._new_partitions:
            self._may_have_started = True
            self._asked = tuple(self._new_partitions)
            return add_partitions(producing, self._asked)
        work = self._offsets[0]
        if self.is_v2:
            self._is_started = True
        elif not work.is_added:
            self._may_have_started = True
            return add_offsets(producing, work.group.group_id)
        return commit_offsets(producing, work.group, work.left, is_v2=self.is_v2)

    def _producing(self) -> Producing:
        return Producing(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
        )

    # --- what comes back ------------------------------------------------------------------

    def lost(self, *, was_sent: bool) -> Step:
        """No answer came to the request in flight; one that `was_sent` may have reached the coordinator."""
        request = self._take_in_flight()
        if was_sent and request.api_key != ApiKey.INIT_PRODUCER_ID and not self.is_v2:
            self._wants_epoch = self._can_bump_epoch
        return Step.RETRY

    def refused(self, error: KafkaError) -> None:
        """The request in flight was not sent: its coordinator is not to be had, or does not know it."""
        self._take_in_flight()
        self._conclude(verdict_of(ApiKey.FIND_COORDINATOR, error.code), error.code, str(error))

    def answered(self, response: ApiMessage, version: int) -> Step:
        """Act on the answer to the request in flight, which was sent in `version`."""
        self._take_in_flight()
        if self.is_fatal:
            return Step.PROCEED
        match response:
            case InitProducerIdResponse():
                return self._initialized(response, version)
            case AddPartitionsToTxnResponse():
                return self._partitions_added(response)
            case AddOffsetsToTxnResponse():
                return self._offsets_added(response)
            case TxnOffsetCommitResponse():
                return self._offsets_committed(response)
            case _:
                assert isinstance(response, EndTxnResponse)
                return self._ended(response)

    def _take_in_flight(self) -> CoordinatorRequest:
        request, self._in_flight = self._in_flight, None
        assert request is not None
        return request

    def _initialized(self, response: InitProducerIdResponse, version: int) -> Step:
        code = known_code(response.error_code)
        if code is not ErrorCode.NONE:
            return self._conclude(verdict_of(ApiKey.INIT_PRODUCER_ID, code), code, "InitProducerId")
        self._can_bump_epoch = version >= EPOCH_BUMP_LOWEST
        self._wants_epoch = False
        self.identity.set_id(response.producer_id, response.producer_epoch)
        self._succeed(TransactionState.READY)
        return Step.PROCEED

    def _partitions_added(self, response: AddPartitionsToTxnResponse) -> Step:
        told = {
            TopicPartition(topic.name, entry.partition_index): entry.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for entry in topic.results_by_partition
        }
        worst = worst_of(ApiKey.ADD_PARTITIONS_TO_TXN, self._asked, told)
        if worst is None:
            self._is_started = True
            for topic_partition in self._asked:
                self._new_partitions.pop(topic_partition, None)
                self._partitions.add(topic_partition)
            return Step.PROCEED
        topic_partition, code = worst
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and not self._partitions:
            return Step.RETRY_SOON
        text = f"{topic_partition} cannot be part of the transaction"
        return self._conclude(verdict_of(ApiKey.ADD_PARTITIONS_TO_TXN, code), code, text)

    def _offsets_added(self, response: AddOffsetsToTxnResponse) -> Step:
        code = known_code(response.error_code)
        if code is not ErrorCode.NONE:
            text = "offsets cannot be part of the transaction"
            return self._conclude(verdict_of(ApiKey.ADD_OFFSETS_TO_TXN, code), code, text)
        self._is_started = True
        if self._offsets:
            self._offsets[0].is_added = True
        return Step.PROCEED

    def _offsets_committed(self, response: TxnOffsetCommitResponse) -> Step:
        if not self._offsets:
            return Step.PROCEED  # the transaction is rolled back meanwhile
        told = {
            TopicPartition(topic.name, entry.partition_index): entry.error_code
            for topic in response.topics
            for entry in topic.partitions
        }
        work = self._offsets[0]
        worst = worst_of(ApiKey.TXN_OFFSET_COMMIT, work.left, told)
        work.left = {tp: at for tp, at in work.left.items() if told.get(tp) != ErrorCode.NONE}
        if worst is None:
            del self._offsets[0]
            return Step.PROCEED
        topic_partition, code = worst
        text = f"offset of {topic_partition} for group {work.group.group_id!r} in the transaction"
        return self._conclude(verdict_of(ApiKey.TXN_OFFSET_COMMIT, code), code, text)

    def _ended(self, response: EndTxnResponse) -> Step:
        code = known_code(response.error_code)
        verdict = verdict_of(ApiKey.END_TXN, code)
        if self.state is TransactionState.ABORTING:
            if code is ErrorCode.INVALID_TXN_STATE and not self._is_started:
                verdict = Verdict.DONE  # what was lost had not begun anything
            elif verdict is Verdict.BUMP and self._can_bump_epoch:
                self._wants_epoch = True  # the coordinator has forgotten the producer, and what it had begun
                verdict = Verdict.DONE
            elif verdict is Verdict.ABORTABLE:
                verdict = Verdict.RETRY
        if verdict is not Verdict.DONE:
            return self._conclude(verdict, code, "EndTxn")
        if response.producer_id != NO_PRODUCER_ID:
            self.identity.set_id(response.producer_id, response.producer_epoch)
        self._complete()
        return Step.PROCEED

    # --- inside ---------------------------------------------------------------------------

    def _complete(self) -> None:
        """The transaction is over."""
        if self._next_is_v2 and not self.is_v2 and self._can_bump_epoch:
            # So that nothing of the old kind counts for a transaction of the new (KIP-890).
            self._wants_epoch = True
        self.is_v2 = self._next_is_v2
        self._is_started = self._may_have_started = False
        self._partitions.clear()
        self._succeed(TransactionState.INITIALIZING if self._wants_epoch else TransactionState.READY)

    def _conclude(self, verdict: Verdict, code: ErrorCode, subject: str) -> Step:
        """Act on an error; how to go on after it."""
        text = str(failure(code, subject))
        match verdict:
            case Verdict.ABORTABLE:
                self._abortable(code, text)
            case Verdict.BUMP if self.is_v2:
                self._abortable(code, text)  # the end of the transaction brings the new epoch
            case Verdict.BUMP if self._can_bump_epoch:
                self._wants_epoch = True
                self._abortable(code, text)
            case Verdict.UNINITIALIZED:
                self._uninitialized(code, text)
            case Verdict.BUMP | Verdict.FATAL:
                self._fatal(code, text)
        if self.is_rolling_back or self.is_fatal:
            self._drop_what_was_not_sent(text)
        return _STEPS.get(verdict, Step.PROCEED)

    def _drop_what_was_not_sent(self, reason: str) -> None:
        self._new_partitions.clear()
        for work in self._offsets:
            work.error = self.error or KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, reason)
        self._offsets.clear()
