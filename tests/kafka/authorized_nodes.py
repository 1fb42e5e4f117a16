"""A node of Apache Kafka and one of Tidelog with the same users, entries, topics and groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from tests.kafka.kafka_node import MixedCluster
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.messages.cluster_of_all_apis import (
    TOPIC,
    await_coordinator,
    commit_offset,
    produce_request,
)
from tests.support.network.raw_client import RawClient
from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import incremental_alter_configs as configs
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from tidelog.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.produce import ProduceResponse
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.schema import Struct

HIDDEN: Final = "hidden"
TRANSACTIONAL_ID: Final = "tides"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_USERS: Final = " ".join(f'user_{name}="{name}-secret"' for name in ("admin", "alice", "probe"))
_PROBE: Final = "probe-"
_ANY: Final = 1
_TRANSACTION: Final = 1
_TOPIC_RESOURCE: Final = 2


class Grant(NamedTuple):
    """An entry."""

    resource_type: AclResourceType
    operation: AclOperation
    name: str = "*"
    permission: PermissionType = PermissionType.ALLOW
    principal: str = "User:alice"
    pattern: PatternType = PatternType.LITERAL


class AuthorizedNode:
    """One node, with topics `TOPIC` and `HIDDEN`, committed offsets and a transactional id."""

    def __init__(self, root: Path, engine: Engine) -> None:
        root.mkdir()
        self.engine = engine
        self.cluster = MixedCluster(root)
        self.member_id = "unknown"
        self.topic_ids: dict[str, UUID] = {}
        self._probes = 0
        self._port, internal, controller = free_ports(3)
        self._controller_port = controller
        node = self.cluster.add(1, engine, "broker,controller")
        node.settings = {
            "listeners": f"CLIENTS://127.0.0.1:{self._port},INTERNAL://127.0.0.1:{internal},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,"
            "CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{_LOGIN} username="admin" password="admin-secret" {_USERS};'
            ),
            "listener.name.clients.plain.sasl.jaas.config": f"{_LOGIN} {_USERS};",
            "authorizer.class.name": _AUTHORIZER,
            "super.users": "User:ANONYMOUS;User:admin",
            "delegation.token.secret.key": "key",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        self.cluster.format(node)
        self.cluster.start(node)

    @property
    def topic_id(self) -> UUID:
        """Return the id of `TOPIC`."""
        return self.topic_ids[TOPIC]

    def client(self, user: str = "admin", *, of_controller: bool = False) -> RawClient:
        """Return a new connection of a user to the broker or to the controller."""
        client = RawClient("127.0.0.1", self._controller_port if of_controller else self._port)
        client.send_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
        token = f"\0{user}\0{user}-secret".encode()
        response = client.send_request(SaslAuthenticateRequest(auth_bytes=token), 2, SaslAuthenticateResponse)
        assert not response.error_code
        return client

    def prepare(self) -> None:
        """Wait until the node serves clients; create topics, offsets and a transactional id."""
        wait_until(self._is_ready, timeout_s=WITHIN_S)
        with self.client() as admin:
            wait_until(lambda: self._has_topics(admin), timeout_s=WITHIN_S)
            admin.send_request(produce_request(self.topic_id), 13, ProduceResponse)
            await_coordinator(admin)
            commit_offset(admin, self.topic_id)
            wait_until(lambda: _has_transactional_id(admin), timeout_s=WITHIN_S)

    def grant(self, *grants: Grant) -> None:
        """Replace all entries by these, and wait until broker and controller use them."""
        everything = DeleteAclsFilter(
            resource_type_filter=_ANY,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        self._probes += 1
        probe = f"{_PROBE}{self._probes}"
        alteration = Grant(AclResourceType.TOPIC, AclOperation.ALTER_CONFIGS, probe, principal="User:probe")
        wanted = (*grants, alteration)
        with self.client() as admin, self.client("probe") as client:
            admin.send_request(DeleteAclsRequest(filters=(everything,)), 3, DeleteAclsResponse)
            created = admin.send_request(
                CreateAclsRequest(creations=tuple(map(_creation, wanted))), 3, CreateAclsResponse
            )
            assert {result.error_code for result in created.results} == {0}
            wait_until(lambda: _names(admin) == {_creation(each).resource_name for each in wanted})
            wait_until(lambda: _may_alter(client, probe))

    def _is_ready(self) -> bool:
        try:
            self.client().close()
        except (OSError, AssertionError):
            return False
        return True

    def _has_topics(self, admin: RawClient) -> bool:
        topics = tuple(
            CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in (TOPIC, HIDDEN)
        )
        created = admin.send_request(CreateTopicsRequest(topics=topics), 7, CreateTopicsResponse).topics
        self.topic_ids |= {each.name: each.topic_id for each in created if each.topic_id.int}
        return len(self.topic_ids) == len(topics)


@contextmanager
def authorized_nodes(root: Path) -> Iterator[tuple[AuthorizedNode, AuthorizedNode]]:
    """Run a node of Apache Kafka and one of Tidelog."""
    nodes: list[AuthorizedNode] = []
    try:
        nodes.extend(AuthorizedNode(root / engine.name, engine) for engine in (Engine.KAFKA, Engine.TIDELOG))
        for node in nodes:
            node.prepare()
        yield nodes[0], nodes[1]
    finally:
        for node in nodes:
            node.cluster.end()


# Names of resources, and what a client may do with them. Other values differ from node to node.
_VISIBLE_NAMES: Final = frozenset(
    {
        "name",
        "topic",
        "topic_name",
        "group_id",
        "resource_name",
        "resource_type",
        "transactional_id",
        "user",
        "key",
        "partition",
        "partition_index",
        "index",
        "partition_id",
        "cluster_authorized_operations",
        "topic_authorized_operations",
        "authorized_operations",
        "group_state",
        "group_type",
        "transaction_state",
        "committed_offset",
        "is_internal",
    }
)
_LISTS_THAT_DIFFER: Final = frozenset(
    {"configs", "api_keys", "supported_features", "finalized_features", "acls", "entries", "members"}
)


def visible(value: Any, ids: dict[UUID, str]) -> Any:
    """Return what a response shows of resources: error codes, names, permissions; lists in any order."""
    if isinstance(value, tuple):
        return sorted((visible(each, ids) for each in value), key=repr)
    if not isinstance(value, Struct):
        return value
    shown: dict[str, Any] = {}
    for field in fields(value):  # type: ignore[arg-type]
        inner, name = getattr(value, field.name), field.name
        if name.endswith("error_code"):
            shown[name] = ErrorCode(inner).name
        elif name in _VISIBLE_NAMES:
            shown[name] = _PROBE if isinstance(inner, str) and inner.startswith(_PROBE) else inner
        elif isinstance(inner, UUID) and name == "topic_id":
            shown[name] = ids.get(inner, "zero" if not inner.int else "other")
        elif name == "records" or name in _LISTS_THAT_DIFFER:
            shown[name] = bool(inner)
        elif isinstance(inner, (tuple, Struct)) and _has_structs(inner):
            shown[name] = visible(inner, ids)
    return shown


def _has_structs(value: tuple[Any, ...] | Struct) -> bool:
    return isinstance(value, Struct) or all(isinstance(each, Struct) for each in value)


def _creation(grant: Grant) -> AclCreation:
    is_cluster = grant.resource_type == AclResourceType.CLUSTER
    return AclCreation(
        resource_type=grant.resource_type,
        resource_name="kafka-cluster" if is_cluster else grant.name,
        resource_pattern_type=grant.pattern,
        principal=grant.principal,
        host="*",
        operation=grant.operation,
        permission_type=grant.permission,
    )


def _names(admin: RawClient) -> set[str]:
    """Return the names of all resources with entries, as the broker knows them."""
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    return {each.resource_name for each in admin.send_request(request, 3, DescribeAclsResponse).resources}


def _may_alter(client: RawClient, topic: str) -> bool:
    """Return whether the controller allows a client to alter a topic that does not exist."""
    change = configs.AlterableConfig(name="retention.ms", value="1")
    resource = configs.AlterConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=(change,)
    )
    request = configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
    response = client.send_request(request, 1, configs.IncrementalAlterConfigsResponse)
    return response.responses[0].error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _has_transactional_id(admin: RawClient) -> bool:
    find = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=(TRANSACTIONAL_ID,))
    if admin.send_request(find, 4, FindCoordinatorResponse).coordinators[0].error_code:
        return False
    begin = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
    return not admin.send_request(begin, 4, InitProducerIdResponse).error_code


def rows_of(requirements: Iterable[Any]) -> list[tuple[AclResourceType, AclOperation]]:
    """Return the distinct types of resource and operations of rows of the table."""
    return list(dict.fromkeys((row.resource_type, row.operation) for row in requirements))
