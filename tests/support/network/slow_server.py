"""A server that sends one byte at a time and never ends its response."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PAUSE_S = 0.02


@contextmanager
def slow_server(response: bytes = b"HTTP/1.1 200 OK\r\nX-Padding: ", padding: bytes = b"x") -> Iterator[str]:
    """Yield the URL of a server that sends `response`, then `padding` forever, a byte every 20 ms."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def send_slowly(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.sendall(response)
            while not over.wait(_PAUSE_S):
                connection.sendall(padding)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=send_slowly, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
