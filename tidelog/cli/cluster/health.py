"""`tidelog cluster health`: nodes, partitions, disks and the tier on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

import typer

from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import EXIT_FAILURE
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table, size_text
from tidelog.clients.admin.admin import (
    Admin,
    ConfigResource,
    ListedOffset,
    LogDirDescription,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition

PROBLEMS_SHOWN: Final = 10
DISK_FULL_PERCENT: Final = 90
TIERED_KEY: Final = "remote.storage.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """A broker that is registered, or that has replicas although it is not registered."""

    broker: BrokerId
    address: str | None
    state: str
    log_dirs: int = 0
    failed_log_dirs: int = 0
    used_bytes: int | None = None
    total_bytes: int | None = None
    usable_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """The health of a cluster; `problems` is empty if it is healthy."""

    cluster_id: str | None
    controller_id: BrokerId
    nodes: tuple[NodeHealth, ...]
    topics: int
    partitions: int
    offline_partitions: tuple[TopicPartition, ...]
    under_replicated_partitions: tuple[TopicPartition, ...]
    tiered_partitions: int
    offsets_not_in_tier: int

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems, one line each."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        for node in self.nodes:
            if node.state != "serving":
                yield f"broker {node.broker} is {node.state}"
            if node.failed_log_dirs:
                yield f"broker {node.broker}: {_directories(node.failed_log_dirs)} offline"
            if _used_percent(node) >= DISK_FULL_PERCENT:
                yield f"broker {node.broker}: its disks are {_used_percent(node)} % full"
        yield from _listed(self.offline_partitions, "without a leader")
        yield from _listed(self.under_replicated_partitions, "under-replicated")


def _directories(count: int) -> str:
    return f"{count_text(count, 'log directory', 'log directories')} {'is' if count == 1 else 'are'}"


def _used_percent(node: NodeHealth) -> int:
    if not node.total_bytes or node.total_bytes < 0 or node.usable_bytes is None:
        return 0
    return 100 - 100 * node.usable_bytes // node.total_bytes


def _listed(partitions: Sequence[TopicPartition], state: str) -> Iterator[str]:
    if partitions:
        shown = ", ".join(map(str, partitions[:PROBLEMS_SHOWN]))
        more = len(partitions) - PROBLEMS_SHOWN
        end = f" and {more} more" if more > 0 else ""
        yield f"{count_text(len(partitions), 'partition')} {state}: {shown}{end}"


@connects
def health(cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show nodes, disks, partitions and the tier on one screen; exit with 1 if something is wrong."""
    found = with_admin(cluster, cluster_health)
    if as_json:
        print_json({"healthy": not found.problems, "problems": found.problems, **asdict(found)})
    else:
        _print(found)
    if found.problems:
        raise typer.Exit(EXIT_FAILURE)


def _print(found: ClusterHealth) -> None:
    print(f"cluster           {found.cluster_id}")
    print(f"controller        {found.controller_id}")
    print(f"topics            {found.topics}")
    print(f"partitions        {found.partitions}")
    print(f"without leader    {len(found.offline_partitions)}")
    print(f"under-replicated  {len(found.under_replicated_partitions)}")
    if found.tiered_partitions:
        tiered = count_text(found.tiered_partitions, "tiered partition")
        print(f"not in the tier   {count_text(found.offsets_not_in_tier, 'offset')} of {tiered}")
    print()
    print_table(
        ("broker", "address", "state", "logs", "free", "disk"),
        [
            (
                node.broker,
                node.address,
                node.state,
                size_text(node.used_bytes),
                size_text(node.usable_bytes),
                size_text(node.total_bytes),
            )
            for node in found.nodes
        ],
    )
    print()
    print("healthy" if not found.problems else "\n".join(f"problem: {each}" for each in found.problems))


async def cluster_health(admin: Admin) -> ClusterHealth:
    """Return the health of the cluster."""
    description = await admin.describe_cluster(include_fenced=True)
    names = await admin.list_topics(include_internal=True)
    topics = list(succeeded(await admin.describe_topics(names)).values()) if names else []
    entries = [(topic.name, entry) for topic in topics for entry in topic.partitions]
    tiered = await _tiered_partitions(admin, topics)
    serving = [broker.node_id for broker in description.brokers if broker.node_id not in description.fenced]
    directories = await admin.describe_log_dirs(serving)
    nodes = [
        _node(
            broker.node_id,
            f"{broker.host}:{broker.port}",
            "serving" if broker.node_id in serving else "fenced",
            directories.get(broker.node_id, {}),
        )
        for broker in sorted(description.brokers)
    ]
    registered = {node.broker for node in nodes}
    missing = sorted({broker for _, entry in entries for broker in entry.replicas} - registered)
    nodes += [NodeHealth(broker=broker, address=None, state="missing") for broker in missing]
    return ClusterHealth(
        cluster_id=description.cluster_id,
        controller_id=description.controller_id,
        nodes=tuple(nodes),
        topics=len(topics),
        partitions=len(entries),
        offline_partitions=tuple(TopicPartition(name, e.partition) for name, e in entries if e.leader < 0),
        under_replicated_partitions=tuple(
            TopicPartition(name, e.partition)
            for name, e in entries
            if len(e.in_sync_replicas) < len(e.replicas)
        ),
        tiered_partitions=len(tiered),
        offsets_not_in_tier=await _offsets_not_in_tier(admin, tiered),
    )


def _node(
    broker: BrokerId, address: str, state: str, directories: dict[str, LogDirDescription] | KafkaError
) -> NodeHealth:
    if isinstance(directories, KafkaError) or not directories:
        return NodeHealth(broker=broker, address=address, state=state)
    online = [each for each in directories.values() if each.error is None]
    logs = [log.size_bytes for each in online for log in each.partitions.values()]
    return NodeHealth(
        broker=broker,
        address=address,
        state=state,
        log_dirs=len(directories),
        failed_log_dirs=len(directories) - len(online),
        used_bytes=sum(logs),
        total_bytes=sum(each.total_bytes for each in online),
        usable_bytes=sum(each.usable_bytes for each in online),
    )


async def _tiered_partitions(admin: Admin, topics: Sequence[TopicDescription]) -> list[TopicPartition]:
    resources = {ConfigResource(ResourceType.TOPIC, topic.name): topic for topic in topics}
    if not resources:
        return []
    configs = succeeded(await admin.describe_configs({each: [TIERED_KEY] for each in resources}))
    return [
        TopicPartition(topic.name, entry.partition)
        for resource, topic in resources.items()
        if (found := configs.get(resource, {}).get(TIERED_KEY)) is not None and found.value == "true"
        for entry in topic.partitions
    ]


async def _offsets_not_in_tier(admin: Admin, partitions: list[TopicPartition]) -> int:
    """Return the number of offsets after the last one in the tier, of all partitions."""
    if not partitions:
        return 0
    ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    starts = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    last_tiered = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST_TIERED))
    total = 0
    for partition in partitions:
        start, end, tiered = starts[partition], ends[partition], last_tiered[partition]
        if (
            isinstance(start, ListedOffset)
            and isinstance(end, ListedOffset)
            and isinstance(tiered, ListedOffset)
        ):
            total += max(0, end.offset - max(tiered.offset + 1, start.offset))
    return total


def register(app: typer.Typer) -> None:
    """Add the command to `tidelog cluster`."""
    app.command()(health)
