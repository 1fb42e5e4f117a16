"""The SASL settings of a node's listeners.

    sasl.enabled.mechanisms, connections.max.reauth.ms,        for all listeners, or with the prefix
    sasl.server.max.receive.size,                              listener.name.<listener>.
    connection.failed.authentication.delay.ms
    listener.name.<listener>.<mechanism>.sasl.jaas.config      the users of PLAIN, and the own credentials
    listener.name.<listener>.<mechanism>.connections.max.reauth.ms
    sasl.mechanism.inter.broker.protocol                       with what a node authenticates to other nodes
    sasl.mechanism.controller.protocol

Errors: ConfigError; its text never contains a JAAS config. Source: BrokerSecurityConfigs, JaasContext and
SaslChannelBuilder of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.base.config_definition import HIDDEN_VALUE, ConfigError
from tidelog.broker.config.listeners import SecurityProtocol
from tidelog.broker.config.settings import BROKER_CONFIGS, BrokerSettings
from tidelog.clients.security.sasl_credentials import SaslCredentials, credentials_of
from tidelog.security.jaas import LOGIN_MODULES, JaasError, LoginModule, parse_jaas
from tidelog.security.plain import PLAIN

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListenerConfig:
    """How the clients of one listener authenticate.

    `plain_users`: passwords by user. `reauthentication_ms`: the lifetime of a session by mechanism; 0 means
    no limit.
    """

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str] = field(repr=False)
    reauthentication_ms: Mapping[str, int]
    max_receive_bytes: int
    failure_delay_ms: int


def sasl_listener_config(config: BrokerSettings, listener: str) -> SaslListenerConfig:
    """Return the SASL settings of the listener with the name `listener`."""
    mechanisms = _mechanisms(config, listener)
    modules = {mechanism: login_module(config, listener, mechanism) for mechanism in mechanisms}
    plain = modules.get(PLAIN)
    return SaslListenerConfig(
        mechanisms=mechanisms,
        plain_users={} if plain is None else plain.users,
        reauthentication_ms={
            mechanism: _number(
                config, listener, f"{mechanism.lower()}.{_REAUTHENTICATION}", _REAUTHENTICATION
            )
            for mechanism in mechanisms
        },
        max_receive_bytes=_number(
            config, listener, "sasl.server.max.receive.size", "sasl.server.max.receive.size"
        ),
        failure_delay_ms=config.connection_failed_authentication_delay_ms,
    )


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


def peer_credentials(config: BrokerSettings, listener: str) -> SaslCredentials | None:
    """Return this node's credentials for a listener of other nodes; None if it does not use SASL.

    They are the options `username` and `password` of the JAAS config of the mechanism between nodes.
    """
    if config.security_protocol(listener) not in SASL_PROTOCOLS:
        return None
    mechanism = config.values[_peer_mechanism_key(config, listener)]
    assert isinstance(mechanism, str)
    if mechanism not in LOGIN_MODULES:
        raise _unsupported(_peer_mechanism_key(config, listener), mechanism)
    module = login_module(config, listener, mechanism)
    key = _jaas_key(listener, mechanism)
    if module is None:
        raise ConfigError(key, None, "a node needs it to connect to the other nodes")
    try:
        return credentials_of(mechanism, module)
    except JaasError as error:
        raise ConfigError(key, HIDDEN_VALUE, str(error)) from None


def _peer_mechanism_key(config: BrokerSettings, listener: str) -> str:
    return _CONTROLLER_MECHANISM if _is_of_controllers(config, listener) else _BROKER_MECHANISM


def _is_of_controllers(config: BrokerSettings, listener: str) -> bool:
    return listener in (name.upper() for name in config.controller_listener_names)


def _check_peers(config: BrokerSettings) -> None:
    """Raise ConfigError unless this node can connect to the other nodes, and they to this one."""
    names = [config.inter_broker_listener, config.metadata_listener] if config.is_broker else []
    names += [name.upper() for name in config.controller_listener_names]
    own = {listener.name for listener in config.own_listeners}
    for name in names:
        credentials = peer_credentials(config, name)
        if credentials is None or name not in own:
            continue
        if credentials.mechanism != PLAIN and _has_several_voters(config, name):
            # Until there is a leader, no controller has the credentials of the others.
            allowed = (
                "controllers that elect a leader cannot use credentials in the metadata; allowed is PLAIN"
            )
            raise ConfigError(_CONTROLLER_MECHANISM, credentials.mechanism, allowed)
        listener = sasl_listener_config(config, name)
        if credentials.mechanism not in listener.mechanisms:
            allowed = f"the listener {name} has only: {', '.join(listener.mechanisms)}"
            raise ConfigError(_peer_mechanism_key(config, name), credentials.mechanism, allowed)


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
        if key.endswith(_CLASSES):
            raise ConfigError(key, config.explicit[key], "classes of Java cannot be loaded; remove the key")
        if key.endswith(_JAAS) and not _has_mechanism(key):
            allowed = f"allowed is listener.name.<listener>.<mechanism>.{_JAAS}, with both in lower case"
            raise ConfigError(key, HIDDEN_VALUE, allowed)


def _mechanisms(config: BrokerSettings, listener: str) -> tuple[str, ...]:
    key = f"listener.name.{listener.lower()}.{_MECHANISMS}"
    text = config.explicit.get(key)
    if text is None:
        key, found = _MECHANISMS, config.sasl_enabled_mechanisms
    else:
        parsed = BROKER_CONFIGS[_MECHANISMS].parse(text)
        assert isinstance(parsed, tuple)
        found = parsed
    for mechanism in found or ("",):
        if mechanism not in LOGIN_MODULES:
            raise _unsupported(key, ",".join(found))
    return tuple(dict.fromkeys(found))


def _unsupported(key: str, mechanisms: str) -> ConfigError:
    reason = "Kerberos is not supported; " if "GSSAPI" in mechanisms else ""
    return ConfigError(key, mechanisms, f"{reason}allowed are: {', '.join(LOGIN_MODULES)}")


def _jaas_key(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"


def _number(config: BrokerSettings, listener: str, key: str, base: str) -> int:
    """Return the value of `key` for the listener, by default that of `base`."""
    prefix = f"listener.name.{listener.lower()}."
    for candidate in (prefix + key, prefix + base, key):
        if candidate in config.explicit:
            value = BROKER_CONFIGS[base].parse(config.explicit[candidate])
            break
    else:
        value = config.values[base]
    assert isinstance(value, int)
    return value


def _has_mechanism(key: str) -> bool:
    head = key.removesuffix(f".{_JAAS}")
    return head.startswith("listener.name.") and head.endswith(
        tuple(f".{name.lower()}" for name in LOGIN_MODULES)
    )
