"""Serves a console until the task is cancelled (shell)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from tidelog.base.clock import SystemClock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import SYSTEM_RANDOMNESS
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.console.access import LOOPBACK_NAMES, TOKEN_PARAMETER, TokenAccess, name_in_url
from tidelog.cli.console.connector import SessionConnector
from tidelog.cli.console.schemas.decoding import SchemaDecoder
from tidelog.cli.console.schemas.registry import SchemaRegistry
from tidelog.cli.console.server import ConsoleServer
from tidelog.cli.console.sign_in import OpenAccess, SignInAccess
from tidelog.cli.console.tier_cost import NO_PRICES, TierPrices
from tidelog.cli.console.user_sessions import UserSessions
from tidelog.cli.failures import UsageFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Where a console listens, and what it can do."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    allows_writes: bool = False
    schema_registry: str | None = None
    prices: TierPrices = NO_PRICES

    def url(self, port: int) -> str:
        """Return the address of the console at its port."""
        return f"http{'' if self.tls is None else 's'}://{name_in_url(self.host)}:{port}/"


async def serve_own(
    cluster: ClusterConnection, settings: ConsoleSettings, on_ready: Callable[[str], None]
) -> None:
    """Serve the browser of the user that has started the console; report the address with its token."""
    session = await SessionConnector(cluster).open()
    try:
        hosts = LOOPBACK_NAMES | {name_in_url(settings.host)}
        access = TokenAccess(session, hosts, SYSTEM_RANDOMNESS, allows_writes=settings.allows_writes)
        async with _decoder(settings) as decoder:
            app = ConsoleServer(access, decoder, settings.prices).app
            await _serve(app, settings, lambda url: on_ready(f"{url}?{TOKEN_PARAMETER}={access.token}"))
    finally:
        await session.close()


async def serve_users(
    cluster: ClusterConnection, settings: ConsoleSettings, on_ready: Callable[[str], None]
) -> None:
    """Serve users, each with credentials of their own; report the address."""
    connector = SessionConnector(cluster)
    async with _decoder(settings) as decoder:
        if (form := connector.sign_in_form()) is not None:
            sessions = UserSessions(SystemClock(), SYSTEM_RANDOMNESS)
            access = SignInAccess(form, connector.open_as, sessions, allows_writes=settings.allows_writes)
            try:
                await _serve(ConsoleServer(access, decoder, settings.prices).app, settings, on_ready)
            finally:
                await sessions.close()
            return
        session = await connector.open()
        try:
            hosts = frozenset({name_in_url(settings.host), socket.gethostname().lower()})
            policy = OpenAccess(session, hosts, allows_writes=settings.allows_writes)
            await _serve(ConsoleServer(policy, decoder, settings.prices).app, settings, on_ready)
        finally:
            await session.close()


@asynccontextmanager
async def _decoder(settings: ConsoleSettings) -> AsyncIterator[SchemaDecoder | None]:
    if settings.schema_registry is None:
        yield None
        return
    try:
        registry = SchemaRegistry(settings.schema_registry)
    except ValueError as error:
        raise UsageFailure(f"schema registry {error}") from error
    async with registry:
        yield SchemaDecoder(registry, SystemClock())


async def _serve(app: web.Application, settings: ConsoleSettings, on_ready: Callable[[str], None]) -> None:
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=settings.tls)
        await site.start()
        on_ready(settings.url(runner.addresses[0][1]))
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
