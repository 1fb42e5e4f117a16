"""`tidelog api-versions`: the versions of APIs that brokers support."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from tidelog.cli.admin import fail_unless_all, succeeded, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.options import AsJson
from tidelog.cli.output import numbers_text, print_json, print_table
from tidelog.clients.admin.admin import LevelRange
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.registry import APIS

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@connects
def api_versions(cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show the versions of each API that each broker supports."""
    described = with_admin(cluster, lambda admin: admin.describe_api_versions())
    versions_by_broker = succeeded(described)
    rows = _rows(versions_by_broker)
    if as_json:
        keys = ("api", "key", "lowest", "highest", "brokers")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        print_table(
            ("api", "key", "versions", "brokers"),
            [
                (name, key, f"{lowest} to {highest}", numbers_text(brokers))
                for name, key, lowest, highest, brokers in rows
            ],
        )
    fail_unless_all(len(described), len(versions_by_broker))


def _rows(
    versions_by_broker: Mapping[BrokerId, Mapping[int, LevelRange]],
) -> list[tuple[str, int, int, int, tuple[BrokerId, ...]]]:
    """Return a row for each API and range of versions, with the brokers that support it."""
    brokers: dict[tuple[int, LevelRange], list[BrokerId]] = {}
    for broker, versions in sorted(versions_by_broker.items()):
        for key, levels in versions.items():
            brokers.setdefault((key, levels), []).append(broker)
    return [
        (APIS[key].name if key in APIS else "unknown", key, *levels, tuple(ids))
        for (key, levels), ids in sorted(brokers.items())
    ]
