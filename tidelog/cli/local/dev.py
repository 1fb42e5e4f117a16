"""`tidelog dev`: a local broker for development."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.process import Addresses, run
from tidelog.broker.observability.logging_setup import configure_logging
from tidelog.cli.local.broker_overrides import broker_overrides
from tidelog.cli.local.development_security import (
    CLIENT_FILE,
    LIBRDKAFKA_FILE,
    open_or_create_security,
    write_client_files,
)
from tidelog.cli.options import (
    BOOTSTRAP_VARIABLE,
    COMMAND_CONFIG_VARIABLE,
    DEFAULT_BOOTSTRAP,
)
from tidelog.local_cluster.layout import CLIENT_LISTENER
from tidelog.local_cluster.ports import preferred_port
from tidelog.local_cluster.security import SECURE_LISTENER, ClusterSecurity
from tidelog.local_cluster.tiering import TIER_FOLDER, metadata_topic_settings, tiered_settings

DEFAULT_PORT: Final = 9092
DEFAULT_DATA: Final = Path("tidelog-data")
CONSOLE_PORT: Final = 8091
CONSOLE_KEY: Final = "console.listener"

# For one user: no rebalance delay, and few partitions of internal topics.
DEV_SETTINGS: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
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
    secure: Annotated[
        bool,
        typer.Option("--secure", help="Use SASL_SSL, an authorizer, a development CA and an administrator."),
    ] = False,
    tiered: Annotated[
        bool, typer.Option("--tiered", help="Enable tiered storage; a directory is the bucket.")
    ] = False,
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="The level of logs on standard error.")
    ] = "WARNING",
) -> None:
    """Start a broker for development; it runs until ctrl-C."""
    own_settings = broker_overrides(override)
    try:
        configure_logging(level=log_level.upper())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--log-level") from None
    if tiered:
        own_settings = tiered_settings(_tier_folder(data), 1, own_settings)
    security = open_or_create_security(_security_folder(data)) if secure else None
    settings = {
        **DEV_SETTINGS,
        "listeners": f"{CLIENT_LISTENER}://127.0.0.1:{port}",
        **({} if security is None else _security_settings(security, port)),
        "log.dirs": str(data.absolute()),
        **_console_settings(own_settings),
        **own_settings,
    }
    console = settings.get(CONSOLE_KEY)

    async def announce(config: BrokerConfig, addresses: Addresses) -> None:
        _, host, bound_port = addresses[0]
        if security is None:
            print(welcome(host, bound_port, data, console, is_tiered=tiered), flush=True)
            return
        address = f"{host}:{bound_port}"
        await security.create_missing_users(address)
        write_client_files(_security_folder(data), security.client_settings(address))
        print(secured_welcome(address, data, console), flush=True)

    raise typer.Exit(run(None, settings, announce))


def _tier_folder(data: Path) -> Path:
    """Return the folder that contains the bucket."""
    return data.absolute().with_name(f"{data.absolute().name}-tier")


def _security_folder(data: Path) -> Path:
    """Return the folder of certificates and passwords; a log directory contains only partitions."""
    return data.absolute().with_name(f"{data.absolute().name}-security")


def _console_settings(own_settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the console; none if its packages are missing, or if it is configured."""
    if CONSOLE_KEY in own_settings or find_spec("aiohttp") is None:
        return {}
    return {CONSOLE_KEY: f"HTTP://127.0.0.1:{preferred_port(CONSOLE_PORT)}"}


def _console_text(console: str | None) -> str:
    """Return the address of the console, or how to get one."""
    if console:
        scheme, _, rest = console.partition("://")
        return f"{scheme.lower()}://{rest}/"
    if console is None:
        return "pip install 'tidelog[console]', then tidelog console"
    return "tidelog console"


def _security_settings(security: ClusterSecurity, port: int) -> dict[str, str]:
    return {
        **security.node_settings(),
        "listeners": f"{SECURE_LISTENER}://127.0.0.1:{port}",
        "inter.broker.listener.name": SECURE_LISTENER,
    }


def welcome(host: str, port: int, data: Path, console: str | None = None, *, is_tiered: bool = False) -> str:
    """Return a text with the address and the next commands to try."""
    address = f"{host}:{port}"
    lines = [f"Tidelog is ready at {address}, with its data in {data}. Ctrl-C stops it.", ""]
    if address.replace("127.0.0.1", "localhost") != DEFAULT_BOOTSTRAP:
        lines.append(f"  first     export {BOOTSTRAP_VARIABLE}={address}")
    lines += [
        "  write     echo hello | tidelog produce greetings",
        "  read      tidelog consume greetings",
        "  look      tidelog topic list; tidelog cluster info",
        "  measure   tidelog bench produce load",
        f"  browse    {_console_text(console)}",
        f"  connect   any Kafka client, bootstrap.servers={address}",
    ]
    if is_tiered:
        lines += [
            f"  tier      the bucket is {_tier_folder(data) / TIER_FOLDER}",
            "            tidelog topic create tides -c remote.storage.enable=true",
            "            tidelog tier ls tides",
        ]
    return "\n".join([*lines, ""])


def secured_welcome(address: str, data: Path, console: str | None = None) -> str:
    """Return a text with the address, the files for clients, and the next commands to try."""
    folder = _security_folder(data)
    lines = [
        f"Tidelog is ready at {address} with SASL_SSL, with its data in {data}. Ctrl-C stops it.",
        "",
        f"  first     export {COMMAND_CONFIG_VARIABLE}={shlex.quote(str(folder / CLIENT_FILE))}",
        "  write     tidelog topic create greetings; echo hello | tidelog produce greetings",
        "  read      tidelog consume greetings",
        "  users     tidelog user create alice; tidelog acl add --allow-principal User:alice ...",
        f"  browse    {_console_text(console)}",
        f"  connect   Java clients: {folder / CLIENT_FILE}",
        f"            librdkafka:   {folder / LIBRDKAFKA_FILE}",
    ]
    return "\n".join([*lines, ""])
