"""`tidelog streams-group`: list, describe and delete streams groups (KIP-1071), and reset their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import typer

from tidelog.cli.admin import fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.groups import streams_offsets
from tidelog.cli.groups.group import PartitionLag, group_document, partition_lags, print_group, print_lags
from tidelog.cli.groups.internal_topics import (
    DeleteAllInternalTopics,
    delete_internal_topics,
    internal_topics,
)
from tidelog.cli.groups.streams_offsets import describe_streams_groups
from tidelog.cli.groups.typed_groups import Groups, delete_groups, print_groups
from tidelog.cli.options import AsJson, NamesOnly
from tidelog.cli.output import numbers_text, print_json, print_lines, print_table
from tidelog.cli.partition_offsets import listed_offsets
from tidelog.clients.admin.admin import Admin, GroupDescription, GroupMember, OffsetSpec
from tidelog.clients.admin.streams_groups import STREAMS_GROUP_TYPE
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition

app = typer.Typer(
    help="List, describe and delete streams groups; reset their offsets.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
@connects
def list_groups(
    cluster: ClusterConnection,
    state: Annotated[
        list[str],
        typer.Option(
            "-s",
            "--state",
            metavar="STATE",
            help="Only groups in this state: Empty, NotReady, Assigning, Reconciling or Stable.",
        ),
    ] = [],  # noqa: B006
    names_only: NamesOnly = False,
    as_json: AsJson = False,
) -> None:
    """List streams groups."""
    print_groups(cluster, STREAMS_GROUP_TYPE, state, names_only=names_only, as_json=as_json)


@app.command()
@connects
def describe(names: Groups, cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show streams groups with their topology, their members and tasks, and their lag in each partition."""

    async def work(admin: Admin) -> list[tuple[GroupDescription, list[PartitionLag]]]:
        groups = succeeded(await describe_streams_groups(admin, names))
        return [(group, await _lags(admin, group)) for group in groups.values()]

    descriptions = with_admin(cluster, work)
    if as_json:
        print_json([_document(group, lags) for group, lags in descriptions])
    else:
        for index, (group, lags) in enumerate(descriptions):
            if index:
                print()
            print_group(group, lags)
            _print_topology(group)
            _print_members(group)
            print_lags(lags)
    fail_unless_all(len(set(names)), len(descriptions))


async def _lags(admin: Admin, group: GroupDescription) -> list[PartitionLag]:
    """Return the lags; without a committed offset, all records of the partition, as Kafka's tool does."""
    lags = await partition_lags(admin, group)
    uncommitted = [
        TopicPartition(each.topic, each.partition)
        for each in lags
        if each.committed_offset is None and each.log_end_offset is not None
    ]
    starts = await listed_offsets(admin, uncommitted, OffsetSpec.EARLIEST) if uncommitted else {}
    return [
        each
        if (start := starts.get(TopicPartition(each.topic, each.partition))) is None
        or each.log_end_offset is None
        else replace(each, lag=max(0, each.log_end_offset - start))
        for each in lags
    ]


def _print_topology(group: GroupDescription) -> None:
    if group.topology is None or not group.topology.subtopologies:
        return
    print()
    print_table(
        ("subtopology", "source topics", "repartition topics", "changelog topics"),
        [
            (
                each.subtopology_id,
                ",".join(each.source_topics),
                ",".join(each.repartition_source_topics),
                ",".join(each.changelog_topics),
            )
            for each in group.topology.subtopologies
        ],
    )


def _print_members(group: GroupDescription) -> None:
    if not group.members:
        return
    print()
    print_table(
        ("member", "epoch", "process", "client", "host"),
        [
            (
                member.member_id,
                member.member_epoch,
                None if member.streams is None else member.streams.process_id,
                member.client_id,
                member.client_host,
            )
            for member in group.members
        ],
    )
    tasks = [row for member in group.members for row in _task_rows(member)]
    if tasks:
        print()
        print_table(("member", "tasks", "subtopology", "partitions", "target"), tasks)


def _task_rows(member: GroupMember) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the partitions of each subtopology that a member has, and those of its target assignment."""
    if member.streams is None:
        return
    tasks, target = member.streams.tasks, member.streams.target_tasks
    for kind, current, wanted in (
        ("active", tasks.active, target.active),
        ("standby", tasks.standby, target.standby),
        ("warm-up", tasks.warmup, target.warmup),
    ):
        for subtopology in sorted(current.keys() | wanted.keys()):
            yield (
                member.member_id,
                kind,
                subtopology,
                numbers_text(current.get(subtopology, ())),
                numbers_text(wanted.get(subtopology, ())),
            )


def _document(group: GroupDescription, lags: list[PartitionLag]) -> dict[str, object]:
    """Return the group for JSON."""
    topology = group.topology
    return {
        **group_document(group, lags),
        "topology_epoch": None if topology is None else topology.epoch,
        "subtopologies": [] if topology is None else topology.subtopologies,
        "members": [_member_document(member) for member in group.members],
    }


def _member_document(member: GroupMember) -> dict[str, object]:
    streams = member.streams
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_epoch": member.member_epoch,
        "process_id": None if streams is None else streams.process_id,
        "topology_epoch": None if streams is None else streams.topology_epoch,
        "tasks": None if streams is None else streams.tasks,
        "target_tasks": None if streams is None else streams.target_tasks,
    }


@app.command()
@connects
def delete(
    names: Groups,
    cluster: ClusterConnection,
    delete_all_internal_topics: DeleteAllInternalTopics = False,
    as_json: AsJson = False,
) -> None:
    """Delete streams groups without members, and their offsets."""

    async def work(admin: Admin) -> tuple[dict[str, KafkaError | None], dict[str, KafkaError | None]]:
        described = await describe_streams_groups(admin, names)
        results = await delete_groups(admin, described)
        internal = [
            topic
            for name, group in described.items()
            if delete_all_internal_topics and results[name] is None and isinstance(group, GroupDescription)
            for topic in internal_topics(group)
        ]
        return results, await delete_internal_topics(admin, internal)

    group_results, topic_results = with_admin(cluster, work)
    groups, topics = succeeded(group_results), succeeded(topic_results)
    if as_json:
        print_json(
            [{"deleted": name} for name in groups] + [{"deleted_internal_topic": name} for name in topics]
        )
    else:
        print_lines(f"deleted {name}" for name in groups)
        print_lines(f"deleted the internal topic {name}" for name in topics)
    fail_unless_all(len(group_results) + len(topic_results), len(groups) + len(topics))


streams_offsets.register(app)
