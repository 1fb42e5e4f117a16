"""Accumulators, batches and metadata for tests of the producer's cores."""

from __future__ import annotations

from typing import Any

from tidelog.base.backoff import ExponentialBackoff
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.clients.producer.accumulator import BatchingSettings, RecordAccumulator, record_size_bound
from tidelog.clients.producer.produce_core import ProduceCore
from tidelog.clients.producer.producer_batch import ProducerBatch, RecordMetadata
from tidelog.clients.producer.producer_identity import ProducerIdentity
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

P0 = TopicPartition("tides", 0)
P1 = TopicPartition("tides", 1)


class NoJitter:
    """A source of randomness that always returns the middle of the range."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def randrange(self, stop: int, /) -> int:
        return stop // 2

    def getrandbits(self, k: int, /) -> int:
        return (1 << k) // 2


class Outcome:
    """The future of a record, which stores its result."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.result: RecordMetadata | None = None
        self.error: KafkaError | None = None

    def done(self) -> bool:
        return self.result is not None or self.error is not None

    def set_result(self, result: Any, /) -> None:
        assert not self.done()
        self.result = result

    def set_exception(self, exception: BaseException, /) -> None:
        assert not self.done()
        assert isinstance(exception, KafkaError)
        self.error = exception

    def exception(self) -> BaseException | None:
        return self.error


def cluster(leaders: dict[TopicPartition, int], *, epoch: int = 1) -> ClusterMetadata:
    """Return metadata in which these brokers lead these partitions."""
    metadata = ClusterMetadata()
    topics: dict[str, list[MetadataResponsePartition]] = {}
    for (topic, partition), leader in leaders.items():
        topics.setdefault(topic, []).append(
            MetadataResponsePartition(partition_index=partition, leader_id=leader, leader_epoch=epoch)
        )
    response = MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=id_, host="h", port=id_) for id_ in sorted(set(leaders.values()))
        ),
        topics=tuple(
            MetadataResponseTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
    metadata.apply(response, full=False)
    return metadata


def accumulator(identity: ProducerIdentity | None = None, **options: Any) -> RecordAccumulator:
    """Return an accumulator with small batches, a linger of 10 ms, and a backoff of exactly 100 ms."""
    settings: dict[str, Any] = {
        "batch_size": 300,
        "linger_ms": 10,
        "buffer_memory": 10_000,
        "delivery_timeout_ms": 1_000,
    }
    return RecordAccumulator(
        BatchingSettings(**(settings | options)),
        retry_backoff=ExponentialBackoff(100, 1_000),
        rng=NoJitter(),
        identity=identity,
    )


def core(identity: ProducerIdentity | None = None, **options: Any) -> ProduceCore:
    """Return a core with an accumulator of `accumulator`."""
    settings: dict[str, Any] = {
        "retries": 10,
        "delivery_timeout_ms": 1_000,
        "max_request_size": 10_000,
        "keep_order": False,
    }
    settings |= {name: options.pop(name) for name in list(options) if name in settings}
    return ProduceCore(accumulator(identity, **options), identity, **settings)


def put(
    target: RecordAccumulator, partition: TopicPartition, value: bytes, now_ms: int = 0
) -> Outcome | None:
    """Append one record as a producer; return None if the memory is exhausted."""
    outcome = Outcome(value.decode())
    queue = target.queue(partition)
    record = (1_000 + now_ms, None, value, (), outcome)
    size = record_size_bound(None, value)
    if target.append(queue, *record, size) or target.append_to_new(queue, record, size, now_ms):
        return outcome
    return None


def put_or_fail(
    target: RecordAccumulator, partition: TopicPartition, value: bytes, now_ms: int = 0
) -> Outcome:
    """Append one record that must fit."""
    outcome = put(target, partition, value, now_ms)
    assert outcome is not None
    return outcome


def full_batches(target: RecordAccumulator, partition: TopicPartition, count: int) -> list[Outcome]:
    """Append `count` records that fill one batch each."""
    return [put_or_fail(target, partition, f"{number}".encode() * 250) for number in range(count)]


def drain(target: ProduceCore, metadata: ClusterMetadata, now_ms: int = 0) -> list[ProducerBatch]:
    """Return the batches of the next request to each node."""
    readiness = target.ready(metadata, now_ms)
    return [batch for queues in readiness.nodes.values() for batch in target.drain(queues, metadata)]


def values(batch: ProducerBatch) -> list[bytes | None]:
    """Return the values of a closed batch."""
    return [record.value for record in batch.records()]


def no_connection_error(topic_partition: TopicPartition) -> str:
    """Return that no connection of the partition's leader has failed."""
    return ""
