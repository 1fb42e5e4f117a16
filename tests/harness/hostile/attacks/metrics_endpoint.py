"""Connections that keep the metrics endpoint busy (item 21)."""

from __future__ import annotations

import socket
import urllib.request

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext

TIMEOUT_S = 3.0


def _hold_idle_connections(context: AttackContext) -> None:
    address = context.target.metrics_address
    sockets: list[socket.socket] = []
    context.begin()
    try:
        for _ in range(64):
            sockets.append(socket.create_connection(address, TIMEOUT_S))
        for path in ("healthz", "metrics"):
            context.expect(_is_served(address, path), f"/{path} is not served to others")
        for idle in sockets:
            # An incomplete request head counts as idle, too.
            try:
                idle.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            except OSError:
                continue
        for path in ("healthz", "metrics"):
            context.expect(_is_served(address, path), f"/{path} is not served to others behind open requests")
        context.hold()
    finally:
        for idle in sockets:
            idle.close()


def _is_served(address: tuple[str, int], path: str) -> bool:
    url = f"http://{address[0]}:{address[1]}/{path}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            return bool(response.read())
    except OSError:
        return False


def _scrape_without_pause(context: AttackContext) -> None:
    address = context.target.metrics_address
    sockets = []
    context.begin()
    scrapes = 0
    while not context.has_ended:
        try:
            connection = socket.create_connection(address, TIMEOUT_S)
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        except OSError:
            context.pause()
            continue
        sockets.append(connection)
        scrapes += 1
        if len(sockets) > 32:
            sockets.pop(0).close()
    for connection in sockets:
        connection.close()
    context.note(f"{scrapes} scrapes, none of them read")


ATTACKS = (
    Attack(
        name="metrics-idle-connections",
        item="21",
        actions="64 connections to the metrics endpoint send nothing or half a request",
        run=_hold_idle_connections,
    ),
    Attack(
        name="metrics-scrapes-without-pause",
        item="review",
        actions="metrics are requested without pause and never read",
        run=_scrape_without_pause,
    ),
)
