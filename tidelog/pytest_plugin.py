"""The pytest fixture `tidelog_broker`: a real broker for one test, gone afterwards.

    def test_orders(tidelog_broker):
        producer = confluent_kafka.Producer({"bootstrap.servers": tidelog_broker.bootstrap_servers})
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.embedded import EmbeddedCluster


@pytest.fixture
def tidelog_broker() -> Iterator[EmbeddedCluster]:
    """A broker on a free port of the loopback address, its data in a temporary folder."""
    from tidelog.embedded import EmbeddedCluster

    with EmbeddedCluster() as cluster:
        yield cluster
