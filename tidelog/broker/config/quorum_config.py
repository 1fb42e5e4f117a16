"""Checks a node's roles and returns the settings of its metadata quorum.

| process.roles     | controller.quorum.*           | node                                          |
|-------------------|-------------------------------|-----------------------------------------------|
| both (or not set) | none                          | a quorum of its own, no controller listener   |
| both              | voters or bootstrap servers   | broker and controller of a larger quorum      |
| controller        | voters or bootstrap servers   | a controller alone                            |
| broker            | voters or bootstrap servers   | follows the metadata, never votes             |

Errors: ConfigError with the key, the value and the allowed values.
Source: KafkaConfig.validateValues and QuorumConfig of Apache Kafka 4.3; KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.settings import BrokerSettings
from tidelog.cluster.quorum.settings import QuorumSettings
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.protocol.ids import BrokerId

FETCH_WAIT_MS_MAX: Final = 500
"""How long a replica lets the leader delay the response to a Fetch, at most; Kafka's constant."""

_VOTERS: Final = "controller.quorum.voters"
_SERVERS: Final = "controller.quorum.bootstrap.servers"
_NAMES: Final = "controller.listener.names"
_OWN_LISTENER_NAME: Final = "CONTROLLER"


class VoterAddress(NamedTuple):
    """One entry of `controller.quorum.voters`."""

    id: BrokerId
    host: str
    port: int


def parse_voters(key: str, items: Iterable[str]) -> tuple[VoterAddress, ...]:
    """Parse `id@host:port` entries; every id must be unique."""
    voters: dict[BrokerId, VoterAddress] = {}
    for item in items:
        number, at, address = item.strip().partition("@")
        if not (at and number.isascii() and number.isdigit() and int(number) < 2**31):
            raise ConfigError(key, item, "allowed is id@host:port, where the id is a number of at least 0")
        voter = VoterAddress(int(number), *_parse_address(key, item, address))
        if voter.id in voters:
            raise ConfigError(key, item, f"voter {voter.id} is listed twice")
        voters[voter.id] = voter
    return tuple(voters.values())


def parse_servers(key: str, items: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Parse `host:port` entries; an IPv6 host is written in brackets."""
    return tuple(_parse_address(key, item, item.strip()) for item in items)


def _parse_address(key: str, item: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 2**16:
        raise ConfigError(
            key, item, "allowed is host:port with a port from 1 to 65535, an IPv6 host in brackets"
        )
    return host, int(port)


def check_roles(config: BrokerSettings) -> None:
    """Raise ConfigError for roles, voters and listeners that contradict each other."""
    roles = ",".join(config.process_roles)
    if not config.process_roles or len(set(config.process_roles)) != len(config.process_roles):
        raise ConfigError("process.roles", roles, "allowed is broker, controller, or both")
    voters = parse_voters(_VOTERS, config.controller_quorum_voters)
    servers = parse_servers(_SERVERS, config.controller_quorum_bootstrap_servers)
    if config.has_own_quorum:
        return
    if not voters and not servers:
        allowed = f"needs the controllers: {_VOTERS} or {_SERVERS}"
        raise ConfigError("process.roles", roles, allowed)
    if not config.controller_listener_names:
        raise ConfigError(_NAMES, "", "must name the listener of the controllers, such as CONTROLLER")
    if config.is_controller:
        _check_controller(config, voters)
    else:
        _check_broker(config, voters)


def _check_controller(config: BrokerSettings, voters: tuple[VoterAddress, ...]) -> None:
    listeners_text, names = ",".join(config.listeners), ",".join(config.controller_listener_names)
    if voters and config.node_id not in {voter.id for voter in voters}:
        allowed = f"must contain this node, {config.node_id}@host:port, because its role is controller"
        raise ConfigError(_VOTERS, ",".join(config.controller_quorum_voters), allowed)
    if not config.controller_listeners:
        raise ConfigError(
            "listeners", listeners_text, f"allowed is at least one of {_NAMES}, which are {names}"
        )
    if not config.is_broker and config.broker_listeners:
        allowed = (
            f"{config.broker_listeners[0].name} is not in {_NAMES}, {names}, and the node is not a broker"
        )
        raise ConfigError("listeners", listeners_text, allowed)


def _check_broker(config: BrokerSettings, voters: tuple[VoterAddress, ...]) -> None:
    if config.node_id in {voter.id for voter in voters}:
        allowed = f"is a voter of {_VOTERS}, therefore process.roles must contain controller"
        raise ConfigError("node.id", config.node_id, allowed)
    if config.controller_listeners:
        name = config.controller_listeners[0].name
        allowed = f"{name} is in {_NAMES}, and the node is not a controller"
        raise ConfigError("listeners", ",".join(config.listeners), allowed)


def static_voters(config: BrokerSettings) -> VoterSet | None:
    """Return the voters of `controller.quorum.voters`, or this node if it is its own quorum.

    None if the voters are stored in the metadata log, and bootstrap servers return their addresses.
    """
    if config.has_own_quorum:
        return VoterSet.of([Voter(key=ReplicaKey(config.node_id))])
    voters = parse_voters(_VOTERS, config.controller_quorum_voters)
    if not voters:
        return None
    name = controller_listener_name(config)
    return VoterSet.of(
        Voter(key=ReplicaKey(voter.id), endpoints=(Endpoint(name, voter.host, voter.port),))
        for voter in voters
    )


def bootstrap_servers(config: BrokerSettings) -> tuple[tuple[str, int], ...]:
    """Return the addresses through which a quorum with dynamic voters is found."""
    return parse_servers(_SERVERS, config.controller_quorum_bootstrap_servers)


def controller_listener_name(config: BrokerSettings) -> str:
    """Return the listener of the controllers: the first of `controller.listener.names`."""
    return (
        config.controller_listener_names[0].upper()
        if config.controller_listener_names
        else _OWN_LISTENER_NAME
    )


def quorum_settings(config: BrokerSettings) -> QuorumSettings:
    """Return the timeouts and size limits of the quorum."""
    return QuorumSettings(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_chunk_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        auto_join=config.controller_quorum_auto_join_enable,
        listener_name=controller_listener_name(config),
        # Otherwise the response to a fetch that waits would arrive when a short timeout has expired.
        fetch_max_wait_ms=min(FETCH_WAIT_MS_MAX, config.controller_quorum_fetch_timeout_ms // 4),
    )
