"""`tidelog group`: list, describe and delete consumer and streams groups, and reset their offsets."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.groups import offsets
from tidelog.cli.groups.typed_groups import Groups
from tidelog.cli.options import AsJson, NamesOnly
from tidelog.cli.output import print_json, print_lines, print_table
from tidelog.clients.admin.admin import Admin, GroupDescription, GroupMember, ListedOffset, OffsetSpec
from tidelog.clients.groups.assignors import Assignment
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.protocol.ids import Offset, TopicPartition

app = typer.Typer(
    help="List, describe and delete consumer and streams groups; reset their offsets.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

offsets.register(app)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """A group's position in one partition; unknown values are None."""

    topic: str
    partition: int
    committed_offset: Offset | None
    log_end_offset: Offset | None
    lag: int | None
    member_id: str | None
    client_id: str | None
    client_host: str | None


@app.command("list")
@connects
def list_groups(
    cluster: ClusterConnection,
    state: Annotated[
        list[str],
        typer.Option(
            "-s", "--state", metavar="STATE", help="Only groups in this state, such as Stable or Empty."
        ),
    ] = [],  # noqa: B006
    group_type: Annotated[
        list[str],
        typer.Option(
            "-t",
            "--type",
            metavar="TYPE",
            help="Only groups of this type: classic, consumer, share or streams.",
        ),
    ] = [],  # noqa: B006
    names_only: NamesOnly = False,
    as_json: AsJson = False,
) -> None:
    """List groups."""
    groups_by_name = with_admin(cluster, lambda admin: admin.list_groups(states=state, types=group_type))
    groups = [groups_by_name[name] for name in sorted(groups_by_name)]
    if as_json:
        print_json(groups)
        return
    if names_only:
        print_lines(group.group_id for group in groups)
        return
    rows = [(group.group_id, group.state, group.group_type, group.protocol_type) for group in groups]
    print_table(("group", "state", "type", "protocol"), rows)


@app.command()
@connects
def describe(names: Groups, cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show groups with their members and their lag in each partition."""
    descriptions = with_admin(cluster, lambda admin: describe_groups(admin, names))
    if as_json:
        print_json([group_document(group, lags) for group, lags in descriptions])
    else:
        for index, (group, lags) in enumerate(descriptions):
            if index:
                print()
            print_group(group, lags)
            if group.epochs is not None and group.members:
                print()
                _print_members(group)
            print_lags(lags)
    fail_unless_all(len(names), len(descriptions))


async def describe_groups(
    admin: Admin, names: list[str]
) -> list[tuple[GroupDescription, list[PartitionLag]]]:
    """Return the groups that exist with their lag; print an error for each of the others."""
    groups = succeeded(await admin.describe_groups(names))
    return [(group, await partition_lags(admin, group)) for group in groups.values()]


async def partition_lags(admin: Admin, group: GroupDescription) -> list[PartitionLag]:
    """Return the lag of a group in each partition that has a committed offset or is assigned to a member."""
    committed = await admin.list_group_offsets(group.group_id)
    owners = {
        partition: member
        for member in group.members
        if member.assignment is not None
        for partition in member.assignment.partitions
    }
    partitions = sorted(committed.keys() | owners.keys())
    ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)) if partitions else {}
    lags = []
    for partition in partitions:
        end = ends.get(partition)
        end_offset = end.offset if isinstance(end, ListedOffset) else None
        lags.append(_lag(partition, committed.get(partition), end_offset, owners.get(partition)))
    return lags


def _lag(
    partition: TopicPartition,
    committed_offset: OffsetAndMetadata | None,
    end_offset: Offset | None,
    owner: GroupMember | None,
) -> PartitionLag:
    lag = None
    if committed_offset is not None and end_offset is not None:
        lag = max(0, end_offset - committed_offset.offset)
    return PartitionLag(
        topic=partition.topic,
        partition=partition.partition,
        committed_offset=None if committed_offset is None else committed_offset.offset,
        log_end_offset=end_offset,
        lag=lag,
        member_id=None if owner is None else owner.member_id,
        client_id=None if owner is None else owner.client_id,
        client_host=None if owner is None else owner.client_host,
    )


def print_group(group: GroupDescription, lags: list[PartitionLag]) -> None:
    """Print the state of a group."""
    print(f"group        {group.group_id}")
    print(f"state        {group.state}")
    print(f"type         {group.group_type}")
    if group.epochs is not None:
        print(f"epochs       group {group.epochs.group_epoch}, assignment {group.epochs.assignment_epoch}")
    print(f"assignor     {group.protocol or '-'}")
    print(f"coordinator  {group.coordinator_id}")
    print(f"members      {len(group.members)}")
    print(f"total lag    {sum(entry.lag or 0 for entry in lags)}")


def _print_members(group: GroupDescription) -> None:
    print_table(
        ("member", "epoch", "protocol", "client", "partitions", "target"),
        [
            (
                member.member_id,
                member.member_epoch,
                _protocol(group, member),
                member.client_id,
                _partition_count(member.assignment),
                _partition_count(member.target_assignment),
            )
            for member in group.members
        ],
    )


def print_lags(lags: list[PartitionLag]) -> None:
    """Print the offsets and the lag of each partition as a table after an empty line."""
    if lags:
        print()
        print_table(
            ("topic", "partition", "committed", "end", "lag", "member", "client", "host"),
            [
                (
                    entry.topic,
                    entry.partition,
                    entry.committed_offset,
                    entry.log_end_offset,
                    entry.lag,
                    entry.member_id,
                    entry.client_id,
                    entry.client_host,
                )
                for entry in lags
            ],
        )


def _protocol(group: GroupDescription, member: GroupMember) -> str:
    """Return the protocol that a member uses: that of its group, or the classic one."""
    return "classic" if member.uses_classic_protocol else group.group_type


def _partition_count(assignment: Assignment | None) -> int:
    return 0 if assignment is None else len(assignment.partitions)


def group_document(group: GroupDescription, lags: list[PartitionLag]) -> dict[str, object]:
    """Return the group for JSON."""
    return {
        "group_id": group.group_id,
        "state": group.state,
        "type": group.group_type,
        "group_epoch": None if group.epochs is None else group.epochs.group_epoch,
        "assignment_epoch": None if group.epochs is None else group.epochs.assignment_epoch,
        "assignor": group.protocol,
        "coordinator_id": group.coordinator_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_epoch": member.member_epoch,
                "protocol": _protocol(group, member),
            }
            for member in group.members
        ],
        "total_lag": sum(entry.lag or 0 for entry in lags),
        "partitions": lags,
    }


@app.command()
@connects
def delete(names: Groups, cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Delete groups without members, and their offsets."""
    deleted_groups = succeeded(with_admin(cluster, lambda admin: admin.delete_groups(names)))
    if as_json:
        print_json([{"deleted": name} for name in deleted_groups])
    else:
        print_lines(f"deleted {name}" for name in deleted_groups)
    fail_unless_all(len(names), len(deleted_groups))
