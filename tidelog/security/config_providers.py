"""Replaces variables in configurations by values of config providers: files, directories, environment.

    ${<provider>:<path>:<key>}    the value of a key in a file, or the contents of a file in a directory
    ${<provider>:<key>}           an environment variable

`config.providers` names the providers, `config.providers.<name>.class` selects one of Kafka's three classes.
A variable whose provider or key does not exist stays as it is. Callers resolve only texts that the operator
of a node or the user of a command has written: never values of requests, or options of an application.

I/O: reads files. Errors: ConfigError, without contents of files.
Source: KIP-297, KIP-421, KIP-887, KIP-993; AbstractConfig and ConfigTransformer of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from tidelog.base.config_definition import ConfigError, split_list
from tidelog.base.properties import parse_properties
from tidelog.security.credential_files import UnsuitableFileError, read_regular_file

logger = logging.getLogger(__name__)

PROVIDERS_KEY: Final = "config.providers"
_CLASSES: Final = "org.apache.kafka.common.config.provider."
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_FILE_BYTES_MAX: Final = 16 * 1024 * 1024

Provider: TypeAlias = "Callable[[str, str], str | None]"
"""Returns the value of a path and a key; None if there is none. Errors: ConfigError."""


def resolve_variables(texts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return `texts` with the values of variables; log a warning for each variable without a value."""
    providers = _providers(texts, environment)
    if not providers:
        return dict(texts)
    return {key: _resolved_text(key, text, providers) for key, text in texts.items()}


def _resolved_text(key: str, text: str, providers: Mapping[str, Provider]) -> str:
    def value(match: re.Match[str]) -> str:
        name, path, variable_key = match[1], match[2] or "", match[3]
        if name not in providers:
            return match[0]
        try:
            found = providers[name](path, variable_key)
        except ConfigError as error:
            raise ConfigError(key, match[0], error.allowed) from None
        if found is None:
            logger.warning("Config %s contains %s, which has no value; using this text", key, match[0])
            return match[0]
        return found

    return _VARIABLE.sub(value, text)


def _providers(texts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Provider]:
    providers: dict[str, Provider] = {}
    for name in split_list(texts.get(PROVIDERS_KEY, "")):
        prefix = f"{PROVIDERS_KEY}.{name}."
        class_key, parameters = f"{prefix}class", f"{prefix}param."
        class_name = texts.get(class_key)
        if class_name is None:
            continue
        paths_key, pattern_key = f"{parameters}allowed.paths", f"{parameters}allowlist.pattern"
        match class_name.strip().removeprefix(_CLASSES):
            case "FileConfigProvider":
                providers[name] = partial(_file_value, _allowed_paths(paths_key, texts), {})
            case "DirectoryConfigProvider":
                providers[name] = partial(_directory_value, _allowed_paths(paths_key, texts))
            case "EnvVarConfigProvider":
                pattern = _pattern(pattern_key, texts.get(pattern_key, ".*"))
                providers[name] = partial(_environment_value, pattern, environment)
            case _:
                names = ("FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider")
                allowed = ", ".join(_CLASSES + each for each in names)
                raise ConfigError(class_key, class_name, f"allowed is one of: {allowed}")
    return providers


def _file_value(
    allowed_paths: tuple[str, ...], cache: dict[str, dict[str, str]], path: str, key: str
) -> str | None:
    """Return the value of a key in a properties file; each file is read once."""
    if not path or not _is_allowed(allowed_paths, path):
        return None
    if path not in cache:
        cache[path] = parse_properties(_read(path), path)
    return cache[path].get(key)


def _directory_value(allowed_paths: tuple[str, ...], path: str, key: str) -> str | None:
    """Return the contents of the file `key` of a directory."""
    # The key is the name of a file: it cannot lead to another directory.
    if not path or not key or os.sep in key or not _is_allowed(allowed_paths, path):
        return None
    file = os.path.join(path, key)
    return _read(file) if os.path.isfile(file) else None


def _environment_value(
    pattern: re.Pattern[str], environment: Mapping[str, str], path: str, key: str
) -> str | None:
    """Return the environment variable `key`, if the pattern allows its name."""
    if path:
        raise ConfigError(key, path, "a variable of the environment has no path")
    return environment.get(key) if pattern.fullmatch(key) else None


def _read(path: str) -> str:
    try:
        return read_regular_file(path, _FILE_BYTES_MAX).decode()
    except UnsuitableFileError as error:
        raise ConfigError("", path, f"cannot read the file: {error}") from None
    except OSError as error:
        raise ConfigError("", path, f"cannot read the file: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError("", path, "cannot read the file: it is not text in UTF-8") from None


def _allowed_paths(key: str, texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of `allowed.paths`; the root directory if it is not set."""
    text = texts.get(key, "")
    paths = tuple(os.path.normpath(path) for path in text.split(",")) if text else (os.sep,)
    for path in paths:
        if not os.path.isabs(path) or not os.path.exists(path):
            raise ConfigError(key, path, "allowed are absolute paths that exist, separated by commas")
    return paths


def _is_allowed(allowed_paths: tuple[str, ...], path: str) -> bool:
    if allowed_paths == (os.sep,):
        return True
    normal = os.path.normpath(path)
    return any(normal == each or normal.startswith(each.rstrip(os.sep) + os.sep) for each in allowed_paths)


def _pattern(key: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigError(key, text, f"allowed is a regular expression: {error}") from None
