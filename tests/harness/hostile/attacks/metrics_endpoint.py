"""Connections that keep the metrics endpoint busy (item 21)."""

from __future__ import annotations

import socket
import urllib.request

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import Scene

TIMEOUT_S = 3.0


def _hold_idle_connections(scene: Scene) -> None:
    address = scene.target.metrics_address
    sockets: list[socket.socket] = []
    scene.begin()
    try:
        for _ in range(64):
            sockets.append(socket.create_connection(address, TIMEOUT_S))
        for path in ("healthz", "metrics"):
            scene.expect(_is_served(address, path), f"/{path} is not served to others")
        for idle in sockets:
            # An incomplete request head counts as idle, too.
            try:
                idle.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            except OSError:
                continue
        for path in ("healthz", "metrics"):
            scene.expect(_is_served(address, path), f"/{path} is not served to others behind open requests")
        scene.hold()
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


def _scrape_without_pause(scene: Scene) -> None:
    address = scene.target.metrics_address
    sockets = []
    scene.begin()
    scrapes = 0
    while not scene.is_over:
        try:
            connected = socket.create_connection(address, TIMEOUT_S)
            connected.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        except OSError:
            scene.pause()
            continue
        sockets.append(connected)
        scrapes += 1
        if len(sockets) > 32:
            sockets.pop(0).close()
    for connected in sockets:
        connected.close()
    scene.note(f"{scrapes} scrapes, none of them read")


ATTACKS = (
    Attack(
        name="metrics-idle-connections",
        item="21",
        does="64 connections to the metrics endpoint send nothing or half a request",
        run=_hold_idle_connections,
    ),
    Attack(
        name="metrics-scrapes-without-pause",
        item="review",
        does="metrics are requested without pause and never read",
        run=_scrape_without_pause,
    ),
)
