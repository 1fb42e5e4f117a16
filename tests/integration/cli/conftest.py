"""One node with remote storage per module, where a module has no cluster of its own, and a topic per test."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.foreign_clients.opening import Opened
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """The node of this module."""
    with EmbeddedCluster(tiered=True) as running:
        yield running


@pytest.fixture
def opened(cluster: EmbeddedCluster) -> Iterator[Opened]:
    """Opens clients, and closes them after the test."""
    opener = Opened(cluster.bootstrap_servers)
    yield opener
    opener.close()


@pytest.fixture
def tiered(cluster: EmbeddedCluster) -> TieredTopics:
    """The topics of the cluster and what is remote of them."""
    return TieredTopics(cluster)


@pytest.fixture
def topic(tiered: TieredTopics) -> str:
    """A tiered topic with one partition."""
    name = f"tides-{uuid4().hex[:8]}"
    tiered.create(name)
    return name
