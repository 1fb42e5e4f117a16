"""`tidelog api-versions` and `tidelog features`: what the brokers support."""

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

api_versions_app = typer.Typer(add_completion=False, rich_markup_mode=None)
features_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@api_versions_app.command()
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


@features_app.command()
@connects
def features(cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show the finalized levels of features, and the levels that a broker supports."""
    described = with_admin(cluster, lambda admin: admin.describe_features())
    names = sorted({*described.finalized, *described.supported})
    rows = [
        (name, described.finalized.get(name, 0), *described.supported.get(name, (None, None)))
        for name in names
    ]
    if as_json:
        keys = ("feature", "finalized", "lowest_supported", "highest_supported")
        print_json(
            {"epoch": described.epoch, "features": [dict(zip(keys, row, strict=True)) for row in rows]}
        )
    else:
        print_table(("feature", "finalized", "lowest", "highest"), rows)
