"""A node's settings: Kafka's `server.properties`, `KAFKA_…` environment variables and overrides.

`BrokerConfig.load` takes the texts and answers typed attributes named as the keys with
underscores. What is given later counts more: defaults, file, environment, overrides.

I/O: none, apart from one warning per unknown key. Errors: ConfigError, one line with key,
value and what is allowed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from tidelog.base.config_definition import (
    ConfigDefinition,
    ConfigError,
    ConfigValue,
    Synonym,
    table,
    value_text,
)
from tidelog.base.properties import parse_properties
from tidelog.broker.config.checks import check_config
from tidelog.broker.config.dynamic_keys import DYNAMIC_KEYS
from tidelog.broker.config.environment import configs_from_environment
from tidelog.broker.config.keys.coordinators import CoordinatorKeys
from tidelog.broker.config.keys.groups import GroupKeys
from tidelog.broker.config.keys.key import Key
from tidelog.broker.config.keys.log import LogKeys
from tidelog.broker.config.keys.quorum import QuorumKeys
from tidelog.broker.config.keys.remote import RemoteKeys
from tidelog.broker.config.keys.security import SecurityKeys
from tidelog.broker.config.keys.server import ServerKeys
from tidelog.broker.config.listeners import Listener, SecurityProtocol, parse_listeners, parse_protocol_map
from tidelog.broker.config.quorum_config import BROKER, CONTROLLER, check_roles
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

logger = logging.getLogger(__name__)

_THEMES: Final = (ServerKeys, LogKeys, QuorumKeys, GroupKeys, CoordinatorKeys, RemoteKeys, SecurityKeys)
_PASSED_ON: Final = ("listener.name.", "config.providers.")
_UNLIMITED_TEXT: Final = "-1"


def _definitions() -> Iterator[ConfigDefinition]:
    for theme in _THEMES:
        for attribute in vars(theme).values():
            if isinstance(attribute, Key):
                yield attribute.definition


BROKER_CONFIGS: Final[Mapping[str, ConfigDefinition]] = table(_definitions())
"""Every key of server.properties that Kafka 4.3 knows, and Tidelog's own."""


class BrokerConfig(ServerKeys, LogKeys, QuorumKeys, GroupKeys, CoordinatorKeys, RemoteKeys, SecurityKeys):
    """One node's settings, checked; every key of `tidelog.broker.config.keys` is a typed attribute.

    `values`: parsed values by key, defaults included. `explicit`: the texts that were given, by
    key, unknown keys included. `unknown_keys`: those that no part of Kafka 4.3 reads.
    """

    def __init__(self, explicit: Mapping[str, str]) -> None:
        """Parse and check the given texts; ConfigError when one is not allowed."""
        self.explicit: Mapping[str, str] = dict(explicit)
        self.values: Mapping[str, ConfigValue] = _parse(explicit)
        self.unknown_keys: tuple[str, ...] = tuple(key for key in explicit if self._is_unknown(key))
        check_config(self)
        self._protocols = self._protocols_by_listener()
        self._own_listeners = parse_listeners("listeners", self.listeners, self._protocols)
        check_roles(self)
        self._check_listeners()

    @classmethod
    def load(
        cls,
        properties: str = "",
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> BrokerConfig:
        """Settings from a file's text, environment variables and overrides; warns of unknown keys."""
        explicit = {
            **parse_properties(properties),
            **configs_from_environment(environment or {}),
            **(overrides or {}),
        }
        config = cls(explicit)
        for key in config.unknown_keys:
            logger.warning("unknown config key, ignored: %s", key)
        return config

    def with_dynamic(self, cluster_default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """These settings under the dynamic ones: this broker's `own` over those of all brokers.

        Keys that cannot change while a broker runs are left out. Errors: ConfigError.
        """
        dynamic = {
            key: text
            for key, text in {**cluster_default, **own}.items()
            if key in DYNAMIC_KEYS or key not in BROKER_CONFIGS
        }
        return BrokerConfig({**self.explicit, **dynamic}) if dynamic else self

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The directories of the logs, as given."""
        return self.log_dirs if self.log_dirs is not None else self.log_dir

    @property
    def cordoned_directories(self) -> frozenset[str]:
        """The log directories that take no new partitions."""
        return frozenset(self.log_directories if "*" in self.cordoned_log_dirs else self.cordoned_log_dirs)

    @property
    def metadata_log_directory(self) -> str:
        """The directory under which the metadata log stands."""
        return self.metadata_log_dir or self.log_directories[0]

    @property
    def is_broker(self) -> bool:
        """Whether the node serves clients."""
        return BROKER in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether the node takes part in the metadata quorum."""
        return CONTROLLER in self.process_roles

    @property
    def has_own_quorum(self) -> bool:
        """Whether the node is the only one of its cluster, with a metadata quorum of its own."""
        is_both = self.is_broker and self.is_controller
        return is_both and not (self.controller_quorum_voters or self.controller_quorum_bootstrap_servers)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener on which brokers reach each other."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def metadata_listener(self) -> str:
        """The name of the listener on which the metadata of remote segments is read and written."""
        return (self.remote_log_metadata_manager_listener_name or self.inter_broker_listener).upper()

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """Where clients and brokers are listened to."""
        controllers = self._controller_names()
        return tuple(listener for listener in self._own_listeners if listener.name not in controllers)

    @property
    def metrics_address(self) -> str:
        """The host to serve metrics on, "" for all addresses; by default that of the first listener."""
        if self.metrics_host is not None:
            return self.metrics_host
        return (*self.broker_listeners, *self.controller_listeners)[0].host

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """Where controllers are listened to."""
        controllers = self._controller_names()
        return tuple(listener for listener in self._own_listeners if listener.name in controllers)

    def advertised(self, host_name: str, ports: Mapping[str, int]) -> tuple[Listener, ...]:
        """What clients are told to connect to, per listener.

        `host_name` stands in for an empty host; `ports`, by listener name, for port 0.
        """
        controllers = self._controller_names()
        found = self.broker_listeners if self.advertised_listeners is None else self._given_advertised()
        return tuple(
            _filled_in(listener, host_name, ports) for listener in found if listener.name not in controllers
        )

    def advertised_controllers(self, host_name: str, ports: Mapping[str, int]) -> tuple[Listener, ...]:
        """Where other nodes are told to reach this controller, in the order of controller.listener.names."""
        given = {listener.name: listener for listener in self._given_advertised()}
        own = {listener.name: listener for listener in self.controller_listeners}
        return tuple(
            _filled_in(given.get(name, own[name]), host_name, ports)
            for name in (name.upper() for name in self.controller_listener_names)
            if name in own
        )

    def topic_defaults(self) -> dict[str, str]:
        """The values of topic configs that a topic has when it does not set its own, by topic key."""
        defaults: dict[str, str] = {}
        for definition in TOPIC_CONFIGS.values():
            synonym = self.effective_synonym(definition)
            if synonym is not None and (text := self._synonym_text(synonym)) is not None:
                defaults[definition.key] = text
        return defaults

    def effective_synonym(self, definition: ConfigDefinition) -> Synonym | None:
        """The broker key that gives a topic key its default now: the first that is set."""
        for synonym in definition.synonyms:
            if self.values[synonym.key] is not None:
                return synonym
        return None

    def _synonym_text(self, synonym: Synonym) -> str | None:
        value = self.values[synonym.key]
        if synonym.factor == 1:
            return value_text(value)
        assert isinstance(value, int)
        return str(value * synonym.factor) if value >= 0 else _UNLIMITED_TEXT

    def _given_advertised(self) -> tuple[Listener, ...]:
        given = self.advertised_listeners
        if given is None:
            return ()
        return parse_listeners("advertised.listeners", given, self._protocols, is_bound=False)

    def _controller_names(self) -> frozenset[str]:
        return frozenset(name.upper() for name in self.controller_listener_names)

    def _protocols_by_listener(self) -> dict[str, SecurityProtocol]:
        key = "listener.security.protocol.map"
        protocols = parse_protocol_map(key, self.listener_security_protocol_map.split(","))
        if key not in self.explicit:
            for name in self._controller_names():
                protocols.setdefault(name, SecurityProtocol.PLAINTEXT)
        return protocols

    def _check_listeners(self) -> None:
        listed = ",".join(self.listeners)
        if self.is_broker and not self.broker_listeners:
            raise ConfigError("listeners", listed, "allowed is at least one that is not a controller's")
        for listener in self._own_listeners:
            if listener.security_protocol is not SecurityProtocol.PLAINTEXT:
                allowed = "allowed is PLAINTEXT, the only security protocol that is served so far"
                raise ConfigError("listeners", listener, f"{listener.security_protocol.name}: {allowed}")
        names = [listener.name for listener in self.advertised("", {})]
        for listener in self.advertised("localhost", {}):
            if listener.host in ("0.0.0.0", "::"):
                allowed = "clients cannot connect to this address, name one in advertised.listeners"
                raise ConfigError("advertised.listeners", listener, allowed)
            if listener.name not in {own.name for own in self.broker_listeners}:
                allowed = f"allowed is a name that is among listeners, which are {listed}"
                raise ConfigError("advertised.listeners", listener, allowed)
        if self.is_broker and self.inter_broker_listener not in names:
            allowed = f"allowed is one of the advertised listeners: {', '.join(names)}"
            raise ConfigError("inter.broker.listener.name", self.inter_broker_listener, allowed)
        if self.is_broker and self.remote_log_storage_system_enable and self.metadata_listener not in names:
            allowed = f"allowed is one of the advertised listeners: {', '.join(names)}"
            raise ConfigError("remote.log.metadata.manager.listener.name", self.metadata_listener, allowed)

    def _is_unknown(self, key: str) -> bool:
        prefixes = (
            *_PASSED_ON,
            self.remote_log_storage_manager_impl_prefix,
            self.remote_log_metadata_manager_impl_prefix,
        )
        return key not in BROKER_CONFIGS and not key.startswith(prefixes)


def _filled_in(listener: Listener, host_name: str, ports: Mapping[str, int]) -> Listener:
    """`listener` with what only the running node knows."""
    host, port = listener.host or host_name, listener.port or ports.get(listener.name, 0)
    return Listener(listener.name, host, port, listener.security_protocol)


def _parse(explicit: Mapping[str, str]) -> dict[str, ConfigValue]:
    texts = dict(explicit)
    if "node.id" not in texts and "broker.id" in texts:
        texts["node.id"] = texts["broker.id"]
    values = {
        key: definition.parse(texts[key]) if key in texts else definition.default
        for key, definition in BROKER_CONFIGS.items()
    }
    if "broker.id" not in texts:
        values["broker.id"] = values["node.id"]
    return values
