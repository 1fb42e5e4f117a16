"""Config texts of an object store turned into typed values by its table of keys."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.base.config_definition import ConfigDefinition, ConfigError, ConfigValue


def parse_values(
    configs: Mapping[str, ConfigDefinition], values: Mapping[str, str]
) -> Mapping[str, ConfigValue]:
    """Every key of the table with its value or default.

    Errors: ConfigError, one line with key, value and what is allowed, for a key that is not in the table, a
    value that is not allowed and a required key that is not given. Values of passwords are not shown.
    """
    for key in values:
        if key not in configs:
            raise ConfigError(
                key, "[not shown]", f"there is no such key here; known are {', '.join(configs)}"
            )
    parsed: dict[str, ConfigValue] = {}
    for key, definition in configs.items():
        text = values.get(key)
        if text is not None:
            parsed[key] = definition.parse(text)
        elif definition.required:
            raise ConfigError(key, None, f"it must be given, {definition.allowed}")
        else:
            parsed[key] = definition.default
    return parsed
