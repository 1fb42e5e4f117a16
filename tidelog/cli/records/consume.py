"""`tidelog consume`: prints records of topics."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import CONNECT_TIMEOUT_MS
from tidelog.cli.records.offset_choice import OffsetChoice, Start, parse_offset_choices
from tidelog.cli.records.reading import Bounds, start_at, topics_partitions, wait_for_topics
from tidelog.cli.records.record_format import DEFAULT_FORMAT, RecordFormatter, compile_format, json_line
from tidelog.cli.records.share_reading import ShareBounds, acknowledgement_options, print_shared
from tidelog.cli.running import run
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.share_consumer.share_consumer import ShareConsumer
from tidelog.protocol.ids import TopicPartition

POLL_MS = 100
FETCH_WAIT_MS = 500
# Large polls: total throughput is more important here than the latency of the first record.
RECORDS_PER_POLL = 10_000

app = typer.Typer(add_completion=False, rich_markup_mode=None)

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics to read.")]
FormatOption = Annotated[
    str,
    typer.Option(
        "-f",
        "--format",
        metavar="FORMAT",
        help=r"Output format: %s value, %k key, %S %K their lengths, %t topic, %p partition, %o offset, "
        r"%T timestamp, %h headers, %% percent sign, \n \t \xNN.",
    ),
]
OffsetOption = Annotated[
    list[str],
    typer.Option(
        "-o",
        "--offset",
        metavar="OFFSET",
        help="beginning, end, stored, N, -N, s@MS (start at a time), e@MS (stop at a time).",
    ),
]
FromBeginningOption = Annotated[
    bool, typer.Option("--from-beginning", help="The same as -o beginning, as in kafka-console-consumer.")
]
GroupOption = Annotated[
    str | None,
    typer.Option("-g", "--group", metavar="GROUP", help="Read as a member of this consumer group."),
]
ShareOption = Annotated[
    str | None,
    typer.Option(
        "--share", metavar="GROUP", help="Read as a member of this share group, and accept records."
    ),
]
CountOption = Annotated[
    int | None,
    typer.Option("-n", "--count", "--max-messages", metavar="N", min=1, help="Stop after N records."),
]
ExitOption = Annotated[
    bool, typer.Option("-e", "--exit", help="Stop at the end offsets of the time when reading starts.")
]
TimeoutOption = Annotated[
    int | None,
    typer.Option("--timeout-ms", metavar="MS", min=1, help="Stop when no record arrives for this time."),
]
PartitionOption = Annotated[
    list[int],
    typer.Option("-p", "--partition", metavar="N", min=0, help="Read only this partition; may be repeated."),
]
IsolationOption = Annotated[
    str | None,
    typer.Option(
        "--isolation",
        metavar="LEVEL",
        show_default="read_uncommitted",
        help="read_uncommitted, or read_committed to skip open and aborted transactions.",
    ),
]
NullOption = Annotated[bool, typer.Option("-Z", "--print-null", help="Print null keys and values as NULL.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


@app.command()
@connects
def consume(
    topics: TopicsArgument,
    cluster: ClusterConnection,
    format_text: FormatOption = DEFAULT_FORMAT,
    offset: OffsetOption = [],  # noqa: B006
    from_beginning: FromBeginningOption = False,
    group: GroupOption = None,
    share: ShareOption = None,
    count: CountOption = None,
    exit_at_end: ExitOption = False,
    timeout_ms: TimeoutOption = None,
    partition: PartitionOption = [],  # noqa: B006
    isolation: IsolationOption = None,
    null: NullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read records and print them, from the beginning or from the group's committed offsets.

    Without -e, wait for topics that do not exist yet.

    Example: tidelog consume tides -o beginning -e -f '%p:%o %k=%s\\n'
    """
    if share is None:
        group = group or cluster.group_id
    else:
        _check_share_options(group, offset or from_beginning, partition, isolation, exit_at_end=exit_at_end)
    try:
        offsets = [*offset, *(["beginning"] if from_beginning else [])]
        choice = parse_offset_choices(offsets, default=Start.BEGINNING if group is None else Start.STORED)
        render = json_line if as_json else compile_format(format_text, null=b"NULL" if null else b"")
    except ValueError as error:
        raise UsageFailure(str(error)) from None
    if share is not None:
        _consume_shared(
            cluster, topics, share, ShareBounds(count, timeout_ms), acknowledgement_options(count), render
        )
        return
    _check_options(group, partition, choice)
    defaults: dict[str, Any] = {
        "group_id": group,
        "auto_offset_reset": "latest" if choice.start is Start.END else "earliest",
        "default_api_timeout_ms": CONNECT_TIMEOUT_MS,
        "max_poll_records": RECORDS_PER_POLL,
        "allow_auto_create_topics": False,
        # The request for the end offsets waits behind a fetch in progress.
        "fetch_max_wait_ms": POLL_MS if exit_at_end else FETCH_WAIT_MS,
    }
    options = cluster.client_options(ConsumerConfig, defaults, {"isolation_level": isolation})
    bounds = Bounds(
        count=count, stop_at_timestamp=choice.stop_at_timestamp, at_end=exit_at_end, idle_ms=timeout_ms
    )
    consumer = Consumer(cluster.bootstrap, **options)
    if group is not None:
        work = _consume_in_group(consumer, topics, bounds, render)
    else:
        work = _consume(consumer, topics, partition, choice, bounds, render)
    run(work, prints_unreachable_brokers=True)


def _check_share_options(
    group: str | None, offset: object, partition: list[int], isolation: str | None, *, exit_at_end: bool
) -> None:
    """Raise UsageFailure for options that a share group decides itself."""
    excluded = {
        "--group": group,
        "--offset": offset,
        "--partition": partition,
        "--isolation": isolation,
        "--exit": exit_at_end,
    }
    wrong = [option for option, value in excluded.items() if value]
    if wrong:
        raise UsageFailure(
            f"--share excludes {', '.join(wrong)}: the brokers choose the records of a share group, and the "
            "group configs share.auto.offset.reset and share.isolation.level set where and what it reads"
        )


def _consume_shared(
    cluster: ClusterConnection,
    topics: list[str],
    group: str,
    bounds: ShareBounds,
    acknowledgement: dict[str, Any],
    render: RecordFormatter,
) -> None:
    """Print the records of a share group."""
    defaults = {
        "default_api_timeout_ms": CONNECT_TIMEOUT_MS,
        "allow_auto_create_topics": False,
        **acknowledgement,
    }
    options = cluster.client_options(ShareConsumerConfig, defaults, {"group_id": group})
    consumer = ShareConsumer(cluster.bootstrap, **options)
    run(print_shared(consumer, topics, bounds, render), prints_unreachable_brokers=True)


def _check_options(group: str | None, partitions: list[int], choice: OffsetChoice) -> None:
    """Raise UsageFailure for stored offsets without a group, and for partitions or offsets with a group."""
    if group is None:
        if choice.start is Start.STORED:
            raise UsageFailure("-o stored needs --group")
    elif partitions or choice.start not in (Start.STORED, Start.BEGINNING, Start.END):
        raise UsageFailure(
            "--group assigns partitions and offsets: omit -p, and use only -o beginning, end or stored"
        )


async def _consume(
    consumer: Consumer,
    topics: list[str],
    partitions: list[int],
    choice: OffsetChoice,
    bounds: Bounds,
    render: RecordFormatter,
) -> None:
    """Print the records of the partitions, without a group."""
    async with consumer:
        if not bounds.at_end:
            await wait_for_topics(consumer, topics)
        assigned = await topics_partitions(consumer, topics, partitions)
        consumer.assign(assigned)
        await start_at(consumer, assigned, choice)
        await bounds.fetch_ends(consumer, assigned)
        await _print_until_done(consumer, bounds, render)


async def _consume_in_group(
    consumer: Consumer, topics: list[str], bounds: Bounds, render: RecordFormatter
) -> None:
    """Print the records of the assigned partitions, and commit the printed records."""
    async with consumer:
        if bounds.at_end:
            await topics_partitions(consumer, topics, [])
        else:
            await wait_for_topics(consumer, topics)
        consumer.subscribe(topics)
        await _print_until_done(consumer, bounds, render)


async def _print_until_done(consumer: Consumer, bounds: Bounds, render: RecordFormatter) -> None:
    output = sys.stdout.buffer
    last_assignment: tuple[TopicPartition, ...] = ()
    while not await bounds.are_reached(consumer):
        batches = await consumer.poll(POLL_MS, bounds.records_left(RECORDS_PER_POLL))
        bounds.on_poll(bool(batches), POLL_MS)
        assignment = consumer.assignment()
        if assignment != last_assignment:
            last_assignment = assignment
            await bounds.fetch_ends(consumer, assignment)
        for topic_partition, records in batches.items():
            selected = bounds.take(topic_partition, records)
            output.write(b"".join([render(record) for record in selected]))
        output.flush()
        bounds.rewind(consumer)
