"""`tidelog topic log-dirs`: the log directories of replicas, and moves between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import typer

from tidelog.cli.admin import OPERATION_TIMEOUT_MS, fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table
from tidelog.cli.topics.moves import Partitions, partitions_of
from tidelog.clients.admin.admin import Admin, ReplicaLogDirs, TopicPartitionReplica
from tidelog.protocol.errors import KafkaError

_POLL_S: Final = 0.2
_COLUMNS: Final = ("topic", "partition", "broker", "log_dir", "lag", "future_log_dir", "future_lag")


def register(app: typer.Typer) -> None:
    """Add the command to `tidelog topic`."""
    app.command("log-dirs")(log_dirs)


@connects
def log_dirs(
    cluster: ClusterConnection,
    texts: Partitions = None,
    broker: Annotated[
        int | None, typer.Option("--broker", metavar="ID", help="Only the replicas on this broker.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="DIRECTORY", help="Move the replicas to this directory of log.dirs of the broker."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the moves are complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the log directories of replicas, or move replicas to another directory of their broker.

    The current directory as --to cancels a move.
    """
    if not texts:
        raise UsageFailure("give topics or partitions")
    if to is not None and broker is None:
        raise UsageFailure("--to needs --broker, as each broker has its own directories")
    if to is None:
        _show(with_admin(cluster, lambda admin: _describe(admin, texts, broker)), as_json)
        return

    async def work(admin: Admin) -> dict[TopicPartitionReplica, KafkaError | None]:
        replicas = await _replicas(admin, texts, broker)
        results = await admin.alter_replica_log_dirs(
            dict.fromkeys(replicas, to), timeout_ms=OPERATION_TIMEOUT_MS
        )
        if wait:
            await _wait_until_moved(admin, [each for each, error in results.items() if error is None], to)
        return results

    results = with_admin(cluster, work)
    moved = sorted(succeeded(results))
    if as_json:
        print_json([replica._asdict() for replica in moved])
    else:
        for replica in moved:
            verb = "moved" if wait else "moving"
            print(f"{verb} {replica.topic_partition} on broker {replica.broker_id} to {to}")
    fail_unless_all(len(results), len(moved))


async def _replicas(admin: Admin, texts: Iterable[str], broker: int | None) -> list[TopicPartitionReplica]:
    replicas = [
        TopicPartitionReplica(*partition, broker_id)
        for partition, broker_ids in (await partitions_of(admin, list(texts))).items()
        for broker_id in broker_ids
        if broker in (None, broker_id)
    ]
    if not replicas:
        raise UsageFailure(f"broker {broker} has no replica of {', '.join(texts)}")
    return replicas


async def _describe(
    admin: Admin, texts: Iterable[str], broker: int | None
) -> dict[TopicPartitionReplica, ReplicaLogDirs | KafkaError]:
    return await admin.describe_replica_log_dirs(await _replicas(admin, texts, broker))


async def _wait_until_moved(admin: Admin, replicas: Iterable[TopicPartitionReplica], path: str) -> None:
    waiting = list(replicas)
    while waiting:
        await asyncio.sleep(_POLL_S)
        moving = []
        for replica, places in (await admin.describe_replica_log_dirs(waiting)).items():
            if isinstance(places, KafkaError):
                raise places
            if places.future_log_dir is not None:
                moving.append(replica)
            elif places.current_log_dir != path:
                raise UsageFailure(f"the move of {replica.topic_partition} was cancelled")
        waiting = moving


def _show(described: Mapping[TopicPartitionReplica, ReplicaLogDirs | KafkaError], as_json: bool) -> None:
    rows = [
        (
            *replica,
            places.current_log_dir,
            places.offset_lag,
            places.future_log_dir,
            places.future_offset_lag if places.future_log_dir else None,
        )
        for replica, places in sorted(succeeded(described).items())
    ]
    if as_json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    else:
        print_table(tuple(name.replace("_", " ") for name in _COLUMNS), rows)
    fail_unless_all(len(described), len(rows))
