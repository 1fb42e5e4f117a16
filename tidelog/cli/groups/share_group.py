"""`tidelog share-group`: list, describe and delete share groups (KIP-932), and reset their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import OPERATION_TIMEOUT_MS, fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure, complain
from tidelog.cli.groups.offsets import Execute, Group, Topics, require_inactive
from tidelog.cli.groups.typed_groups import Groups, delete_groups, print_groups
from tidelog.cli.offset_reset import parse_datetime
from tidelog.cli.options import AsJson, NamesOnly
from tidelog.cli.output import print_json, print_lines, print_table
from tidelog.cli.partition_offsets import listed_offsets
from tidelog.cli.topics.moves import partitions_of
from tidelog.clients.admin.admin import Admin, GroupDescription, OffsetSpec, SharePartitionOffset
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset, TopicPartition

SHARE = "share"

app = typer.Typer(
    help="List, describe and delete share groups; reset their offsets.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """From where a share group reads one partition; unknown values are None."""

    topic: str
    partition: int
    start_offset: Offset | None
    leader_epoch: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """The new start offset of one partition."""

    topic: str
    partition: int
    start_offset: Offset | None
    new_offset: Offset


@app.command("list")
@connects
def list_groups(
    cluster: ClusterConnection,
    state: Annotated[
        list[str],
        typer.Option("-s", "--state", metavar="STATE", help="Only groups in this state: Stable or Empty."),
    ] = [],  # noqa: B006
    names_only: NamesOnly = False,
    as_json: AsJson = False,
) -> None:
    """List share groups."""
    print_groups(cluster, SHARE, state, names_only=names_only, as_json=as_json)


@app.command()
@connects
def describe(names: Groups, cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show share groups with their members."""
    groups = succeeded(with_admin(cluster, lambda admin: admin.describe_share_groups(names)))
    if as_json:
        print_json([group_document(group) for group in groups.values()])
    else:
        for index, group in enumerate(groups.values()):
            if index:
                print()
            _print_group(group)
    fail_unless_all(len(names), len(groups))


def _print_group(group: GroupDescription) -> None:
    print(f"group        {group.group_id}")
    print(f"state        {group.state}")
    if group.epochs is not None:
        print(f"epochs       group {group.epochs.group_epoch}, assignment {group.epochs.assignment_epoch}")
    print(f"assignor     {group.protocol or '-'}")
    print(f"coordinator  {group.coordinator_id}")
    print(f"members      {len(group.members)}")
    if group.members:
        print()
        print_table(
            ("member", "epoch", "client", "host", "topics", "partitions"),
            [
                (
                    member.member_id,
                    member.member_epoch,
                    member.client_id,
                    member.client_host,
                    "" if member.subscription is None else ",".join(sorted(member.subscription.topics)),
                    0 if member.assignment is None else len(member.assignment.partitions),
                )
                for member in group.members
            ],
        )


def group_document(group: GroupDescription) -> dict[str, object]:
    """Return the group for JSON."""
    return {
        "group_id": group.group_id,
        "state": group.state,
        "group_epoch": None if group.epochs is None else group.epochs.group_epoch,
        "assignment_epoch": None if group.epochs is None else group.epochs.assignment_epoch,
        "assignor": group.protocol,
        "coordinator_id": group.coordinator_id,
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_epoch": member.member_epoch,
                "topics": [] if member.subscription is None else sorted(member.subscription.topics),
                "partitions": []
                if member.assignment is None
                else [str(partition) for partition in sorted(member.assignment.partitions)],
            }
            for member in group.members
        ],
    }


@app.command()
@connects
def offsets(name: Group, cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show the start offset and the lag of each partition of a share group."""
    described = with_admin(cluster, lambda admin: _offsets(admin, name))
    found = succeeded(described)
    rows = _rows(found)
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        print_table(
            ("topic", "partition", "start", "leader epoch", "lag"),
            [(row.topic, row.partition, row.start_offset, row.leader_epoch, row.lag) for row in rows],
        )
    fail_unless_all(len(described), len(found))


async def share_group_document(admin: Admin, name: str) -> dict[str, object]:
    """Return the group with its offsets, for JSON. Errors: KafkaError."""
    group = await describe_share_group(admin, name)
    return {**group_document(group), "offsets": _rows(succeeded(await _offsets(admin, name)))}


def _rows(found: Mapping[TopicPartition, SharePartitionOffset]) -> list[PartitionOffset]:
    return [
        PartitionOffset(
            partition.topic,
            partition.partition,
            _known(offset.start_offset),
            _known(offset.leader_epoch),
            _known(offset.lag),
        )
        for partition, offset in sorted(found.items())
    ]


async def _offsets(admin: Admin, group: str) -> dict[TopicPartition, SharePartitionOffset | KafkaError]:
    """Return the offsets of the group. Errors: KafkaError, also if the group does not exist."""
    await describe_share_group(admin, group)
    described = (await admin.list_share_group_offsets([group]))[group]
    if isinstance(described, KafkaError):
        raise described
    return described


def _known(number: int) -> int | None:
    return None if number < 0 else number


@app.command("reset-offsets")
@connects
def reset_offsets(
    name: Group,
    cluster: ClusterConnection,
    topic: Topics = [],  # noqa: B006
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics with offsets of the group.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", metavar="TIME", help="To a time in UTC: YYYY-MM-DDTHH:mm:SS[.sss]."),
    ] = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Reset the start offsets of a share group without members; a dry run without --execute.

    Example: tidelog share-group reset-offsets harbour --topic tides --to-earliest --execute
    """
    if to_earliest + to_latest + (to_datetime is not None) != 1:
        raise UsageFailure("give one of --to-earliest, --to-latest, --to-datetime")
    if bool(topic) + all_topics != 1:
        raise UsageFailure("give --topic or --all-topics")
    time_ms = None if to_datetime is None else parse_datetime(to_datetime)
    spec = OffsetSpec.EARLIEST if to_earliest else OffsetSpec.LATEST

    async def work(admin: Admin) -> tuple[list[PlannedOffset], dict[TopicPartition, KafkaError | None]]:
        require_inactive(await describe_share_group(admin, name))
        current = await _offsets(admin, name)
        partitions = sorted(await partitions_of(admin, topic)) if topic else sorted(current)
        if not partitions:
            raise UsageFailure(f"--all-topics: group {name!r} has no offsets")
        new = await listed_offsets(admin, partitions, spec)
        if time_ms is not None:
            at_times = await listed_offsets(admin, partitions, time_ms)
            new |= {partition: offset for partition, offset in at_times.items() if offset >= 0}
        plan = [
            PlannedOffset(*partition, _start_offset(current.get(partition)), new[partition])
            for partition in partitions
        ]
        if not execute:
            return plan, {}
        return plan, await admin.alter_share_group_offsets(name, new, timeout_ms=OPERATION_TIMEOUT_MS)

    plan, results = with_admin(cluster, work)
    written = succeeded(results)
    if as_json:
        print_json([asdict(entry) for entry in plan])
    else:
        print_table(
            ("topic", "partition", "start", "new offset"),
            [(entry.topic, entry.partition, entry.start_offset, entry.new_offset) for entry in plan],
        )
    if not execute:
        complain(f"dry run: --execute resets {count_text(len(plan), 'offset')} of group {name!r}")
    fail_unless_all(len(results), len(written))


def _start_offset(described: SharePartitionOffset | KafkaError | None) -> Offset | None:
    return _known(described.start_offset) if isinstance(described, SharePartitionOffset) else None


async def describe_share_group(admin: Admin, group: str) -> GroupDescription:
    """Return one share group. Errors: KafkaError."""
    description = (await admin.describe_share_groups([group]))[group]
    if isinstance(description, KafkaError):
        raise description
    return description


@app.command("delete-offsets")
@connects
def delete_offsets(
    name: Group,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics.")],
    cluster: ClusterConnection,
    as_json: AsJson = False,
) -> None:
    """Delete the offsets of topics of a share group without members."""
    deleted = succeeded(
        with_admin(
            cluster,
            lambda admin: admin.delete_share_group_offsets(name, topics, timeout_ms=OPERATION_TIMEOUT_MS),
        )
    )
    if as_json:
        print_json([{"deleted": topic} for topic in deleted])
    else:
        print_lines(f"deleted the offsets of {topic}" for topic in deleted)
    fail_unless_all(len(set(topics)), len(deleted))


@app.command()
@connects
def delete(names: Groups, cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Delete share groups without members, and their offsets."""

    async def work(admin: Admin) -> dict[str, KafkaError | None]:
        return await delete_groups(admin, await admin.describe_share_groups(names))

    deleted = succeeded(with_admin(cluster, work))
    if as_json:
        print_json([{"deleted": name} for name in deleted])
    else:
        print_lines(f"deleted {name}" for name in deleted)
    fail_unless_all(len(set(names)), len(deleted))
