"""`tidelog broker list` and `tidelog broker unregister`: the brokers that the cluster knows."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tidelog.cli.admin import OPERATION_TIMEOUT_MS, with_admin
from tidelog.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from tidelog.cli.output import print_json, print_table
from tidelog.clients.admin.admin import ClusterDescription

COMMANDS: Final = ("list", "unregister")
"""What stands behind `tidelog broker` when no broker is to be run."""

app = typer.Typer(
    help="Show and forget the brokers of a cluster.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_brokers(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List the brokers, those that are dead or not let in included."""
    described = with_admin(bootstrap, lambda admin: admin.describe_cluster(include_fenced=True))
    rows = _rows(described)
    if as_json:
        print_json([dict(zip(("broker", "host", "port", "rack", "state"), row, strict=True)) for row in rows])
    else:
        print_table(("broker", "host", "port", "rack", "state"), rows)


@app.command()
def unregister(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="The id of a broker that is gone.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Have the cluster forget a broker that will not come back."""
    with_admin(bootstrap, lambda admin: admin.unregister_broker(broker, timeout_ms=OPERATION_TIMEOUT_MS))
    print(f"unregistered broker {broker}")


def _rows(described: ClusterDescription) -> list[tuple[object, ...]]:
    return [
        (
            broker.node_id,
            broker.host,
            broker.port,
            broker.rack,
            "fenced" if broker.node_id in described.fenced else "serving",
        )
        for broker in sorted(described.brokers)
    ]
