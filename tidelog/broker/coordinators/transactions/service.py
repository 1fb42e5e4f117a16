"""The transaction coordinator of a node: finds the partition that stores an id, and waits for its log.

The partitions of `__transaction_state` that this node leads are `tidelog.broker.coordinators.shared.shards`.
A partition that this node leads in a new leader epoch is loaded again, because that epoch is the
coordinator's epoch in every marker. A reply that depends on the log is sent when its records are committed,
or after `request.timeout.ms` as COORDINATOR_NOT_AVAILABLE.

I/O: the StateLog, producer ids, the sender of markers. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.shared.coordinator import RecordFormat
from tidelog.broker.coordinators.shared.outcome import Outcome
from tidelog.broker.coordinators.shared.shard import Shard, ShardPorts, ShardState
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.broker.coordinators.shared.state_log import StateLog
from tidelog.broker.coordinators.shared.timer import Timer, TimerHandle
from tidelog.broker.coordinators.transactions.administration import TransactionFilter
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.coordinator import TransactionCoordinator
from tidelog.broker.coordinators.transactions.init_producer import ProducerIdAndEpoch, ProducerIdNeeded
from tidelog.broker.coordinators.transactions.loading import replay_batches
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.records import encode_record
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import ProducerId, TopicPartition
from tidelog.protocol.messages import describe_transactions, list_transactions
from tidelog.protocol.steps import Steps

R = TypeVar("R")
_Shard = Shard[TransactionCoordinator]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPorts:
    """The functions of the node that a transaction coordinator calls.

    `leader_epoch` returns the epoch in which this node leads a partition, `transaction_version` the
    finalized level of that feature, and `new_producer_id` an id that has never been used. `send_markers`
    writes the markers of a transaction and reports each with `TransactionService.on_markers_written`.
    """

    leader_epoch: Callable[[int], int]
    transaction_version: Callable[[], int]
    new_producer_id: Callable[[], Awaitable[ProducerId]]
    send_markers: Callable[[PreparedTransaction], None]


class TransactionService:
    """Serves the transactional ids of the partitions of `__transaction_state` that this node leads.

    Errors of all commands: KafkaError INVALID_REQUEST for an empty transactional id, NOT_COORDINATOR,
    COORDINATOR_LOAD_IN_PROGRESS, and the error of the append. REQUEST_TIMED_OUT means that the records were
    not committed within `request.timeout.ms`; they may still be.
    """

    def __init__(
        self, config: TransactionConfig, log: StateLog, timer: Timer, clock: Clock, ports: TransactionPorts
    ) -> None:
        self._config = config
        self._timer = timer
        self._ports = ports
        self._shards: Shards[TransactionCoordinator] = Shards(
            "transactions",
            lambda partition: TransactionCoordinator(
                partition,
                ports.leader_epoch(partition),
                config,
                ports.transaction_version,
                ports.send_markers,
            ),
            RecordFormat(
                lambda record: encode_record(record, ports.transaction_version()),
                lambda coordinator, batches: replay_batches(coordinator.registry, batches),
            ),
            ShardPorts(log, timer, clock),
            commit_timeout_ms=config.request_timeout_ms,
        )
        self._handles: dict[str, TimerHandle] = {}

    # Start and stop

    def start(self) -> None:
        """Serve requests from now on, abort transactions that time out and remove expired ids."""
        self._shards.start()
        self._schedule_timeouts()
        self._schedule_expiration()

    async def stop(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR and end all tasks."""
        for handle in self._handles.values():
            handle.cancel()
        await self._shards.stop()

    def on_leadership(self, partition: int) -> None:
        """Load `partition` of `__transaction_state`, of which this node has become the leader."""
        existing = self._shards.get(partition)
        if existing is not None and existing.coordinator.coordinator_epoch != self._ports.leader_epoch(
            partition
        ):
            self._shards.on_resignation(partition)
        self._shards.on_leadership(partition)

    def on_resignation(self, partition: int) -> None:
        """Unload `partition`, because this node is no longer its leader."""
        self._shards.on_resignation(partition)

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` that stores a transactional id."""
        return self._shards.partition_for(transactional_id)

    def _shard(self, transactional_id: str) -> _Shard:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        return self._shards.active_shard(transactional_id)

    # Commands of producers. They raise KafkaError.

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        """Return the id and epoch of a producer, which has `expected` if it continues after an error.

        `timeout_ms` limits each transaction of the producer. Errors: INVALID_TRANSACTION_TIMEOUT;
        PRODUCER_FENCED if `expected` is not current; CONCURRENT_TRANSACTIONS while the transaction of the
        previous producer is being aborted.
        """

        def command(shard: _Shard, new_id: ProducerId | None) -> Outcome[ProducerIdAndEpoch]:
            return shard.coordinator.init_producer(
                transactional_id, timeout_ms, expected, new_id, shard.now()
            )

        producer = await self._perform(transactional_id, command)
        if producer == ProducerIdAndEpoch():
            text = f"the transaction of the previous producer of {transactional_id!r} is being aborted"
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, text)
        return producer

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_transaction_version: int,
    ) -> None:
        """Add partitions to the producer's transaction.

        Brokers that lead partitions of one transaction send their requests at the same time. Kafka responds
        to the second with CONCURRENT_TRANSACTIONS. Here it waits until the first has been committed, for at
        most `request.timeout.ms`.
        Errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """

        def command(shard: _Shard, _: ProducerId | None) -> Outcome[None]:
            return shard.coordinator.add_partitions(
                transactional_id, producer, partitions, client_transaction_version, shard.now()
            )

        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                while self._shard(transactional_id).coordinator.waits_only_for_commit(transactional_id):
                    await self._shard(transactional_id).wait_for_commits()
        except TimeoutError:
            pass  # The command raises CONCURRENT_TRANSACTIONS.
        await self._perform(transactional_id, command)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for each partition of the transaction and TRANSACTION_ABORTABLE for every other.

        Errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        coordinator = self._shard(transactional_id).coordinator
        return coordinator.verify_partitions(transactional_id, producer, partitions)

    async def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        client_transaction_version: int,
    ) -> ProducerIdAndEpoch:
        """Commit or abort the transaction. Return the id and epoch that the producer continues with.

        It returns when the decision is committed; the markers are written after that. Errors:
        INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """

        def command(shard: _Shard, new_id: ProducerId | None) -> Outcome[ProducerIdAndEpoch]:
            return shard.coordinator.end_transaction(
                transactional_id, producer, is_commit, client_transaction_version, new_id, shard.now()
            )

        return await self._perform(transactional_id, command)

    async def _perform(
        self, transactional_id: str, command: Callable[[_Shard, ProducerId | None], Outcome[R]]
    ) -> R:
        """Run a command, with a new producer id if it needs one. Return its reply after the commit."""
        new_id: ProducerId | None = None
        while True:
            shard = self._shard(transactional_id)
            try:
                outcome = command(shard, new_id)
            except ProducerIdNeeded:
                new_id = await self._ports.new_producer_id()
                continue
            if outcome.writes.records:
                await self._shards.write(shard, outcome.writes)
            # Otherwise the state of the transactional id is committed: commands reject a pending state.
            return outcome.reply

    # Markers

    def on_markers_written(
        self, transaction: PreparedTransaction, partitions: Iterable[TopicPartition]
    ) -> None:
        """Remove partitions that have the marker of a transaction, or have been deleted."""
        shard = self._shards.get(transaction.state_partition)
        if shard is not None and shard.state is ShardState.ACTIVE:
            shard.perform(shard.coordinator.on_markers_written(transaction, partitions, shard.now()))

    # Administration

    def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        """Return the state of one transactional id and its transaction; errors are in the reply."""
        try:
            return self._shard(transactional_id).coordinator.describe(transactional_id)
        except KafkaError as error:
            return describe_transactions.TransactionState(
                transactional_id=transactional_id, error_code=error.code
            )

    def list(self, filter_by: TransactionFilter) -> Steps[list[list_transactions.TransactionState]]:
        """Return the matching ids of all partitions.

        Raise KafkaError COORDINATOR_LOAD_IN_PROGRESS while a partition is being loaded.
        """
        states: list[list_transactions.TransactionState] = []
        for shard in self._shards.loaded_shards():
            states += yield from shard.coordinator.list(filter_by, shard.now())
        return states

    def state_counts(self) -> Counter[TransactionState]:
        """Return the number of transactional ids in each state, for metrics."""
        counts: Counter[TransactionState] = Counter()
        for shard in self._shards.active_shards():
            counts += shard.coordinator.state_counts()
        return counts

    # Timeouts and expiration

    def _schedule_timeouts(self) -> None:
        interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._handles["timeouts"] = self._timer.schedule(interval_ms, self._on_timeouts_scheduled)

    def _on_timeouts_scheduled(self) -> None:
        self._schedule_timeouts()
        self._shards.spawn(self._abort_timed_out())

    async def _abort_timed_out(self) -> None:
        for shard in self._shards.active_shards():
            if shard.state is ShardState.ACTIVE:
                for writes in shard.coordinator.abort_timed_out(shard.now()):
                    shard.perform(writes)
                await asyncio.sleep(0)

    def _schedule_expiration(self) -> None:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._handles["expiration"] = self._timer.schedule(interval_ms, self._on_expiration_scheduled)

    def _on_expiration_scheduled(self) -> None:
        self._schedule_expiration()
        self._shards.spawn(self._expire())

    async def _expire(self) -> None:
        for shard in self._shards.active_shards():
            if shard.state is ShardState.ACTIVE:
                shard.perform(shard.coordinator.expire(shard.now()))
                await asyncio.sleep(0)
