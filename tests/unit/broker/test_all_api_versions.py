"""A valid request of every API in every advertised version, to a running broker.

The response of an older version has only the fields of that version: a field that a
handler sets and the version lacks would surface here as UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.messages.cluster_of_all_apis import ClusterFixture, error_codes, open_cluster
from tests.support.messages.requests_of_all_apis import REQUESTS, SHARE_STATE_APIS, TOKEN_APIS
from tests.support.messages.version_fields import fit_to_version
from tests.support.network.raw_client import served_versions
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.registry import APIS, ApiKey, request_type, response_type

SHARE_STATE_ERRORS = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.INVALID_REQUEST,
}
"""The topic `__share_group_state` may not exist yet, and its states are not initialized."""
FITTING_ERRORS = {
    ApiKey.JOIN_GROUP: {ErrorCode.MEMBER_ID_REQUIRED},
    ApiKey.SYNC_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.HEARTBEAT: {ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.LEAVE_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {ErrorCode.LOG_DIR_NOT_FOUND},
    ApiKey.DELETE_GROUPS: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.OFFSET_DELETE: {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC},
    # No client has requested the coordinator, so the topic __transaction_state does not exist.
    ApiKey.ADD_PARTITIONS_TO_TXN: {ErrorCode.NOT_COORDINATOR},
    ApiKey.ADD_OFFSETS_TO_TXN: {ErrorCode.NOT_COORDINATOR},
    ApiKey.END_TXN: {ErrorCode.NOT_COORDINATOR},
    ApiKey.DESCRIBE_TRANSACTIONS: {ErrorCode.NOT_COORDINATOR},
    # The heartbeat left a member in the group.
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {ErrorCode.NON_EMPTY_GROUP},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {ErrorCode.NON_EMPTY_GROUP},
    # No heartbeat has initialized the share partition, and there is no session.
    ApiKey.SHARE_FETCH: {ErrorCode.UNKNOWN_SERVER_ERROR},
    ApiKey.SHARE_ACKNOWLEDGE: {ErrorCode.SHARE_SESSION_NOT_FOUND},
    **dict.fromkeys(SHARE_STATE_APIS, SHARE_STATE_ERRORS),
    # Errors of a transaction that no coordinator has.
    ApiKey.TXN_OFFSET_COMMIT: {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ApiKey.CREATE_PARTITIONS: {ErrorCode.INVALID_PARTITIONS},
    ApiKey.LIST_OFFSETS: {ErrorCode.UNSUPPORTED_VERSION},
    ApiKey.ELECT_LEADERS: {ErrorCode.ELECTION_NOT_NEEDED},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS},
    ApiKey.UNREGISTER_BROKER: {ErrorCode.BROKER_ID_NOT_REGISTERED},
    # The voters of a node alone are static.
    ApiKey.ADD_RAFT_VOTER: {ErrorCode.INVALID_REQUEST},
    ApiKey.REMOVE_RAFT_VOTER: {ErrorCode.UNSUPPORTED_VERSION},
    # The listener has no authentication.
    **{key: {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED} for key in TOKEN_APIS},
    # The listener has no SASL.
    ApiKey.SASL_HANDSHAKE: {ErrorCode.ILLEGAL_SASL_STATE},
    ApiKey.SASL_AUTHENTICATE: {ErrorCode.ILLEGAL_SASL_STATE},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterFixture]:
    with open_cluster() as cluster:
        yield cluster


CASES = [
    pytest.param(key, version, id=f"{APIS[key].name}-{version}")
    for key in REQUESTS
    for version in range(
        max(APIS[key].lowest, request_type(key).valid_versions.lowest), APIS[key].highest + 1
    )
]


@pytest.mark.parametrize(("key", "version"), CASES)
def test_a_valid_request_gets_a_response_of_its_version(
    cluster: ClusterFixture, key: ApiKey, version: int
) -> None:
    request = fit_to_version(REQUESTS[key](cluster, version), version)
    with cluster.client() as client:
        response = client.send_request(request, version, response_type(key))
    codes = {ErrorCode(code) for code in error_codes(response)} - {ErrorCode.NONE}
    assert codes <= FITTING_ERRORS.get(key, set())


def test_every_advertised_api_is_requested(cluster: ClusterFixture) -> None:
    host, port = cluster.cluster.bootstrap_servers.split(":")
    assert {key for key, _ in served_versions(host, int(port))} == set(REQUESTS)
