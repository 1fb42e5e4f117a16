"""The APIs of the states of share partitions at a running broker, and after its restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.network.raw_client import RawClient
from tests.support.nodes.topic_admin import TopicAdmin
from tests.support.waiting import wait_until
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
from tidelog.broker.coordinators.share.state_messages import (
    DELETE,
    INITIALIZE,
    READ,
    READ_SUMMARY,
    WRITE,
    StateMessages,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from tidelog.protocol.registry import APIS
from tidelog.testing.embedded import EmbeddedCluster

BATCHES = (ShareStateBatch(6, 9, 2, 1), ShareStateBatch(10, 12, 0, 2))


class Client:
    """Requests to one running broker."""

    def __init__(self, folder: Path) -> None:
        self.cluster = EmbeddedCluster(1, data_dir=folder)
        self.cluster.start()
        host, _, port = self.cluster.bootstrap_servers.partition(":")
        self.raw = RawClient(host, int(port))

    def close(self) -> None:
        self.raw.close()
        self.cluster.stop()

    def coordinator_error(self, key: str) -> ErrorCode:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))
        return ErrorCode(
            self.raw.send_request(request, 6, FindCoordinatorResponse).coordinators[0].error_code
        )

    def send_request(self, messages: StateMessages[Any, Any], items: Sequence[Any]) -> list[Any]:
        request = messages.create_request(messages.share_partition(items[0]).group_id, items)
        response = self.raw.send_request(request, APIS[request.api_key].highest, messages.response)
        return messages.results(items, response)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    client = Client(tmp_path)
    yield client
    client.close()


def test_a_state_is_written_read_and_kept_across_a_restart(tmp_path: Path) -> None:
    client = Client(tmp_path)
    topic_id = TopicAdmin(client.cluster.bootstrap_servers).create("t", {}, 2, 1)
    partitions = [SharePartitionKey("g", topic_id, index) for index in range(2)]
    assert client.coordinator_error("g") is ErrorCode.INVALID_REQUEST
    wait_until(lambda: client.coordinator_error(partitions[0].coordinator_key) is ErrorCode.NONE)
    initial = [InitialState(share_partition=partition, state_epoch=1) for partition in partitions]
    wait_until(lambda: client.send_request(INITIALIZE, initial) == [StateResult(error_message=None)] * 2)
    write = StateWrite(
        share_partition=partitions[0],
        state_epoch=1,
        leader_epoch=3,
        start_offset=5,
        delivery_complete_count=4,
        batches=BATCHES,
    )
    assert client.send_request(WRITE, [write]) == [StateResult()]
    client.close()

    client = Client(tmp_path)
    reads = [StateRead(share_partition=partition, leader_epoch=4) for partition in partitions]
    wait_until(lambda: client.send_request(READ, reads)[0].error_code is ErrorCode.NONE)
    assert client.send_request(READ, reads) == [
        StoredState(state_epoch=1, start_offset=5, batches=BATCHES),
        StoredState(state_epoch=1, start_offset=-1),
    ]
    assert client.send_request(WRITE, [write])[0].error_code is ErrorCode.FENCED_LEADER_EPOCH
    [summary] = client.send_request(READ_SUMMARY, reads[:1])
    assert summary == StateSummary(state_epoch=1, leader_epoch=4, start_offset=5, delivery_complete_count=4)
    assert client.send_request(DELETE, partitions) == [StateResult()] * 2
    assert client.send_request(READ, reads)[0].error_code is ErrorCode.INVALID_REQUEST
    client.close()


def test_a_request_without_a_group_has_no_results(client: Client) -> None:
    request = InitializeShareGroupStateRequest(topics=())
    assert client.raw.send_request(request, 0, InitializeShareGroupStateResponse).results == ()


def test_a_broker_that_does_not_lead_the_state_partition_is_not_the_coordinator(client: Client) -> None:
    read = StateRead(share_partition=SharePartitionKey("g", UUID(int=1), 0), leader_epoch=0)
    [state] = client.send_request(READ, [read])
    assert state.error_code is ErrorCode.NOT_COORDINATOR
