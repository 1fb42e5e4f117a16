"""The requests of a transactional producer to coordinators.

Pure. Below transaction.version 2 the producer adds each partition and group to the transaction before it
writes there (AddPartitionsToTxn, AddOffsetsToTxn). From version 2 the brokers add them (KIP-890), and EndTxn
returns the epoch of the next transaction. The version of a request selects the protocol, so it is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.clients.groups.group_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import ProducerEpoch, ProducerId, TopicPartition
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage

INIT_HIGHEST: Final = 5
"""Version 6 is for two-phase commits (KIP-939)."""
EPOCH_BUMP_LOWEST: Final = 3
"""From this version of InitProducerId, a producer can bump its own epoch (KIP-360)."""
ADD_PARTITIONS_HIGHEST: Final = 3
"""Version 4 is for brokers."""
PRODUCE_HIGHEST_V1: Final = 11
_ADD_OFFSETS_HIGHEST: Final = 4
_OFFSET_COMMIT_HIGHEST_V1: Final = 4
_OFFSET_COMMIT_HIGHEST_V2: Final = 5
_END_HIGHEST_V1: Final = 4
_END_HIGHEST_V2: Final = 5
_MEMBER_LOWEST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducer:
    """The transactional id, producer id and epoch in a request."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRequest:
    """One request; `make` builds it for the negotiated version.

    `group_id`: the group whose coordinator receives it; None for the transaction coordinator.
    """

    api_key: ApiKey
    response: type[ApiMessage]
    make: Callable[[int], ApiMessage]
    highest_version: int
    group_id: str | None = None


def init_producer_id(producer: TransactionalProducer, transaction_timeout_ms: int) -> CoordinatorRequest:
    """Return the request for a producer id, or for the next epoch of a producer that has an id."""
    request = InitProducerIdRequest(
        transactional_id=producer.transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )

    def make(version: int) -> InitProducerIdRequest:
        if version >= EPOCH_BUMP_LOWEST:
            return request
        return InitProducerIdRequest(
            transactional_id=producer.transactional_id, transaction_timeout_ms=transaction_timeout_ms
        )

    return CoordinatorRequest(
        api_key=ApiKey.INIT_PRODUCER_ID,
        response=InitProducerIdResponse,
        make=make,
        highest_version=INIT_HIGHEST,
    )


def add_partitions(
    producer: TransactionalProducer, partitions: Iterable[TopicPartition]
) -> CoordinatorRequest:
    """Return the request that adds partitions to the transaction, before records are sent there."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
            for topic, numbers in partitions_by_topic(partitions).items()
        ),
    )
    return CoordinatorRequest(
        api_key=ApiKey.ADD_PARTITIONS_TO_TXN,
        response=AddPartitionsToTxnResponse,
        make=lambda version: request,
        highest_version=ADD_PARTITIONS_HIGHEST,
    )


def add_offsets(producer: TransactionalProducer, group_id: str) -> CoordinatorRequest:
    """Return the request that adds a group's offsets to the transaction, before they are committed."""
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id=group_id,
    )
    return CoordinatorRequest(
        api_key=ApiKey.ADD_OFFSETS_TO_TXN,
        response=AddOffsetsToTxnResponse,
        make=lambda version: request,
        highest_version=_ADD_OFFSETS_HIGHEST,
    )


def commit_offsets(
    producer: TransactionalProducer,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    is_v2: bool,
) -> CoordinatorRequest:
    """Return the request that commits a group's offsets as part of the transaction.

    Its `make` raises KafkaError(UNSUPPORTED_VERSION) for a group member's offsets if the broker does not know
    members in this request (before KIP-447).
    """
    topics = []
    for topic, numbers in partitions_by_topic(offsets).items():
        partitions = tuple(
            TxnOffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=offsets[TopicPartition(topic, number)].offset,
                committed_leader_epoch=offsets[TopicPartition(topic, number)].leader_epoch,
                committed_metadata=offsets[TopicPartition(topic, number)].metadata,
            )
            for number in numbers
        )
        topics.append(TxnOffsetCommitRequestTopic(name=topic, partitions=partitions))

    def make(version: int) -> TxnOffsetCommitRequest:
        if version < _MEMBER_LOWEST and group.member_id:
            text = f"the broker does not support group members in TxnOffsetCommit (version {version})"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=group.group_id,
            generation_id=group.generation,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=tuple(topics),
        )

    return CoordinatorRequest(
        api_key=ApiKey.TXN_OFFSET_COMMIT,
        response=TxnOffsetCommitResponse,
        make=make,
        highest_version=_OFFSET_COMMIT_HIGHEST_V2 if is_v2 else _OFFSET_COMMIT_HIGHEST_V1,
        group_id=group.group_id,
    )


def end_transaction(producer: TransactionalProducer, *, committed: bool, is_v2: bool) -> CoordinatorRequest:
    """Return the request that commits or aborts the transaction."""
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
    )
    return CoordinatorRequest(
        api_key=ApiKey.END_TXN,
        response=EndTxnResponse,
        make=lambda version: request,
        highest_version=_END_HIGHEST_V2 if is_v2 else _END_HIGHEST_V1,
    )
