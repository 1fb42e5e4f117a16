"""The pytest fixtures `tidelog_broker` and `tidelog_secured_broker`: a broker for one test.

A test with such an argument gets a running `EmbeddedCluster`; clients connect to its `bootstrap_servers`,
with its `client_settings`. A project overrides the fixture `tidelog_security` to choose users and mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.local_cluster.security import Security
    from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture
def tidelog_broker() -> Iterator[EmbeddedCluster]:
    """Yield a cluster of one broker on a free port of the loopback address, with temporary data."""
    from tidelog.testing.embedded import EmbeddedCluster

    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def tidelog_security() -> Security:
    """Return the security of `tidelog_secured_broker`: SASL_SSL with SCRAM, and a super user `admin`."""
    from tidelog.local_cluster.security import Security

    return Security(users={"admin": "admin-secret", "alice": "alice-secret"}, super_users=["admin"])


@pytest.fixture
def tidelog_secured_broker(tidelog_security: Security) -> Iterator[EmbeddedCluster]:
    """Yield a secured cluster of one broker; clients use `client_settings(user)`."""
    from tidelog.testing.embedded import EmbeddedCluster

    with EmbeddedCluster(security=tidelog_security) as cluster:
        yield cluster
