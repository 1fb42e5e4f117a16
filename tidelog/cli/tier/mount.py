"""`tidelog tier mount` and `unmount`: topics of other clusters, read from their buckets (shell)."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import UsageFailure, complain
from tidelog.cli.output import print_json, print_result, print_table
from tidelog.cli.tier.restore import surveyed_topics
from tidelog.cli.tier.sources import open_bucket
from tidelog.clients.admin.admin import Admin
from tidelog.cluster.topic_names import check_name
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.remote.mounts.mounting import MountError, TopicMount, unmount
from tidelog.remote.objects.mounts import MOUNTS, mount_values
from tidelog.remote.restore.plan import PlanOptions, TopicPlan, topic_plan
from tidelog.storage.config.topic_source import TopicSource

_STORAGE = "storage."


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOptions:
    """The options of one mount: `topic` of `mount` gets the name `name`."""

    mount: str
    topic: str
    name: str
    topic_ids: Collection[UUID] = ()
    replication_factor: int = -1
    executes: bool = False
    as_json: bool = False


def run_mount(values: dict[str, str], cluster: ClusterConnection, options: MountOptions) -> int:
    """Survey the source, check or mount the topic, and print the report; return the exit status."""
    try:
        check_name(options.name)
    except KafkaError as error:
        raise UsageFailure(f"--as {options.name}: {error}") from error
    with open_bucket(_values_of(values, options.mount)) as bucket:
        ((name, topic_id), partitions), *_ = surveyed_topics(
            bucket, [options.topic], options.topic_ids
        ).items()
    plan = topic_plan(name, topic_id, partitions, PlanOptions(is_live=True))
    source = TopicSource(topic=name, topic_id=topic_id, mount=options.mount)
    obstacle = ""
    ends: dict[TopicPartition, Offset] = {}

    async def work(admin: Admin) -> None:
        nonlocal obstacle, ends
        mount = TopicMount(
            admin=admin,
            name=options.name,
            source=source,
            plan=plan,
            replication_factor=options.replication_factor,
        )
        try:
            if options.executes:
                ends = await mount.run()
            else:
                await mount.check()
        except MountError as error:
            obstacle = str(error)

    with_admin(cluster, work)
    _print(options, plan, ends, obstacle)
    return 1 if obstacle else 0


def run_unmount(cluster: ClusterConnection, name: str, as_json: bool) -> int:
    """Unmount a topic; return the exit status."""

    async def work(admin: Admin) -> str:
        try:
            await unmount(admin, name)
        except MountError as error:
            return str(error)
        return ""

    obstacle = with_admin(cluster, work)
    if obstacle:
        complain(obstacle)
        return 1
    print_result(as_json, f"Unmounted topic {name}; the objects of its source are kept.", unmounted=name)
    return 0


def _values_of(values: dict[str, str], mount: str) -> dict[str, str]:
    """Return the settings of a storage manager for the bucket of a mount."""
    mounts = mount_values(values)
    if mount not in mounts:
        names = ", ".join(sorted(mounts)) or "none"
        raise UsageFailure(
            f"there is no mount {mount}: set mounts.{mount}.storage.backend.class and the settings of its "
            f"store, here and on all brokers (rsm.config.); mounts: {names}"
        )
    shared = {
        key: text
        for key, text in values.items()
        if not key.startswith((_STORAGE, MOUNTS)) and key != "key.prefix"
    }
    return shared | mounts[mount]


def _print(options: MountOptions, plan: TopicPlan, ends: dict[TopicPartition, Offset], obstacle: str) -> None:
    rows = [
        (
            str(TopicPartition(options.name, each.partition.partition)),
            each.start_offset,
            ends.get(TopicPartition(options.name, each.partition.partition), each.end_offset),
            len(each.segments),
        )
        for each in plan.partitions
    ]
    if options.as_json:
        print_json(
            {
                "topic": options.name,
                "mounted": bool(ends),
                "obstacle": obstacle or None,
                "partitions": [
                    {"partition": number, "start_offset": start, "end_offset": end, "segments": segments}
                    for number, (_, start, end, segments) in enumerate(rows)
                ],
            }
        )
        return
    print_table(("partition", "start", "end", "segments"), rows)
    if obstacle:
        complain(obstacle)
    elif ends:
        print(f"mounted: {options.name} is topic {options.topic} of mount {options.mount}, read-only")
    else:
        print("dry run: --execute mounts the topic")
