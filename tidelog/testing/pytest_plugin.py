"""The pytest fixture `tidelog_broker`: a broker for one test.

A test with this argument gets a running `EmbeddedCluster`; clients connect to its `bootstrap_servers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture
def tidelog_broker() -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker on a free port of the loopback address, with temporary data."""
    from tidelog.testing.embedded import EmbeddedCluster

    with EmbeddedCluster() as cluster:
        yield cluster
