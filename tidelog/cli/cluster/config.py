"""`tidelog config`: configurations of topics, brokers, groups and client metrics, and log levels."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson, key_values
from tidelog.cli.output import print_json, print_result, print_table
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
    help="List, describe and change configurations of topics, brokers, groups and client metrics, and log "
    "levels.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Kind(StrEnum):
    """The kind of resource."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    BROKER_LOGGER = "broker-logger"
    CLIENT_METRICS = "client-metrics"


KindArgument = Annotated[
    Kind,
    typer.Argument(metavar="KIND", help="topic, broker, group, broker-logger or client-metrics."),
]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The name of a topic or of a client metrics subscription, the id of a broker (also for "
        "broker-logger) or of a group.",
    ),
]


def _resource(kind: Kind, name: str) -> ConfigResource:
    return ConfigResource(ResourceType[kind.name], name)


@app.command("list")
@connects
def list_resources(kind: KindArgument, cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show the names of the resources of a kind.

    Of groups and client metrics, only those with configurations are shown.
    """
    resource_type = ResourceType[kind.name]
    resources = with_admin(cluster, lambda admin: admin.list_config_resources([resource_type]))
    names = sorted(resource.name for resource in resources)
    if as_json:
        print_json(names)
    else:
        print_table(("name",), [(name,) for name in names])


@app.command()
@connects
def describe(
    kind: KindArgument,
    name: NameArgument,
    cluster: ClusterConnection,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Also show default values.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the configuration of a resource.

    For broker-logger, show the level of each logger.
    """
    entries = with_admin(cluster, lambda admin: _entries(admin, _resource(kind, name)))
    visible_entries = [entry for key, entry in sorted(entries.items()) if everything or not entry.is_default]
    if as_json:
        print_json(visible_entries)
        return
    rows = [(entry.name, _value_text(entry), entry.source.name.lower()) for entry in visible_entries]
    print_table(("key", "value", "source"), rows)


def _value_text(entry: ConfigEntry) -> str | None:
    return "(hidden)" if entry.is_sensitive else entry.value


async def _entries(admin: Admin, resource: ConfigResource) -> dict[str, ConfigEntry]:
    result = (await admin.describe_configs([resource]))[resource]
    if isinstance(result, KafkaError):
        raise result
    return result


@app.command("set")
@connects
def set_values(
    kind: KindArgument,
    name: NameArgument,
    cluster: ClusterConnection,
    settings: Annotated[list[str], typer.Argument(metavar="[KEY=VALUE]...", help="The values to set.")] = [],  # noqa: B006
    unset: Annotated[
        list[str], typer.Option("-d", "--delete", metavar="KEY", help="Reset this key to its default.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Change single keys; other keys do not change.

    For broker-logger, the keys are names of loggers, including root, and the values are TRACE, DEBUG, INFO,
    WARN, ERROR or FATAL. Log levels are reset when the broker restarts.
    """
    changes = [ConfigChange(name=key, value=value) for key, value in key_values(settings, "setting").items()]
    changes += [ConfigChange(name=key, value=None, operation=AlterOperation.DELETE) for key in unset]
    if not changes:
        raise UsageFailure("nothing to change: give KEY=VALUE or --delete KEY")
    with_admin(cluster, lambda admin: _set(admin, _resource(kind, name), changes))
    print_result(as_json, f"altered {kind.value} {name}", altered=name, kind=kind.value)


async def _set(admin: Admin, resource: ConfigResource, changes: list[ConfigChange]) -> None:
    error = (await admin.incremental_alter_configs({resource: changes}))[resource]
    if error is not None:
        raise error
