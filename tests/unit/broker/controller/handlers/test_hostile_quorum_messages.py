"""Hostile requests and responses to a controller: it responds to them and continues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.messages.random_messages import Domain, declared_fields, random_messages
from tests.support.metadata.images import CLUSTER_ID
from tests.support.nodes.quorum_nodes import quorum_nodes
from tests.support.waiting import TIMEOUT_S
from tidelog.broker.controller.handlers.quorum import RAFT_APIS, RaftHandlers
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.node.wiring.raft_node import RaftNode
from tidelog.cluster.quorum.events import ResponseReceived
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages import (
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    vote,
)
from tidelog.protocol.registry import ApiKey, request_type, response_type
from tidelog.protocol.schema import ApiMessage, Array, Nested, Struct

SEEDS = range(12)
TOPIC = "__cluster_metadata"
EPOCHS = (-1, 0, 1, 2, 3)
SMALL = (-1, 0, 1, 2, 3, 5, 100)


def domain(cls: type[ApiMessage]) -> Domain:
    """Names, ids and epochs that are mostly valid for the controller."""
    values_by_field: dict[tuple[type[Struct], str], Any] = {}

    def choose(*values: Any) -> Any:
        return partial(_choose, values)

    for module in (begin_quorum_epoch, describe_quorum, end_quorum_epoch, fetch, fetch_snapshot, vote):
        for struct in vars(module).values():
            if not (isinstance(struct, type) and issubclass(struct, Struct) and is_dataclass(struct)):
                continue
            for field in declared_fields(struct):
                name = field.name
                if isinstance(field.kind, Array | Nested):
                    continue
                if name in ("topic_name", "name", "topic"):
                    values_by_field[struct, name] = choose(TOPIC, TOPIC, TOPIC, "other", "")
                elif name in ("partition_index", "partition", "index"):
                    values_by_field[struct, name] = choose(0, 0, 0, 1, -1)
                elif name == "topic_id":
                    values_by_field[struct, name] = choose(UUID(int=1), UUID(int=1), UUID(int=0))
                elif name == "cluster_id":
                    values_by_field[struct, name] = choose(CLUSTER_ID, CLUSTER_ID, None, "other")
                elif name.endswith("epoch"):
                    values_by_field[struct, name] = choose(*EPOCHS)
                elif name.endswith(("_id", "voter", "offset", "position")) and "directory" not in name:
                    values_by_field[struct, name] = choose(*SMALL)
                elif name == "error_code":
                    values_by_field[struct, name] = choose(0, 0, 0, 1, 6, 74, 76, 98, 119, 32767)
                elif name == "max_wait_ms":
                    values_by_field[struct, name] = choose(0, 1, 10)
    return values_by_field


def _choose(values: tuple[Any, ...], random: Random) -> Any:
    return random.choice(values)


def context(key: ApiKey, version: int) -> RequestContext:
    header = RequestHeader(int(key), version, 1, "stranger")
    return RequestContext(header, "CONTROLLER", "127.0.0.1:1", "User:ANONYMOUS", 0, None)


def requests() -> Iterator[tuple[ApiKey, int, Any]]:
    for seed in SEEDS:
        for key in RAFT_APIS:
            cls = request_type(key)
            assert cls.valid_versions.highest is not None
            version = max(0, cls.valid_versions.highest - seed % 2)
            for message in random_messages(cls, version, f"{seed}", mixed=12, domain=domain(cls)):
                yield key, version, message


@on_both_loops
@pytest.mark.parametrize("voters", [1, 3])
async def test_requests_with_extreme_values_do_not_end_the_quorum(voters: int) -> None:
    async with quorum_nodes(voters) as nodes:
        await nodes.start(1)
        if voters == 1:
            await nodes.set("a", "1")
        raft = nodes.running[1].raft
        handlers = RaftHandlers(raft.steps.post, lambda: raft.driver.failure is not None)
        waiting: list[asyncio.Future[ApiMessage]] = []
        refused = 0
        for key, version, message in requests():
            try:
                waiting.append(handlers.handle(context(key, version), message))
            except KafkaError as error:
                assert error.code is ErrorCode.INVALID_REQUEST
                refused += 1
            await _until_handled(raft)
            assert raft.driver.failure is None, (key, version, message)
        assert refused > 20
        await asyncio.wait(waiting, timeout=TIMEOUT_S)
        assert all(response.done() for response in waiting)
        for response in waiting:
            response.result()
        if voters > 1:
            await nodes.start(2, 3)
        await nodes.set("a", "2")
        await nodes.all_have("a", "2")


def responses(seed: int) -> Iterator[Any]:
    for key in (ApiKey.VOTE, ApiKey.FETCH, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH):
        cls = response_type(key)
        assert cls.valid_versions.highest is not None
        yield from random_messages(cls, cls.valid_versions.highest, f"{seed}", mixed=20, domain=domain(cls))
    cls = response_type(ApiKey.FETCH_SNAPSHOT)
    yield from random_messages(cls, 1, f"{seed}", mixed=20, domain=domain(cls))


@on_both_loops
@pytest.mark.parametrize("seed", range(4))
async def test_invalid_responses_are_ignored(seed: int) -> None:
    async with quorum_nodes(3) as nodes:
        await nodes.start(1)
        raft = nodes.running[1].raft
        for _ in range(3):
            for message in responses(seed):
                for request_id in _pending_requests(raft):
                    raft.steps.post(ResponseReceived(request_id, message))
                await _until_handled(raft)
                assert raft.driver.failure is None, message
        await nodes.start(2, 3)
        await nodes.set("a", "1")
        await nodes.all_have("a", "1")


async def _until_handled(raft: RaftNode) -> None:
    """Return when the driver has handled all events that are queued now."""
    handled = asyncio.Event()
    raft.steps.schedule(handled.set)
    async with asyncio.timeout(TIMEOUT_S):
        await handled.wait()


def _pending_requests(raft: RaftNode) -> list[int]:
    """Return the ids of the requests whose responses the machine expects."""
    machine: Any = raft.machine
    return list(machine._replica.connections._pending)
