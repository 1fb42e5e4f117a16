"""Accepts connections from the queue of a listening socket, a bounded batch in each turn of the loop.

The servers of the event loops have no suitable bound. uvloop accepts one connection in a turn, so that a
burst of connections waits for a busy loop. asyncio accepts all connections in the queue, so that everything
else waits for the burst. When descriptors are used up, connections stay in the queue and are accepted later.

A connection that its peer has reset stays in the queue until it is accepted. It is then closed without being
opened, which takes about 10 us. Otherwise a client that connects and resets repeatedly fills the queue, and
the connections of others wait for seconds.

Bounds: `BATCH` open connections and `RESET_BATCH` others in a turn of the loop; the queue itself is the
operating system's.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

BATCH: Final = 4
RESET_BATCH: Final = 64
"""Connections that were reset before they were accepted; they take about 0.5 ms together."""
RETRY_S: Final = 1.0
"""The time without accepting when descriptors or memory are used up."""

_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Calls `on_accepted` with each connection of a bound socket, which it owns."""

    def __init__(
        self,
        name: str,
        listening_socket: socket.socket,
        loop: asyncio.AbstractEventLoop,
        on_accepted: Callable[[socket.socket], None],
    ) -> None:
        self._name = name
        self._listening_socket = listening_socket
        self._loop = loop
        self._on_accepted = on_accepted
        self._retry: asyncio.TimerHandle | None = None
        self._is_running = False

    def start(self, backlog: int) -> None:
        """Accept connections; up to `backlog` of them wait in the queue of the operating system.

        Errors: OSError.
        """
        self._listening_socket.listen(backlog)
        self._is_running = True
        self._watch()

    def stop(self) -> None:
        """Stop accepting; the operating system resets the connections in the queue."""
        if self._is_running:
            self._is_running = False
            self._unwatch()
        if self._retry is not None:
            self._retry.cancel()
        self._listening_socket.close()

    def pause(self, duration_s: float) -> None:
        """Accept no connection for `duration_s`; connections wait in the queue."""
        if self._is_running and self._retry is None:
            self._unwatch()
            self._retry = self._loop.call_later(duration_s, self._watch)

    def _watch(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listening_socket.fileno(), self._accept)

    def _unwatch(self) -> None:
        self._loop.remove_reader(self._listening_socket.fileno())

    def _accept(self) -> None:
        accepted = reset = 0
        while accepted < BATCH and reset < RESET_BATCH:
            try:
                client_socket, _ = self._listening_socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._accept_later(error)
                    return
                # Only this connection has failed, in the queue. Others can be accepted.
                logger.debug("Listener %s: a connection failed before it was accepted: %s", self._name, error)
                reset += 1
                continue
            if client_socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                client_socket.close()
                reset += 1
                continue
            accepted += 1
            self._on_accepted(client_socket)
            if self._retry is not None:
                return

    def _accept_later(self, error: OSError) -> None:
        """Accept again after RETRY_S, because resources of the system are used up."""
        logger.error(
            "Listener %s cannot accept connections: %s; retrying in %g s",
            self._name,
            error.strerror,
            RETRY_S,
        )
        self._unwatch()
        self._retry = self._loop.call_later(RETRY_S, self._watch)
