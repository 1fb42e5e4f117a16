"""`tidelog console`: serves a web page that shows the cluster, to one user or to several."""

from __future__ import annotations

import ssl
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.console.price_options import has_prices
from tidelog.cli.console.tier_cost import TierPrices
from tidelog.cli.failures import UsageFailure
from tidelog.cli.running import run

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8090
LOOPBACK_HOSTS: Final = ("127.0.0.1", "::1", "localhost")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@connects
@has_prices
def console(
    cluster: ClusterConnection,
    prices: TierPrices,
    port: Annotated[
        int,
        typer.Option(
            "-p", "--port", metavar="PORT", min=0, max=65_535, help="The port; 0 selects a free one."
        ),
    ] = DEFAULT_PORT,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")
    ] = DEFAULT_HOST,
    sign_in: Annotated[
        bool, typer.Option("--sign-in", help="Users sign in with their own credentials of SASL.")
    ] = False,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Allow to create topics, write records and reset offsets.")
    ] = False,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            envvar="TIDELOG_SCHEMA_REGISTRY",
            show_envvar=False,
            help="Decode records with its schemas; user and password may be in the address.",
        ),
    ] = None,
    tls_config: Annotated[
        Path | None,
        typer.Option(
            "--tls-config", metavar="FILE", help="Serve by HTTPS, with the ssl.keystore keys of this file."
        ),
    ] = None,
) -> None:
    """Serve a web page that shows the cluster, until ctrl-C.

    The page has the rights of this connection, and changes nothing unless --allow-writes is given. Only the
    browser that opens the printed address gets it. With --sign-in, all users with credentials get it.
    """
    _require_aiohttp()
    # Imported here: the command line works without aiohttp.
    from tidelog.cli.console.serving import ConsoleSettings, serve_own, serve_users

    tls = None if tls_config is None else _tls_context(tls_config)
    if sign_in and tls is None and host not in LOOPBACK_HOSTS:
        raise UsageFailure(
            f"--sign-in with --host {host} would send credentials unencrypted: give --tls-config,"
            f" or one of {', '.join(LOOPBACK_HOSTS)} behind a proxy with TLS"
        )
    settings = ConsoleSettings(
        host=host,
        port=port,
        tls=tls,
        allows_writes=allow_writes,
        schema_registry=schema_registry,
        prices=prices,
    )
    serve = serve_users if sign_in else serve_own
    run(serve(cluster, settings, lambda url: print(f"console  {url}", flush=True)))


def _require_aiohttp() -> None:
    if find_spec("aiohttp") is None:
        raise UsageFailure(
            "the console needs aiohttp, which is not installed; run pip install 'tidelog[console]'"
        )


def _tls_context(file: Path) -> ssl.SSLContext:
    from tidelog.base.properties import parse_properties
    from tidelog.security.tls.contexts import server_context
    from tidelog.security.tls.settings import parse_tls_settings

    try:
        properties = parse_properties(file.read_text())
    except OSError as error:
        raise UsageFailure(f"--tls-config {file}: {error.strerror or error}") from error
    context, _ = server_context(parse_tls_settings(properties))
    return context
