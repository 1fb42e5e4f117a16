"""Binds listening sockets."""

from __future__ import annotations

import socket


def bound_socket(owner: str, host: str, port: int, receive_buffer_bytes: int = -1) -> socket.socket:
    """Return a bound socket; an empty host means all IPv6 and IPv4 addresses of the machine.

    Errors: OSError with the name of the `owner`.
    """
    is_dual_stack = not host and socket.has_dualstack_ipv6()
    host = host or ("::" if is_dual_stack else "0.0.0.0")
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, number, _, address = addresses[0]
    listening_socket = socket.socket(family, kind, number)
    try:
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if is_dual_stack else 1)
        if receive_buffer_bytes > 0:
            # Before listen, because accepted sockets inherit the TCP window from this socket.
            listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        listening_socket.bind(address)
    except OSError as error:
        listening_socket.close()
        raise OSError(error.errno, f"{owner} cannot bind to {host}:{port}: {error.strerror}") from error
    listening_socket.setblocking(False)
    return listening_socket
