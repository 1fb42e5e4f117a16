"""The SASL settings of a node's listeners.

    sasl.enabled.mechanisms, connections.max.reauth.ms,        for all listeners, or with the prefix
    sasl.server.max.receive.size,                              listener.name.<listener>.
    connection.failed.authentication.delay.ms
    listener.name.<listener>.<mechanism>.sasl.jaas.config      the users of PLAIN, and the own credentials
    listener.name.<listener>.<mechanism>.connections.max.reauth.ms
    sasl.mechanism.inter.broker.protocol                       the mechanism of connections to other nodes
    sasl.mechanism.controller.protocol
    listener.name.<listener>.oauthbearer.sasl.*                the tokens of OAUTHBEARER

Errors: ConfigError; its text never contains a JAAS config. Source: BrokerSecurityConfigs, JaasContext and
SaslChannelBuilder of Apache Kafka 4.3.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from typing import Final, TypeAlias

from tidelog.base.config_definition import HIDDEN_VALUE, ConfigError, ConfigValue
from tidelog.base.dataclass import dataclass
from tidelog.broker.config.listeners import SecurityProtocol
from tidelog.broker.config.mechanism_values import explicit_key, listener_value, mechanism_value
from tidelog.broker.config.oauthbearer_config import OAuthBearerConfig, oauthbearer_config
from tidelog.broker.config.settings import BROKER_CONFIGS, BrokerSettings
from tidelog.clients.config.sasl_credentials import SaslCredentials, credentials_of
from tidelog.clients.security.oauthbearer.login_settings import LoginSettings, login_settings
from tidelog.security.jaas import LOGIN_MODULES, JaasError, LoginModule, parse_jaas
from tidelog.security.oauthbearer.allowed_resources import AllowedResources
from tidelog.security.oauthbearer.messages import OAUTHBEARER
from tidelog.security.plain import PLAIN
from tidelog.security.scram.credentials import SCRAM_MECHANISMS

SASL_PROTOCOLS: Final = frozenset({SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL})

_JAAS: Final = "sasl.jaas.config"
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_REAUTHENTICATION: Final = "connections.max.reauth.ms"
_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
_CLASSES: Final = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
"""Keys that name classes of Java, which cannot be loaded."""
_OAUTHBEARER_CLASSES: Final = (
    "oauthbearer.sasl.login.callback.handler.class",
    "oauthbearer.sasl.server.callback.handler.class",
)
"""Keys whose classes select the tokens of OAUTHBEARER."""


PeerCredentials: TypeAlias = SaslCredentials | LoginSettings
"""The credentials of a node at other nodes: those of PLAIN and SCRAM, or those of OAUTHBEARER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListenerConfig:
    """The authentication of the clients of one listener.

    `plain_users`: passwords by user. `reauthentication_ms`: the lifetime of a session by mechanism; 0 means
    no limit. `oauthbearer`: None if that mechanism is not enabled.
    """

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str] = field(repr=False)
    oauthbearer: OAuthBearerConfig | None = None
    reauthentication_ms: Mapping[str, int]
    max_receive_bytes: int
    failure_delay_ms: int


def sasl_listener_config(config: BrokerSettings, listener: str) -> SaslListenerConfig:
    """Return the SASL settings of the listener with the name `listener`."""
    mechanisms = _mechanisms(config, listener)
    modules = {mechanism: login_module(config, listener, mechanism) for mechanism in mechanisms}
    plain, token_module = modules.get(PLAIN), modules.get(OAUTHBEARER)
    return SaslListenerConfig(
        mechanisms=mechanisms,
        plain_users={} if plain is None else plain.users,
        oauthbearer=oauthbearer_config(config, listener, {} if token_module is None else token_module.options)
        if OAUTHBEARER in mechanisms
        else None,
        reauthentication_ms={
            mechanism: _number(mechanism_value(config, listener, mechanism, _REAUTHENTICATION))
            for mechanism in mechanisms
        },
        max_receive_bytes=_number(listener_value(config, listener, "sasl.server.max.receive.size")),
        failure_delay_ms=config.connection_failed_authentication_delay_ms,
    )


def changed_sasl_config(
    config: BrokerSettings, listener: str, former: SaslListenerConfig
) -> SaslListenerConfig:
    """Return the SASL settings of an open listener after a change of dynamic configs.

    Errors: ConfigError, also if the settings of OAUTHBEARER would change.
    """
    new_config = sasl_listener_config(config, listener)
    if new_config.oauthbearer != former.oauthbearer:
        key = f"listener.name.{listener.lower()}.{_MECHANISMS}"
        allowed = f"{OAUTHBEARER} and its settings cannot change for a listener that is open"
        raise ConfigError(key, ",".join(new_config.mechanisms), allowed)
    return new_config


def login_module(config: BrokerSettings, listener: str, mechanism: str) -> LoginModule | None:
    """Return the login module of a mechanism on a listener; None if none is configured.

    PLAIN requires one, because it contains the users.
    """
    key = _jaas_key(listener, mechanism)
    text = config.explicit.get(key)
    if text is None:
        if mechanism == PLAIN:
            raise ConfigError(key, None, f"the listener {listener} has no users for PLAIN")
        return None
    try:
        return parse_jaas(text, mechanism)
    except JaasError as error:
        raise ConfigError(key, HIDDEN_VALUE, str(error)) from None


def peer_mechanism(config: BrokerSettings, listener: str) -> str | None:
    """Return the mechanism of this node's connections to a listener of other nodes; None without SASL."""
    if config.security_protocol(listener) not in SASL_PROTOCOLS:
        return None
    mechanism = config.values[_peer_mechanism_key(config, listener)]
    assert isinstance(mechanism, str)
    if mechanism not in LOGIN_MODULES:
        raise _unsupported(_peer_mechanism_key(config, listener), mechanism)
    return mechanism


def peer_credentials(config: BrokerSettings, listener: str) -> PeerCredentials | None:
    """Return the credentials of this node at a listener of other nodes; None without SASL.

    The credentials of PLAIN and SCRAM are the options `username` and `password` of the JAAS config of the
    mechanism between nodes; with OAUTHBEARER, tokens are obtained as by a client.
    """
    mechanism = peer_mechanism(config, listener)
    if mechanism is None:
        return None
    if mechanism == OAUTHBEARER:
        return _peer_login(config, listener)
    try:
        return credentials_of(mechanism, _peer_module(config, listener, mechanism))
    except JaasError as error:
        raise ConfigError(_jaas_key(listener, mechanism), HIDDEN_VALUE, str(error)) from None


def _peer_login(config: BrokerSettings, listener: str) -> LoginSettings:
    module = _peer_module(config, listener, OAUTHBEARER)
    prefix = f"listener.name.{listener.lower()}.{OAUTHBEARER.lower()}."

    def value_of(key: str) -> ConfigValue:
        if key not in BROKER_CONFIGS:
            # Kafka's brokers do not have sasl.oauthbearer.header.urlencode.
            return None
        # As in Kafka, a class needs the prefix of the listener and the mechanism.
        return (
            config.explicit.get(prefix + key)
            if key.endswith(_CLASSES)
            else mechanism_value(config, listener, OAUTHBEARER, key)
        )

    try:
        return login_settings(value_of, module.options, AllowedResources.of_environment(os.environ))
    except ConfigError as error:
        key = explicit_key(config, listener, OAUTHBEARER, error.key) or error.key
        raise ConfigError(key, error.value, error.allowed) from None


def _peer_module(config: BrokerSettings, listener: str, mechanism: str) -> LoginModule:
    module = login_module(config, listener, mechanism)
    if module is None:
        key = _jaas_key(listener, mechanism)
        raise ConfigError(key, None, "a node needs it to connect to the other nodes")
    return module


def _peer_mechanism_key(config: BrokerSettings, listener: str) -> str:
    return _CONTROLLER_MECHANISM if _is_of_controllers(config, listener) else _BROKER_MECHANISM


def _is_of_controllers(config: BrokerSettings, listener: str) -> bool:
    return listener in (name.upper() for name in config.controller_listener_names)


def _check_peers(config: BrokerSettings) -> None:
    """Raise ConfigError unless this node can connect to the other nodes, and they to this one."""
    names = [config.inter_broker_listener, config.metadata_listener] if config.is_broker else []
    names += [name.upper() for name in config.controller_listener_names]
    own_names = {listener.name for listener in config.own_listeners}
    for name in names:
        mechanism = peer_mechanism(config, name)
        if mechanism is None:
            continue
        peer_credentials(config, name)
        if name not in own_names:
            continue
        if mechanism in SCRAM_MECHANISMS and _has_several_voters(config, name):
            # Until there is a leader, no controller has the credentials of the others.
            allowed = "controllers that elect a leader cannot use credentials in the metadata; allowed are "
            raise ConfigError(_CONTROLLER_MECHANISM, mechanism, f"{allowed}PLAIN and OAUTHBEARER")
        listener = sasl_listener_config(config, name)
        if mechanism not in listener.mechanisms:
            allowed = f"the listener {name} has only: {', '.join(listener.mechanisms)}"
            raise ConfigError(_peer_mechanism_key(config, name), mechanism, allowed)


def _has_several_voters(config: BrokerSettings, listener: str) -> bool:
    return _is_of_controllers(config, listener) and len(config.controller_quorum_voters) > 1


def check_sasl(config: BrokerSettings) -> None:
    """Raise ConfigError for SASL settings of the own listeners that cannot be used."""
    listeners = [each for each in config.own_listeners if each.security_protocol in SASL_PROTOCOLS]
    for listener in listeners:
        sasl_listener_config(config, listener.name)
    _check_peers(config)
    if not listeners:
        return
    for key in config.explicit:
        if key.endswith(_CLASSES) and not key.endswith(_OAUTHBEARER_CLASSES):
            allowed = (
                f"classes of Java cannot be loaded; allowed are only keys with {_OAUTHBEARER_CLASSES[0]}"
            )
            raise ConfigError(key, config.explicit[key], f"{allowed} and {_OAUTHBEARER_CLASSES[1]}")
        if key.endswith(_JAAS) and not _has_mechanism(key):
            allowed = f"allowed is listener.name.<listener>.<mechanism>.{_JAAS}, with both in lower case"
            raise ConfigError(key, HIDDEN_VALUE, allowed)


def _mechanisms(config: BrokerSettings, listener: str) -> tuple[str, ...]:
    key = f"listener.name.{listener.lower()}.{_MECHANISMS}"
    if key not in config.explicit:
        key = _MECHANISMS
    mechanisms = listener_value(config, listener, _MECHANISMS)
    assert isinstance(mechanisms, tuple)
    for mechanism in mechanisms or ("",):
        if mechanism not in LOGIN_MODULES:
            raise _unsupported(key, ",".join(mechanisms))
    return tuple(dict.fromkeys(mechanisms))


def _unsupported(key: str, mechanisms: str) -> ConfigError:
    reason = "Kerberos is not supported; " if "GSSAPI" in mechanisms else ""
    return ConfigError(key, mechanisms, f"{reason}allowed are: {', '.join(LOGIN_MODULES)}")


def _jaas_key(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"


def _number(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value


def _has_mechanism(key: str) -> bool:
    head = key.removesuffix(f".{_JAAS}")
    return head.startswith("listener.name.") and head.endswith(
        tuple(f".{name.lower()}" for name in LOGIN_MODULES)
    )
