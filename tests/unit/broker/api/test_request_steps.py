"""Which requests wait while many other long requests are served."""

from __future__ import annotations

import pytest

from tests.support.loops.yields import STEPS_PER_SLICE, counted_slices, loop_iterations
from tests.support.replicas.replica_manager import FakeRequest
from tests.support.waiting import eventually
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.registered_api import RegisteredApi
from tidelog.broker.api.request_steps import run_raw_steps
from tidelog.broker.scheduling.slices import LONG_REQUESTS_MAX, LONG_SLICES
from tidelog.broker.security.authorization.required_operations import (
    BROKER_OPERATIONS,
    CONTROLLER_OPERATIONS,
)
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.messages.alter_partition import AlterPartitionRequest
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.produce import ProduceRequest
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps
from tidelog.testing.embedded import EmbeddedCluster


class RecordedApis:
    """The APIs that are registered with the dispatchers of one node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries: list[RegisteredApi] = []
        add = Dispatcher._add

        def recording_add(dispatcher: Dispatcher, key: ApiKey) -> RegisteredApi:
            self.entries.append(entry := add(dispatcher, key))
            return entry

        monkeypatch.setattr(Dispatcher, "_add", recording_add)

    def never_waiting(self) -> set[ApiKey]:
        """Return the APIs that are registered with `may_wait=False`."""
        return {entry.api.key for entry in self.entries if not entry.may_wait}

    def route(self, key: ApiKey) -> RegisteredApi:
        """Return one entry of the API."""
        return next(entry for entry in self.entries if entry.api.key == key)


@pytest.fixture
def apis(monkeypatch: pytest.MonkeyPatch) -> RecordedApis:
    recorded = RecordedApis(monkeypatch)
    with EmbeddedCluster():
        return recorded


@pytest.mark.parametrize(
    ("message", "version"), [(ProduceRequest(), 9), (AlterPartitionRequest(), 3)], ids=["produce", "isr"]
)
async def test_produces_and_requests_of_nodes_do_not_wait_behind_the_long_requests_of_clients(
    message: ApiMessage, version: int, apis: RecordedApis
) -> None:
    many, ended = counted_slices(), list[ApiKey]()

    def start(request: FakeRequest, count: int) -> None:
        request.route = apis.route(ApiKey(request.header.api_key))

        def steps() -> Steps[None]:
            for _ in range(count):
                yield None
            ended.append(ApiKey(request.header.api_key))

        run_raw_steps(many, request, steps())

    for _ in range(3 * LONG_REQUESTS_MAX):
        start(FakeRequest(MetadataRequest(), 9), 100 * STEPS_PER_SLICE)
    await loop_iterations(4 * LONG_SLICES * LONG_REQUESTS_MAX)
    start(FakeRequest(message, version), 2 * LONG_SLICES * STEPS_PER_SLICE)
    await eventually(lambda: bool(ended))
    assert ended == [message.api_key]
    many.close()


def test_no_request_that_only_nodes_may_send_waits(apis: RecordedApis) -> None:
    of_nodes = {
        key
        for operations in (BROKER_OPERATIONS, CONTROLLER_OPERATIONS)
        for key, requirements in operations.items()
        if [requirement.operation for requirement in requirements] == [AclOperation.CLUSTER_ACTION]
    }
    never_waiting = apis.never_waiting()
    # Clients fetch too; the handler knows the fetches of followers.
    assert of_nodes - never_waiting <= {ApiKey.FETCH}
    assert ApiKey.PRODUCE in never_waiting
    assert not never_waiting & {ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.CREATE_TOPICS}
    assert all(entry.may_wait for entry in apis.entries if entry.raw and entry.api.key == ApiKey.FETCH)
