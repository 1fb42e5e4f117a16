"""The table of required operations: every API is in it, and requests are checked according to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.messages.access_control_entries import by_id, entry
from tests.support.messages.request_contexts import request_context
from tests.support.network.raw_client import served_versions
from tests.support.security.authorizers import ALLOW_EVERYTHING, acl_authorizer
from tidelog.broker.api.handlers.registry import FORWARDED
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import AUTHORIZATION_ERRORS
from tidelog.broker.security.authorization.request_guard import RequestGuard
from tidelog.broker.security.authorization.required_operations import (
    BROKER_OPERATIONS,
    CONTROLLER_OPERATIONS,
    RequiredOperation,
    Requirements,
    Scope,
)
from tidelog.broker.security.authorization.standard_authorizer import StandardAuthorizer
from tidelog.local_cluster.layout import read_layout
from tidelog.protocol.access_control import AclOperation, AclResourceType, PermissionType
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.registry import APIS, FORWARDABLE, ApiKey, request_type
from tidelog.testing.embedded import EmbeddedCluster

PRINCIPAL = "User:ANONYMOUS"
TABLES = {"broker": BROKER_OPERATIONS, "controller": CONTROLLER_OPERATIONS}
GUARDED = [
    pytest.param(role, key, version, id=f"{role}-{APIS[key].name}-{version}")
    for role, table in TABLES.items()
    for key, required in table.items()
    for version in range(APIS[key].lowest, APIS[key].highest + 1)
    if version in request_type(key).valid_versions
    and any(each.scope is Scope.REQUEST and each.lowest <= version <= each.highest for each in required)
]


def requirements_of(role: str, key: ApiKey, version: int) -> Requirements:
    return tuple(
        each
        for each in TABLES[role][key]
        if each.scope is Scope.REQUEST and each.lowest <= version <= each.highest
    )


def call(authorizer: StandardAuthorizer, role: str, key: ApiKey, version: int) -> str:
    """Send an empty request through the guard of a listener."""

    def handler(context: RequestContext, request: Any) -> str:
        return "handled"

    guarded = RequestGuard(authorizer, TABLES[role]).guard(key, handler)
    result: str = guarded(request_context(version, api_key=key), request_type(key)())
    return result


def authorizer(
    *entries: AccessControlEntryRecord, super_users: frozenset[str] = frozenset()
) -> StandardAuthorizer:
    created = acl_authorizer(super_users)
    created.update(by_id(entries), by_id(entries))
    return created


def row_entry(
    number: int, row: RequiredOperation, permission: PermissionType = PermissionType.ALLOW
) -> AccessControlEntryRecord:
    return entry(
        number,
        name="*",
        operation=row.operation,
        resource_type=row.resource_type,
        principal=PRINCIPAL,
        permission=permission,
    )


@pytest.mark.parametrize(("role", "key", "version"), GUARDED)
def test_a_request_needs_exactly_the_required_operations(role: str, key: ApiKey, version: int) -> None:
    required = requirements_of(role, key, version)
    exact = [row_entry(number, row) for number, row in enumerate(required)]
    assert call(authorizer(*exact), role, key, version) == "handled"
    for number, row in enumerate(required):
        one_missing = authorizer(*exact[:number], *exact[number + 1 :])
        with pytest.raises(KafkaError) as caught:
            call(one_missing, role, key, version)
        assert caught.value.code is AUTHORIZATION_ERRORS[row.resource_type]


@pytest.mark.parametrize(("role", "key", "version"), GUARDED)
def test_a_denial_prevails_over_permission_for_everything(role: str, key: ApiKey, version: int) -> None:
    everything = [
        entry(100 + kind, name="*", operation=AclOperation.ALL, resource_type=kind, principal=PRINCIPAL)
        for kind in AclResourceType
    ]
    for number, row in enumerate(requirements_of(role, key, version)):
        denied = [row_entry(number, row, PermissionType.DENY)]
        if row.alternative is not None:
            other = row._replace(operation=row.alternative)
            denied.append(row_entry(50 + number, other, PermissionType.DENY))
        with pytest.raises(KafkaError):
            call(authorizer(*everything, *denied), role, key, version)


@pytest.mark.parametrize(("role", "key", "version"), GUARDED)
def test_a_super_user_needs_no_entry(role: str, key: ApiKey, version: int) -> None:
    authorizer_ = authorizer(super_users=frozenset({PRINCIPAL}))
    assert call(authorizer_, role, key, version) == "handled"


def test_brokers_accept_markers_from_clients_that_may_alter_the_cluster() -> None:
    may_alter = entry(
        1,
        name="kafka-cluster",
        operation=AclOperation.ALTER,
        resource_type=AclResourceType.CLUSTER,
        principal=PRINCIPAL,
    )
    assert call(authorizer(may_alter), "broker", ApiKey.WRITE_TXN_MARKERS, 1) == "handled"


def test_an_api_that_is_not_in_the_table_cannot_be_registered() -> None:
    with pytest.raises(KeyError):
        RequestGuard(ALLOW_EVERYTHING, {}).guard(ApiKey.METADATA, lambda context, request: None)


def test_every_served_api_is_in_the_table(tmp_path: Path) -> None:
    with EmbeddedCluster(2, data_dir=tmp_path, config={"client.telemetry.metrics.enable": "true"}):
        node = read_layout(tmp_path).node(1)
        served = {key for key, _ in served_versions(node.host, node.port)}
        at_controller = {key for key, _ in served_versions(node.host, node.controller_port)}
    assert served == set(BROKER_OPERATIONS) - _without_handler(served) | set(FORWARDED)
    assert not set(FORWARDED) & set(BROKER_OPERATIONS)
    assert at_controller == set(CONTROLLER_OPERATIONS) - _without_handler(at_controller)
    assert set(FORWARDED) <= at_controller


def _without_handler(served: set[ApiKey]) -> set[ApiKey]:
    """Return the APIs of authentication that a node without SASL does not serve."""
    return {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} - served


def test_what_an_envelope_may_contain_is_checked_at_the_controller() -> None:
    # The HMAC of a token shows that a client may use it, and the token names its owner and renewers.
    by_token = {ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}
    served = {key for key in FORWARDABLE if key in CONTROLLER_OPERATIONS}
    assert all(CONTROLLER_OPERATIONS[ApiKey(key)] for key in served - {ApiKey.API_VERSIONS} - by_token)
