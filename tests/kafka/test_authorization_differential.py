"""The same requests of the same client to Apache Kafka and to Tidelog: equal errors and visible resources.

For every API of the table of required operations, the client has no entry, each required one alone, all of
them, and all of them with one denied. Requests for several resources are sent with entries for one of them.
Both nodes get the same requests in the same order, so that they have the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from tests.kafka.authorized_nodes import (
    HIDDEN,
    TRANSACTIONAL_ID,
    AuthorizedNode,
    Grant,
    authorized_nodes,
    rows_of,
    visible,
)
from tests.kafka.wider_requests import OTHER_REQUESTS, widen_request
from tests.support.messages.cluster_of_all_apis import GROUP, TOPIC, ClusterFixture
from tests.support.messages.requests_of_all_apis import REQUESTS
from tests.support.messages.version_fields import fit_to_version
from tests.support.security.requirements import EVERYTHING, requirements
from tidelog.broker.security.authorization.required_operations import CONTROLLER_OPERATIONS, Scope
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest
from tidelog.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tidelog.protocol.registry import APIS, ApiKey, request_type, response_type
from tidelog.protocol.schema import ApiMessage

Nodes = tuple[AuthorizedNode, AuthorizedNode]
Create = Callable[[AuthorizedNode], ApiMessage]
SASL_APIS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
KEYS = [key for key in REQUESTS if key not in SASL_APIS]
KEYS_OF_RESOURCES = [key for key in KEYS if any(row.scope is Scope.ELEMENT for row in requirements(key))]
NAMES = {
    AclResourceType.TOPIC: (TOPIC, "gone", *(f"new-{version}" for version in (2, 7))),
    AclResourceType.GROUP: (GROUP, "no-such-group"),
    AclResourceType.TRANSACTIONAL_ID: (TRANSACTIONAL_ID,),
    AclResourceType.USER: ("User:bob",),
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with authorized_nodes(tmp_path_factory.mktemp("authorized")) as started:
        yield started


def on_every_resource(key: ApiKey) -> Iterator[tuple[str, tuple[Grant, ...]]]:
    """Yield sets of entries for all names, with a description."""
    yield "no entry", ()
    rows = rows_of(requirements(key))
    everything = tuple(Grant(*each) for each in EVERYTHING)
    for row in rows:
        name = f"{row[1].name} on {row[0].name}"
        if len(rows) > 1:
            yield f"only {name}", (Grant(*row),)
        yield f"all, but {name} denied", (*everything, Grant(*row, permission=PermissionType.DENY))
    if rows:
        yield "the required entries", tuple(Grant(*row) for row in rows)


def on_named_resources(key: ApiKey) -> Iterator[tuple[str, tuple[Grant, ...]]]:
    """Yield sets of entries for some names, with a description."""
    yield "no entry", ()
    rows = rows_of(requirements(key))
    for resource_type, operation in rows:
        yield f"only {operation.name} on {resource_type.name}", tuple(_grants_of(resource_type, operation))
    required = [grant for row in rows for grant in _grants_of(*row)]
    if len(rows) > 1:
        yield "the required entries", tuple(required)
    described = Grant(AclResourceType.TOPIC, AclOperation.DESCRIBE, HIDDEN)
    yield "the required entries, and a described topic", (*required, described)


def _grants_of(resource_type: AclResourceType, operation: AclOperation) -> Iterator[Grant]:
    pattern = PatternType.PREFIXED if resource_type == AclResourceType.GROUP else PatternType.LITERAL
    for name in NAMES.get(resource_type, ("*",)):
        yield Grant(resource_type, operation, name, pattern=pattern)


def request_of(key: ApiKey, version: int, node: AuthorizedNode) -> ApiMessage:
    """Return a valid request of an API. Kafka does not respond to a denied request without users."""
    if key is ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
        return DescribeUserScramCredentialsRequest(users=())
    request = REQUESTS[key](cast(ClusterFixture, node), version)
    return replace(request, timeout_ms=10_000) if isinstance(request, CreatePartitionsRequest) else request


def response_of(
    node: AuthorizedNode, request: ApiMessage, version: int, *, of_controller: bool = False
) -> Any:
    with node.client("alice", of_controller=of_controller) as alice:
        try:
            response = alice.send_request(
                fit_to_version(request, version), version, response_type(request.api_key)
            )
        except ConnectionError as error:
            return str(error)
    return visible(response, {topic_id: name for name, topic_id in node.topic_ids.items()})


def assert_equal_responses(
    nodes: Nodes, create: Create, version: int, scenarios: Iterable[tuple[str, tuple[Grant, ...]]]
) -> None:
    differences = []
    for description, grants in scenarios:
        responses = []
        for node in nodes:
            node.grant(*grants)
            responses.append(response_of(node, create(node), version))
        if responses[0] != responses[1]:
            differences.append(f"{description}\n  Kafka   {responses[0]}\n  Tidelog {responses[1]}")
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_api_of_the_table_has_the_response_of_apache_kafka(nodes: Nodes, key: ApiKey) -> None:
    version = APIS[key].highest
    assert_equal_responses(
        nodes, lambda node: request_of(key, version, node), version, on_every_resource(key)
    )


def _widened_request(key: ApiKey, version: int, node: AuthorizedNode) -> ApiMessage:
    return widen_request(request_of(key, version, node), node)


@pytest.mark.parametrize("key", KEYS_OF_RESOURCES, ids=lambda key: key.name)
def test_hidden_and_missing_resources_next_to_an_accessible_one_look_as_in_apache_kafka(
    nodes: Nodes, key: ApiKey
) -> None:
    lowest = max(APIS[key].lowest, request_type(key).valid_versions.lowest)
    for version in dict.fromkeys((lowest, APIS[key].highest)):
        assert_equal_responses(
            nodes,
            partial(_widened_request, key, version),
            version,
            on_named_resources(key),
        )


@pytest.mark.parametrize("name", OTHER_REQUESTS)
def test_requests_for_all_resources_and_of_other_kinds_have_the_responses_of_apache_kafka(
    nodes: Nodes, name: str
) -> None:
    create = OTHER_REQUESTS[name]
    key = ApiKey(create(nodes[0]).api_key)
    assert_equal_responses(nodes, create, APIS[key].highest, on_named_resources(key))


@pytest.mark.parametrize(
    "key", [key for key in CONTROLLER_OPERATIONS if key not in SASL_APIS], ids=lambda key: key.name
)
def test_a_client_without_permission_gets_the_same_responses_from_controllers(
    nodes: Nodes, key: ApiKey
) -> None:
    version = APIS[key].highest
    responses = []
    for node in nodes:
        node.grant()
        request = request_of(key, version, node) if key in REQUESTS else request_type(key)()
        responses.append(response_of(node, request, version, of_controller=True))
    assert responses[0] == responses[1]
