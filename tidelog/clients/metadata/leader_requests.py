"""Sends one API to the leaders of many partitions (shell), and again where leadership has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.transport.failures import failure, is_retriable
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
ResultT_co = TypeVar("ResultT_co", covariant=True)
ResultT = TypeVar("ResultT")


class PartitionApi(Protocol[ResponseT, ResultT_co]):
    """An API with a result for each partition; `name` is for error texts."""

    name: str
    response: type[ResponseT]

    def request(self, topic_partitions: list[TopicPartition]) -> ApiMessage:
        """Return the request for partitions that one broker leads."""

    def results(self, response: ResponseT) -> Iterator[tuple[TopicPartition, int, ResultT_co]]:
        """Return partition, error code and result of each entry of a response."""


class LeaderResults(Generic[ResultT]):
    """A result or an error for each requested partition."""

    def __init__(self) -> None:
        self.results: dict[TopicPartition, ResultT] = {}
        self.errors: dict[TopicPartition, KafkaError] = {}

    def merged(self) -> dict[TopicPartition, ResultT | KafkaError]:
        """Return results and errors in one dict."""
        return {**self.results, **self.errors}

    def raise_first(self) -> None:
        """Raise the first error, if there is one."""
        for error in self.errors.values():
            raise error


async def send_to_leaders(
    client: ClusterClient,
    topic_partitions: Iterable[TopicPartition],
    api: PartitionApi[ResponseT, ResultT],
    deadline_ms: int,
) -> LeaderResults[ResultT]:
    """Send `api` to the leader of each partition; retry after retriable errors until `deadline_ms`."""
    found: LeaderResults[ResultT] = LeaderResults()
    remaining = dict.fromkeys(topic_partitions)
    attempt = 0
    while remaining:
        retriable = await _send_once(client, remaining, api, found, deadline_ms)
        remaining = dict.fromkeys(retriable)
        if not remaining:
            break
        delay_ms = client.backoff.delay_ms(attempt, client.environment.rng)
        if client.now_ms() + delay_ms >= deadline_ms:
            found.errors.update(retriable)
            break
        client.updater.request_update()
        await asyncio.sleep(delay_ms / 1000)
        attempt += 1
    return found


async def _send_once(
    client: ClusterClient,
    remaining: Mapping[TopicPartition, None],
    api: PartitionApi[ResponseT, ResultT],
    found: LeaderResults[ResultT],
    deadline_ms: int,
) -> dict[TopicPartition, KafkaError]:
    """Send one request to each leader; return the partitions to retry, with their errors."""
    retriable: dict[TopicPartition, KafkaError] = {}
    by_leader: dict[BrokerId, list[TopicPartition]] = {}
    for topic_partition in remaining:
        leader = await _leader_of(client, topic_partition, api.name, deadline_ms)
        if isinstance(leader, KafkaError):
            (retriable if leader.code.retriable else found.errors)[topic_partition] = leader
        else:
            by_leader.setdefault(leader, []).append(topic_partition)
    requests = [_send_to(client, leader, requested, api) for leader, requested in by_leader.items()]
    responses = await asyncio.gather(*requests)
    for requested, response in zip(by_leader.values(), responses, strict=True):
        if isinstance(response, KafkaError):
            target = retriable if is_retriable(response) else found.errors
            target.update(dict.fromkeys(requested, response))
        else:
            retriable |= _add_results(api, requested, response, found)
    return retriable


def _add_results(
    api: PartitionApi[ResponseT, ResultT],
    requested: Iterable[TopicPartition],
    response: ResponseT,
    found: LeaderResults[ResultT],
) -> dict[TopicPartition, KafkaError]:
    """Add the results of one leader to `found`; return the partitions to retry, with their errors."""
    retriable: dict[TopicPartition, KafkaError] = {}
    returned: set[TopicPartition] = set()
    for topic_partition, error_code, result in api.results(response):
        returned.add(topic_partition)
        if error_code == ErrorCode.NONE:
            found.results[topic_partition] = result
            continue
        error = failure(error_code, f"{api.name} of {topic_partition}")
        (retriable if error.code.retriable else found.errors)[topic_partition] = error
    for topic_partition in requested:
        if topic_partition not in returned:
            text = f"the {api.name} response has no entry for {topic_partition}"
            found.errors[topic_partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    return retriable


async def _leader_of(
    client: ClusterClient, topic_partition: TopicPartition, api_name: str, deadline_ms: int
) -> BrokerId | KafkaError:
    """Return the leader of a partition, or an error if there is no metadata, partition or leader."""
    try:
        await client.updater.ensure_topic(topic_partition.topic, deadline_ms)
    except KafkaError as error:
        return KafkaError(error.code, str(error))
    if client.metadata.partition(topic_partition) is None:
        text = f"{topic_partition} does not exist"
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    leader = client.metadata.leader(topic_partition)
    if leader is None:
        text = f"{api_name}: {topic_partition} has no leader"
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, text)
    return leader


async def _send_to(
    client: ClusterClient,
    leader: BrokerId,
    topic_partitions: list[TopicPartition],
    api: PartitionApi[ResponseT, ResultT],
) -> ResponseT | KafkaError:
    try:
        return await client.network.request(leader, api.request(topic_partitions), api.response)
    except KafkaError as error:
        return error
