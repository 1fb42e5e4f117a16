"""The same random requests to the share coordinators of Tidelog and of Apache Kafka have the same results.

The results are the responses and, byte for byte except for timestamps, the records in `__share_group_state`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.kafka.separate_brokers import SeparateBroker, run_separate_brokers
from tests.support.waiting import wait_until
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    ShareStateBatch,
    StateRead,
    StateWrite,
)
from tidelog.broker.coordinators.share.records import ShareStateRecord, decode_record, encode_record
from tidelog.broker.coordinators.share.state import ShareState
from tidelog.broker.coordinators.share.state_messages import (
    DELETE,
    INITIALIZE,
    READ,
    READ_SUMMARY,
    WRITE,
    StateMessages,
)
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.record import read_records
from tidelog.protocol.registry import APIS

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}
TOPICS = {"t": 2}
STATE_PARTITION = "__share_group_state-0"
STEPS = 1500
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
MISSING_TOPIC = "missing"
PARTITIONS = [("t", 0), ("t", 1), ("t", 2), (MISSING_TOPIC, 0), ("t", -1)]


class Broker:
    """One broker, with the ids of its topics."""

    def __init__(self, broker: SeparateBroker) -> None:
        self.broker = broker
        self.client = broker.client
        self.ids = broker.topic_ids() | {MISSING_TOPIC: UUID(int=99)}
        wait_until(lambda: self.coordinator_error(self.partition("g", "t", 0).coordinator_key) == 0)
        probe = StateRead(share_partition=self.partition("probe", "t", 0), leader_epoch=-1)
        wait_until(lambda: self.send_request(READ, [probe])[0].error_code not in _NOT_READY)

    def partition(self, group: str, topic: str, index: int) -> SharePartitionKey:
        """Return a share partition with the topic's id at this broker."""
        return SharePartitionKey(group, self.ids[topic], index)

    def coordinator_error(self, key: str) -> int:
        """Return the error of FindCoordinator for a key."""
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))
        return self.client.send_request(request, 6, FindCoordinatorResponse).coordinators[0].error_code

    def send_request(self, messages: StateMessages[Any, Any], items: Sequence[Any]) -> list[Any]:
        """Return the results of the items without the texts of errors."""
        group = messages.share_partition(items[0]).group_id
        request = messages.create_request(group, items)
        version = APIS[request.api_key].highest
        response = self.client.send_request(request, version, messages.response)
        return [replace(result, error_message=None) for result in messages.results(items, response)]

    def records(self) -> list[ShareStateRecord]:
        """Return the records of `__share_group_state`, without timestamps and with the names of topics.

        Assert that the encoded record has the bytes of the log.
        """
        records = []
        topics = {topic_id: UUID(int=number) for number, topic_id in enumerate(self.ids.values())}
        log = self.broker.log_of(STATE_PARTITION)
        for position, header in iterate_headers(log):
            for stored in read_records(log, position, header):
                record = decode_record(stored.key, stored.value)
                assert record is not None
                assert encode_record(record) == (stored.key, stored.value)
                change = record.change
                if isinstance(change, ShareState):
                    assert change.create_wall_ms == change.write_wall_ms > 0
                    change = replace(change, create_wall_ms=0, write_wall_ms=0)
                partition = record.share_partition
                records.append(
                    ShareStateRecord(partition._replace(topic_id=topics[partition.topic_id]), change)
                )
        return records


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    with run_separate_brokers(tmp_path_factory, SETTINGS, TOPICS) as (ours, kafkas):
        yield Broker(ours), Broker(kafkas)


def random_call(random: Random, offsets: dict[str, int]) -> tuple[StateMessages[Any, Any], Any]:
    """Return an API and a function that returns the item of its request for a share partition."""
    group = random.choice("gh")
    epoch, leader = random.choice((0, 1, 1, 2, -1)), random.choice((0, 1, 2, 2, 3, -1))
    kind = random.choices(("initialize", "read", "summary", "delete", "write"), (2, 4, 2, 1, 16))[0]
    if kind == "initialize":
        start = random.choice((-1, 0, 10))
        return INITIALIZE, lambda partition: InitialState(
            share_partition=partition, state_epoch=epoch, start_offset=start
        )
    if kind in ("read", "summary"):
        messages: Any = READ if kind == "read" else READ_SUMMARY
        return messages, lambda partition: StateRead(share_partition=partition, leader_epoch=leader)
    if kind == "delete":
        return DELETE, lambda partition: partition
    offsets[group] += random.choice((0, 0, 1, 5))
    start, count = random.choice((-1, offsets[group])), random.choice((-1, 0, 3))
    batches = []
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        first = offsets[group] + random.randrange(-3, 40)
        last = first + random.randrange(12)
        batches.append(ShareStateBatch(first, last, random.choice((0, 2, 4)), random.choice((1, 1, 2, 3))))
    return WRITE, lambda partition: StateWrite(
        share_partition=partition,
        state_epoch=epoch,
        leader_epoch=leader,
        start_offset=start,
        delivery_complete_count=count,
        batches=tuple(batches),
    )


def test_random_requests_get_the_same_responses_and_write_the_same_records(
    brokers: tuple[Broker, Broker],
) -> None:
    random = Random(932)
    offsets = {"g": 0, "h": 0}
    errors: Counter[ErrorCode] = Counter()
    for step in range(STEPS):
        messages, item = random_call(random, offsets)
        group = random.choice("gh")
        topic, index = random.choices(PARTITIONS, weights=(9, 9, 1, 1, 1))[0]
        results = [
            broker.send_request(messages, [item(broker.partition(group, topic, index))]) for broker in brokers
        ]
        where = f"step {step}: {messages.request.__name__} of {group}, {topic}, {index}"
        assert results[0] == results[1], where
        errors[results[0][0].error_code] += 1
    assert errors.keys() == {
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }, errors
    ours, kafkas = (broker.records() for broker in brokers)
    assert len(ours) > STEPS / 5
    assert ours == kafkas


def test_keys_of_share_partitions_are_checked_in_the_same_way(brokers: tuple[Broker, Broker]) -> None:
    for text in ("g:{}:0", "a:b:{}:1", "g:{}", ":{}:1", "g:{}:x", "g::1", "", "g:{}:-1"):
        errors = [
            broker.coordinator_error(text.format(broker.partition("g", "t", 0).coordinator_key.split(":")[1]))
            for broker in brokers
        ]
        assert errors[0] == errors[1], text
