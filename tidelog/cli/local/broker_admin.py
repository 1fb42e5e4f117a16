"""`tidelog broker list` and `tidelog broker unregister`: the registered brokers of a cluster."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tidelog.cli.admin import OPERATION_TIMEOUT_MS, with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table
from tidelog.clients.admin.admin import ClusterDescription

COMMANDS: Final = ("list", "unregister")
"""The subcommands of `tidelog broker` that do not run a broker."""

app = typer.Typer(
    help="List and unregister the brokers of a cluster.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
@connects
def list_brokers(cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """List the brokers, also fenced brokers such as stopped ones."""
    description = with_admin(cluster, lambda admin: admin.describe_cluster(include_fenced=True))
    rows = _rows(description)
    if as_json:
        print_json([dict(zip(("broker", "host", "port", "rack", "state"), row, strict=True)) for row in rows])
    else:
        print_table(("broker", "host", "port", "rack", "state"), rows)


@app.command()
@connects
def unregister(
    broker: Annotated[
        int, typer.Argument(metavar="BROKER", help="The id of a broker that was removed for good.")
    ],
    cluster: ClusterConnection,
) -> None:
    """Remove the registration of a broker that will not return."""
    with_admin(cluster, lambda admin: admin.unregister_broker(broker, timeout_ms=OPERATION_TIMEOUT_MS))
    print(f"unregistered broker {broker}")


def _rows(description: ClusterDescription) -> list[tuple[object, ...]]:
    return [
        (
            broker.node_id,
            broker.host,
            broker.port,
            broker.rack,
            "fenced" if broker.node_id in description.fenced else "serving",
        )
        for broker in sorted(description.brokers)
    ]
