"""`tidelog spark`: runs Spark jobs over topics. PySpark is imported when a job runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.base.count_text import count_text
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson, key_values
from tidelog.cli.spark.jobs import (
    From,
    Master,
    SourceValues,
    SparkConf,
    Tier,
    TierChoice,
    To,
    span_of,
    spark_options,
    spark_session,
    times,
    topic_source,
)
from tidelog.cli.tier.sources import (
    ConfigFile,
    Everything,
    FsckTopics,
    Offline,
    Patience,
    StorageValues,
    open_bucket,
    storage_values,
)
from tidelog.spark_connector.jobs.runtime import require_spark

if TYPE_CHECKING:
    from tidelog.remote.inspection.findings import Finding
    from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata

app = typer.Typer(
    help="Run Spark jobs over topics: archive, verify, transform, stats.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to read.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="The topic to write to.")]
Sql = Annotated[
    str,
    typer.Option(
        "--sql",
        metavar="QUERY",
        help="A query FROM source with the column value; optional: key, headers, partition, timestamp.",
    ),
]
Checkpoint = Annotated[
    str, typer.Option("--checkpoint", metavar="DIR", help="The directory of Spark's checkpoint.")
]
TargetBootstrap = Annotated[
    str | None,
    typer.Option(
        "--target-bootstrap", metavar="HOST:PORT", help="The servers of TARGET, if it is in another cluster."
    ),
]
Starting = Annotated[
    str,
    typer.Option("--starting", metavar="OFFSETS", help="Where a new checkpoint starts: earliest or latest."),
]
SinkValues = Annotated[
    list[str],
    typer.Option(
        "-O",
        "--target-option",
        metavar="KEY=VALUE",
        help="An option of the sink, such as kafka.linger.ms=50.",
    ),
]


@app.command()
@connects
def archive(
    topic: Topic,
    output: Annotated[
        str,
        typer.Argument(metavar="OUTPUT", help="The directory for Parquet files, as a path or URL of Spark."),
    ],
    cluster: ClusterConnection,
    begin: From = None,
    end: To = None,
    max_offsets: Annotated[
        int,
        typer.Option(
            "--commit-records", metavar="N", min=1, help="The approximate number of records in a commit."
        ),
    ] = 5_000_000,
    compression: Annotated[
        str, typer.Option("--compression", metavar="CODEC", help="zstd, snappy, gzip, lz4_raw or none.")
    ] = "zstd",
    tier: Tier = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    options: SourceValues = [],  # noqa: B006
    master: Master = None,
    conf: SparkConf = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Write the new records of a topic to Parquet files.

    Files are partitioned by topic and date.

    The next run continues at the next offset, also after a crash. No record is written twice.
    """
    from tidelog.cli.progress import bar
    from tidelog.cli.spark.output import print_archive
    from tidelog.spark_connector.jobs.archive import ArchiveRequest
    from tidelog.spark_connector.jobs.archive import archive as run_archive
    from tidelog.spark_connector.jobs.topic_span import require_topics

    require_spark()
    from_ms, to_ms = times(begin, end)
    source = topic_source(cluster, [topic], options, TierChoice(tier, config, storage))
    require_topics(source)
    request = ArchiveRequest(
        source=source,
        output=output,
        from_ms=from_ms,
        to_ms=to_ms,
        max_offsets_per_commit=max_offsets,
        compression=compression,
    )
    with spark_session("archive", master, conf) as spark, bar("records", 100) as show:

        def on_progress(done: int, total: int, words: str) -> None:
            show(100 * done // max(total, 1), f"% of {count_text(total, 'record', style=',')}, {words}")

        result = run_archive(spark, request, on_progress)
    print_archive(topic, output, result, as_json)


@app.command()
@connects
def verify(
    cluster: ClusterConnection,
    topics: FsckTopics = [],  # noqa: B006
    everything: Everything = False,
    offline: Offline = False,
    patience: Patience = 600,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    master: Master = None,
    conf: SparkConf = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Verify remote storage with the tasks of Spark.

    The checks are those of `tier fsck --deep`.

    Exit codes: 0 no findings, 1 findings, 2 remote storage could not be checked.
    """
    from tidelog.cli.progress import bar
    from tidelog.cli.tier.fsck import FsckOptions, exit_if_unchecked, run_fsck
    from tidelog.spark_connector.jobs.verify import inspect_with_spark

    if bool(topics) is everything:
        raise UsageFailure("give topics, or --all")
    values = storage_values(config, storage)

    def deep_check(segments: Sequence[RemoteLogSegmentMetadata]) -> list[Finding]:
        total = sum(segment.segment_size_bytes for segment in segments)
        with spark_session("verify", master, conf) as spark, bar("bytes", total) as show:
            return inspect_with_spark(
                spark, values, segments, lambda done, tasks: show(total * done // tasks, f"{done}/{tasks}")
            )

    with exit_if_unchecked():
        require_spark()
        with open_bucket(values) as bucket:
            run_fsck(
                bucket,
                FsckOptions(
                    cluster=cluster,
                    topics=topics,
                    is_deep=True,
                    is_offline=offline,
                    patience_ms=patience * 1000,
                    as_json=as_json,
                    deep_check=deep_check,
                ),
            )


@app.command()
@connects
def transform(
    topic: Topic,
    target: Target,
    sql: Sql,
    checkpoint: Checkpoint,
    cluster: ClusterConnection,
    target_bootstrap: TargetBootstrap = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Continue with new records until ctrl-C.")
    ] = False,
    starting: Starting = "earliest",
    tier: Tier = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    options: SourceValues = [],  # noqa: B006
    target_options: SinkValues = [],  # noqa: B006
    master: Master = None,
    conf: SparkConf = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Transform a topic with SQL into another topic.

    Each run reads the records since the last run with this checkpoint. Delivery is at least once: after a
    crash, the last records may be written again.
    """
    from tidelog.cli.progress import counting
    from tidelog.cli.spark.output import print_transform
    from tidelog.spark_connector.jobs.topic_span import require_topics
    from tidelog.spark_connector.jobs.transform import TransformRequest, TransformResult
    from tidelog.spark_connector.jobs.transform import transform as run_transform

    require_spark()
    request = TransformRequest(
        source=topic_source(cluster, [topic], options, TierChoice(tier, config, storage)),
        sql=sql,
        target=target,
        target_servers=target_bootstrap or cluster.bootstrap,
        checkpoint=checkpoint,
        sink_options={
            **(spark_options(cluster) if target_bootstrap is None else {}),
            **key_values(target_options, "-O"),
        },
        starting=starting,
        follows=follow,
    )
    require_topics(request.source)
    require_topics(request.target_source)
    with spark_session("transform", master, conf) as spark, counting("records read") as show:

        def on_progress(result: TransformResult) -> None:
            show(result.records_read)

        result = run_transform(spark, request, on_progress)
    print_transform(f"{topic} to {target}", result, as_json)


@app.command()
@connects
def stats(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics to analyse.")],
    cluster: ClusterConnection,
    begin: From = None,
    end: To = None,
    top: Annotated[
        int, typer.Option("-n", "--top", metavar="N", min=0, help="How many of the largest keys to list.")
    ] = 10,
    tier: Tier = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    options: SourceValues = [],  # noqa: B006
    master: Master = None,
    conf: SparkConf = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show statistics of the records of topics.

    Count records, keys, sizes and times, and show the skew of partitions.
    """
    from tidelog.cli.progress import bar
    from tidelog.cli.spark.output import print_stats
    from tidelog.spark_connector.jobs.stats import StatsRequest, count_topics

    require_spark()
    source = topic_source(cluster, topics, options, TierChoice(tier, config, storage))
    request = StatsRequest(source=source, span=span_of(source, begin, end), top=top)
    with spark_session("stats", master, conf) as spark, bar("tasks", 100) as show:

        def on_tasks(words: str, done: int, tasks: int) -> None:
            show(100 * done // tasks, f"% {words}, {done}/{tasks} tasks")

        reports = count_topics(spark, request, on_tasks)
    print_stats(reports, as_json)
