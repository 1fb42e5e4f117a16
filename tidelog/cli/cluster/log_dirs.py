"""`tidelog log-dirs`: the log directories of brokers, with their sizes."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.admin import fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table, size_text

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Brokers = Annotated[
    list[int], typer.Option("--broker", metavar="ID", help="Only this broker; may be repeated.")
]


@app.command()
@connects
def log_dirs(cluster: ClusterConnection, broker: Brokers = [], as_json: AsJson = False) -> None:  # noqa: B006
    """Show the log directories of brokers: partitions, sizes, free space, errors.

    `tidelog topic log-dirs` shows and moves the replicas of topics.
    """
    described = with_admin(cluster, lambda admin: admin.describe_log_dirs(broker or None))
    directories_by_broker = succeeded(described)
    rows = [
        (
            broker_id,
            directory.path,
            len(directory.partitions),
            sum(log.size_bytes for log in directory.partitions.values()),
            directory.usable_bytes,
            directory.total_bytes,
            "online" if directory.error is None else directory.error.code.name,
        )
        for broker_id, directories in sorted(directories_by_broker.items())
        for directory in directories.values()
    ]
    if as_json:
        keys = ("broker", "log_dir", "partitions", "log_bytes", "usable_bytes", "total_bytes", "state")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        print_table(
            ("broker", "log dir", "partitions", "logs", "free", "disk", "state"),
            [(*row[:3], *map(size_text, row[3:6]), row[6]) for row in rows],
        )
    fail_unless_all(len(described), len(directories_by_broker))
