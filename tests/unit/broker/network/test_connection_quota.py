"""Counting connections against the limits."""

from __future__ import annotations

import socket

import pytest

from tests.support.configs import network_config
from tidelog.base.config_definition import ConfigError
from tidelog.broker.network.config import UNLIMITED, NetworkConfig, parse_address_limits
from tidelog.broker.network.connection_quota import ConnectionQuota


def quota_of(config: NetworkConfig, **listener_limits: int) -> ConnectionQuota:
    quota = ConnectionQuota(config)
    quota.listener_limits.update(listener_limits)
    return quota


def test_the_broker_limit_applies_to_all_listeners() -> None:
    quota = quota_of(network_config(max_connections=2), A=UNLIMITED, B=UNLIMITED)
    assert quota.take_slot("A")
    assert quota.take_slot("B")
    assert not quota.take_slot("A")
    quota.free_slot("B")
    assert quota.take_slot("A")


def test_a_listener_limit_does_not_affect_other_listeners() -> None:
    quota = quota_of(network_config(), A=1, B=1)
    assert quota.take_slot("A")
    assert not quota.take_slot("A")
    assert quota.take_slot("B")


def test_the_inter_broker_listener_accepts_connections_above_the_broker_limit() -> None:
    quota = quota_of(network_config(max_connections=1, inter_broker_listener="B"), A=UNLIMITED, B=2)
    assert quota.take_slot("A")
    assert not quota.take_slot("A")
    assert [quota.take_slot("B") for _ in range(3)] == [True, True, False]
    assert quota.surplus == 2


def test_a_single_listener_is_subject_to_the_broker_limit() -> None:
    quota = quota_of(network_config(max_connections=1, inter_broker_listener="A"), A=UNLIMITED)
    assert quota.take_slot("A")
    assert not quota.take_slot("A")


def test_an_address_limit_can_be_overridden_for_one_address() -> None:
    quota = quota_of(
        network_config(
            max_connections_per_ip=1, max_connections_per_ip_overrides={"10.0.0.9": 3, "10.0.0.8": 0}
        )
    )
    assert quota.admit("10.0.0.1") is None
    refused = quota.admit("10.0.0.1")
    assert refused is not None
    assert "10.0.0.1" in refused
    assert [quota.admit("10.0.0.9") is None for _ in range(4)] == [True, True, True, False]
    assert quota.admit("10.0.0.8") is not None


def test_a_refused_connection_is_not_counted() -> None:
    quota = quota_of(network_config(max_connections_per_ip=1))
    quota.admit("10.0.0.1")
    for _ in range(5):
        assert quota.admit("10.0.0.1") is not None
    quota.release("10.0.0.1")
    assert not quota._per_address


def test_address_limits_apply_to_every_notation() -> None:
    assert parse_address_limits("[2001:DB8:0::1]:4, ::ffff:10.0.0.7:5,10.0.0.9:6") == {
        "2001:db8::1": 4,
        "10.0.0.7": 5,
        "10.0.0.9": 6,
    }


def test_host_limits_apply_to_the_hosts_addresses() -> None:
    assert parse_address_limits("localhost:3")["127.0.0.1"] == 3
    for host in ("no such host", "no..name"):
        with pytest.raises(ConfigError, match=rf"max\.connections\.per\.ip\.overrides={host}:3; allowed is"):
            parse_address_limits(f"{host}:3")


def test_a_host_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved_names: list[str] = []

    def resolve(host: str, *_: object, **options: object) -> list[tuple[object, ...]]:
        resolved_names.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for count in (3, 4):
        assert parse_address_limits(f"only-here.example:{count}") == {"10.0.0.7": count}
    assert resolved_names == ["only-here.example"]
