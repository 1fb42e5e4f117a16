"""`tidelog tier`: what is in remote storage, why, and whether it is whole."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from tidelog.cli.output import print_json
from tidelog.cli.tier_sources import (
    ConfigFile,
    Everything,
    FsckTopics,
    Offline,
    Patience,
    StorageValues,
    gather,
    gather_named,
    gather_one,
    opened_bucket,
    split_name,
    storage_values,
)

app = typer.Typer(
    help="Show what is in remote storage, why, and whether it is whole.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("ls")
def list_partitions(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[TOPIC[-PARTITION]]...", help="All tiered topics if none is given."),
    ] = [],  # noqa: B006
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    segments: Annotated[bool, typer.Option("-s", "--segments", help="Every remote segment, too.")] = False,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show how far partitions are in remote storage, and what waits."""
    from tidelog.cli import tier_output as output

    values = storage_values(config, storage)
    seen = [gather_named(bootstrap, name) for name in names] if names else [gather(bootstrap, None)]
    views = [view for each in seen for view in each.partitions]
    with ExitStack() as stack:
        bucket = stack.enter_context(opened_bucket(values)) if values else None
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
def explain(
    name: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="The partition.")],
    offset: Annotated[
        int | None, typer.Option("-o", "--offset", metavar="N", min=0, help="Where is it?")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    count: Annotated[
        int, typer.Option("-n", "--next", metavar="N", min=0, help="How many of the next segments to go.")
    ] = 3,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Say where an offset is, which leader epochs there are, what is not tiered yet, and what goes next.

    With the bucket's settings also in which bytes of which object the offset is.
    """
    from tidelog.cli import tier_output as output
    from tidelog.remote.inspection.byte_range import byte_range
    from tidelog.remote.inspection.placing import locate

    topic, number = split_name(name)
    if number is None:
        raise UsageFailure(f"{name!r} is not TOPIC-PARTITION, such as tides-0")
    values = storage_values(config, storage)
    view = gather_one(bootstrap, topic, number).partitions[0]
    place = None if offset is None else locate(view, offset)
    where = None
    if values and place is not None and place.segment is not None:
        with opened_bucket(values) as bucket:
            where = byte_range(bucket, place.segment, place.offset)
    if as_json:
        print_json(output.explain_document(view, place, where, count))
    else:
        output.print_explanation(view, place, where, count)


@app.command()
def fsck(
    topics: FsckTopics = [],  # noqa: B006
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    everything: Everything = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every byte: checksums, offsets, indexes, small files.")
    ] = False,
    offline: Offline = False,
    patience: Patience = 600,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Prove that remote storage is whole: offsets, states, objects; with --deep every byte.

    Exits with 0 when it is clean, 1 when something was found, 2 when it could not be looked at.
    """
    from tidelog.cli.tier_fsck import FsckOptions, exit_when_blind, run_fsck

    if bool(topics) is everything:
        raise UsageFailure("give topics, or --all")
    with exit_when_blind(), opened_bucket(storage_values(config, storage)) as bucket:
        run_fsck(
            bucket,
            FsckOptions(
                bootstrap=bootstrap,
                topics=topics,
                is_deep=deep,
                is_offline=offline,
                patience_ms=patience * 1000,
                as_json=as_json,
            ),
        )
