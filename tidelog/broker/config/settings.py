"""The parsed settings of a node, and values that are derived from them.

`BrokerSettings` parses the settings. `BrokerConfig` in `node_config` also checks them. The checks read
settings and therefore import this module.

I/O: none. Errors: ConfigError for a value that cannot be parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from tidelog.base.config_definition import (
    ConfigDefinition,
    ConfigValue,
    Synonym,
    table,
    value_text,
)
from tidelog.base.sampled_rate import Windows
from tidelog.broker.config.keys.backup import BackupKeys
from tidelog.broker.config.keys.console import ConsoleKeys
from tidelog.broker.config.keys.coordinators import CoordinatorKeys
from tidelog.broker.config.keys.groups import GroupKeys
from tidelog.broker.config.keys.key import Key
from tidelog.broker.config.keys.log import LogKeys
from tidelog.broker.config.keys.quorum import QuorumKeys
from tidelog.broker.config.keys.remote import RemoteKeys
from tidelog.broker.config.keys.security import SecurityKeys
from tidelog.broker.config.keys.server import ServerKeys
from tidelog.broker.config.listeners import Listener, SecurityProtocol, parse_listeners, parse_protocol_map
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

BROKER: Final = "broker"
CONTROLLER: Final = "controller"

_THEMES: Final = (
    ServerKeys,
    LogKeys,
    QuorumKeys,
    GroupKeys,
    CoordinatorKeys,
    RemoteKeys,
    SecurityKeys,
    BackupKeys,
    ConsoleKeys,
)
_FORWARDED_PREFIXES: Final = ("listener.name.", "config.providers.")
LOOPBACK_ADDRESS: Final = "127.0.0.1"
_UNLIMITED_TEXT: Final = "-1"


def _definitions() -> Iterator[ConfigDefinition]:
    for theme in _THEMES:
        for attribute in vars(theme).values():
            if isinstance(attribute, Key):
                yield attribute.definition


BROKER_CONFIGS: Final[Mapping[str, ConfigDefinition]] = table(_definitions())
"""The definitions of all keys of server.properties of Kafka 4.3, and of Tidelog's own keys."""


class BrokerSettings(
    ServerKeys,
    LogKeys,
    QuorumKeys,
    GroupKeys,
    CoordinatorKeys,
    RemoteKeys,
    SecurityKeys,
    BackupKeys,
    ConsoleKeys,
):
    """One node's settings; every key of `tidelog.broker.config.keys` is a typed attribute.

    `values`: parsed values by key, defaults included. `explicit`: the texts that were set, by key, unknown
    keys included. `unknown_keys`: the keys that no part of Kafka 4.3 reads.
    """

    def __init__(self, explicit: Mapping[str, str]) -> None:
        """Parse the texts of `explicit`. Errors: ConfigError for a text that cannot be parsed."""
        self.explicit: Mapping[str, str] = dict(explicit)
        self.values: Mapping[str, ConfigValue] = _parse(explicit)
        self.unknown_keys: tuple[str, ...] = tuple(key for key in explicit if self._is_unknown(key))

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The log directories, as they are configured."""
        return self.log_dirs if self.log_dirs is not None else self.log_dir

    @property
    def cordoned_directories(self) -> frozenset[str]:
        """The log directories in which no new partitions are created."""
        return frozenset(self.log_directories if "*" in self.cordoned_log_dirs else self.cordoned_log_dirs)

    @property
    def metadata_log_directory(self) -> str:
        """The directory that contains the metadata log."""
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
        """The name of the listener to which other brokers connect."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    def listener_of_nodes(self, name: str) -> Listener:
        """Return a listener of other nodes with its security protocol, without an address."""
        return Listener(name, "", 0, self._protocols.get(name, SecurityProtocol.PLAINTEXT))

    @property
    def metadata_listener(self) -> str:
        """The name of the listener on which the metadata of remote segments is read and written."""
        return (self.remote_log_metadata_manager_listener_name or self.inter_broker_listener).upper()

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and brokers."""
        controllers = self._controller_names()
        return tuple(listener for listener in self.own_listeners if listener.name not in controllers)

    @property
    def quota_windows(self) -> Windows:
        """The windows in which the rates of clients and of new connections are measured."""
        return Windows(self.quota_window_num, self.quota_window_size_seconds * 1000)

    @property
    def controller_quota_windows(self) -> Windows:
        """The windows in which the rate of partition changes is measured."""
        return Windows(self.controller_quota_window_num, self.controller_quota_window_size_seconds * 1000)

    @property
    def metrics_address(self) -> str:
        """The host to serve metrics on, "" for all addresses; by default the loopback address."""
        return LOOPBACK_ADDRESS if self.metrics_host is None else self.metrics_host

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners for controllers."""
        controllers = self._controller_names()
        return tuple(listener for listener in self.own_listeners if listener.name in controllers)

    def advertised(self, host_name: str, ports: Mapping[str, int]) -> tuple[Listener, ...]:
        """Return the addresses that clients use, one for each listener.

        `host_name` replaces an empty host; `ports`, by listener name, replace port 0.
        """
        controllers = self._controller_names()
        has_own_addresses = self.advertised_listeners is not None
        listeners = self._explicit_advertised() if has_own_addresses else self.broker_listeners
        return tuple(
            _with_address(each, host_name, ports) for each in listeners if each.name not in controllers
        )

    def advertised_controllers(self, host_name: str, ports: Mapping[str, int]) -> tuple[Listener, ...]:
        """Return the addresses of this controller, in the order of controller.listener.names."""
        advertised = {listener.name: listener for listener in self._explicit_advertised()}
        own = {listener.name: listener for listener in self.controller_listeners}
        return tuple(
            _with_address(advertised.get(name, own[name]), host_name, ports)
            for name in (name.upper() for name in self.controller_listener_names)
            if name in own
        )

    def topic_defaults(self) -> dict[str, str]:
        """Return the broker's defaults of topic configs, by topic key."""
        defaults: dict[str, str] = {}
        for definition in TOPIC_CONFIGS.values():
            synonym = self.effective_synonym(definition)
            if synonym is not None and (text := self._synonym_text(synonym)) is not None:
                defaults[definition.key] = text
        return defaults

    def effective_synonym(self, definition: ConfigDefinition) -> Synonym | None:
        """Return the broker key that sets the default of a topic key: the first one with a value."""
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

    def _explicit_advertised(self) -> tuple[Listener, ...]:
        text = self.advertised_listeners
        if text is None:
            return ()
        return parse_listeners("advertised.listeners", text, self._protocols, is_bound=False)

    def _controller_names(self) -> frozenset[str]:
        return frozenset(name.upper() for name in self.controller_listener_names)

    @cached_property
    def own_listeners(self) -> tuple[Listener, ...]:
        """All listeners of the node."""
        return parse_listeners("listeners", self.listeners, self._protocols)

    def security_protocol(self, listener: str) -> SecurityProtocol:
        """Return the protocol of a listener by name, which may be one of another node."""
        return self._protocols.get(listener, SecurityProtocol.PLAINTEXT)

    @cached_property
    def _protocols(self) -> dict[str, SecurityProtocol]:
        key = "listener.security.protocol.map"
        protocols = parse_protocol_map(key, self.listener_security_protocol_map.split(","))
        if key not in self.explicit:
            for name in self._controller_names():
                protocols.setdefault(name, SecurityProtocol.PLAINTEXT)
        return protocols

    def _is_unknown(self, key: str) -> bool:
        prefixes = (
            *_FORWARDED_PREFIXES,
            self.remote_log_storage_manager_impl_prefix,
            self.remote_log_metadata_manager_impl_prefix,
        )
        return key not in BROKER_CONFIGS and not key.startswith(prefixes)


def _with_address(listener: Listener, host_name: str, ports: Mapping[str, int]) -> Listener:
    """Return `listener` with the host name and the port of the running node where it has none."""
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
