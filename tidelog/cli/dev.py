"""`tidelog dev`: a local broker for development."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.process import Addresses, run
from tidelog.broker.observability.logging_setup import configure_logging
from tidelog.cli.options import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP, key_values
from tidelog.local_cluster.tiering import metadata_topic_settings

DEFAULT_PORT: Final = 9092
DEFAULT_DATA: Final = Path("tidelog-data")

# For one user: no rebalance delay, and few partitions of internal topics.
DEV_SETTINGS: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    **metadata_topic_settings(1),
    "group.initial.rebalance.delay.ms": "0",
}

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def dev(
    port: Annotated[
        int,
        typer.Option(
            "-p",
            "--port",
            metavar="PORT",
            min=0,
            max=65535,
            help="The port for clients; 0 selects a free port.",
        ),
    ] = DEFAULT_PORT,
    data: Annotated[
        Path,
        typer.Option("-d", "--data", metavar="DIRECTORY", help="The data directory; created if missing."),
    ] = DEFAULT_DATA,
    override: Annotated[
        list[str], typer.Option("-o", "--override", metavar="KEY=VALUE", help="A broker setting.")
    ] = [],  # noqa: B006
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="The level of logs on standard error.")
    ] = "WARNING",
) -> None:
    """Start a broker for development; it runs until ctrl-C."""
    try:
        configure_logging(level=log_level.upper())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--log-level") from None
    settings = {
        **DEV_SETTINGS,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data.absolute()),
        **key_values(override, "--override"),
    }

    def announce(config: BrokerConfig, addresses: Addresses) -> None:
        _, host, bound_port = addresses[0]
        print(welcome(host, bound_port, data), flush=True)

    raise typer.Exit(run(None, settings, announce))


def welcome(host: str, port: int, data: Path) -> str:
    """Return a text with the address and the next commands to try."""
    address = f"{host}:{port}"
    lines = [f"Tidelog is ready at {address}, with its data in {data}. Ctrl-C stops it.", ""]
    if address.replace("127.0.0.1", "localhost") != DEFAULT_BOOTSTRAP:
        lines.append(f"  first     export {BOOTSTRAP_VARIABLE}={address}")
    lines += [
        "  write     echo hello | tidelog produce greetings",
        "  read      tidelog consume greetings",
        "  look      tidelog topic list; tidelog cluster info",
        "  measure   tidelog perf produce load",
        f"  connect   any Kafka client, bootstrap.servers={address}",
    ]
    return "\n".join([*lines, ""])
