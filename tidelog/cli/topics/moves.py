"""`tidelog topic elect` and `tidelog topic reassign`: leaders and replicas of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final

import typer

from tidelog.base.count_text import count_text
from tidelog.cli.admin import OPERATION_TIMEOUT_MS, fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson
from tidelog.cli.output import numbers_text, print_json, print_table
from tidelog.clients.admin.admin import Admin, ElectionType, PartitionReassignment, TopicDescription
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition

_POLL_S: Final = 0.2

Partitions = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC[:N,N]...]", help="Topics, or the given partitions of a topic."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `tidelog topic`."""
    app.command()(elect)
    app.command()(reassign)


@connects
def elect(
    cluster: ClusterConnection,
    texts: Partitions = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Elect any replica of partitions without a leader; records may be lost."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Elect the preferred leaders of partitions.

    Without TOPIC, elect the leaders of all partitions that need it.
    """
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED

    async def work(admin: Admin) -> dict[TopicPartition, KafkaError | None]:
        partitions = None if not texts else list(await partitions_of(admin, texts))
        return await admin.elect_leaders(kind, partitions, timeout_ms=OPERATION_TIMEOUT_MS)

    results = with_admin(cluster, work)
    needed = {where: result for where, result in results.items() if not _is_not_needed(result)}
    elected_partitions = sorted(succeeded(needed))
    if as_json:
        print_json([{"topic": topic, "partition": partition} for topic, partition in elected_partitions])
    else:
        for where in elected_partitions:
            print(f"elected a leader of {where}")
        if not needed:
            print("no partition needs an election")
    fail_unless_all(len(needed), len(elected_partitions))


@connects
def reassign(
    cluster: ClusterConnection,
    texts: Partitions = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="ID,ID", help="Exactly these brokers; the first is the preferred leader."
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(
            "--over", metavar="ID,ID", help="Spread over these brokers, with the same replication factor."
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option("-r", "--replicas", metavar="N", min=1, help="With --over: the new replication factor."),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the reassignments.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the reassignments are complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move partitions to other brokers.

    Without --to, --over and --cancel, list the reassignments in progress.
    """
    if sum((to is not None, over is not None, cancel)) > 1:
        raise UsageFailure("--to, --over and --cancel exclude each other")
    if replicas is not None and over is None:
        raise UsageFailure("--replicas needs --over")
    if to is None and over is None and not cancel:
        _show(with_admin(cluster, lambda admin: _reassignments(admin, texts or [])), as_json)
        return
    if not texts:
        raise UsageFailure("give the topics or partitions to reassign")
    brokers = _ids(to or over or "")

    async def work(admin: Admin) -> dict[TopicPartition, KafkaError | None]:
        current = await partitions_of(admin, texts)
        targets = _targets(current, None if cancel else brokers, is_spread=over is not None, count=replicas)
        results = await admin.alter_partition_reassignments(targets, timeout_ms=OPERATION_TIMEOUT_MS)
        if wait:
            await _wait_until_complete(admin, [where for where, result in results.items() if result is None])
        return results

    results = with_admin(cluster, work)
    done = sorted(succeeded(results))
    if as_json:
        print_json([{"topic": topic, "partition": partition} for topic, partition in done])
    else:
        verb = "cancelled reassignment of" if cancel else "reassigned" if wait else "reassigning"
        for where in done:
            print(f"{verb} {where}")
    fail_unless_all(len(results), len(done))


def _is_not_needed(result: KafkaError | None) -> bool:
    return isinstance(result, KafkaError) and result.code is ErrorCode.ELECTION_NOT_NEEDED


def _show(reassignments: Mapping[TopicPartition, PartitionReassignment], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {"topic": where.topic, "partition": where.partition, **moving._asdict()}
                for where, moving in sorted(reassignments.items())
            ]
        )
        return
    print_table(
        ("topic", "partition", "replicas", "adding", "removing"),
        [
            (
                where.topic,
                where.partition,
                numbers_text(moving.replicas),
                numbers_text(moving.adding_replicas),
                numbers_text(moving.removing_replicas),
            )
            for where, moving in sorted(reassignments.items())
        ],
    )


async def _reassignments(
    admin: Admin, texts: Sequence[str]
) -> Mapping[TopicPartition, PartitionReassignment]:
    partitions = list(await partitions_of(admin, texts)) if texts else None
    return await admin.list_partition_reassignments(partitions)


async def _wait_until_complete(admin: Admin, partitions: Sequence[TopicPartition]) -> None:
    while True:
        if not partitions or not await admin.list_partition_reassignments(partitions):
            return
        await asyncio.sleep(_POLL_S)


async def partitions_of(admin: Admin, texts: Iterable[str]) -> dict[TopicPartition, Sequence[BrokerId]]:
    """Return the given partitions with their replicas; raise UsageFailure if one does not exist."""
    selections = [_topic_and_numbers(text) for text in texts]
    topics = await admin.describe_topics(list(dict.fromkeys(name for name, _ in selections)))
    replicas_by_partition: dict[TopicPartition, Sequence[BrokerId]] = {}
    for name, numbers in selections:
        topic = topics[name]
        if isinstance(topic, KafkaError):
            raise topic
        replicas = _replicas_of(topic)
        for number in replicas if numbers is None else numbers:
            if number not in replicas:
                raise UsageFailure(f"topic {name!r} has no partition {number}")
            replicas_by_partition[TopicPartition(name, number)] = replicas[number]
    return replicas_by_partition


def _replicas_of(topic: TopicDescription) -> dict[int, Sequence[BrokerId]]:
    return {entry.partition: entry.replicas for entry in topic.partitions}


def _topic_and_numbers(text: str) -> tuple[str, tuple[int, ...] | None]:
    name, colon, numbers = text.partition(":")
    return name, _ids(numbers) if colon else None


def _ids(text: str) -> tuple[int, ...]:
    numbers = tuple(part.strip() for part in text.split(",") if part.strip())
    if not all(number.isdecimal() for number in numbers) or not (numbers or not text):
        raise UsageFailure(f"{text!r} is not a list of numbers")
    return tuple(map(int, numbers))


def _targets(
    current: Mapping[TopicPartition, Sequence[BrokerId]],
    brokers: Sequence[BrokerId] | None,
    *,
    is_spread: bool,
    count: int | None,
) -> dict[TopicPartition, Sequence[BrokerId] | None]:
    """Return the new replicas of each partition; with `is_spread`, each one starts with the next broker."""
    targets: dict[TopicPartition, Sequence[BrokerId] | None] = {}
    for number, (where, replicas) in enumerate(sorted(current.items())):
        if brokers is None or not is_spread:
            targets[where] = brokers
            continue
        size = count or len(replicas)
        if size > len(brokers):
            raise UsageFailure(f"{where} needs {count_text(size, 'broker')}, but --over has {len(brokers)}")
        targets[where] = [brokers[(number + step) % len(brokers)] for step in range(size)]
    return targets
