"""Options of clients as texts: names of Kafka and librdkafka, and values of the options' types.

Dots, underscores and hyphens in names are equivalent. The names of librdkafka, which kcat uses, are accepted
where they differ from Kafka's: `sasl.mechanisms`, `sasl.username`, `sasl.password`, `ssl.ca.location`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from tidelog.cli.failures import UsageFailure
from tidelog.clients.config.client_config import AdminConfig, ConsumerConfig, ProducerConfig
from tidelog.security.jaas import jaas_text
from tidelog.security.plain import PLAIN
from tidelog.security.scram.credentials import SCRAM_MECHANISMS

_NOT_TEXT: Final = ("oauth_token_provider", "ssl_context")
_RENAMED: Final = {"sasl_mechanisms": "sasl_mechanism", "ssl_ca_location": "ssl_truststore_location"}
_PASSWORD_MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)
_USER: Final = "sasl_username"
_PASSWORD: Final = "sasl_password"


def option_types(config_type: type[Any]) -> dict[str, str]:
    """Return the annotations of the options of `config_type` that can be written as texts."""
    return {field.name: str(field.type) for field in fields(config_type) if field.name not in _NOT_TEXT}


ALL_OPTIONS: Final[frozenset[str]] = frozenset().union(
    *map(option_types, (ProducerConfig, ConsumerConfig, AdminConfig))
)
"""The names of the options of all clients."""


def is_known_option(key: str) -> bool:
    """Return whether a client has the option `key`, with a name of Kafka or librdkafka."""
    name = _normalized(key)
    return name in ALL_OPTIONS or name in _RENAMED or name in (_USER, _PASSWORD)


def _normalized(key: str) -> str:
    return key.replace(".", "_").replace("-", "_")


def normalized_options(texts: Mapping[str, str]) -> dict[str, str]:
    """Return `texts` with the names of the fields of the config types."""
    options: dict[str, str] = {}
    for key, text in texts.items():
        name = _normalized(key)
        if name == "ssl_ca_location":
            options.setdefault("ssl_truststore_type", "PEM")
        options[_RENAMED.get(name, name)] = text
    if "security_protocol" in options:
        options["security_protocol"] = options["security_protocol"].upper()
    return options


def replace_password(from_file: dict[str, str], explicit: dict[str, str]) -> None:
    """Replace librdkafka's user and password by a JAAS config. Errors: UsageFailure."""
    options = {**from_file, **explicit}
    if _USER not in options and _PASSWORD not in options:
        return
    missing = [name for name in (_USER, _PASSWORD, "sasl_mechanism") if name not in options]
    if missing:
        raise UsageFailure(f"sasl.username and sasl.password also need {missing[0].replace('_', '.')}")
    mechanism = options["sasl_mechanism"]
    if mechanism not in _PASSWORD_MECHANISMS:
        allowed = ", ".join(_PASSWORD_MECHANISMS)
        raise UsageFailure(f"sasl.mechanism={mechanism} has no sasl.username; allowed are {allowed}")
    target = explicit if {_USER, _PASSWORD} & explicit.keys() else from_file
    target["sasl_jaas_config"] = jaas_text(
        mechanism, {"username": options[_USER], "password": options[_PASSWORD]}
    )
    for each in (from_file, explicit):
        each.pop(_USER, None)
        each.pop(_PASSWORD, None)


def typed_value(name: str, text: str, annotation: str, source: str) -> Any:
    """Return the value of an option with this annotation; `source` is where it was given.

    Errors: UsageFailure; only options that are not secret have types other than text.
    """
    setting = f"{source} {name.replace('_', '.')}={text}"
    if annotation == "bool":
        if text.lower() not in ("true", "false"):
            raise UsageFailure(f"{setting}: expected true or false")
        return text.lower() == "true"
    if annotation in ("int", "int | None"):
        try:
            return int(text)
        except ValueError:
            raise UsageFailure(f"{setting}: expected an integer") from None
    if annotation == "float":
        try:
            return float(text)
        except ValueError:
            raise UsageFailure(f"{setting}: expected a number") from None
    if annotation == "Sequence[str]":
        return tuple(part.strip() for part in text.split(","))
    return text
