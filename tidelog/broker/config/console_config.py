"""The settings of the console that a broker serves: console.listener and related keys.

The console is a process of its own, a client of one of the broker's listeners. Its users sign in with their
credentials on that listener.

I/O: none. Errors: ConfigError.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.dataclass import dataclass
from tidelog.broker.config.listener_tls import listener_tls_settings, listener_tls_texts, uses_tls
from tidelog.broker.config.listeners import Listener, SecurityProtocol, parse_listeners
from tidelog.broker.config.mechanism_values import mechanism_value
from tidelog.broker.config.sasl_config import SASL_PROTOCOLS, sasl_listener_config
from tidelog.broker.config.settings import BrokerSettings
from tidelog.security.oauthbearer.messages import OAUTHBEARER
from tidelog.security.plain import PLAIN
from tidelog.security.scram.credentials import SCRAM_MECHANISMS
from tidelog.security.tls.settings import ClientAuth

ADDRESS_KEY: Final = "console.listener"
KAFKA_LISTENER_KEY: Final = "console.kafka.listener.name"
_PROTOCOLS: Final = {"HTTP": SecurityProtocol.PLAINTEXT, "HTTPS": SecurityProtocol.SSL}
_LOOPBACK_HOSTS: Final = ("127.0.0.1", "::1", "localhost")
_MECHANISMS: Final = (*reversed(SCRAM_MECHANISMS), PLAIN, OAUTHBEARER)
_PRINCIPAL_CLAIM: Final = "sasl.oauthbearer.sub.claim.name"
_TRUST: Final = ("ssl.truststore.", "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """Where the console listens, and how it connects to the broker.

    `kafka_listener` is the listener that it uses, `client` the properties of a client of it. `tls` has the
    `ssl.*` keys of the console's own address; it is empty for HTTP.
    """

    host: str
    port: int
    kafka_listener: str
    client: dict[str, str] = field(repr=False)
    tls: dict[str, str] = field(repr=False)


def console_config(config: BrokerSettings) -> ConsoleConfig | None:
    """Return the settings of the console; None if there is none."""
    if not config.console_listener or not config.is_broker:
        return None
    address = _address(config.console_listener)
    listener = _kafka_listener(config)
    client = _client(config, listener)
    is_encrypted = uses_tls(address) or address.host in _LOOPBACK_HOSTS
    if listener.security_protocol in SASL_PROTOCOLS and not is_encrypted:
        allowed = f"credentials need HTTPS, or one of the hosts {', '.join(_LOOPBACK_HOSTS)}"
        raise ConfigError(ADDRESS_KEY, config.console_listener, allowed)
    tls: dict[str, str] = {}
    if uses_tls(address):
        tls = listener_tls_texts(config, address)
        # Users of the console have passwords or tokens, and no certificates.
        tls.pop("ssl.client.auth", None)
        if listener_tls_settings(config, address).key_store is None:
            key = "ssl.keystore.location"
            allowed = f"HTTPS needs a key store: {key} or listener.name.console.{key}"
            raise ConfigError(ADDRESS_KEY, config.console_listener, allowed)
    return ConsoleConfig(
        host=address.host, port=address.port, kafka_listener=listener.name, client=client, tls=tls
    )


def _address(text: str) -> Listener:
    scheme = text.partition(":")[0].upper()
    if scheme not in _PROTOCOLS:
        raise ConfigError(ADDRESS_KEY, text, "allowed is HTTP://host:port or HTTPS://host:port")
    (address,) = parse_listeners(ADDRESS_KEY, [text], _PROTOCOLS)
    return Listener("CONSOLE", address.host or "0.0.0.0", address.port, address.security_protocol)


def _kafka_listener(config: BrokerSettings) -> Listener:
    listeners = {listener.name: listener for listener in config.broker_listeners}
    name = config.console_kafka_listener_name
    if name is None:
        return next(iter(listeners.values()))
    if name.upper() not in listeners:
        raise ConfigError(KAFKA_LISTENER_KEY, name, f"allowed are {', '.join(listeners)}")
    return listeners[name.upper()]


def _client(config: BrokerSettings, listener: Listener) -> dict[str, str]:
    """Return the properties of a client of the listener, without credentials."""
    client = {"security.protocol": listener.security_protocol.name}
    if uses_tls(listener):
        if listener_tls_settings(config, listener).client_auth is ClientAuth.REQUIRED:
            allowed = "users of the console have no certificates; allowed is a listener that requires none"
            raise ConfigError(KAFKA_LISTENER_KEY, listener.name, allowed)
        texts = listener_tls_texts(config, listener)
        client |= {key: text for key, text in texts.items() if key.startswith(_TRUST)}
    if listener.security_protocol in SASL_PROTOCOLS:
        enabled = sasl_listener_config(config, listener.name).mechanisms
        mechanism = next((each for each in _MECHANISMS if each in enabled), None)
        if mechanism is None:
            allowed = f"allowed is a listener with one of the mechanisms {', '.join(_MECHANISMS)}"
            raise ConfigError(KAFKA_LISTENER_KEY, listener.name, allowed)
        client["sasl.mechanism"] = mechanism
        if mechanism == OAUTHBEARER:
            claim = mechanism_value(config, listener.name, OAUTHBEARER, _PRINCIPAL_CLAIM)
            client[_PRINCIPAL_CLAIM] = str(claim)
    return client
