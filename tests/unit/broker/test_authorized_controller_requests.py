"""Requests that only nodes may send, sent to a controller by a client without permission."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.network.raw_client import RawClient
from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.local_cluster.layout import read_layout
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.registry import APIS, ApiKey, request_type, response_type
from tidelog.testing.embedded import EmbeddedCluster

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ONLY_FOR_NODES = (
    ApiKey.ENVELOPE,
    ApiKey.ALTER_PARTITION,
    ApiKey.VOTE,
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.UPDATE_RAFT_VOTER,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """Yield a connection of User:alice, which has no permission, to a controller of two secured nodes."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with EmbeddedCluster(2, data_dir=directory, config=CONFIG) as cluster:
        address = read_layout(directory).node(1)
        with RawClient(address.host, address.controller_port) as client:
            own = "{}:{}".format(*client.local_address)

            def authenticate(node: BrokerNode) -> bool:
                network = node._quorum.listeners.network
                assert network is not None
                for connection in network.connections():
                    if connection.peer == own:
                        connection.client.on_authenticated("User:alice")
                        return True
                return False

            wait_until(lambda: cluster.run(authenticate, 1))
            yield client


@pytest.mark.parametrize("key", ONLY_FOR_NODES, ids=lambda key: key.name)
def test_a_client_cannot_send_requests_of_nodes(client: RawClient, key: ApiKey) -> None:
    response = client.send_request(request_type(key)(), APIS[key].highest, response_type(key))
    code = getattr(response, "error_code")  # noqa: B009
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
