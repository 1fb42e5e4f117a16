"""`tidelog config`: configurations of topics, brokers and groups, and the levels of a node's loggers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.admin import with_admin
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, key_values
from tidelog.cli.output import print_json, print_table
from tidelog.clients.admin.admin import (
    Admin,
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tidelog.protocol.errors import KafkaError

app = typer.Typer(
    help="Show and change configurations of topics and brokers, and log levels.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Kind(StrEnum):
    """Whose configuration is meant."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    BROKER_LOGGER = "broker-logger"


KindArgument = Annotated[Kind, typer.Argument(metavar="KIND", help="topic, broker, group or broker-logger.")]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The topic's name, the broker's or group's id; for broker-logger the broker's."
    ),
]


def _resource(kind: Kind, name: str) -> ConfigResource:
    return ConfigResource(ResourceType[kind.name], name)


@app.command()
def describe(
    kind: KindArgument,
    name: NameArgument,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Defaults, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is set, or every key; of a broker's loggers the level of each."""
    entries = with_admin(bootstrap, lambda admin: _entries(admin, _resource(kind, name)))
    shown = [entry for key, entry in sorted(entries.items()) if everything or not entry.is_default]
    if as_json:
        print_json(shown)
        return
    rows = [(entry.name, _value_text(entry), entry.source.name.lower()) for entry in shown]
    print_table(("key", "value", "source"), rows)


def _value_text(entry: ConfigEntry) -> str | None:
    return "(hidden)" if entry.is_sensitive else entry.value


async def _entries(admin: Admin, resource: ConfigResource) -> dict[str, ConfigEntry]:
    result = (await admin.describe_configs([resource]))[resource]
    if isinstance(result, KafkaError):
        raise result
    return result


@app.command("set")
def set_values(
    kind: KindArgument,
    name: NameArgument,
    settings: Annotated[list[str], typer.Argument(metavar="[KEY=VALUE]...", help="What to set.")] = [],  # noqa: B006
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    unset: Annotated[
        list[str], typer.Option("-d", "--delete", metavar="KEY", help="Go back to this key's default.")
    ] = [],  # noqa: B006
) -> None:
    """Change keys, leaving the others as they are.

    For broker-logger the keys are names of loggers, root among them, and the values TRACE, DEBUG, INFO, WARN,
    ERROR or FATAL, until the broker's next start.
    """
    changes = [ConfigChange(name=key, value=value) for key, value in key_values(settings, "setting").items()]
    changes += [ConfigChange(name=key, value=None, operation=AlterOperation.DELETE) for key in unset]
    if not changes:
        raise UsageFailure("nothing to change: give KEY=VALUE or --delete KEY")
    with_admin(bootstrap, lambda admin: _set(admin, _resource(kind, name), changes))
    print(f"altered {kind.value} {name}")


async def _set(admin: Admin, resource: ConfigResource, changes: list[ConfigChange]) -> None:
    error = (await admin.incremental_alter_configs({resource: changes}))[resource]
    if error is not None:
        raise error
