"""DescribeTransactions and ListTransactions: the committed metadata of the ids of one partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.regular_expression import RegularExpression
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.broker.coordinators.transactions.states import TransactionState
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import ProducerId, TopicPartition
from tidelog.protocol.messages import describe_transactions, list_transactions
from tidelog.protocol.steps import Steps

NO_DURATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """Selects transactional ids; a field with its default value selects all.

    `duration_ms` selects transactions that started longer ago than that.
    """

    states: frozenset[TransactionState] | None = None
    producer_ids: Collection[ProducerId] = ()
    duration_ms: int = NO_DURATION
    pattern: RegularExpression | None = None

    def matches(self, metadata: TransactionMetadata, now_wall_ms: int) -> bool:
        """Return whether the filter selects this id."""
        if self.states is not None and metadata.state not in self.states:
            return False
        if self.producer_ids and metadata.producer_id not in self.producer_ids:
            return False
        if self.duration_ms >= 0 and now_wall_ms - metadata.start_wall_ms <= self.duration_ms:
            return False
        return self.pattern is None or self.pattern.matches(metadata.transactional_id)


class Administration:
    """Reads the registry for admin requests."""

    def __init__(self, registry: TransactionRegistry) -> None:
        self._registry = registry

    def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        """Return the state of one id and its transaction; TRANSACTIONAL_ID_NOT_FOUND for an unknown id.

        For a prepared transaction, only the partitions without a marker are returned.
        """
        entry = self._registry.get(transactional_id)
        if entry is None or entry.committed_metadata is None:
            return describe_transactions.TransactionState(
                transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            )
        metadata = entry.committed_metadata
        partitions = entry.partitions_without_marker if metadata.state.is_prepared else metadata.partitions
        return describe_transactions.TransactionState(
            transactional_id=transactional_id,
            transaction_state=metadata.state.value,
            transaction_timeout_ms=metadata.timeout_ms,
            transaction_start_time_ms=metadata.start_wall_ms,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            topics=_topics(partitions),
        )

    def list(
        self, filter_by: TransactionFilter, now: Moment
    ) -> Steps[list[list_transactions.TransactionState]]:
        """Return the ids that `filter_by` selects, in one step for each id: its pattern may take long."""
        states = []
        for entry in list(self._registry):
            yield None
            metadata = entry.committed_metadata
            if metadata is not None and filter_by.matches(metadata, now.wall_ms):
                states.append(
                    list_transactions.TransactionState(
                        transactional_id=metadata.transactional_id,
                        producer_id=metadata.producer_id,
                        transaction_state=metadata.state.value,
                    )
                )
        return states


def _topics(partitions: Iterable[TopicPartition]) -> tuple[describe_transactions.TopicData, ...]:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(partitions):
        topics[topic].append(index)
    return tuple(
        describe_transactions.TopicData(topic=topic, partitions=tuple(indexes))
        for topic, indexes in topics.items()
    )
