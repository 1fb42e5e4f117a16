"""Three nodes in this process for one test, and the clients that write to them and read from them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture
def three_nodes() -> Iterator[ThreeNodes]:
    """Run a new cluster of three nodes, and connect the clients to it."""
    with EmbeddedCluster(nodes=3) as cluster:
        nodes = ThreeNodes(cluster)
        wait_until(lambda: nodes.brokers() == {1, 2, 3})
        yield nodes
