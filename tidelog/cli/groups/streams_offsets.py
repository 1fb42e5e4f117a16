"""`tidelog streams-group reset-offsets` and `delete-offsets`: offsets of a group without members."""

from __future__ import annotations

from dataclasses import asdict, field, replace
from typing import Annotated

import typer

from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import OPERATION_TIMEOUT_MS, fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure, complain
from tidelog.cli.groups.internal_topics import (
    DeleteAllInternalTopics,
    delete_internal_topics,
    selected_topics,
)
from tidelog.cli.groups.offsets import (
    Execute,
    Export,
    Group,
    PlannedOffset,
    RequestedReset,
    committed_offsets,
    complain_about_dry_run,
    partitions_to_reset,
    plan_offsets,
    print_plan,
    require_inactive,
    require_one_scope,
    set_offsets,
    with_reset_options,
)
from tidelog.cli.offset_reset import OffsetReset
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_lines
from tidelog.cli.topics.moves import partitions_of
from tidelog.clients.admin.admin import Admin, GroupDescription
from tidelog.clients.admin.streams_groups import STREAMS_GROUP_TYPE
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition

InputTopics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        "--input-topic",
        metavar="TOPIC[:N,N]",
        help="A topic that the group reads, or partitions of it; may be repeated.",
    ),
]
AllInputTopics = Annotated[
    bool,
    typer.Option(
        "--all-topics", "--all-input-topics", help="All source topics with committed offsets of the group."
    ),
]


@dataclass(frozen=True, slots=True)
class StreamsReset:
    """New offsets of a group and the internal topics to delete; results of both once they are executed."""

    plan: list[PlannedOffset]
    internal_topics: list[str]
    offset_results: dict[TopicPartition, KafkaError | None] = field(default_factory=dict)
    topic_results: dict[str, KafkaError | None] = field(default_factory=dict)


def register(app: typer.Typer) -> None:
    """Add the commands to `tidelog streams-group`."""
    app.command("reset-offsets")(connects(with_reset_options(reset_offsets)))
    app.command("delete-offsets")(connects(delete_offsets))


def reset_offsets(
    group: Group,
    cluster: ClusterConnection,
    requested: RequestedReset,
    topic: InputTopics = [],  # noqa: B006
    all_topics: AllInputTopics = False,
    delete_internal_topic: Annotated[
        list[str],
        typer.Option(
            "--delete-internal-topic",
            metavar="TOPIC",
            help="Also delete this repartition or changelog topic; may be repeated.",
        ),
    ] = [],  # noqa: B006
    delete_all_internal_topics: DeleteAllInternalTopics = False,
    execute: Execute = False,
    export: Export = False,
    as_json: AsJson = False,
) -> None:
    """Reset the committed offsets of a streams group without members; a dry run without --execute.

    Example: tidelog streams-group reset-offsets words --all-topics --to-earliest --execute
    """
    reset = requested.resolve(group)
    require_one_scope(reset, topic, all_topics=all_topics)

    async def work(admin: Admin) -> StreamsReset:
        description = await describe_streams_group(admin, group)
        require_inactive(description)
        internal = selected_topics(description, delete_internal_topic, all_topics=delete_all_internal_topics)
        planned = StreamsReset(await _plan(admin, description, topic, reset), internal)
        return await _execute(admin, group, planned) if execute else planned

    result = with_admin(cluster, work)
    written, deleted = succeeded(result.offset_results), succeeded(result.topic_results)
    _print_reset(result, list(deleted), export=export, as_json=as_json)
    if not execute:
        complain_about_dry_run(result.plan, group)
        if result.internal_topics:
            complain(f"dry run: --execute deletes the internal topics {', '.join(result.internal_topics)}")
    fail_unless_all(len(result.offset_results) + len(result.topic_results), len(written) + len(deleted))


async def _execute(admin: Admin, group: str, planned: StreamsReset) -> StreamsReset:
    """Set the offsets, and delete the internal topics if all offsets were set."""
    offset_results = await set_offsets(admin, group, planned.plan)
    if any(offset_results.values()):
        return replace(planned, offset_results=offset_results)
    topic_results = await delete_internal_topics(admin, planned.internal_topics)
    return replace(planned, offset_results=offset_results, topic_results=topic_results)


def _print_reset(result: StreamsReset, deleted: list[str], *, export: bool, as_json: bool) -> None:
    if as_json and not export:
        partitions = [asdict(entry) for entry in result.plan]
        print_json({"partitions": partitions, "deleted_internal_topics": deleted})
        return
    print_plan(result.plan, export=export, as_json=False)
    if not export:
        print_lines(f"deleted the internal topic {name}" for name in deleted)


async def _plan(
    admin: Admin, group: GroupDescription, topics: list[str], reset: OffsetReset
) -> list[PlannedOffset]:
    committed = await committed_offsets(admin, group.group_id)
    source_partitions = _source_partitions(group, committed)
    partitions = await partitions_to_reset(admin, group.group_id, topics, source_partitions, reset)
    _require_input_topics(group, {partition.topic for partition in partitions}, committed)
    return await plan_offsets(admin, partitions, committed, reset)


def _require_input_topics(
    group: GroupDescription, topics: set[str], committed: dict[TopicPartition, Offset]
) -> None:
    """Raise UsageFailure for a topic that the group does not read, and of which it has no offset."""
    allowed = {partition.topic for partition in committed}
    if group.topology is not None:
        allowed |= group.topology.input_topics
    for topic in sorted(topics - allowed):
        raise UsageFailure(
            f"topic {topic!r} is not part of the group {group.group_id!r}, which reads"
            f" {', '.join(sorted(allowed)) or 'no topics'}"
        )


def _source_partitions(
    group: GroupDescription, committed: dict[TopicPartition, Offset]
) -> list[TopicPartition]:
    """Return the partitions of source topics that have a committed offset."""
    sources = frozenset[str]() if group.topology is None else group.topology.source_topics
    return sorted(partition for partition in committed if partition.topic in sources)


def delete_offsets(
    group: Group,
    cluster: ClusterConnection,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC[:N,N]...]", help="Topics, or the given partitions of a topic."),
    ] = None,
    all_topics: AllInputTopics = False,
    as_json: AsJson = False,
) -> None:
    """Delete committed offsets of a streams group without members."""
    if bool(topics) + all_topics != 1:
        raise UsageFailure("give topics or --all-topics")

    async def work(admin: Admin) -> dict[TopicPartition, KafkaError | None]:
        description = await describe_streams_group(admin, group)
        if topics:
            partitions = sorted(await partitions_of(admin, topics))
        else:
            partitions = _source_partitions(description, await committed_offsets(admin, group))
            if not partitions:
                raise UsageFailure(f"--all-topics: group {group!r} has no committed offsets")
        return await admin.delete_group_offsets(group, partitions, timeout_ms=OPERATION_TIMEOUT_MS)

    results = with_admin(cluster, work)
    deleted = sorted(succeeded(results))
    if as_json:
        print_json([{"deleted": str(partition)} for partition in deleted])
    else:
        print_lines(f"deleted the offset of {partition}" for partition in deleted)
    fail_unless_all(len(results), len(deleted))


async def describe_streams_groups(admin: Admin, names: list[str]) -> dict[str, GroupDescription | KafkaError]:
    """Return each streams group; GROUP_ID_NOT_FOUND for a group of another type."""
    return {
        name: group
        if isinstance(group, KafkaError) or group.group_type == STREAMS_GROUP_TYPE
        else KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} is not a streams group.")
        for name, group in (await admin.describe_groups(names)).items()
    }


async def describe_streams_group(admin: Admin, group: str) -> GroupDescription:
    """Return one streams group. Errors: KafkaError."""
    description = (await describe_streams_groups(admin, [group]))[group]
    if isinstance(description, KafkaError):
        raise description
    return description
