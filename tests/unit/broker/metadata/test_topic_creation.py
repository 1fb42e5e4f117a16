"""Automatic creation of topics, and producer ids from blocks."""

from __future__ import annotations

import asyncio
import logging
from typing import TypeVar

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.both_loops import on_both_loops
from tests.support.messages.request_contexts import request_context
from tests.support.metadata.stores import InlineExecutor, channel_of, running_store
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata import topic_creation
from tidelog.broker.metadata.producer_ids import ProducerIds
from tidelog.broker.metadata.topic_creation import TopicCreation, creatable_topic
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_topics import CreateTopicsRequest
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

CONFIG = BrokerConfig(
    {
        "node.id": "1",
        "num.partitions": "3",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "7",
    }
)


class RecordedClients:
    """Accepts forwarded requests, and keeps them."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[RequestContext, ApiMessage]] = []

    def highest_version(self, key: ApiKey) -> int:
        return 6

    async def forward(
        self, context: RequestContext, message: ApiMessage, response: type[ResponseT]
    ) -> ResponseT:
        self.forwarded.append((context, message))
        return response()


@on_both_loops
async def test_a_topic_that_a_client_needs_is_created_on_its_behalf() -> None:
    async with running_store() as store:
        clients = RecordedClients()
        creation = TopicCreation(channel_of(store), clients, CONFIG, ManualClock())
        client = request_context(9, api_key=ApiKey.METADATA)
        creation.request(["orders"], client)
        await creation.close()
        (context, message), *others = clients.forwarded
        assert not others
        assert (context.principal, context.peer, context.header.client_id) == (
            client.principal,
            client.peer,
            client.header.client_id,
        )
        assert context.header[:2] == (ApiKey.CREATE_TOPICS, 6)
        assert isinstance(message, CreateTopicsRequest)
        assert [topic.name for topic in message.topics] == ["orders"]
        assert "orders" not in store.image.topics_by_name


@on_both_loops
async def test_a_missing_topic_is_reported_as_unknown_and_exists_later() -> None:
    async with running_store() as store:
        creation = TopicCreation(channel_of(store), RecordedClients(), CONFIG, ManualClock())
        assert creation.request(["orders", "bad name"]) == {
            "orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        await eventually(lambda: "orders" in store.image.topics_by_name)
        assert len(store.image.topics_by_name["orders"].partitions) == 3
        await creation.close()


@on_both_loops
async def test_a_topic_whose_creation_is_in_progress_is_not_created_twice() -> None:
    executor = InlineExecutor()
    async with running_store(executor=executor) as store:
        creation = TopicCreation(channel_of(store), RecordedClients(), CONFIG, ManualClock())
        executor.held = True
        for _ in range(3):
            creation.request(["orders"])
            await asyncio.sleep(0)
        assert len(creation._tasks) == 1
        executor.release()
        await creation.close()
        assert "orders" in store.image.topics_by_name


@on_both_loops
async def test_the_offsets_topic_gets_its_own_settings() -> None:
    async with running_store() as store:
        creation = TopicCreation(channel_of(store), RecordedClients(), CONFIG, ManualClock())
        creation.ensure("__consumer_offsets")
        await creation.close()
        assert len(store.image.topics_by_name["__consumer_offsets"].partitions) == 7
        assert store.image.topic_configs("__consumer_offsets") == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }


def test_the_other_internal_topics_get_their_own_settings() -> None:
    transactions = creatable_topic(CONFIG, "__transaction_state")
    assert (transactions.num_partitions, transactions.replication_factor) == (50, 3)
    assert {config.name: config.value for config in transactions.configs} == {
        "unclean.leader.election.enable": "false",
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
    }
    shares = creatable_topic(CONFIG, "__share_group_state")
    assert shares.num_partitions == 50
    assert {config.name: config.value for config in shares.configs}["retention.ms"] == "-1"


@on_both_loops
async def test_a_topic_that_cannot_be_created_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    async with running_store() as store:
        creation = TopicCreation(
            channel_of(store), RecordedClients(), BrokerConfig({"node.id": "1"}), ManualClock()
        )
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert creation.request(["__consumer_offsets"]) == {
                    "__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                }
                await creation.close()
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == 1
        assert "replication factor of 3" in messages[0]
        assert store.image.topics_by_name == {}


@on_both_loops
async def test_after_a_refusal_the_next_request_creates_the_topic(caplog: pytest.LogCaptureFixture) -> None:
    async with running_store() as store:
        creation = TopicCreation(channel_of(store), RecordedClients(), CONFIG, ManualClock())
        store.leadership.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")
        creation.ensure("orders")
        await creation.close()
        assert "the disk is gone" in caplog.text
        store.leadership.failure = None
        creation.ensure("orders")
        await creation.close()
        assert "orders" in store.image.topics_by_name


@on_both_loops
async def test_stop_does_not_wait_for_an_unresponsive_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_creation, "CLOSE_TIMEOUT_S", 0.01)
    executor = InlineExecutor()
    async with running_store(executor=executor) as store:
        creation = TopicCreation(channel_of(store), RecordedClients(), CONFIG, ManualClock())
        executor.held = True
        creation.ensure("orders")
        async with asyncio.timeout(TIMEOUT_S):
            await creation.close()
        assert "orders" not in store.image.topics_by_name
        executor.release()


@on_both_loops
async def test_producer_ids_never_repeat_even_after_a_restart() -> None:
    disk = CrashFileSystem()
    allocated: list[int] = []
    for count in (1500, 5):
        async with running_store(disk) as store:
            ids = ProducerIds(channel_of(store), 1, lambda: store.image.brokers[1].epoch, ManualClock())
            allocated += await asyncio.gather(*(ids.next() for _ in range(count)))
    assert len(set(allocated)) == 1505
    assert max(allocated[:1500]) == 1499
    assert min(allocated[1500:]) == 2000


@on_both_loops
async def test_without_a_producer_id_block_producers_get_a_retriable_error() -> None:
    async with running_store() as store:
        ids = ProducerIds(channel_of(store), 1, lambda: 999, ManualClock())
        with pytest.raises(KafkaError) as error:
            await ids.next()
        assert error.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
