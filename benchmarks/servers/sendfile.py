"""Sends the same bytes of a file for every 4 bytes received: the upper bound of reads from the page cache.

    python -m benchmarks.servers.sendfile <length in bytes> <send buffer in bytes, -1: Linux chooses>

Each connection has a blocking thread that calls `os.sendfile`; the bytes have no header.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from typing import Final

REQUEST_BYTES: Final = 4


def _serve(connection: socket.socket, file: int, length: int) -> None:
    with connection, suppress(ConnectionError):
        while connection.recv(REQUEST_BYTES, socket.MSG_WAITALL):
            sent = 0
            while sent < length:
                sent += os.sendfile(connection.fileno(), file, sent, length - sent)


def _accept(listener: socket.socket, file: int, length: int, send_buffer_bytes: int) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if send_buffer_bytes >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        threading.Thread(target=_serve, args=(connection, file, length), daemon=True).start()


def main() -> None:
    """Serve until SIGTERM."""
    length, send_buffer_bytes = map(int, sys.argv[1:])
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    with tempfile.TemporaryFile() as file, socket.create_server(("127.0.0.1", 0)) as listener:
        file.write(os.urandom(length))
        file.flush()
        arguments = (listener, file.fileno(), length, send_buffer_bytes)
        threading.Thread(target=_accept, args=arguments, daemon=True).start()
        host, port = listener.getsockname()
        print(f"{host}:{port}", flush=True)
        asked_to_stop.wait()


if __name__ == "__main__":
    main()
