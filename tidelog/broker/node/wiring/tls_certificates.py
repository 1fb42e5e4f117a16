"""Replaces the certificates of listeners while the node runs; open connections keep theirs.

The certificates are loaded again when their files change, which is checked every CHECK_INTERVAL_S, and when
the settings of the listener change. A problem is reported once, and the former certificate stays in use. On a
listener for other nodes, the certificate with which this node connects to them is replaced at the same time.
A listener that only other nodes have (that of the controllers, for a broker) has one for connections only.

I/O: a shell; files are read in `executor`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Final, NamedTuple, TypeVar

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.listener_tls import listener_tls_settings
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.node_tls import NodeTls
from tidelog.security.tls.certificate_changes import certificate_change_problem
from tidelog.security.tls.client import ClientIdentity, load_client_identity
from tidelog.security.tls.file_versions import file_versions
from tidelog.security.tls.server import ServerIdentity, TlsServer, load_server_identity
from tidelog.security.tls.settings import TlsSettings
from tidelog.security.tls.verification import check_handshake

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

CHECK_INTERVAL_S: Final = 10.0


class Replacement(NamedTuple):
    """The new identity of a listener, and that of connections to the same listener of other nodes.

    Each is None if this node has no such listener, or does not connect to it.
    """

    server: ServerIdentity | None
    client: ClientIdentity | None


class TlsCertificates:
    """Keeps the identities of the listeners with TLS of one network server up to date."""

    def __init__(
        self,
        network: NetworkServer,
        listeners: Iterable[Listener],
        config: BrokerConfig,
        node_tls: NodeTls,
        executor: Executor,
    ) -> None:
        self._network = network
        self._listeners = tuple(listeners)
        self._config = config
        self._node_tls = node_tls
        self._executor = executor
        self._config_changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._problems: dict[str, str] = {}
        """The last problem of each listener, so that it is reported once."""

    def start(self) -> None:
        """Begin to check the files of the listeners that use TLS."""
        names = [listener.name for listener in self._listeners]
        if any(self._server(name) is not None or self._node_tls.client(name) is not None for name in names):
            self._task = asyncio.get_running_loop().create_task(self._run())

    def apply(self, config: BrokerConfig) -> None:
        """Use the settings of `config` from now on."""
        self._config = config
        self._config_changed.set()

    async def close(self) -> None:
        """Replace no further certificate."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if a listener could not use its certificate with `config`."""
        for listener in self._listeners:
            await self.load(config, listener)

    async def load(self, config: BrokerConfig, listener: Listener) -> Replacement | None:
        """Return the identity that a listener would have with `config`; None if it would not change.

        Errors: ConfigError if the certificate cannot be loaded, or must not replace that of the listener.
        """
        tls = self._server(listener.name)
        if tls is None:
            return await self._load_client(config, listener)
        former_server, settings = tls.identity, listener_tls_settings(config, listener)
        if await self._is_current(former_server, settings):
            return None
        server = await self._in_thread(load_server_identity, settings)
        problem = certificate_change_problem(
            former_server.certificate,
            server.certificate,
            allows_dn=config.ssl_allow_dn_changes,
            allows_san=config.ssl_allow_san_changes,
        )
        if problem is not None:
            assert settings.key_store is not None
            raise settings.key_store.content_error(problem)
        tls_client = self._node_tls.client(listener.name)
        if tls_client is None:
            return Replacement(server, None)
        client = await self._in_thread(load_client_identity, settings)
        # Other nodes may have the former certificates or the new ones.
        check_handshake(server, tls_client.identity)
        check_handshake(former_server, client)
        check_handshake(server, client)
        return Replacement(server, client)

    async def _load_client(self, config: BrokerConfig, listener: Listener) -> Replacement | None:
        client = self._node_tls.client(listener.name)
        if client is None:
            return None
        settings = listener_tls_settings(config, listener)
        if await self._is_current(client.identity, settings):
            return None
        return Replacement(None, await self._in_thread(load_client_identity, settings))

    async def _is_current(self, identity: ServerIdentity | ClientIdentity, settings: TlsSettings) -> bool:
        """Return whether `identity` has these settings, and its files have not changed."""
        if settings != identity.settings:
            return False
        return await self._in_thread(file_versions, settings) == identity.files

    def _server(self, name: str) -> TlsServer | None:
        """Return the TLS of this node's listener `name`; None if there is no such listener with TLS."""
        listener = self._network.listeners.get(name)
        return None if listener is None else listener.tls

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(CHECK_INTERVAL_S):
                    await self._config_changed.wait()
            except TimeoutError:
                pass
            self._config_changed.clear()
            for listener in self._listeners:
                await self._update(listener)

    async def _update(self, listener: Listener) -> None:
        try:
            replacement = await self.load(self._config, listener)
        except ConfigError as error:
            problem = str(error)
            if self._problems.get(listener.name) != problem:
                self._problems[listener.name] = problem
                logger.error(
                    "Cannot replace the certificate of listener %s: %s; keeping the former certificate",
                    listener.name,
                    problem,
                )
            return
        self._problems.pop(listener.name, None)
        if replacement is None:
            return
        tls, client = self._server(listener.name), self._node_tls.client(listener.name)
        if client is not None and replacement.client is not None:
            client.use(replacement.client)
        if tls is None or replacement.server is None:
            logger.info("Connections to listener %s use another certificate", listener.name)
            return
        identity = replacement.server
        tls.use(identity)
        logger.info(
            "Listener %s uses another certificate: serial number %x, valid until %s",
            listener.name,
            identity.certificate.serial_number,
            identity.certificate.not_valid_after_utc.isoformat(),
        )

    async def _in_thread(self, work: Callable[[TlsSettings], ResultT], settings: TlsSettings) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, settings)
