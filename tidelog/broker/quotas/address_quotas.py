"""Applies the quotas of addresses (KIP-612), after host names among them are resolved.

A name server may take seconds for a name, so names are resolved in a thread, one after the other. Until then
a name has no quota. As in Kafka, the first address of a host has the quota. A name is resolved again only if
it is removed and set again, or the node restarts.

Bounds: one resolution at a time; only names that have a quota are kept.
I/O: a shell; names are resolved in `executor`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from concurrent.futures import Executor

from tidelog.broker.network.addresses import normalized_address
from tidelog.broker.network.connection_rates import ConnectionRates
from tidelog.cluster.client_quotas import IP, is_address
from tidelog.cluster.image import ClientQuotas

logger = logging.getLogger(__name__)


class AddressQuotas:
    """Passes the quotas of the metadata to `rates`."""

    def __init__(self, rates: ConnectionRates, executor: Executor) -> None:
        self._rates = rates
        self._executor = executor
        self._quotas: ClientQuotas = {}
        self._addresses: dict[str, str | None] = {}
        """The address of each host name that has a quota; None if it cannot be resolved."""
        self._task: asyncio.Task[None] | None = None

    def update(self, quotas: ClientQuotas) -> None:
        """Use changed quotas of clients."""
        self._quotas = quotas
        names = _host_names(quotas)
        self._addresses = {name: address for name, address in self._addresses.items() if name in names}
        self._apply()
        if self._task is None and self._unresolved() is not None:
            self._task = asyncio.get_running_loop().create_task(self._resolve())

    async def close(self) -> None:
        """Resolve no further name."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _apply(self) -> None:
        known = {name: address for name, address in self._addresses.items() if address is not None}
        self._rates.update_address_limits(self._quotas, known)

    def _unresolved(self) -> str | None:
        return next((name for name in _host_names(self._quotas) if name not in self._addresses), None)

    async def _resolve(self) -> None:
        loop = asyncio.get_running_loop()
        while (name := self._unresolved()) is not None:
            try:
                address: str | None = await loop.run_in_executor(self._executor, _address_of, name)
            except (OSError, UnicodeError) as error:
                logger.warning("Quota of ip %s has no effect: the host name has no address (%s)", name, error)
                address = None
            if name in _host_names(self._quotas):
                self._addresses[name] = address
                self._apply()
        self._task = None


def _host_names(quotas: ClientQuotas) -> dict[str, None]:
    """Return the host names that have a quota, in the order of the metadata."""
    names = (entity[0][1] for entity in quotas if entity[0][0] == IP)
    return {name: None for name in names if name is not None and not is_address(name)}


def _address_of(host: str) -> str:
    """Return the first address of a host. Errors: OSError, UnicodeError."""
    *_, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    return normalized_address(str(address[0]))
