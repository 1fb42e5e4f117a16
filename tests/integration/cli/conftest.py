"""One node with remote storage per module without a cluster of its own, a topic per test, a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.cli import TERMINAL_WIDTH
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run the node of this module."""
    with EmbeddedCluster(tiered=True) as running:
        yield running


@pytest.fixture
def client_factory(cluster: EmbeddedCluster) -> Iterator[ClientFactory]:
    """Return a factory of clients, which are closed after the test."""
    factory = ClientFactory(cluster.bootstrap_servers)
    yield factory
    factory.close()


@pytest.fixture
def tiered(cluster: EmbeddedCluster) -> TieredTopics:
    """Return the topics of the cluster, with the state of their remote logs."""
    return TieredTopics(cluster)


@pytest.fixture
def topic(tiered: TieredTopics) -> str:
    """Create a tiered topic with one partition."""
    name = f"tides-{uuid4().hex[:8]}"
    tiered.create(name)
    return name


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard output be a terminal of 80 columns."""
    monkeypatch.setattr("tidelog.cli.output._is_terminal", lambda: True)
    for key, value in (("COLUMNS", str(TERMINAL_WIDTH)), ("TERM", "dumb"), ("NO_COLOR", "1")):
        monkeypatch.setenv(key, value)
