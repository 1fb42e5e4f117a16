"""`tidelog tier`: shows, verifies, repairs and restores the segments in remote storage."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson, key_values
from tidelog.cli.output import print_json
from tidelog.cli.tier.restore_options import (
    AcceptGaps,
    As,
    At,
    Execute,
    Partitions,
    ReplicationFactor,
    TopicConfigs,
    TopicIds,
    parse_topic_id,
)
from tidelog.cli.tier.sources import (
    ConfigFile,
    Everything,
    FsckTopics,
    Offline,
    Patience,
    StorageValues,
    gather,
    gather_named,
    gather_one,
    open_bucket,
    parse_partition_name,
    storage_values,
)

app = typer.Typer(
    help="Show, verify, repair and restore the segments in remote storage.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("ls")
@connects
def list_partitions(
    cluster: ClusterConnection,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[TOPIC[-PARTITION]]...", help="Topics or partitions; default: all tiered topics."
        ),
    ] = [],  # noqa: B006
    segments: Annotated[
        bool, typer.Option("-s", "--segments", help="Also list every remote segment.")
    ] = False,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """List the offsets of partitions in remote storage.

    Also list how much is not copied yet.
    """
    from tidelog.cli.tier import output

    values = storage_values(config, storage)
    cluster_views = [gather_named(cluster, name) for name in names] if names else [gather(cluster, None)]
    views = [view for cluster_view in cluster_views for view in cluster_view.partitions]
    with ExitStack() as stack:
        bucket = stack.enter_context(open_bucket(values)) if values else None
        if as_json:
            documents = [output.partition_document(view) for view in views]
            if segments:
                for document, view in zip(documents, views, strict=True):
                    document["remote_segments"] = [
                        output.segment_document(segment, bucket) for segment in view.segments
                    ]
            print_json(documents)
            return
        output.print_partitions(views)
        if segments:
            print()
            output.print_segments(views, bucket)


@app.command()
@connects
def explain(
    name: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="The partition.")],
    cluster: ClusterConnection,
    offset: Annotated[
        int | None, typer.Option("-o", "--offset", metavar="N", min=0, help="Show where this offset is.")
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            "-n", "--next", metavar="N", min=0, help="How many of the segments that expire next to list."
        ),
    ] = 3,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show where an offset of a partition is.

    Also show the leader epochs, what is not tiered and why, and which segments expire next.

    With the settings of the bucket, also show the object and the bytes with the offset, and whether the
    store responds.
    """
    from tidelog.cli.tier import output
    from tidelog.remote.inspection.byte_range import byte_range
    from tidelog.remote.inspection.placing import locate

    topic, number = parse_partition_name(name)
    if number is None:
        raise UsageFailure(f"{name!r} is not TOPIC-PARTITION, such as tides-0")
    values = storage_values(config, storage)
    view = gather_one(cluster, topic, number).partitions[0]
    place = None if offset is None else locate(view, offset)
    where = problem = None
    if values:
        with open_bucket(values) as bucket:
            problem = bucket.problem()
            if problem is None and place is not None and place.segment is not None:
                where = byte_range(bucket, place.segment, place.offset)
    reasons = output.not_tiered(view, place, problem)
    if as_json:
        print_json(output.explain_document(view, place, where, reasons, count))
    else:
        output.print_explanation(view, place, where, reasons, count)


@app.command()
@connects
def fsck(
    cluster: ClusterConnection,
    topics: FsckTopics = [],  # noqa: B006
    everything: Everything = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every byte: checksums, offsets, indexes and other files.")
    ] = False,
    offline: Offline = False,
    patience: Patience = 600,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Verify that remote storage is complete.

    Check offsets, states and objects; with --deep, every byte.

    Exit codes: 0 no findings, 1 findings, 2 remote storage could not be checked.
    """
    from tidelog.cli.tier.fsck import FsckOptions, exit_if_unchecked, run_fsck

    if bool(topics) is everything:
        raise UsageFailure("give topics, or --all")
    with exit_if_unchecked(), open_bucket(storage_values(config, storage)) as bucket:
        run_fsck(
            bucket,
            FsckOptions(
                cluster=cluster,
                topics=topics,
                is_deep=deep,
                is_offline=offline,
                patience_ms=patience * 1000,
                as_json=as_json,
            ),
        )


@app.command()
@connects
def repair(
    cluster: ClusterConnection,
    topics: FsckTopics = [],  # noqa: B006
    everything: Annotated[bool, typer.Option("-a", "--all", help="All tiered topics.")] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Write the objects; without it, only report.")
    ] = False,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write damaged segments again from replicas that still have their records on a local disk.

    Every byte in the bucket is read first, as by fsck --deep.

    Exit codes: 0 success, 1 a segment cannot be repaired, 2 remote storage could not be checked.
    """
    from tidelog.cli.tier.fsck import exit_if_unchecked
    from tidelog.cli.tier.repair import run_repair

    if bool(topics) is everything:
        raise UsageFailure("give topics, or --all")
    with exit_if_unchecked(), open_bucket(storage_values(config, storage)) as bucket:
        run_repair(bucket, cluster, topics, executes=execute, as_json=as_json)


@app.command()
@connects
def restore(
    cluster: ClusterConnection,
    topics: FsckTopics = [],  # noqa: B006
    everything: Annotated[bool, typer.Option("-a", "--all", help="All topics in the bucket.")] = False,
    execute: Execute = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Report from the bucket alone, without a cluster.")
    ] = False,
    topic_ids: TopicIds = [],  # noqa: B006
    partitions: Partitions = 1,
    replication_factor: ReplicationFactor = -1,
    topic_config: TopicConfigs = [],  # noqa: B006
    accept_gaps: AcceptGaps = False,
    at: At = None,
    new_name: As = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Restore topics from their segments in the bucket alone.

    The topics get their old ids; no data is copied. An interrupted restore continues when it is repeated.
    With --at, one topic is restored as of a time under a new name; its segments refer to those of the topic.

    Exit codes: 0 success, 1 a topic cannot be restored.
    """
    from tidelog.cli.tier.restore import RestoreOptions, run_restore
    from tidelog.cli.tier.time_travel import TravelOptions, parse_time, run_time_travel
    from tidelog.remote.restore.plan import SAFE_CONFIGS, PlanOptions

    if bool(topics) is everything:
        raise UsageFailure("give topics, or --all")
    if execute and offline:
        raise UsageFailure("--execute needs a cluster: omit --offline")
    if (at is None) is not (new_name is None) or (at is not None and len(topics) != 1):
        raise UsageFailure("--at restores one topic under a new name: give the topic, --at and --as")
    options = RestoreOptions(
        topics=topics,
        topic_ids=[parse_topic_id(text) for text in topic_ids],
        plan=PlanOptions(
            partitions=partitions,
            replication_factor=replication_factor,
            configs={**SAFE_CONFIGS, **key_values(topic_config, "--topic-config")},
            accepts_gaps=accept_gaps,
        ),
        is_offline=offline,
        executes=execute,
        as_json=as_json,
    )
    with open_bucket(storage_values(config, storage)) as bucket:
        if at is None or new_name is None:
            run_restore(bucket, cluster, options)
        else:
            travel = TravelOptions(timestamp_ms=parse_time(at), name=new_name, restore=options)
            run_time_travel(bucket, cluster, travel)


@app.command()
@connects
def mount(
    mount_name: Annotated[str, typer.Argument(metavar="MOUNT", help="The mount in the brokers' settings.")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic in the bucket of the mount.")],
    cluster: ClusterConnection,
    new_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The name in this cluster; default: the same."),
    ] = None,
    topic_ids: TopicIds = [],  # noqa: B006
    replication_factor: ReplicationFactor = -1,
    execute: Execute = False,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Mount a topic of another cluster's bucket: readable without copying, and read-only.

    It follows new segments as they appear. Without --execute, only report.

    Exit codes: 0 success, 1 the topic cannot be mounted.
    """
    from tidelog.cli.tier.mount import MountOptions, run_mount

    options = MountOptions(
        mount=mount_name,
        topic=topic,
        name=new_name or topic,
        topic_ids=[parse_topic_id(text) for text in topic_ids],
        replication_factor=replication_factor,
        executes=execute,
        as_json=as_json,
    )
    raise typer.Exit(run_mount(storage_values(config, storage), cluster, options))


@app.command()
@connects
def unmount(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The mounted topic.")],
    cluster: ClusterConnection,
    as_json: AsJson = False,
) -> None:
    """Delete a mounted topic; the objects of its source are kept.

    Exit codes: 0 success, 1 the topic is not mounted.
    """
    from tidelog.cli.tier.mount import run_unmount

    raise typer.Exit(run_unmount(cluster, topic, as_json))
