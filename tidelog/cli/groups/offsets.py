"""`tidelog group reset-offsets`: sets the committed offsets of a group that has no members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidelog.base.clock import SystemClock
from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import OPERATION_TIMEOUT_MS, fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure, complain
from tidelog.cli.offset_reset import (
    TIME_METHODS,
    OffsetReset,
    ResetMethod,
    offsets_text,
    parse_datetime,
    parse_duration,
    read_offsets,
)
from tidelog.cli.option_groups import with_options
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table
from tidelog.cli.partition_offsets import listed_offsets
from tidelog.cli.topics.moves import partitions_of
from tidelog.clients.admin.admin import Admin, GroupDescription, OffsetSpec
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition

INACTIVE_STATES = ("Empty", "Dead")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The id of the group.")]
Topics = Annotated[
    list[str],
    typer.Option("--topic", metavar="TOPIC[:N,N]", help="A topic, or partitions of it; may be repeated."),
]
AllTopics = Annotated[
    bool, typer.Option("--all-topics", help="All topics with committed offsets of the group.")
]
Execute = Annotated[
    bool, typer.Option("--execute", help="Set the offsets. Without it, only print what would change.")
]
Export = Annotated[bool, typer.Option("--export", help="Print CSV for --from-file.")]


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """The new offset of one partition."""

    topic: str
    partition: int
    committed_offset: Offset | None
    new_offset: Offset


@dataclass(frozen=True, slots=True)
class RequestedReset:
    """A method, and the value of its option."""

    method: ResetMethod
    value: object

    def resolve(self, group: str) -> OffsetReset:
        """Parse the value; read the file. Errors: UsageFailure; OSError."""
        match self.method, self.value:
            case ResetMethod.TO_DATETIME, str(text):
                return OffsetReset(self.method, parse_datetime(text))
            case ResetMethod.BY_DURATION, str(text):
                return OffsetReset(self.method, SystemClock().wall_ms() - parse_duration(text))
            case ResetMethod.FROM_FILE, Path() as path:
                return OffsetReset(self.method, offsets=read_offsets(path.read_text(), group, str(path)))
            case _, int(number):
                return OffsetReset(self.method, number)
        raise AssertionError(f"{self.method}={self.value!r}")


def _method(name: str, kind: Any, text: str, **options: Any) -> Parameter:
    option = typer.Option(f"--{name.replace('_', '-')}", help=text, **options)
    default = False if kind is bool else None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


_METHODS: Final = (
    _method("to_earliest", bool, "To the first offset."),
    _method("to_latest", bool, "To the end of the log."),
    _method("to_current", bool, "To the committed offset; to the end of the log if there is none."),
    _method("to_offset", int | None, "To this offset.", metavar="N", min=0),
    _method("shift_by", int | None, "By N records; back if N is negative.", metavar="N"),
    _method("to_datetime", str | None, "To a time in UTC: YYYY-MM-DDTHH:mm:SS[.sss].", metavar="TIME"),
    _method("by_duration", str | None, "To the time this long ago, such as PT2H.", metavar="DURATION"),
    _method("from_file", Path | None, "To the offsets in a CSV file.", metavar="FILE"),
)


def _requested_reset(**values: object) -> RequestedReset:
    """Return the only method that is given. Errors: UsageFailure."""
    selected = [(name, value) for name, value in values.items() if value is not None and value is not False]
    if len(selected) != 1:
        raise UsageFailure(f"give one of {', '.join(method.value for method in ResetMethod)}")
    ((name, value),) = selected
    return RequestedReset(ResetMethod[name.upper()], value)


def reset_offsets(
    group: Group,
    cluster: ClusterConnection,
    requested: RequestedReset,
    topic: Topics = [],  # noqa: B006
    all_topics: AllTopics = False,
    execute: Execute = False,
    export: Export = False,
    as_json: AsJson = False,
) -> None:
    """Reset the committed offsets of a group without members; a dry run without --execute.

    Example: tidelog group reset-offsets harbour --topic tides --to-datetime 2026-11-28T09:14:00 --execute
    """
    reset = requested.resolve(group)
    require_one_scope(reset, topic, all_topics=all_topics)
    plan, results = with_admin(
        cluster, lambda admin: reset_group(admin, group, topic, reset, execute=execute)
    )
    written = succeeded(results)
    print_plan(plan, export=export, as_json=as_json)
    if not execute:
        complain_about_dry_run(plan, group)
    fail_unless_all(len(results), len(written))


def require_one_scope(reset: OffsetReset, topics: list[str], *, all_topics: bool) -> None:
    """Raise UsageFailure unless exactly one of topics, all topics and a file is given."""
    if bool(topics) + all_topics + (reset.method is ResetMethod.FROM_FILE) != 1:
        raise UsageFailure("give --topic, --all-topics or --from-file")


def complain_about_dry_run(plan: list[PlannedOffset], group: str) -> None:
    """Print that the offsets were not changed."""
    complain(f"dry run: --execute resets {count_text(len(plan), 'offset')} of group {group!r}")


async def reset_group(
    admin: Admin, group: str, topics: list[str], reset: OffsetReset, *, execute: bool
) -> tuple[list[PlannedOffset], dict[TopicPartition, KafkaError | None]]:
    """Plan the new offsets of a group without members, and set them if `execute`; return plan and results.

    Errors: KafkaError; UsageFailure if the group has members, or the reset does not apply to it.
    """
    description = (await admin.describe_groups([group]))[group]
    if not isinstance(description, KafkaError):
        require_inactive(description)
    elif description.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        raise description
    # The first commit creates a group, as with Kafka's tool.
    committed = await committed_offsets(admin, group)
    partitions = await partitions_to_reset(admin, group, topics, committed, reset)
    plan = await plan_offsets(admin, partitions, committed, reset)
    return plan, await set_offsets(admin, group, plan) if execute else {}


def require_inactive(group: GroupDescription) -> None:
    """Raise UsageFailure if the group has members: they would overwrite the offsets."""
    if group.state not in INACTIVE_STATES:
        raise UsageFailure(
            f"offsets can only be reset if the group {group.group_id!r} is inactive;"
            f" it is {group.state} and has {count_text(len(group.members), 'member')}"
        )


async def committed_offsets(admin: Admin, group: str) -> dict[TopicPartition, Offset]:
    """Return all committed offsets of a group."""
    return {partition: found.offset for partition, found in (await admin.list_group_offsets(group)).items()}


async def partitions_to_reset(
    admin: Admin, group: str, topics: list[str], committed: Iterable[TopicPartition], reset: OffsetReset
) -> list[TopicPartition]:
    """Return the partitions of the file or of `topics`; without both, those with committed offsets."""
    if reset.method is ResetMethod.FROM_FILE:
        return sorted(reset.offsets)
    if topics:
        return sorted(await partitions_of(admin, topics))
    partitions = sorted(committed)
    if not partitions:
        raise UsageFailure(f"--all-topics: group {group!r} has no committed offsets")
    return partitions


async def set_offsets(
    admin: Admin, group: str, plan: list[PlannedOffset]
) -> dict[TopicPartition, KafkaError | None]:
    """Commit the new offsets of a plan; return None or the error of each partition."""
    offsets = {TopicPartition(entry.topic, entry.partition): entry.new_offset for entry in plan}
    return await admin.alter_group_offsets(group, offsets, timeout_ms=OPERATION_TIMEOUT_MS)


async def plan_offsets(
    admin: Admin,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, Offset],
    reset: OffsetReset,
) -> list[PlannedOffset]:
    """Return the new offset of each partition. Errors: KafkaError; UsageFailure."""
    beginnings = await listed_offsets(admin, partitions, OffsetSpec.EARLIEST)
    ends = await listed_offsets(admin, partitions, OffsetSpec.LATEST)
    at_times = await listed_offsets(admin, partitions, reset.number) if reset.method in TIME_METHODS else {}
    return [
        PlannedOffset(
            *partition,
            committed.get(partition),
            reset.new_offset(
                partition,
                committed=committed.get(partition),
                beginning=beginnings[partition],
                end=ends[partition],
                at_time=offset if (offset := at_times.get(partition, -1)) >= 0 else None,
            ),
        )
        for partition in partitions
    ]


def print_plan(plan: list[PlannedOffset], *, export: bool, as_json: bool) -> None:
    """Print the new offsets as a table, as CSV or as JSON."""
    if export:
        offsets = {TopicPartition(entry.topic, entry.partition): entry.new_offset for entry in plan}
        print(offsets_text(offsets), end="")
    elif as_json:
        print_json([asdict(entry) for entry in plan])
    else:
        print_table(
            ("topic", "partition", "committed", "new offset"),
            [(entry.topic, entry.partition, entry.committed_offset, entry.new_offset) for entry in plan],
        )


def register(app: typer.Typer) -> None:
    """Add the command to `tidelog group`."""
    app.command("reset-offsets")(connects(with_reset_options(reset_offsets)))


def with_reset_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` with the options of all methods instead of its parameter of type `RequestedReset`."""
    return with_options(command, RequestedReset, _METHODS, _requested_reset)
