"""The parts of the commands for groups of one type: share groups and streams groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.output import print_json, print_lines, print_table
from tidelog.clients.admin.admin import Admin, GroupDescription
from tidelog.protocol.errors import KafkaError

Groups = Annotated[list[str], typer.Argument(metavar="GROUP...", help="The ids of the groups.")]


def print_groups(
    cluster: ClusterConnection, group_type: str, states: list[str], *, names_only: bool, as_json: bool
) -> None:
    """Print the groups of a type in one of `states`; without states, all groups of the type."""
    groups_by_name = with_admin(cluster, lambda admin: admin.list_groups(states=states, types=[group_type]))
    groups = [groups_by_name[name] for name in sorted(groups_by_name)]
    if as_json:
        print_json(groups)
    elif names_only:
        print_lines(group.group_id for group in groups)
    else:
        print_table(("group", "state"), [(group.group_id, group.state) for group in groups])


async def delete_groups(
    admin: Admin, described: Mapping[str, GroupDescription | KafkaError]
) -> dict[str, KafkaError | None]:
    """Delete the groups that were found; return None or the error of each group."""
    results: dict[str, KafkaError | None] = {
        name: error for name, error in described.items() if isinstance(error, KafkaError)
    }
    return results | await admin.delete_groups([name for name in described if name not in results])
