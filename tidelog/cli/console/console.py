"""`tidelog console`: serves a web page that shows the cluster, to the browser of this user."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from tidelog.base.randomness import SYSTEM_RANDOMNESS
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import CONNECT_TIMEOUT_MS
from tidelog.cli.running import run

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8090
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@connects
def console(
    cluster: ClusterConnection,
    port: Annotated[
        int,
        typer.Option(
            "-p", "--port", metavar="PORT", min=0, max=65_535, help="The port; 0 selects a free one."
        ),
    ] = DEFAULT_PORT,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")
    ] = DEFAULT_HOST,
) -> None:
    """Serve a web page that shows the cluster, until ctrl-C.

    The page has the rights of this connection, and changes nothing. Only the browser that opens the printed
    address gets it.
    """
    try:
        import aiohttp.web  # noqa: F401
    except ImportError:
        raise UsageFailure(
            "the console needs aiohttp, which is not installed; run pip install 'tidelog[console]'"
        ) from None
    run(_serve(cluster, host, port))


async def _serve(cluster: ClusterConnection, host: str, port: int) -> None:
    # Imported here: the command line works without aiohttp.
    from aiohttp import web

    from tidelog.cli.console.access import TOKEN_PARAMETER, Access, name_in_url
    from tidelog.cli.console.server import ConsoleServer
    from tidelog.clients.admin.admin import Admin
    from tidelog.clients.config.client_config import AdminConfig, ConsumerConfig

    admin_options = cluster.client_options(AdminConfig, {"default_api_timeout_ms": CONNECT_TIMEOUT_MS})
    defaults = {"default_api_timeout_ms": CONNECT_TIMEOUT_MS}
    # Reading must not create a topic, or change the offsets of a group.
    own = {"allow_auto_create_topics": False, "enable_auto_commit": False}
    consumer_options = {**cluster.client_options(ConsumerConfig, defaults), **own, "group_id": None}
    shown = name_in_url(host)
    access = Access(LOOPBACK_NAMES | {shown}, SYSTEM_RANDOMNESS)
    async with Admin(cluster.bootstrap, **admin_options) as admin:
        server = ConsoleServer(admin, cluster.bootstrap, consumer_options, access)
        runner = web.AppRunner(server.app, handle_signals=False, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port)
            await site.start()
            bound_port = runner.addresses[0][1]
            print(f"console  http://{shown}:{bound_port}/?{TOKEN_PARAMETER}={access.token}", flush=True)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()
