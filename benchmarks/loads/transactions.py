"""Transactional producers at a fixed rate: the durations of transactions and of their requests.

Every producer has its own connections, as clients do. With transaction.version 2 the first Produce to a
partition adds it to the transaction, so its time includes the verification. Older clients send
AddPartitionsToTxn with all partitions first. A transaction is two Produce requests to each of its partitions,
to all partitions in parallel, then EndTxn. A request that fails with a retriable error is sent again after
`RETRY_S`; the measured time includes the retries.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from benchmarks.loads.options import main, percentile
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

PRODUCE_VERSION: Final = 12
"""The last with topic names; the broker adds partitions to the transaction."""
END_VERSION: Final = 5
OLD_PRODUCE_VERSION: Final = 11
OLD_END_VERSION: Final = 4
ADD_VERSION: Final = 3
"""The versions of clients that add partitions themselves."""
PARTITIONS_EACH: Final = 2
"""The number of partitions of a transaction."""
TRANSACTION: Final = 1
ACKS_ALL: Final = -1
TIMEOUT_MS: Final = 60_000
RETRY_S: Final = 0.02
WITHIN_S: Final = 60.0
WARM_UP_S: Final = 2.0
VALUE: Final = bytes(100)

RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)

SETTINGS: Final = ConnectionSettings(
    client_id="transactions",
    max_response_bytes=1_000_000,
    request_timeout_ms=30_000,
    setup_timeout_ms=10_000,
)


class Times:
    """Milliseconds by kind of request after the warm-up; `retries` counts errors."""

    def __init__(self) -> None:
        self.taken: defaultdict[str, list[float]] = defaultdict(list)
        self.retries: defaultdict[str, int] = defaultdict(int)
        self.is_measuring = False

    def add(self, kind: str, started: float) -> None:
        """Add the duration of a request that started at `started` and has just ended."""
        if self.is_measuring:
            self.taken[kind].append((time.perf_counter() - started) * 1e3)

    def on_retry(self, kind: str, code: ErrorCode) -> None:
        """Count a request that must be sent again."""
        if self.is_measuring:
            self.retries[f"{kind} {code.name}"] += 1


class Producer:
    """A producer with one transactional id."""

    def __init__(self, number: int, topic: str, times: Times, *, adds_partitions: bool) -> None:
        """`adds_partitions`: send AddPartitionsToTxn, as older clients do."""
        self._id = f"producer-{number}"
        self._adds_partitions = adds_partitions
        self._topic = topic
        self._times = times
        self._connections: dict[int, BrokerConnection] = {}
        self._addresses: dict[int, BrokerAddress] = {}
        self._leaders: dict[int, int] = {}
        self._coordinator = -1
        self._producer_id, self._epoch = -1, -1
        self._sequences: Counter[int] = Counter()
        """The next sequence number of each partition."""

    async def start(self, bootstrap: BrokerAddress) -> None:
        """Find the leaders and the coordinator, and initialize the producer id."""
        first = await open_connection(SystemEnvironment(), SETTINGS, bootstrap)
        await self._retry("metadata", lambda: self._find_leaders(first))
        await self._retry("find", lambda: self._find_coordinator(first))
        first.close()
        await self._retry("init", self._init)

    async def _find_leaders(self, connection: BrokerConnection) -> int:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=self._topic),))
        metadata = await connection.request(request, MetadataResponse, highest_version=12)
        self._addresses = {
            broker.node_id: BrokerAddress(broker.node_id, broker.host, broker.port)
            for broker in metadata.brokers
        }
        [topic] = metadata.topics
        self._leaders = {each.partition_index: each.leader_id for each in topic.partitions}
        return max([topic.error_code, *(each.error_code for each in topic.partitions)])

    async def _find_coordinator(self, connection: BrokerConnection) -> int:
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=(self._id,))
        [found] = (await connection.request(request, FindCoordinatorResponse, highest_version=4)).coordinators
        self._coordinator = found.node_id
        return found.error_code

    async def _init(self) -> int:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)
        found = await self._request(self._coordinator, request, InitProducerIdResponse, 5)
        self._producer_id, self._epoch = found.producer_id, found.producer_epoch
        return found.error_code

    async def transaction(self, partitions: Sequence[int]) -> None:
        """Write to each of the partitions and commit."""
        started = time.perf_counter()
        if self._adds_partitions:
            await self._retry("add", partial(self._add, partitions))
            self._times.add("add", started)
        await asyncio.gather(*(self._write(partition) for partition in partitions))
        committing = time.perf_counter()
        await self._retry("commit", self._commit)
        self._times.add("commit", committing)
        self._times.add("transaction", started)

    async def _add(self, partitions: Sequence[int]) -> int:
        topic = AddPartitionsToTxnTopic(name=self._topic, partitions=tuple(partitions))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=(topic,),
        )
        response = await self._request(self._coordinator, request, AddPartitionsToTxnResponse, ADD_VERSION)
        [result] = response.results_by_topic_v3_and_below
        codes = (each.partition_error_code for each in result.results_by_partition)
        return next(filter(None, codes), 0)

    async def _write(self, partition: int) -> None:
        for kind in ("first", "next"):
            started = time.perf_counter()
            await self._retry(kind, partial(self._produce, partition, self._sequences[partition]))
            self._sequences[partition] += 1
            self._times.add(kind, started)

    async def _produce(self, partition: int, sequence: int) -> int:
        batch = BatchBuilder(
            producer=BatchProducer(
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
        )
        batch.append(int(time.time() * 1000), None, VALUE)
        data = PartitionProduceData(index=partition, records=bytes(batch.build()))
        request = ProduceRequest(
            transactional_id=self._id,
            acks=ACKS_ALL,
            timeout_ms=30_000,
            topic_data=(TopicProduceData(name=self._topic, partition_data=(data,)),),
        )
        version = OLD_PRODUCE_VERSION if self._adds_partitions else PRODUCE_VERSION
        response = await self._request(self._leaders[partition], request, ProduceResponse, version)
        return response.responses[0].partition_responses[0].error_code

    async def _commit(self) -> int:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        version = OLD_END_VERSION if self._adds_partitions else END_VERSION
        response = await self._request(self._coordinator, request, EndTxnResponse, version)
        if not response.error_code and not self._adds_partitions:
            self._producer_id, self._epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
        return response.error_code

    async def _retry(self, kind: str, attempt: Callable[[], Awaitable[int]]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while code := ErrorCode(await attempt()):
            if code not in RETRIABLE or time.monotonic() > deadline:
                raise RuntimeError(f"{kind} of {self._id} is refused with {code.name}")
            self._times.on_retry(kind, code)
            await asyncio.sleep(RETRY_S)

    async def _request(
        self, broker: int, request: ApiMessage, response: type[ResponseT], version: int
    ) -> ResponseT:
        connection = self._connections.get(broker)
        if connection is None:
            address = self._addresses[broker]
            connection = await open_connection(SystemEnvironment(), SETTINGS, address)
            self._connections[broker] = connection
        return await connection.request(request, response, highest_version=version)

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()


def transactions(
    servers: str,
    topic: str,
    partitions: int,
    producers: int,
    per_second: float,
    seconds: float,
    adds_partitions: bool = False,
) -> dict[str, Any]:
    """Run `per_second` transactions for `seconds`, evenly among the producers; return percentiles in ms."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return asyncio.run(_run(servers, topic, partitions, producers, per_second, seconds, adds_partitions))


async def _run(
    servers: str,
    topic: str,
    partitions: int,
    producers: int,
    per_second: float,
    seconds: float,
    adds_partitions: bool,
) -> dict[str, Any]:
    host, _, port = servers.split(",", maxsplit=1)[0].rpartition(":")
    bootstrap = BrokerAddress(-1, host, int(port))
    times = Times()
    started = [Producer(number, topic, times, adds_partitions=adds_partitions) for number in range(producers)]
    for producer in started:
        await producer.start(bootstrap)
    begins = time.monotonic()
    ends = begins + WARM_UP_S + seconds

    async def run_producer(number: int, producer: Producer) -> None:
        for turn in count():
            # The producers take turns, and each of them has one transaction at a time.
            at = begins + (turn * producers + number) / per_second
            if max(at, time.monotonic()) >= ends:
                return
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            times.is_measuring = time.monotonic() - begins >= WARM_UP_S
            first = (number + turn) * PARTITIONS_EACH
            await producer.transaction([(first + each) % partitions for each in range(PARTITIONS_EACH)])

    await asyncio.gather(*(run_producer(number, producer) for number, producer in enumerate(started)))
    for producer in started:
        producer.close()
    return {**_findings(times), "per_s": len(times.taken["transaction"]) / seconds}


def _findings(times: Times) -> dict[str, Any]:
    findings: dict[str, Any] = {"retries": dict(times.retries)}
    for kind, taken in times.taken.items():
        ordered = sorted(taken)
        for name, share in {"p50": 0.5, "p99": 0.99}.items():
            findings[f"{kind}_{name}_ms"] = percentile(ordered, share)
    return findings


if __name__ == "__main__":
    main(transactions)
