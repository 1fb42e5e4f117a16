"""`tidelog topic trim`: deletes the oldest records of partitions (DeleteRecords)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer

from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import OPERATION_TIMEOUT_MS, fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.offset_reset import parse_datetime
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table
from tidelog.cli.partition_offsets import listed_offsets
from tidelog.cli.topics.moves import Partitions, partitions_of
from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset, TopicPartition

ALL_RECORDS: Final = "end"

Before = Annotated[
    str | None,
    typer.Option("--before", metavar="OFFSET", help="The first offset to keep; 'end' deletes all records."),
]
BeforeTime = Annotated[
    str | None,
    typer.Option(
        "--before-time", metavar="TIME", help="The time of the first record to keep: YYYY-MM-DDTHH:mm:SS."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")]
_Offsets = dict[TopicPartition, Offset]


@dataclass(frozen=True, slots=True)
class Trim:
    """The log start offsets of one partition, and the number of offsets between them."""

    topic: str
    partition: int
    log_start_offset: Offset
    new_log_start_offset: Offset
    deleted: int


@connects
def trim(
    cluster: ClusterConnection,
    texts: Partitions = None,
    before: Before = None,
    before_time: BeforeTime = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest records of topics or partitions. They cannot be restored.

    Example: tidelog topic trim tides --before-time 2026-11-28T09:14:00 --dry-run
    """
    if not texts:
        raise UsageFailure("give topics or partitions")
    spec = _spec(before, before_time)

    async def work(admin: Admin) -> tuple[_Offsets, dict[TopicPartition, Offset | KafkaError]]:
        partitions = sorted(await partitions_of(admin, texts))
        starts = await listed_offsets(admin, partitions, OffsetSpec.EARLIEST)
        ends = await listed_offsets(admin, partitions, OffsetSpec.LATEST)
        new_starts = await _new_starts(admin, partitions, spec, ends)
        new_starts = {each: max(starts[each], offset) for each, offset in new_starts.items()}
        if dry_run:
            return starts, dict(new_starts)
        return starts, await admin.delete_records(new_starts, timeout_ms=OPERATION_TIMEOUT_MS)

    starts, results = with_admin(cluster, work)
    trims = [
        Trim(*each, starts[each], offset, max(0, offset - starts[each]))
        for each, offset in sorted(succeeded(results).items())
    ]
    if as_json:
        print_json([asdict(entry) for entry in trims])
    else:
        print_table(
            ("topic", "partition", "start", "new start", "would delete" if dry_run else "deleted"),
            [tuple(asdict(entry).values()) for entry in trims],
        )
    fail_unless_all(len(results), len(trims))


@dataclass(frozen=True, slots=True)
class _NewStart:
    """The first offset to keep (None: the end of the log), or the time of the first record to keep."""

    offset: Offset | None = None
    time_ms: int | None = None


def _spec(before: str | None, before_time: str | None) -> _NewStart:
    if (before is None) == (before_time is None):
        raise UsageFailure("give --before or --before-time")
    if before_time is not None:
        return _NewStart(time_ms=parse_datetime(before_time, "--before-time"))
    if before == ALL_RECORDS:
        return _NewStart()
    if before is None or not before.isdecimal():
        raise UsageFailure(f"--before {before!r}: expected an offset, or 'end'")
    return _NewStart(offset=int(before))


async def _new_starts(
    admin: Admin, partitions: list[TopicPartition], spec: _NewStart, ends: _Offsets
) -> _Offsets:
    if spec.time_ms is None:
        return {each: ends[each] if spec.offset is None else spec.offset for each in partitions}
    at_times = await listed_offsets(admin, partitions, spec.time_ms)
    return {each: offset if offset >= 0 else ends[each] for each, offset in at_times.items()}


def register(app: typer.Typer) -> None:
    """Add the command to `tidelog topic`."""
    app.command()(trim)
