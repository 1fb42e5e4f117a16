"""Checks of dynamic broker configs, by the broker that receives the request.

They run before the change is sent to the controller, and check all configs that the resource would have.

Errors: KafkaError INVALID_REQUEST, as in Kafka for broker configs.
Source: KIP-226; DynamicBrokerConfig, DynamicThreadPool and SocketServer of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.base.config_definition import (
    HIDDEN_VALUE,
    ConfigDefinition,
    ConfigError,
    ConfigKind,
    split_list,
)
from tidelog.broker.config.config_synonyms import broker_definition
from tidelog.broker.config.dynamic_configs import BROKER_DEFINITIONS, effective_config, usable_configs
from tidelog.broker.config.dynamic_keys import (
    CLUSTER_WIDE_LISTENER_KEYS,
    DYNAMIC_KEYS,
    LISTENER_KEYS,
    LISTENER_SECURITY_KEYS,
    PEER_MECHANISM_KEY,
    POSITIVE_KEYS,
    SASL_KEYS,
    THREAD_COUNT_KEYS,
    is_of_one_broker,
    listener_and_base,
)
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.sasl_config import (
    SASL_PROTOCOLS,
    changed_sasl_config,
    check_sasl,
    sasl_listener_config,
)
from tidelog.broker.config.settings import BROKER_CONFIGS
from tidelog.cluster.controller.config_rules import check_local_retention
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.config.topic_configs import log_config_from

_NOT_DYNAMIC: Final = "Cannot update these configs dynamically"
_NEEDS_LISTENER: Final = (
    "These security configs can be dynamically updated only per-listener using the listener prefix"
)
_NEEDS_BROKER: Final = "Cannot update these configs at default cluster level, broker id must be specified"


def check_broker_change(
    config: BrokerConfig, image: MetadataImage, name: str, configs: Mapping[str, str]
) -> None:
    """Raise KafkaError if `configs` are not allowed as all dynamic configs of the broker `name`.

    A `name` of "" means all brokers. `config` has the settings with which this broker was started.
    """
    _check_keys(name, configs)
    current = effective_config(config, image)
    try:
        for key, text in configs.items():
            _check_value(config, key, text)
        new_config = changed_broker_config(config, image, name, configs)
        _check_listeners(config, configs)
        _check_listener_keys(config, current, new_config)
        _check_sasl(config, current, new_config)
        _check_thread_counts(current, new_config)
        if new_config.topic_defaults() != current.topic_defaults():
            check_local_retention(log_config_from(new_config.topic_defaults()))
    except (ConfigError, KafkaError) as error:
        raise _invalid_request(str(error)) from None


def _check_keys(name: str, configs: Iterable[str]) -> None:
    _reject(_NOT_DYNAMIC, [key for key in configs if key in BROKER_CONFIGS and key not in DYNAMIC_KEYS])
    _reject(_NEEDS_LISTENER, [key for key in configs if key in LISTENER_SECURITY_KEYS])
    if not name:
        _reject(_NEEDS_BROKER, [key for key in configs if is_of_one_broker(key)])


def _reject(reason: str, keys: list[str]) -> None:
    if keys:
        raise _invalid_request(f"{reason}: {', '.join(keys)}")


def _check_value(config: BrokerConfig, key: str, text: str) -> None:
    listener, base = listener_and_base(key)
    is_in_use = listener is None or listener in _own_listeners(config)
    definition = BROKER_DEFINITIONS.get(base)
    if definition is None or not (base in DYNAMIC_KEYS or is_in_use):
        return
    definition.parse(text)
    if is_in_use and base in POSITIVE_KEYS and int(text) < 1:
        raise ConfigError(key, text, "allowed is a number of at least 1")
    if definition.kind is ConfigKind.CLASS:
        _check_classes(config, definition, key, (text.strip(),))
    elif key == "metric.reporters":
        _check_classes(config, definition, key, split_list(text))


def _own_listeners(config: BrokerConfig) -> set[str]:
    return {listener.name.lower() for listener in config.broker_listeners}


def _check_classes(
    config: BrokerConfig, definition: ConfigDefinition, key: str, classes: Iterable[str]
) -> None:
    """Reject names of Java classes, which cannot be loaded, except for the default and the static value."""
    allowed_names = {*split_list(definition.default_text or ""), *split_list(config.explicit.get(key, ""))}
    for name in classes:
        if name not in allowed_names:
            raise ConfigError(key, name, "a class of this name could not be found")


def changed_broker_config(
    config: BrokerConfig, image: MetadataImage, name: str, configs: Mapping[str, str]
) -> BrokerConfig:
    """Return the settings that would apply after the change. Errors: ConfigError."""
    if name:
        return config.with_dynamic(usable_configs(image.cluster_configs(), of_one_broker=False), configs)
    own_configs = usable_configs(image.broker_configs(config.node_id), of_one_broker=True)
    return config.with_dynamic(configs, own_configs)


def _check_listeners(config: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Raise ConfigError if the listeners would change: they cannot be opened or closed dynamically."""
    text = configs.get("listeners")
    if text is not None and split_list(text) != config.listeners:
        allowed = f"allowed are the listeners of the start, {','.join(config.listeners)}"
        raise ConfigError("listeners", text, allowed)


def _check_listener_keys(config: BrokerConfig, current: BrokerConfig, new_config: BrokerConfig) -> None:
    """Raise ConfigError if other keys of an open listener than certificates, limits and SASL would change.

    As in Kafka, this is checked if a key that listeners depend on changes.
    """
    if not _different_keys(current, new_config) & LISTENER_KEYS:
        return
    own_listeners = _own_listeners(current)
    sasl_listeners = {name.lower() for name in _sasl_listeners(current)}
    for key in sorted(_different_keys(config, new_config)):
        listener, base = listener_and_base(key)
        if listener in sasl_listeners and base.endswith(SASL_KEYS):
            continue
        if listener in own_listeners and base not in LISTENER_SECURITY_KEYS | CLUSTER_WIDE_LISTENER_KEYS:
            raise ConfigError(
                key, _printable_value(key, new_config), "cannot change for a listener that is open"
            )
    protocols = {listener.name: listener.security_protocol for listener in new_config.broker_listeners}
    for each in current.broker_listeners:
        if protocols.get(each.name) != each.security_protocol:
            allowed = f"the protocol of listener {each.name} must stay {each.security_protocol.name}"
            text = new_config.listener_security_protocol_map
            raise ConfigError("listener.security.protocol.map", text, allowed)


def _sasl_listeners(config: BrokerConfig) -> list[str]:
    return [each.name for each in config.broker_listeners if each.security_protocol in SASL_PROTOCOLS]


def _check_sasl(config: BrokerConfig, current: BrokerConfig, new_config: BrokerConfig) -> None:
    """Raise ConfigError if clients or nodes could not authenticate as the changed configs require."""
    changed_keys, names = _different_keys(current, new_config), _sasl_listeners(config)
    sasl_listeners = {name.lower() for name in names}
    for key in sorted(changed_keys):
        listener, base = listener_and_base(key)
        if listener in sasl_listeners and _needs_restart(base):
            raise ConfigError(
                key, _printable_value(key, new_config), "cannot change for a listener that is open"
            )
    if any(key == PEER_MECHANISM_KEY or key.endswith(SASL_KEYS) for key in changed_keys):
        check_sasl(new_config)
        for name in names:
            changed_sasl_config(new_config, name, sasl_listener_config(config, name))


def _needs_restart(base: str) -> bool:
    """Return whether a key of a listener with SASL has an effect only at the start of a node."""
    name = base[max(0, base.find("sasl.")) :]
    return name.startswith("sasl.") and not name.startswith("sasl.kerberos.") and not name.endswith(SASL_KEYS)


def _printable_value(key: str, config: BrokerConfig) -> str | None:
    """Return the value of a key for an error message, hidden if it is a secret."""
    definition = broker_definition(key)
    return HIDDEN_VALUE if definition is None else definition.shown_text(config.explicit.get(key, ""))


def _different_keys(config: BrokerConfig, other: BrokerConfig) -> set[str]:
    keys = {*config.explicit, *other.explicit}
    return {key for key in keys if config.explicit.get(key) != other.explicit.get(key)}


def _check_thread_counts(current: BrokerConfig, new_config: BrokerConfig) -> None:
    """Raise ConfigError if a number of threads would become less than half or more than double."""
    listener_keys = (f"listener.name.{name}.num.network.threads" for name in _own_listeners(current))
    for key in (*THREAD_COUNT_KEYS, *(key for key in listener_keys if key in new_config.explicit)):
        old, new = _thread_count(current, key), _thread_count(new_config, key)
        lowest, highest = max(1, old // 2), max(1, old * 2)
        if new != old and not lowest <= new <= highest:
            allowed = f"allowed is {lowest} to {highest}, half to double the current value, {old}"
            raise ConfigError(key, new, allowed)


def _thread_count(config: BrokerConfig, key: str) -> int:
    """Return the number of threads of `key`. Errors: ConfigError if its text cannot be parsed."""
    base = listener_and_base(key).base
    text = config.explicit.get(key)
    count = config.values[base] if text is None else BROKER_DEFINITIONS[base].parse(text)
    assert isinstance(count, int)
    return count


def _invalid_request(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
