"""The requests of a transactional producer to coordinators.

Pure. Until transaction.version 2 the coordinator is told of each partition and group before anything is
written there (AddPartitionsToTxn, AddOffsetsToTxn); from 2 on the brokers that are written to tell it
(KIP-890), and EndTxn answers with the epoch of the next transaction. The version of a request says which of
both is meant, so it is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

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
"""From this version of InitProducerId on a producer can raise its own epoch (KIP-360)."""
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
class Producing:
    """In whose name a transaction is written."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRequest:
    """One request; `make` builds it for the version in use.

    `group_id` None: the coordinator of the transaction answers, else that of the group.
    """

    api_key: ApiKey
    response: type[ApiMessage]
    make: Callable[[int], ApiMessage]
    highest_version: int
    group_id: str | None = None


def init_producer_id(producing: Producing, transaction_timeout_ms: int) -> CoordinatorRequest:
    """Ask for a producer id, or with one for its next epoch."""
    request = InitProducerIdRequest(
        transactional_id=producing.transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=producing.producer_id,
        producer_epoch=producing.producer_epoch,
    )

    def make(version: int) -> InitProducerIdRequest:
        if version >= EPOCH_BUMP_LOWEST:
            return request
        return InitProducerIdRequest(
            transactional_id=producing.transactional_id, transaction_timeout_ms=transaction_timeout_ms
        )

    return CoordinatorRequest(
        api_key=ApiKey.INIT_PRODUCER_ID,
        response=InitProducerIdResponse,
        make=make,
        highest_version=INIT_HIGHEST,
    )


def add_partitions(producing: Producing, partitions: Iterable[TopicPartition]) -> CoordinatorRequest:
    """Tell the coordinator where the transaction is going to write."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producing.transactional_id,
        v3_and_below_producer_id=producing.producer_id,
        v3_and_below_producer_epoch=producing.producer_epoch,
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


def add_offsets(producing: Producing, group_id: str) -> CoordinatorRequest:
    """Tell the coordinator that the transaction is going to commit offsets of a group."""
    request = AddOffsetsToTxnRequest(
        transactional_id=producing.transactional_id,
        producer_id=producing.producer_id,
        producer_epoch=producing.producer_epoch,
        group_id=group_id,
    )
    return CoordinatorRequest(
        api_key=ApiKey.ADD_OFFSETS_TO_TXN,
        response=AddOffsetsToTxnResponse,
        make=lambda version: request,
        highest_version=_ADD_OFFSETS_HIGHEST,
    )


def commit_offsets(
    producing: Producing,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    is_v2: bool,
) -> CoordinatorRequest:
    """Commit a group's offsets as part of the transaction.

    A broker that knows no members (before KIP-447) raises KafkaError(UNSUPPORTED_VERSION) for a member's.
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
            text = f"the broker does not take offsets of group members in transactions (version {version})"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return TxnOffsetCommitRequest(
            transactional_id=producing.transactional_id,
            producer_id=producing.producer_id,
            producer_epoch=producing.producer_epoch,
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


def end_transaction(producing: Producing, *, committed: bool, is_v2: bool) -> CoordinatorRequest:
    """Commit or abort."""
    request = EndTxnRequest(
        transactional_id=producing.transactional_id,
        producer_id=producing.producer_id,
        producer_epoch=producing.producer_epoch,
        committed=committed,
    )
    return CoordinatorRequest(
        api_key=ApiKey.END_TXN,
        response=EndTxnResponse,
        make=lambda version: request,
        highest_version=_END_HIGHEST_V2 if is_v2 else _END_HIGHEST_V1,
    )
