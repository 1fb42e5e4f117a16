"""The roles and voters of a node, from its configuration."""

from __future__ import annotations

import pytest

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.quorum_config import (
    bootstrap_servers,
    controller_listener_name,
    parse_servers,
    parse_voters,
    quorum_settings,
    static_voters,
)
from tidelog.cluster.quorum.voter_set import Endpoint


def config(**values: str) -> BrokerConfig:
    return BrokerConfig({"node.id": "1", **{key.replace("_", "."): text for key, text in values.items()}})


COMBINED = {
    "controller_quorum_voters": "1@a:9093, 3@[::1]:9094",
    "controller_listener_names": "controllers",
    "listeners": "PLAINTEXT://h:1,CONTROLLERS://h:2",
}


def test_a_node_without_quorum_settings_is_a_quorum_of_one() -> None:
    alone = config()
    assert alone.has_own_quorum and alone.is_broker and alone.is_controller
    voters = static_voters(alone)
    assert voters is not None and voters.ids == (1,)


def test_static_voters_have_id_and_endpoint() -> None:
    combined = config(**COMBINED)
    voters = static_voters(combined)
    assert voters is not None and voters.ids == (1, 3)
    assert voters.by_id[3].endpoints == (Endpoint("CONTROLLERS", "::1", 9094),)
    assert controller_listener_name(combined) == "CONTROLLERS"


def test_dynamic_voters_are_found_through_bootstrap_servers() -> None:
    values = {key: text for key, text in COMBINED.items() if key != "controller_quorum_voters"}
    dynamic = config(**values, controller_quorum_bootstrap_servers="a:1,b:2")
    assert static_voters(dynamic) is None
    assert bootstrap_servers(dynamic) == (("a", 1), ("b", 2))


def test_a_controller_has_no_listener_for_clients() -> None:
    controller = config(**{**COMBINED, "listeners": "CONTROLLERS://h:2"}, process_roles="controller")
    assert controller.broker_listeners == ()
    assert [str(each) for each in controller.advertised_controllers("", {})] == ["CONTROLLERS://h:2"]


def test_a_broker_names_the_controller_listener_and_does_not_open_it() -> None:
    broker = config(
        process_roles="broker",
        controller_quorum_voters="2@b:9093",
        controller_listener_names="CONTROLLER",
        listeners="PLAINTEXT://h:1",
    )
    assert broker.controller_listeners == ()
    assert not broker.is_controller


def test_advertised_listeners_include_the_controllers() -> None:
    combined = config(**COMBINED, advertised_listeners="PLAINTEXT://x:1,CONTROLLERS://y:7")
    assert [str(each) for each in combined.advertised_controllers("", {})] == ["CONTROLLERS://y:7"]
    assert [str(each) for each in combined.advertised("", {})] == ["PLAINTEXT://x:1"]


def test_addresses_with_spaces_and_brackets_are_accepted() -> None:
    assert parse_voters("k", [" 7@host:1 "])[0] == (7, "host", 1)
    assert parse_servers("k", ["[fe80::1]:65535"]) == (("fe80::1", 65535),)


def test_quorum_timeouts_are_read_from_their_keys() -> None:
    settings = quorum_settings(config(controller_quorum_fetch_timeout_ms="77"))
    assert (settings.fetch_timeout_ms, settings.election_timeout_ms) == (77, 1000)


@pytest.mark.parametrize(("fetch_timeout_ms", "wait_ms"), [("2000", 500), ("60000", 500), ("500", 125)])
def test_a_fetch_that_waits_for_records_returns_long_before_the_fetch_timeout(
    fetch_timeout_ms: str, wait_ms: int
) -> None:
    """With a fetch timeout of 500 ms, followers of an idle leader started an election each second."""
    settings = quorum_settings(config(controller_quorum_fetch_timeout_ms=fetch_timeout_ms))
    assert settings.fetch_max_wait_ms == wait_ms
