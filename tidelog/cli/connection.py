"""The options of commands that connect to a cluster: -b, --command-config and -X.

A command that is decorated with `connects` has a parameter of type `ClusterConnection` instead of these
options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from inspect import Parameter
from pathlib import Path
from typing import Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.cli.failures import UsageFailure, complain
from tidelog.cli.option_groups import with_options
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, ClientOptions, CommandConfig

_COMMAND_OPTIONS: Final = {"bootstrap_servers": "--bootstrap", "group_id": "--group"}
_OPTIONS: Final = (
    Parameter("bootstrap", Parameter.KEYWORD_ONLY, default=None, annotation=Bootstrap),
    Parameter("command_config", Parameter.KEYWORD_ONLY, default=None, annotation=CommandConfig),
    Parameter("client_option", Parameter.KEYWORD_ONLY, default=[], annotation=ClientOptions),
)


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """The servers of a cluster, and the options of its clients as texts, which the representation hides.

    `file_options` are those of the file `file`, with the names of `ClientConfig` and its subclasses.
    """

    bootstrap: str
    file: str = ""
    file_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    explicit_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def group_id(self) -> str | None:
        """The consumer group in the file."""
        return self.file_options.get("group_id")

    def client_options(
        self,
        config_type: type[Any],
        defaults: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the options for a client with `config_type`.

        In ascending order of precedence: `defaults` of the command, the file, `overrides` by other options of
        the command (None: not set), -X. Options in the file for other clients are ignored.
        Errors: UsageFailure; ConfigError for a -X option that this client does not have.
        """
        # Imported here: help does not need the clients.
        from tidelog.cli.client_options import option_types, typed_value
        from tidelog.clients.config.options import unknown_option

        types = option_types(config_type)
        options = dict(defaults or {})
        for name, text in self.file_options.items():
            if name in types and name not in _COMMAND_OPTIONS:
                options[name] = typed_value(name, text, types[name], self.file)
        options |= {name: value for name, value in (overrides or {}).items() if value is not None}
        for name, text in self.explicit_options.items():
            if name not in types:
                raise unknown_option(name.replace("_", "."), "[hidden]", types)
            options[name] = typed_value(name, text, types[name], "-X")
        return options

    def security_properties(self) -> dict[str, str]:
        """Return the options for TLS and SASL of the file and of -X, with Kafka's keys."""
        options = {**self.file_options, **self.explicit_options}
        return {
            name.replace("_", "."): text
            for name, text in options.items()
            if name.startswith(("security_", "sasl_", "ssl_"))
        }


def connects(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options -b, --command-config and -X instead of its parameter of this type."""
    return with_options(command, ClusterConnection, _OPTIONS, open_connection)


def open_connection(
    bootstrap: str | None, command_config: Path | None, client_option: Sequence[str]
) -> ClusterConnection:
    """Return the connection that these options describe; read the file.

    Without `bootstrap`, the servers are those of the file, or the default. Unknown keys of the file are
    ignored with a warning, as by Kafka's tools. Errors: UsageFailure, without values of options.
    """
    if command_config is None and not client_option:
        return ClusterConnection(bootstrap or DEFAULT_BOOTSTRAP)
    # Imported here: help does not need the clients.
    from tidelog.cli.client_options import normalized_options, replace_password

    explicit = normalized_options(_explicit_options(client_option))
    for name, option in _COMMAND_OPTIONS.items():
        if name in explicit:
            raise UsageFailure(f"-X {name.replace('_', '.')}: use {option} instead")
    from_file = {} if command_config is None else normalized_options(_read_file(command_config))
    replace_password(from_file, explicit)
    servers = bootstrap or from_file.get("bootstrap_servers") or DEFAULT_BOOTSTRAP
    return ClusterConnection(servers, str(command_config or ""), from_file, explicit)


def _explicit_options(texts: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            # The text is not shown: it can be a password.
            raise UsageFailure(f"-X needs KEY=VALUE; option {len(options) + 1} is not of this form")
        options[key.strip()] = value.strip()
    return options


def _read_file(path: Path) -> dict[str, str]:
    """Return the known keys of a properties file; print one warning with the unknown ones."""
    from tidelog.base.config_definition import ConfigError
    from tidelog.base.properties import MalformedEscape, parse_properties
    from tidelog.cli.client_options import is_known_option
    from tidelog.security.config_providers import PROVIDERS_KEY, resolve_variables

    try:
        texts = parse_properties(path.read_text(encoding="utf-8"), str(path))
        properties = resolve_variables(texts, os.environ)
    except OSError as error:
        raise UsageFailure(f"--command-config {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageFailure(f"--command-config {path}: the file is not text in UTF-8") from None
    except MalformedEscape as error:
        raise UsageFailure(
            f"--command-config {path}, line {error.line}: \\u needs four hexadecimal digits"
        ) from None
    except ConfigError as error:
        raise UsageFailure(f"--command-config {path}: {error}") from None
    options = {key: text for key, text in properties.items() if is_known_option(key)}
    unknown = [key for key in properties if key not in options and not key.startswith(PROVIDERS_KEY)]
    if unknown:
        complain(f"{path}: ignored keys that no client has: {', '.join(unknown)}")
    return options
