"""`tidelog topic`: creates, lists, describes, alters, trims and deletes topics."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.admin import OPERATION_TIMEOUT_MS, fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson, NamesOnly, key_values
from tidelog.cli.output import print_json, print_lines, print_result, print_table
from tidelog.cli.topics import log_dirs, moves, trim
from tidelog.cli.topics.description import DescribedTopic, describe_topics, print_topic, topic_document
from tidelog.clients.admin.admin import (
    Admin,
    AlterOperation,
    ConfigChange,
    ConfigResource,
    CreatedTopic,
    NewTopic,
    ResourceType,
    TopicListing,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import uuid_text

app = typer.Typer(
    help="Create, list, describe, alter, reassign and delete topics.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

moves.register(app)
log_dirs.register(app)
trim.register(app)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The names of the topics.")]
OptionalNames = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC...]", help="The names of the topics.")
]
Settings = Annotated[
    list[str],
    typer.Option(
        "-c", "--config", metavar="KEY=VALUE", help="A topic setting, such as retention.ms=3600000."
    ),
]


@app.command()
@connects
def create(
    names: Names,
    cluster: ClusterConnection,
    partitions: Annotated[
        int,
        typer.Option(
            "-p",
            "--partitions",
            metavar="N",
            help="The number of partitions; -1 means the cluster's default.",
        ),
    ] = -1,
    replicas: Annotated[
        int,
        typer.Option(
            "-r",
            "--replicas",
            "--replication-factor",
            metavar="N",
            help="The replication factor; -1 means the cluster's default.",
        ),
    ] = -1,
    config: Settings = [],  # noqa: B006
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Ignore topics that already exist.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check whether the topics can be created.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    configs = key_values(config, "--config")
    topics = [
        NewTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=configs)
        for name in names
    ]
    results = with_admin(
        cluster,
        lambda admin: admin.create_topics(topics, validate_only=dry_run, timeout_ms=OPERATION_TIMEOUT_MS),
    )
    topic_count = len(results)
    if if_not_exists:
        results = {name: result for name, result in results.items() if not _already_exists(result)}
        topic_count = len(results)
    created_topics = succeeded(results)
    if as_json:
        print_json(list(created_topics.values()))
    else:
        for topic in created_topics.values():
            print(_created_text(topic, dry_run))
    fail_unless_all(topic_count, len(created_topics))


def _already_exists(result: CreatedTopic | KafkaError) -> bool:
    return isinstance(result, KafkaError) and result.code is ErrorCode.TOPIC_ALREADY_EXISTS


def _created_text(topic: CreatedTopic, dry_run: bool) -> str:
    verb = "would create" if dry_run else "created"
    partitions = f"{topic.num_partitions} partition{'' if topic.num_partitions == 1 else 's'}"
    return f"{verb} {topic.name}: {partitions}, replication factor {topic.replication_factor}"


@app.command("list")
@connects
def list_topics(
    cluster: ClusterConnection,
    internal: Annotated[bool, typer.Option("-i", "--internal", help="Also list internal topics.")] = False,
    names_only: NamesOnly = False,
    as_json: AsJson = False,
) -> None:
    """List topics."""
    topics = with_admin(cluster, lambda admin: admin.list_topics(include_internal=internal))
    if as_json:
        print_json(list(topics.values()))
    elif names_only:
        print_lines(topics)
    else:
        print_table(("topic", "partitions", "id"), [_listing_row(topic) for topic in topics.values()])


def _listing_row(topic: TopicListing) -> tuple[object, ...]:
    return topic.name, topic.partition_count, uuid_text(topic.topic_id)


@app.command()
@connects
def describe(cluster: ClusterConnection, names: OptionalNames = None, as_json: AsJson = False) -> None:
    """Show topics with their partitions, offsets, sizes, lag and settings, and their tier.

    Without TOPIC, show all topics.
    """

    async def work(admin: Admin) -> tuple[int, list[DescribedTopic]]:
        requested = list(names or await admin.list_topics())
        return len(requested), await describe_topics(admin, requested)

    count, topics = with_admin(cluster, work)
    if as_json:
        print_json([topic_document(described) for described in topics])
    else:
        for index, described in enumerate(topics):
            if index:
                print()
            print_topic(described)
    fail_unless_all(count, len(topics))


@app.command()
@connects
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to alter.")],
    cluster: ClusterConnection,
    partitions: Annotated[
        int | None,
        typer.Option(
            "-p", "--partitions", metavar="N", min=1, help="Increase the number of partitions to N."
        ),
    ] = None,
    config: Settings = [],  # noqa: B006
    unset: Annotated[
        list[str],
        typer.Option("-d", "--delete-config", metavar="KEY", help="Reset this setting to its default."),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Change the settings of a topic, or add partitions."""
    changes = [ConfigChange(name=key, value=value) for key, value in key_values(config, "--config").items()]
    changes += [ConfigChange(name=key, value=None, operation=AlterOperation.DELETE) for key in unset]
    if not changes and partitions is None:
        raise UsageFailure("nothing to change: give --partitions, --config or --delete-config")
    with_admin(cluster, lambda admin: _alter(admin, name, partitions, changes))
    print_result(as_json, f"altered {name}", altered=name)


async def _alter(admin: Admin, name: str, partitions: int | None, changes: list[ConfigChange]) -> None:
    results: list[KafkaError | None] = []
    if changes:
        resource = ConfigResource(ResourceType.TOPIC, name)
        results += (await admin.incremental_alter_configs({resource: changes})).values()
    if partitions is not None:
        results += (
            await admin.create_partitions({name: partitions}, timeout_ms=OPERATION_TIMEOUT_MS)
        ).values()
    for error in results:
        if error is not None:
            raise error


@app.command()
@connects
def delete(
    names: Names,
    cluster: ClusterConnection,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records."""
    results = with_admin(cluster, lambda admin: admin.delete_topics(names, timeout_ms=OPERATION_TIMEOUT_MS))
    if if_exists:
        results = {name: result for name, result in results.items() if not _is_missing(result)}
    deleted_topics = succeeded(results)
    if as_json:
        print_json([{"deleted": name} for name in deleted_topics])
    else:
        print_lines(f"deleted {name}" for name in deleted_topics)
    fail_unless_all(len(results), len(deleted_topics))


def _is_missing(result: KafkaError | None) -> bool:
    return isinstance(result, KafkaError) and result.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
