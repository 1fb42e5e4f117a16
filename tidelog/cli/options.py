"""Options that many commands share, and the reading of `key=value`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any, Final

import typer

from tidelog.cli.failures import UsageFailure

BOOTSTRAP_VARIABLE: Final = "TIDELOG_BOOTSTRAP"
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
# Somebody waits at the terminal: a cluster that is away should be known soon.
CONNECT_TIMEOUT_MS: Final = 5_000

Bootstrap = Annotated[
    str,
    typer.Option(
        "-b",
        "--bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT",
        help="Servers, separated by commas.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ClientOptions = Annotated[
    list[str],
    typer.Option(
        "-X", "--client-option", metavar="KEY=VALUE", help="An option of the client, e.g. linger.ms=50."
    ),
]


_OF_THE_COMMAND: Final = {"bootstrap_servers": "--bootstrap", "group_id": "--group"}


def key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """`key=value` texts as a dict; UsageFailure names the option and the bad text."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageFailure(f"{option} {text!r} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def client_options(texts: Iterable[str], config_type: type[Any]) -> dict[str, Any]:
    """`-X key=value` texts as keyword options of `config_type`, with values of the options' types.

    Dots and underscores are the same. Errors: UsageFailure for options that the command has itself;
    ConfigError for unknown ones, and for those that no text can stand for.
    """
    defaults = {field.name: field for field in fields(config_type) if field.name != "ssl_context"}
    options: dict[str, Any] = {}
    for key, text in key_values(texts, "-X").items():
        name = key.replace(".", "_").replace("-", "_")
        if name in _OF_THE_COMMAND:
            raise UsageFailure(f"-X {key}={text}: give {_OF_THE_COMMAND[name]}")
        if name not in defaults:
            from tidelog.clients.config.options import (
                unknown_option,  # nothing of the clients is loaded for help
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
            raise UsageFailure(f"-X {key}={text}: expected a whole number") from None
    if annotation == "Sequence[str]":
        return tuple(part.strip() for part in text.split(","))
    return text
