"""Asking the leaders of many partitions at once (shell), and again where leadership has moved."""

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


class PartitionQuestion(Protocol[ResponseT, ResultT_co]):
    """One API that is asked partition by partition."""

    name: str
    response: type[ResponseT]

    def request(self, topic_partitions: list[TopicPartition]) -> ApiMessage:
        """The request for partitions that one broker leads."""

    def results(self, response: ResponseT) -> Iterator[tuple[TopicPartition, int, ResultT_co]]:
        """Partition, error code and result of each entry of an answer."""


class LeaderAnswers(Generic[ResultT]):
    """What came of it: a result or an error for every partition asked about."""

    def __init__(self) -> None:
        self.results: dict[TopicPartition, ResultT] = {}
        self.errors: dict[TopicPartition, KafkaError] = {}

    def merged(self) -> dict[TopicPartition, ResultT | KafkaError]:
        """Results and errors in one."""
        return {**self.results, **self.errors}

    def raise_first(self) -> None:
        """Raise the first error, if any."""
        for error in self.errors.values():
            raise error


async def ask_leaders(
    client: ClusterClient,
    topic_partitions: Iterable[TopicPartition],
    question: PartitionQuestion[ResponseT, ResultT],
    deadline_ms: int,
) -> LeaderAnswers[ResultT]:
    """Ask each partition's leader; errors that may pass are asked again until `deadline_ms`."""
    answers: LeaderAnswers[ResultT] = LeaderAnswers()
    left = dict.fromkeys(topic_partitions)
    attempt = 0
    while left:
        retriable = await _ask_once(client, left, question, answers, deadline_ms)
        left = dict.fromkeys(retriable)
        if not left:
            break
        delay_ms = client.backoff.delay_ms(attempt, client.environment.rng)
        if client.now_ms() + delay_ms >= deadline_ms:
            answers.errors.update(retriable)
            break
        client.updater.request_update()
        await asyncio.sleep(delay_ms / 1000)
        attempt += 1
    return answers


async def _ask_once(
    client: ClusterClient,
    left: Mapping[TopicPartition, None],
    question: PartitionQuestion[ResponseT, ResultT],
    answers: LeaderAnswers[ResultT],
    deadline_ms: int,
) -> dict[TopicPartition, KafkaError]:
    """One round; the partitions that are worth asking about again, with their errors."""
    retriable: dict[TopicPartition, KafkaError] = {}
    by_leader: dict[BrokerId, list[TopicPartition]] = {}
    for topic_partition in left:
        error = await _known_problem(client, topic_partition, deadline_ms)
        if error is not None:
            (retriable if error.code.retriable else answers.errors)[topic_partition] = error
            continue
        leader = client.metadata.leader(topic_partition)
        if leader is None:
            text = f"{question.name}: {topic_partition} has no leader"
            retriable[topic_partition] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, text)
        else:
            by_leader.setdefault(leader, []).append(topic_partition)
    requests = [_ask_one(client, leader, asked, question) for leader, asked in by_leader.items()]
    responses = await asyncio.gather(*requests)
    for asked, response in zip(by_leader.values(), responses, strict=True):
        if isinstance(response, KafkaError):
            target = retriable if is_retriable(response) else answers.errors
            target.update(dict.fromkeys(asked, response))
            continue
        answered: set[TopicPartition] = set()
        for topic_partition, error_code, result in question.results(response):
            answered.add(topic_partition)
            if error_code == ErrorCode.NONE:
                answers.results[topic_partition] = result
                continue
            error = failure(error_code, f"{question.name} of {topic_partition}")
            (retriable if error.code.retriable else answers.errors)[topic_partition] = error
        for topic_partition in asked:
            if topic_partition not in answered:
                text = f"{question.name}: the answer has no {topic_partition}"
                answers.errors[topic_partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    return retriable


async def _known_problem(
    client: ClusterClient, topic_partition: TopicPartition, deadline_ms: int
) -> KafkaError | None:
    """Why the partition cannot be asked about at all; makes sure that its topic's metadata is there."""
    try:
        await client.updater.ensure_topic(topic_partition.topic, deadline_ms)
    except KafkaError as error:
        return KafkaError(error.code, str(error))
    if client.metadata.partition(topic_partition) is None:
        text = f"{topic_partition} does not exist"
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return None


async def _ask_one(
    client: ClusterClient,
    leader: BrokerId,
    topic_partitions: list[TopicPartition],
    question: PartitionQuestion[ResponseT, ResultT],
) -> ResponseT | KafkaError:
    try:
        return await client.network.request(leader, question.request(topic_partitions), question.response)
    except KafkaError as error:
        return error
