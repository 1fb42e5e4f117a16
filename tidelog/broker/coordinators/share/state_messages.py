"""The requests and responses of the APIs 83 to 87, as the values of `persister` and back.

All of them list share partitions by topic, and have one result for each. `StateMessages` has what differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    ShareStateBatch,
    StateRead,
    StateResult,
    StateSummary,
    StateWrite,
    StoredState,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import delete_share_group_state as delete
from tidelog.protocol.messages import initialize_share_group_state as initialize
from tidelog.protocol.messages import read_share_group_state as read
from tidelog.protocol.messages import read_share_group_state_summary as read_summary
from tidelog.protocol.messages import write_share_group_state as write
from tidelog.protocol.schema import ApiMessage, Struct
from tidelog.protocol.steps import Steps, map_items

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT", StateResult, StoredState, StateSummary)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMessages(Generic[ItemT, ResultT]):
    """The messages of one API.

    `request` and `response` are the types of the messages, `request_topic` and `response_topic` those of
    their topics. The functions convert an item of a request and its result to their entries of the messages
    and back.
    """

    request: type[ApiMessage]
    request_topic: type[Struct]
    response: type[ApiMessage]
    response_topic: type[Struct]
    result: type[ResultT]
    share_partition: Callable[[ItemT], SharePartitionKey]
    item_to_entry: Callable[[ItemT], Struct]
    item_from_entry: Callable[[SharePartitionKey, Any, tuple[ShareStateBatch, ...]], ItemT]
    result_to_entry: Callable[[int, ResultT], Struct]
    result_from_entry: Callable[[Any], ResultT]

    def create_request(self, group_id: str, items: Sequence[ItemT]) -> ApiMessage:
        """Return the request for `items`, which all belong to one group."""
        topics: defaultdict[UUID, list[Struct]] = defaultdict(list)
        for item in items:
            topics[self.share_partition(item).topic_id].append(self.item_to_entry(item))
        return self.request(
            group_id=group_id,
            topics=tuple(
                self.request_topic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )

    def items(self, request: Any) -> Steps[list[ItemT]]:
        """Return the items of a request."""
        items: list[ItemT] = []
        for topic in request.topics:
            for entry in topic.partitions:
                share_partition = SharePartitionKey(request.group_id, topic.topic_id, entry.partition)
                batches = yield from map_items(_batch, getattr(entry, "state_batches", ()))
                items.append(self.item_from_entry(share_partition, entry, batches))
                yield None
        return items

    def create_response(self, items: Sequence[ItemT], results: Sequence[ResultT]) -> Steps[ApiMessage]:
        """Return the response with the result of each item."""
        topics: defaultdict[UUID, list[Struct]] = defaultdict(list)
        for item, result in zip(items, results, strict=True):
            share_partition = self.share_partition(item)
            topics[share_partition.topic_id].append(self.result_to_entry(share_partition.partition, result))
            yield None
        response_topics = yield from map_items(
            lambda topic: self.response_topic(topic_id=topic[0], partitions=tuple(topic[1])), topics.items()
        )
        return self.response(results=response_topics)

    def results(self, items: Sequence[ItemT], response: Any) -> list[ResultT]:
        """Return the result of each item; an item without a result has UNKNOWN_SERVER_ERROR."""
        entries = {
            (topic.topic_id, entry.partition): entry
            for topic in response.results
            for entry in topic.partitions
        }
        results = []
        for item in items:
            share_partition = self.share_partition(item)
            entry = entries.get((share_partition.topic_id, share_partition.partition))
            results.append(self.failure("no result") if entry is None else self.result_from_entry(entry))
        return results

    def failure(self, text: str, code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> ResultT:
        """Return the result of an item for which there is only an error."""
        return self.result(error_code=code, error_message=text)


def _result(entry: Any) -> StateResult:
    return StateResult(ErrorCode(entry.error_code), entry.error_message)


def _stored_state_entry(partition: int, result: StoredState) -> read.PartitionResult:
    return read.PartitionResult(
        partition=partition,
        error_code=result.error_code,
        error_message=result.error_message,
        state_epoch=result.state_epoch,
        start_offset=result.start_offset,
        state_batches=tuple(
            read.StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_state=batch.delivery_state,
                delivery_count=batch.delivery_count,
            )
            for batch in result.batches
        ),
    )


def _batch(entry: Any) -> ShareStateBatch:
    return ShareStateBatch(entry.first_offset, entry.last_offset, entry.delivery_state, entry.delivery_count)


INITIALIZE: Final[StateMessages[InitialState, StateResult]] = StateMessages(
    request=initialize.InitializeShareGroupStateRequest,
    request_topic=initialize.InitializeStateData,
    response=initialize.InitializeShareGroupStateResponse,
    response_topic=initialize.InitializeStateResult,
    result=StateResult,
    share_partition=lambda item: item.share_partition,
    item_to_entry=lambda item: initialize.PartitionData(
        partition=item.share_partition.partition,
        state_epoch=item.state_epoch,
        start_offset=item.start_offset,
    ),
    item_from_entry=lambda share_partition, entry, _: InitialState(
        share_partition=share_partition, state_epoch=entry.state_epoch, start_offset=entry.start_offset
    ),
    result_to_entry=lambda partition, result: initialize.PartitionResult(
        partition=partition, error_code=result.error_code, error_message=result.error_message
    ),
    result_from_entry=_result,
)

READ: Final[StateMessages[StateRead, StoredState]] = StateMessages(
    request=read.ReadShareGroupStateRequest,
    request_topic=read.ReadStateData,
    response=read.ReadShareGroupStateResponse,
    response_topic=read.ReadStateResult,
    result=StoredState,
    share_partition=lambda item: item.share_partition,
    item_to_entry=lambda item: read.PartitionData(
        partition=item.share_partition.partition, leader_epoch=item.leader_epoch
    ),
    item_from_entry=lambda share_partition, entry, _: StateRead(
        share_partition=share_partition, leader_epoch=entry.leader_epoch
    ),
    result_to_entry=_stored_state_entry,
    result_from_entry=lambda entry: StoredState(
        error_code=ErrorCode(entry.error_code),
        error_message=entry.error_message,
        state_epoch=entry.state_epoch,
        start_offset=entry.start_offset,
        batches=tuple(map(_batch, entry.state_batches)),
    ),
)

WRITE: Final[StateMessages[StateWrite, StateResult]] = StateMessages(
    request=write.WriteShareGroupStateRequest,
    request_topic=write.WriteStateData,
    response=write.WriteShareGroupStateResponse,
    response_topic=write.WriteStateResult,
    result=StateResult,
    share_partition=lambda item: item.share_partition,
    item_to_entry=lambda item: write.PartitionData(
        partition=item.share_partition.partition,
        state_epoch=item.state_epoch,
        leader_epoch=item.leader_epoch,
        start_offset=item.start_offset,
        delivery_complete_count=item.delivery_complete_count,
        state_batches=tuple(
            write.StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_state=batch.delivery_state,
                delivery_count=batch.delivery_count,
            )
            for batch in item.batches
        ),
    ),
    item_from_entry=lambda share_partition, entry, batches: StateWrite(
        share_partition=share_partition,
        state_epoch=entry.state_epoch,
        leader_epoch=entry.leader_epoch,
        start_offset=entry.start_offset,
        delivery_complete_count=entry.delivery_complete_count,
        batches=batches,
    ),
    result_to_entry=lambda partition, result: write.PartitionResult(
        partition=partition, error_code=result.error_code, error_message=result.error_message
    ),
    result_from_entry=_result,
)

DELETE: Final[StateMessages[SharePartitionKey, StateResult]] = StateMessages(
    request=delete.DeleteShareGroupStateRequest,
    request_topic=delete.DeleteStateData,
    response=delete.DeleteShareGroupStateResponse,
    response_topic=delete.DeleteStateResult,
    result=StateResult,
    share_partition=lambda item: item,
    item_to_entry=lambda item: delete.PartitionData(partition=item.partition),
    item_from_entry=lambda share_partition, entry, _: share_partition,
    result_to_entry=lambda partition, result: delete.PartitionResult(
        partition=partition, error_code=result.error_code, error_message=result.error_message
    ),
    result_from_entry=_result,
)

READ_SUMMARY: Final[StateMessages[StateRead, StateSummary]] = StateMessages(
    request=read_summary.ReadShareGroupStateSummaryRequest,
    request_topic=read_summary.ReadStateSummaryData,
    response=read_summary.ReadShareGroupStateSummaryResponse,
    response_topic=read_summary.ReadStateSummaryResult,
    result=StateSummary,
    share_partition=lambda item: item.share_partition,
    item_to_entry=lambda item: read_summary.PartitionData(
        partition=item.share_partition.partition, leader_epoch=item.leader_epoch
    ),
    item_from_entry=lambda share_partition, entry, _: StateRead(
        share_partition=share_partition, leader_epoch=entry.leader_epoch
    ),
    result_to_entry=lambda partition, result: read_summary.PartitionResult(
        partition=partition,
        error_code=result.error_code,
        error_message=result.error_message,
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        delivery_complete_count=result.delivery_complete_count,
    ),
    result_from_entry=lambda entry: StateSummary(
        error_code=ErrorCode(entry.error_code),
        error_message=entry.error_message,
        state_epoch=entry.state_epoch,
        leader_epoch=entry.leader_epoch,
        start_offset=entry.start_offset,
        delivery_complete_count=entry.delivery_complete_count,
    ),
)
