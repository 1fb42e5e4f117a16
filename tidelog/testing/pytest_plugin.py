"""The pytest fixture `tidelog_broker`: a real broker for one test, gone afterwards.

A test that names it as an argument gets an `EmbeddedCluster` that runs; clients connect to its
`bootstrap_servers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture
def tidelog_broker() -> Iterator[EmbeddedCluster]:
    """A broker on a free port of the loopback address, its data in a temporary folder."""
    from tidelog.testing.embedded import EmbeddedCluster

    with EmbeddedCluster() as cluster:
        yield cluster
