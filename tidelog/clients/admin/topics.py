"""Admin calls about topics, partitions and their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidelog.clients.admin.admin_requests import AdminRequests, error_or_none, result_for, unique_names
from tidelog.clients.admin.types import (
    ActiveProducer,
    CreatedTopic,
    EpochEnd,
    ListedOffset,
    NewTopic,
    TopicDescription,
    TopicListing,
)
from tidelog.clients.consumer.offset_requests import EpochEndOffsets, OffsetsByTimestamp
from tidelog.clients.metadata.cluster_metadata import PartitionMetadata, partitions_by_topic
from tidelog.clients.metadata.leader_requests import send_to_leaders
from tidelog.clients.transport.failures import failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidelog.protocol.registry import ApiKey

_DELETE_BY_STATE_VERSION = 6


class TopicAdmin:
    """Topics, their partitions and offsets."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; with `validate_only`, only check whether they can be created."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        request = CreateTopicsRequest(
            topics=tuple(_creatable(topic) for topic in topics),
            timeout_ms=self._requests.remaining_ms(deadline_ms),
            validate_only=validate_only,
        )
        response = await self._requests.send_to_controller(request, CreateTopicsResponse, deadline_ms)
        return {
            entry.name: CreatedTopic(
                name=entry.name,
                topic_id=entry.topic_id,
                num_partitions=entry.num_partitions,
                replication_factor=entry.replication_factor,
            )
            if entry.error_code == ErrorCode.NONE
            else failure(entry.error_code, f"create topic {entry.name!r}", entry.error_message)
            for entry in response.topics
        }

    async def create_topic(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        *,
        configs: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> CreatedTopic:
        """Create one topic; raise KafkaError if it cannot be created."""
        topic = NewTopic(
            name=name,
            num_partitions=num_partitions,
            replication_factor=replication_factor,
            configs=configs or {},
        )
        return result_for(await self.create_topics([topic], timeout_ms=timeout_ms), name)

    async def delete_topics(
        self, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete topics by name; None for each deleted topic."""
        names = unique_names(topics, "topics")
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        def make(version: int) -> DeleteTopicsRequest:
            remaining_ms = self._requests.remaining_ms(deadline_ms)
            if version < _DELETE_BY_STATE_VERSION:
                return DeleteTopicsRequest(topic_names=names, timeout_ms=remaining_ms)
            states = tuple(DeleteTopicState(name=name) for name in names)
            return DeleteTopicsRequest(topics=states, timeout_ms=remaining_ms)

        response = await self._requests.send_to_controller_for_version(
            ApiKey.DELETE_TOPICS, make, DeleteTopicsResponse, deadline_ms
        )
        return {
            entry.name or "": error_or_none(
                entry.error_code, f"delete topic {entry.name!r}", entry.error_message
            )
            for entry in response.responses
        }

    async def create_partitions(
        self,
        total_counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Iterable[Iterable[int]]] | None = None,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Add partitions to topics; `total_counts` has the new number of partitions of each topic."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        broker_ids_by_topic = assignments or {}
        entries = tuple(
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if name not in broker_ids_by_topic
                else tuple(
                    CreatePartitionsAssignment(broker_ids=tuple(ids)) for ids in broker_ids_by_topic[name]
                ),
            )
            for name, count in total_counts.items()
        )
        request = CreatePartitionsRequest(
            topics=entries, timeout_ms=self._requests.remaining_ms(deadline_ms), validate_only=validate_only
        )
        response = await self._requests.send_to_controller(request, CreatePartitionsResponse, deadline_ms)
        return {
            entry.name: error_or_none(
                entry.error_code, f"create partitions of {entry.name!r}", entry.error_message
            )
            for entry in response.results
        }

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicListing]:
        """Return all topics by name, sorted."""
        response = await self._fetch_metadata(None, timeout_ms)
        return {
            topic.name: TopicListing(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partition_count=len(topic.partitions),
            )
            for topic in sorted(response.topics, key=lambda topic: topic.name or "")
            if topic.name and (include_internal or not topic.is_internal)
        }

    async def describe_topics(
        self, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TopicDescription | KafkaError]:
        """Return each topic with its partitions, leaders and replicas."""
        names = unique_names(topics, "topics")
        response = await self._fetch_metadata(names, timeout_ms)
        return {
            topic.name or "": _description(topic)
            if topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
            else failure(topic.error_code, f"topic {topic.name!r}")
            for topic in response.topics
        }

    async def delete_records(
        self, before: Mapping[TopicPartition, Offset], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset | KafkaError]:
        """Delete the records before each offset (-1: all records); return the new low watermarks."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        api = _DeleteRecords(before, self._requests.remaining_ms(deadline_ms))
        return (await send_to_leaders(self._requests.client, before, api, deadline_ms)).merged()

    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """Return offsets by `OffsetSpec` or by timestamp in ms: the first record that is not older."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        api = OffsetsByTimestamp(
            specs,
            self._requests.client.metadata,
            read_committed=read_committed,
            timeout_ms=self._requests.remaining_ms(deadline_ms),
        )
        responses = await send_to_leaders(self._requests.client, specs, api, deadline_ms)
        listed = {
            tp: ListedOffset(offset=at.offset, timestamp=at.timestamp, leader_epoch=at.leader_epoch)
            for tp, at in responses.results.items()
        }
        return {**listed, **responses.errors}

    async def epoch_end_offsets(
        self, epochs: Mapping[TopicPartition, LeaderEpoch], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, EpochEnd | KafkaError]:
        """Return where a leader epoch ends in the log of each partition's leader (KIP-320)."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        api = EpochEndOffsets(epochs, self._requests.client.metadata)
        responses = await send_to_leaders(self._requests.client, epochs, api, deadline_ms)
        ends = {name: EpochEnd(at.leader_epoch, at.end_offset) for name, at in responses.results.items()}
        return {**ends, **responses.errors}

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
        """Return the idempotent and transactional producers with state in each partition."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        return (
            await send_to_leaders(self._requests.client, partitions, _DescribeProducers(), deadline_ms)
        ).merged()

    async def _fetch_metadata(self, names: Iterable[str] | None, timeout_ms: int | None) -> MetadataResponse:
        topics = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        return await self._requests.send(request, MetadataResponse, self._requests.deadline_ms(timeout_ms))


class _DeleteRecords:
    """The DeleteRecords request for partitions of one leader."""

    name = "DeleteRecords"
    response = DeleteRecordsResponse

    def __init__(self, before: Mapping[TopicPartition, Offset], timeout_ms: int) -> None:
        self._before = before
        self._timeout_ms = timeout_ms

    def request(self, topic_partitions: list[TopicPartition]) -> DeleteRecordsRequest:
        topics = []
        for topic, numbers in partitions_by_topic(topic_partitions).items():
            partitions = tuple(
                DeleteRecordsPartition(
                    partition_index=number, offset=self._before[TopicPartition(topic, number)]
                )
                for number in numbers
            )
            topics.append(DeleteRecordsTopic(name=topic, partitions=partitions))
        return DeleteRecordsRequest(topics=tuple(topics), timeout_ms=self._timeout_ms)

    def results(self, response: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int, Offset]]:
        for topic in response.topics:
            for entry in topic.partitions:
                topic_partition = TopicPartition(topic.name, entry.partition_index)
                yield topic_partition, entry.error_code, entry.low_watermark


class _DescribeProducers:
    """The DescribeProducers request for partitions of one leader."""

    name = "DescribeProducers"
    response = DescribeProducersResponse

    def request(self, topic_partitions: list[TopicPartition]) -> DescribeProducersRequest:
        topics = tuple(
            TopicRequest(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in partitions_by_topic(topic_partitions).items()
        )
        return DescribeProducersRequest(topics=topics)

    def results(
        self, response: DescribeProducersResponse
    ) -> Iterator[tuple[TopicPartition, int, tuple[ActiveProducer, ...]]]:
        for topic in response.topics:
            for entry in topic.partitions:
                producers = tuple(_active(state) for state in entry.active_producers)
                yield TopicPartition(topic.name, entry.partition_index), entry.error_code, producers


def _active(state: ProducerState) -> ActiveProducer:
    start = state.current_txn_start_offset
    return ActiveProducer(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_transaction_start_offset=None if start < 0 else start,
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(broker_ids))
        for number, broker_ids in topic.replica_assignments.items()
    )
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.num_partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
    )


def _description(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = tuple(
        PartitionMetadata.of(entry)
        for entry in sorted(topic.partitions, key=lambda entry: entry.partition_index)
    )
    return TopicDescription(
        name=topic.name or "", topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions
    )
