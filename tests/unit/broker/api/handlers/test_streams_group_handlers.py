"""The handlers of streams groups: the feature, authorization, names and creation of topics, descriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import pytest

from tests.support.groups.served_groups import PRINCIPAL, ServedGroups
from tests.support.groups.streams_members import WORD_COUNT
from tests.support.security.authorizers import DenyingAuthorizer
from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.api.handlers.streams_group_describe import StreamsGroupDescribeHandler
from tidelog.broker.api.handlers.streams_group_heartbeat import StreamsGroupHeartbeatHandler
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.authorizer import Requester
from tidelog.cluster.acls import CLUSTER_NAME
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic
from tidelog.protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from tidelog.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from tidelog.protocol.steps import run_steps

MISSING = "Internal topics are missing: counts, words"


class RecordedCreation:
    """Keeps the topics that are requested, and returns `errors`."""

    def __init__(self) -> None:
        self.requested: list[CreatableTopic] = []
        self.retry_after_ms = 0
        self.errors: dict[str, str] = {}

    def request(
        self, topics: Iterable[CreatableTopic], client: RequestContext, retry_after_ms: int
    ) -> Mapping[str, str]:
        assert client.principal == PRINCIPAL
        self.requested += topics
        self.retry_after_ms = retry_after_ms
        return self.errors


class CreateDenied(DenyingAuthorizer):
    """Denies CREATE of the cluster and of the topics in `denied`; everything else is allowed."""

    def is_authorized(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        logs_denial: bool = True,
    ) -> bool:
        return operation is not AclOperation.CREATE or super().is_authorized(
            requester, operation, resource_type, name
        )


class Broker:
    """The two handlers over the groups of one client."""

    def __init__(self) -> None:
        self.served = ServedGroups("lines")
        self.creation = RecordedCreation()
        self.use(self.served.access())

    def use(self, access: GroupAccess) -> None:
        """Let the client have another access."""
        groups = self.served.service.streams_groups
        self._heartbeat = StreamsGroupHeartbeatHandler(groups, access, self.creation)
        self._describe = StreamsGroupDescribeHandler(groups, access)

    def deny_creation(self, *names: str) -> None:
        """Deny CREATE of these topics, or of the cluster, and nothing else."""
        self.use(self.served.access(CreateDenied(set(names))))

    async def join(self, **fields: Any) -> StreamsGroupHeartbeatResponse:
        values: dict[str, Any] = {
            "group_id": "g",
            "member_id": "m",
            "rebalance_timeout_ms": 1000,
            "topology": WORD_COUNT,
            "process_id": "p",
            "active_tasks": (),
            "standby_tasks": (),
            "warmup_tasks": (),
        }
        request = StreamsGroupHeartbeatRequest(**{**values, **fields})
        return await self._heartbeat.handle(self.served.context(88, 0), request)

    def describe(self, group_id: str = "g") -> DescribedGroup:
        request = StreamsGroupDescribeRequest(group_ids=(group_id,), include_authorized_operations=True)
        (group,) = run_steps(self._describe.handle(self.served.context(89, 0), request)).groups
        return group


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker()
    await broker.served.start()
    yield broker
    await broker.served.stop()


def last_detail(response: StreamsGroupHeartbeatResponse) -> str:
    assert response.status is not None
    return response.status[-1].status_detail


async def test_missing_internal_topics_are_created_for_the_member(broker: Broker) -> None:
    response = await broker.join()
    assert (response.error_code, last_detail(response)) == (ErrorCode.NONE, MISSING)
    counts, words = broker.creation.requested
    assert (counts.name, counts.num_partitions, counts.replication_factor) == ("counts", 1, -1)
    assert [(config.name, config.value) for config in counts.configs] == [("cleanup.policy", "compact")]
    assert (words.name, words.configs) == ("words", ())
    assert broker.creation.retry_after_ms == 2 * response.heartbeat_interval_ms


async def test_the_reasons_of_failed_creations_are_reported(broker: Broker) -> None:
    broker.creation.errors = dict.fromkeys(("a", "b", "c", "d"), "no room")
    detail = last_detail(await broker.join())
    assert detail == f"{MISSING}; Creation failed: a (no room), b (no room), c (no room) and 1 more."


async def test_a_member_that_may_create_each_topic_needs_no_access_to_the_cluster(broker: Broker) -> None:
    broker.deny_creation(CLUSTER_NAME)
    await broker.join()
    assert len(broker.creation.requested) == 2


async def test_topics_that_the_member_may_not_create_are_reported(broker: Broker) -> None:
    broker.deny_creation(CLUSTER_NAME, "words")
    detail = last_detail(await broker.join())
    assert detail == f"{MISSING}; Unauthorized to CREATE on topics words."
    assert broker.creation.requested == []


async def test_topics_that_may_not_be_described_are_refused(broker: Broker) -> None:
    broker.served.denied.add("words")
    response = await broker.join()
    assert (response.error_code, response.error_message) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


async def test_internal_topics_of_brokers_and_invalid_names_are_refused(broker: Broker) -> None:
    def topology(*topics: str) -> Topology:
        return Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=topics),))

    response = await broker.join(topology=topology("__consumer_offsets", "lines"))
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert response.error_message == (
        "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited."
    )
    response = await broker.join(topology=topology("a b", "c/d"))
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert response.error_message == "Topic names a b,c/d are not valid topic names."


async def test_the_apis_are_unsupported_without_the_feature(broker: Broker) -> None:
    broker.served.is_enabled = False
    assert (await broker.join()).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert broker.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_group_with_a_topic_that_the_client_may_not_describe_has_no_topology(broker: Broker) -> None:
    await broker.join()
    described = broker.describe()
    assert (described.error_code, described.group_state) == (ErrorCode.NONE, "NotReady")
    assert described.authorized_operations != -(2**31)
    broker.served.denied.add("counts")
    hidden = broker.describe()
    assert (hidden.error_code, hidden.topology) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    assert hidden.error_message is not None and hidden.error_message.startswith("The described group uses")


async def test_an_unknown_group_is_an_error_with_a_message(broker: Broker) -> None:
    group = broker.describe("x")
    assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")
