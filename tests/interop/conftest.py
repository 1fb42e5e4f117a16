"""One broker per module, a new topic per test, and clients that are closed when the test ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from tests.support.foreign_clients import CLIENTS, ForeignAdmin, ForeignClient
from tests.support.foreign_clients.client_factory import ClientFactory
from tidelog.testing.embedded import EmbeddedCluster

# `make test` sets neither variable. It does not collect these tests, so it does not report them as skipped.
NEEDED = {
    "test_opentelemetry_collector.py": "TIDELOG_OTEL_COLLECTOR",
    "test_mixed_group_migration.py": "TIDELOG_KAFKA_JARS",
}
collect_ignore = [name for name, variable in NEEDED.items() if not os.environ.get(variable)]

BROKER_CONFIG = {
    "num.partitions": "3",
    "fetch.max.bytes": "250000000",
    "socket.request.max.bytes": "104857600",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run the broker of this module."""
    with EmbeddedCluster(config=BROKER_CONFIG) as running:
        yield running


@pytest.fixture
def servers(cluster: EmbeddedCluster) -> str:
    """Return the address of the broker."""
    return cluster.bootstrap_servers


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> ForeignClient:
    """Return each third-party client, one after the other."""
    return CLIENTS[request.param]


@pytest.fixture
def client_factory(servers: str) -> Iterator[ClientFactory]:
    """Return a factory of producers, consumers and admin clients, which closes them after the test."""
    factory = ClientFactory(servers)
    yield factory
    factory.close()


@pytest.fixture
def new_topic(client_factory: ClientFactory) -> Callable[..., str]:
    """Return a function that creates a topic: `new_topic(partitions, config)` returns its name."""

    def create(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        topic = f"topic-{uuid4().hex[:12]}"
        admin: ForeignAdmin = client_factory.admin(CLIENTS["confluent"])
        admin.create_topic(topic, partitions, config)
        return topic

    return create


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """Create a topic with one partition."""
    return new_topic()
