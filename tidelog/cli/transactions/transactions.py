"""`tidelog transactions`: lists, describes and aborts transactions, and finds hanging ones."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.base.clock import SystemClock
from tidelog.cli.admin import OPERATION_TIMEOUT_MS, fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import EXIT_FAILURE, UsageFailure
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_result, print_table
from tidelog.cli.transactions.hanging import HangingTransaction, find_hanging
from tidelog.clients.admin.admin import ActiveProducer, Admin, TransactionDescription
from tidelog.clients.admin.admin_requests import result_for
from tidelog.protocol.ids import TopicPartition

DEFAULT_TIMEOUT_MINUTES = 15
"""Kafka's default of transaction.max.timeout.ms; a transaction that is open for longer hangs."""

app = typer.Typer(
    help="List, describe and abort transactions; find hanging transactions.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Transactional ids.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Partition = Annotated[int, typer.Option("-p", "--partition", metavar="N", min=0, help="The partition.")]


@app.command("list")
@connects
def list_transactions(
    cluster: ClusterConnection,
    state: Annotated[
        list[str],
        typer.Option(
            "-s", "--state", metavar="STATE", help="Only ids in this state, such as Ongoing or Empty."
        ),
    ] = [],  # noqa: B006
    producer_id: Annotated[
        list[int], typer.Option("--producer-id", metavar="N", help="Only the id of this producer.")
    ] = [],  # noqa: B006
    longer_than: Annotated[
        int | None,
        typer.Option(
            "--longer-than", metavar="MS", min=0, help="Only transactions that are open for longer."
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="REGEX", help="Only ids that match the whole expression."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List transactional ids and their states."""
    listing = with_admin(
        cluster,
        lambda admin: admin.list_transactions(
            states=state, producer_ids=producer_id, duration_ms=longer_than, pattern=pattern
        ),
    )
    listings = [listing[name] for name in sorted(listing)]
    if as_json:
        print_json(listings)
        return
    rows = [
        (transaction.transactional_id, transaction.coordinator_id, transaction.producer_id, transaction.state)
        for transaction in listings
    ]
    print_table(("id", "coordinator", "producer", "state"), rows)


@app.command()
@connects
def describe(ids: Ids, cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show the transactions of transactional ids."""
    descriptions = succeeded(with_admin(cluster, lambda admin: admin.describe_transactions(ids)))
    if as_json:
        print_json([_as_document(description) for description in descriptions.values()])
    else:
        rows = [
            (
                description.transactional_id,
                description.coordinator_id,
                description.producer_id,
                description.producer_epoch,
                description.state,
                description.timeout_ms,
                description.start_time_ms,
                _duration_ms(description),
                ",".join(str(partition) for partition in description.partitions),
            )
            for description in descriptions.values()
        ]
        columns = "id coordinator producer epoch state timeout_ms start_ms duration_ms partitions"
        print_table(columns.split(), rows)
    fail_unless_all(len(set(ids)), len(descriptions))


@app.command("describe-producers")
@connects
def describe_producers(
    topic: Topic,
    partition: Partition,
    cluster: ClusterConnection,
    as_json: AsJson = False,
) -> None:
    """Show the producer states of a partition."""
    producers = with_admin(cluster, lambda admin: _producers(admin, TopicPartition(topic, partition)))
    if as_json:
        print_json(producers)
        return
    rows = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.current_transaction_start_offset,
        )
        for producer in producers
    ]
    print_table(
        ("producer", "epoch", "coordinator_epoch", "last_sequence", "last_timestamp", "start_offset"), rows
    )


@app.command()
@connects
def abort(
    topic: Topic,
    partition: Partition,
    cluster: ClusterConnection,
    start_offset: Annotated[
        int | None,
        typer.Option("-o", "--start-offset", metavar="N", min=0, help="The start offset of the transaction."),
    ] = None,
    producer_id: Annotated[
        int | None,
        typer.Option(
            "--producer-id",
            metavar="N",
            help="The producer id, instead of the start offset; with both epochs.",
        ),
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", metavar="N", help="The producer epoch.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None, typer.Option("--coordinator-epoch", metavar="N", help="The coordinator epoch.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Abort a hanging transaction in a partition.

    Its coordinator is not involved.
    """
    by_producer = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) != all(part is not None for part in by_producer):
        raise UsageFailure(
            "give --start-offset, or all of --producer-id, --producer-epoch, --coordinator-epoch"
        )
    where = TopicPartition(topic, partition)

    async def work(admin: Admin) -> None:
        ids = by_producer
        if start_offset is not None:
            ids = await _open_at(admin, where, start_offset)
        producer, epoch, coordinator = ids
        assert producer is not None and epoch is not None and coordinator is not None
        await admin.abort_transaction(where, producer, epoch, coordinator, timeout_ms=OPERATION_TIMEOUT_MS)

    with_admin(cluster, work)
    print_result(
        as_json, f"aborted the transaction in {where}", aborted=True, topic=topic, partition=partition
    )


@app.command("find-hanging")
@connects
def find_hanging_transactions(
    cluster: ClusterConnection,
    topic: Annotated[
        list[str],
        typer.Option("-t", "--topic", metavar="TOPIC", help="Check only this topic; may be repeated."),
    ] = [],  # noqa: B006
    broker_id: Annotated[
        int | None,
        typer.Option("--broker", metavar="ID", help="Check only partitions with a replica on this broker."),
    ] = None,
    max_timeout_minutes: Annotated[
        int,
        typer.Option(
            "--max-timeout", metavar="MINUTES", min=0, help="Transactions that are open for longer may hang."
        ),
    ] = DEFAULT_TIMEOUT_MINUTES,
    as_json: AsJson = False,
) -> None:
    """Find open transactions that no coordinator will end."""
    hanging, is_complete = with_admin(
        cluster, lambda admin: find_hanging(admin, topic, broker_id, max_timeout_minutes * 60_000)
    )
    if as_json:
        print_json(hanging)
    else:
        columns = "topic partition producer epoch coordinator_epoch start_offset last_timestamp"
        print_table(columns.split(), [_hanging_row(transaction) for transaction in hanging])
    if not is_complete:
        raise typer.Exit(EXIT_FAILURE)  # some partitions were not checked


def _hanging_row(transaction: HangingTransaction) -> tuple[object, ...]:
    return (
        transaction.topic,
        transaction.partition,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.coordinator_epoch,
        transaction.start_offset,
        transaction.last_timestamp,
    )


async def _producers(admin: Admin, where: TopicPartition) -> tuple[ActiveProducer, ...]:
    return result_for(await admin.describe_producers([where]), where)


async def _open_at(admin: Admin, where: TopicPartition, start_offset: int) -> tuple[int, int, int]:
    """Return the producer id and both epochs of the transaction that begins at an offset."""
    for producer in await _producers(admin, where):
        if producer.current_transaction_start_offset == start_offset:
            return producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
    raise UsageFailure(f"no open transaction of {where} begins at offset {start_offset}")


def _duration_ms(description: TransactionDescription) -> int | None:
    return (
        None
        if description.start_time_ms is None
        else max(0, SystemClock().wall_ms() - description.start_time_ms)
    )


def _as_document(description: TransactionDescription) -> dict[str, object]:
    return {
        "transactional_id": description.transactional_id,
        "coordinator_id": description.coordinator_id,
        "producer_id": description.producer_id,
        "producer_epoch": description.producer_epoch,
        "state": description.state,
        "timeout_ms": description.timeout_ms,
        "start_time_ms": description.start_time_ms,
        "duration_ms": _duration_ms(description),
        "partitions": description.partitions,
    }
