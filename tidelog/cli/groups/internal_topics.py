"""The repartition and changelog topics of streams groups, which can be deleted with offsets or groups.

Source: StreamsGroupCommand of Apache Kafka 4.3: the same names count as those of internal topics.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from tidelog.cli.admin import OPERATION_TIMEOUT_MS
from tidelog.cli.failures import UsageFailure, complain
from tidelog.clients.admin.admin import Admin, GroupDescription
from tidelog.protocol.errors import ErrorCode, KafkaError

DeleteAllInternalTopics = Annotated[
    bool,
    typer.Option("--delete-all-internal-topics", help="Also delete the repartition and changelog topics."),
]
_SUFFIX: Final = re.compile(
    r".*(-changelog|-repartition|-subscription-(registration|response)-topic"
    r"|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)",
    re.DOTALL,
)


def internal_topics(group: GroupDescription) -> list[str]:
    """Return the internal topics of a group, in order, whose names are those that Kafka Streams chooses.

    Print a line for each of the others: it may belong to another application.
    """
    names = []
    for name in _topology_topics(group):
        if _has_internal_name(name, group.group_id):
            names.append(name)
        else:
            complain(f"topic {name!r} is not deleted: its name is not that of an internal topic of the group")
    return names


def selected_topics(group: GroupDescription, names: Sequence[str], *, all_topics: bool) -> list[str]:
    """Return the internal topics with these names, or all. Errors: UsageFailure for another name."""
    if names and all_topics:
        raise UsageFailure("give --delete-internal-topic or --delete-all-internal-topics")
    if all_topics:
        return internal_topics(group)
    allowed = _topology_topics(group)
    for name in names:
        if name not in allowed:
            raise UsageFailure(
                f"--delete-internal-topic {name!r}: the internal topics of group {group.group_id!r} are"
                f" {', '.join(allowed) or 'none'}"
            )
    return sorted(set(names))


async def delete_internal_topics(admin: Admin, names: Sequence[str]) -> dict[str, KafkaError | None]:
    """Delete topics; return None or the error of each that existed."""
    if not names:
        return {}
    results = await admin.delete_topics(names, timeout_ms=OPERATION_TIMEOUT_MS)
    return {
        name: error
        for name, error in results.items()
        if error is None or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


def _topology_topics(group: GroupDescription) -> list[str]:
    return [] if group.topology is None else sorted(group.topology.internal_topics)


def _has_internal_name(name: str, group_id: str) -> bool:
    return name.startswith(f"{group_id}-") and _SUFFIX.fullmatch(name) is not None
