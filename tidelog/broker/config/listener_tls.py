"""The TLS settings of a listener: the `ssl.*` keys, overridden by `listener.name.<name>.ssl.*`.

I/O: none. Errors: ConfigError with the key as the operator has written it.
Source: ChannelBuilders.channelBuilderConfigs of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.listeners import Listener, SecurityProtocol
from tidelog.broker.config.settings import BROKER_CONFIGS, BrokerSettings
from tidelog.security.tls.principal_mapping import PrincipalMapper
from tidelog.security.tls.settings import (
    TLS_KEYS,
    UNSUPPORTED_KEYS,
    KeyNames,
    TlsSettings,
    parse_tls_settings,
)

_MAPPING_RULES: Final = "ssl.principal.mapping.rules"
_CLIENT_AUTH: Final = "ssl.client.auth"
_BUILDER: Final = "principal.builder.class"


def uses_tls(listener: Listener) -> bool:
    """Return whether the connections of a listener are encrypted."""
    return listener.security_protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)


def listener_tls_settings(config: BrokerSettings, listener: Listener) -> TlsSettings:
    """Return the settings of one listener.

    As in Kafka, a listener with SASL_SSL requests certificates of clients only if ssl.client.auth is set with
    the prefix of this listener.
    """
    texts: dict[str, str | None] = dict(listener_tls_texts(config, listener))
    if listener.security_protocol is SecurityProtocol.SASL_SSL:
        texts[_CLIENT_AUTH] = config.explicit.get(_prefixed_key(listener, _CLIENT_AUTH))
    return parse_tls_settings(texts, _key_names(config, listener))


def listener_tls_texts(config: BrokerSettings, listener: Listener) -> dict[str, str]:
    """Return the texts of the `ssl.*` keys that are set for one listener, without its prefix."""
    texts = {key: _text(config, listener, key) for key in TLS_KEYS | UNSUPPORTED_KEYS}
    return {key: text for key, text in texts.items() if text is not None}


def listener_principal_mapper(config: BrokerSettings, listener: Listener) -> PrincipalMapper:
    """Return the rules for the principals of clients with certificates."""
    builder = _text(config, listener, _BUILDER)
    if builder not in (None, BROKER_CONFIGS[_BUILDER].default):
        allowed = f"allowed is {BROKER_CONFIGS[_BUILDER].default}"
        raise ConfigError(_effective_key(config, listener, _BUILDER), builder, allowed)
    rules = _text(config, listener, _MAPPING_RULES)
    return PrincipalMapper(
        "DEFAULT" if rules is None else rules, _effective_key(config, listener, _MAPPING_RULES)
    )


def _text(config: BrokerSettings, listener: Listener, key: str) -> str | None:
    """Return the text of a key for one listener; None if it is not set."""
    return config.explicit.get(_effective_key(config, listener, key))


def _key_names(config: BrokerSettings, listener: Listener) -> KeyNames:
    prefix = _prefixed_key(listener, "")
    keys = (key.removeprefix(prefix) for key in config.explicit if key.startswith(prefix))
    return KeyNames(prefix, frozenset(keys))


def _effective_key(config: BrokerSettings, listener: Listener, key: str) -> str:
    """Return the key that applies to a listener: with its prefix if that is set."""
    prefixed_key = _prefixed_key(listener, key)
    return prefixed_key if prefixed_key in config.explicit else key


def _prefixed_key(listener: Listener, key: str) -> str:
    return f"listener.name.{listener.name.lower()}.{key}"
