"""The options of many commands, and the parsing of `key=value`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any, Final

import typer

from tidelog.cli.failures import UsageFailure

BOOTSTRAP_VARIABLE: Final = "TIDELOG_BOOTSTRAP"
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
# A user waits at the terminal: an unreachable cluster should be reported soon.
CONNECT_TIMEOUT_MS: Final = 5_000

Bootstrap = Annotated[
    str,
    typer.Option(
        "-b",
        "--bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT",
        help="Bootstrap servers, separated by commas.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ClientOptions = Annotated[
    list[str],
    typer.Option("-X", "--client-option", metavar="KEY=VALUE", help="A client option, such as linger.ms=50."),
]


_COMMAND_OPTIONS: Final = {"bootstrap_servers": "--bootstrap", "group_id": "--group"}


def key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse `key=value` texts; raise UsageFailure with `option` and the wrong text."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageFailure(f"{option} {text!r} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def client_options(texts: Iterable[str], config_type: type[Any]) -> dict[str, Any]:
    """Parse `-X key=value` texts to options of `config_type`, with values of the options' types.

    Dots and underscores are equivalent. Errors: UsageFailure for options that the command has itself;
    ConfigError for unknown options, and for options whose values are not text.
    """
    defaults = {field.name: field for field in fields(config_type) if field.name != "ssl_context"}
    options: dict[str, Any] = {}
    for key, text in key_values(texts, "-X").items():
        name = key.replace(".", "_").replace("-", "_")
        if name in _COMMAND_OPTIONS:
            raise UsageFailure(f"-X {key}={text}: use {_COMMAND_OPTIONS[name]} instead")
        if name not in defaults:
            from tidelog.clients.config.options import (
                unknown_option,  # imported here: help does not need the clients
            )

            raise unknown_option(key, text, defaults)
        options[name] = _typed(key, text, str(defaults[name].type))
    return options


def _typed(key: str, text: str, annotation: str) -> Any:
    if annotation == "bool":
        if text.lower() not in ("true", "false"):
            raise UsageFailure(f"-X {key}={text}: expected true or false")
        return text.lower() == "true"
    if annotation in ("int", "int | None"):
        try:
            return int(text)
        except ValueError:
            raise UsageFailure(f"-X {key}={text}: expected an integer") from None
    if annotation == "Sequence[str]":
        return tuple(part.strip() for part in text.split(","))
    return text
