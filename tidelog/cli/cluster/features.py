"""`tidelog features`: the feature levels of a cluster, as with kafka-features.sh."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.admin import OPERATION_TIMEOUT_MS, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson, key_values
from tidelog.cli.output import print_json, print_table
from tidelog.clients.admin.admin import UpgradeType

app = typer.Typer(
    help="Show and change the levels of features of a cluster.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Levels = Annotated[
    list[str],
    typer.Option("--feature", metavar="NAME=LEVEL", help="A feature and its new level; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check whether the levels can be changed.")]


@app.command()
@connects
def describe(cluster: ClusterConnection, as_json: AsJson = False) -> None:
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


@app.command()
@connects
def upgrade(
    cluster: ClusterConnection,
    feature: Levels = [],  # noqa: B006
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Raise the levels of features."""
    _update(cluster, feature, UpgradeType.UPGRADE, dry_run, as_json)


@app.command()
@connects
def downgrade(
    cluster: ClusterConnection,
    feature: Levels = [],  # noqa: B006
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Allow levels at which metadata may be lost.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Lower the levels of features; level 0 disables a feature."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    _update(cluster, feature, kind, dry_run, as_json)


def _update(
    cluster: ClusterConnection, texts: list[str], kind: UpgradeType, dry_run: bool, as_json: bool
) -> None:
    levels = {name: _level(name, text) for name, text in key_values(texts, "--feature").items()}
    if not levels:
        raise UsageFailure("give --feature NAME=LEVEL")
    with_admin(
        cluster,
        lambda admin: admin.update_features(
            levels, upgrade_type=kind, validate_only=dry_run, timeout_ms=OPERATION_TIMEOUT_MS
        ),
    )
    if as_json:
        print_json([{"feature": name, "level": level, "dry_run": dry_run} for name, level in levels.items()])
        return
    for name, level in levels.items():
        print(f"{name} {'can be' if dry_run else 'is now'} at level {level}")


def _level(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageFailure(f"--feature {name}={text}: expected a level of at least 0")
    return int(text)
