"""Counting connections against the limits."""

from __future__ import annotations

from broker.network.config import NetworkConfig
from broker.network.connection_quota import ConnectionQuota

NO_LIMIT = 10**9


def test_the_broker_limit_holds_over_all_listeners_and_addresses() -> None:
    quota = ConnectionQuota(NetworkConfig(max_connections=2))
    assert quota.admit("A", NO_LIMIT, "10.0.0.1") is None
    assert quota.admit("B", NO_LIMIT, "10.0.0.2") is None
    refused = quota.admit("A", NO_LIMIT, "10.0.0.3")
    assert refused is not None
    assert "max.connections" in refused
    quota.release("B", "10.0.0.2")
    assert quota.admit("A", NO_LIMIT, "10.0.0.3") is None


def test_a_listener_limit_leaves_other_listeners_alone() -> None:
    quota = ConnectionQuota(NetworkConfig())
    assert quota.admit("A", 1, "10.0.0.1") is None
    assert quota.admit("A", 1, "10.0.0.2") is not None
    assert quota.admit("B", 1, "10.0.0.2") is None


def test_an_address_limit_can_be_overridden_for_one_address() -> None:
    quota = ConnectionQuota(
        NetworkConfig(
            max_connections_per_ip=1, max_connections_per_ip_overrides={"10.0.0.9": 3, "10.0.0.8": 0}
        )
    )
    assert quota.admit("A", NO_LIMIT, "10.0.0.1") is None
    refused = quota.admit("A", NO_LIMIT, "10.0.0.1")
    assert refused is not None
    assert "10.0.0.1" in refused
    assert [quota.admit("A", NO_LIMIT, "10.0.0.9") is None for _ in range(4)] == [True, True, True, False]
    assert quota.admit("A", NO_LIMIT, "10.0.0.8") is not None


def test_a_refused_connection_is_not_counted() -> None:
    quota = ConnectionQuota(NetworkConfig(max_connections_per_ip=1))
    quota.admit("A", NO_LIMIT, "10.0.0.1")
    for _ in range(5):
        quota.admit("A", NO_LIMIT, "10.0.0.1")
    assert quota.count == 1
    quota.release("A", "10.0.0.1")
    assert quota.count == 0
    assert not quota._per_address
