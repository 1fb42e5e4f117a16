"""The options of many commands, and the parsing of `key=value`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli.failures import UsageFailure

BOOTSTRAP_VARIABLE: Final = "TIDELOG_BOOTSTRAP"
COMMAND_CONFIG_VARIABLE: Final = "TIDELOG_COMMAND_CONFIG"
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
# A user waits at the terminal: an unreachable cluster should be reported soon.
CONNECT_TIMEOUT_MS: Final = 5_000

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT",
        show_default=DEFAULT_BOOTSTRAP,
        help="Bootstrap servers, separated by commas.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar=COMMAND_CONFIG_VARIABLE,
        metavar="FILE",
        help="A properties file with client options, as for Kafka's tools.",
    ),
]
ClientOptions = Annotated[
    list[str],
    typer.Option(
        "-X",
        "--client-option",
        metavar="KEY=VALUE",
        help="A client option, such as security.protocol=SSL; overrides the file.",
    ),
]
NamesOnly = Annotated[bool, typer.Option("--names", help="Print only the names, one per line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse `key=value` texts; raise UsageFailure with `option` and the wrong text."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageFailure(f"{option} {text!r} is not key=value")
        pairs[key.strip()] = value.strip()
    return pairs
