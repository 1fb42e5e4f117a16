"""Ports of local clusters."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tidelog.local_cluster import ports


def test_ports_are_consecutive_and_not_among_those_of_clients() -> None:
    chosen = ports.free_ports(6)
    assert chosen == list(range(chosen[0], chosen[0] + 6))
    assert chosen[0] >= ports.FIRST_PORT and chosen[-1] < ports.END_PORT


@pytest.mark.skipif(
    not Path("/proc/sys/net/ipv4/ip_local_port_range").exists(), reason="only Linux has this file"
)
def test_the_range_is_below_the_ports_that_linux_gives_to_clients() -> None:
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert int(first) >= ports.END_PORT


def test_a_used_port_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        port = used.getsockname()[1]
        # With the only candidate in use no port can be returned.
        monkeypatch.setattr(ports, "FIRST_PORT", port)
        monkeypatch.setattr(ports, "END_PORT", port + 2)
        with pytest.raises(OSError, match="no 1 consecutive ports are free"):
            ports.free_ports(1)


def test_a_preferred_port_that_is_used_is_replaced_by_a_free_one() -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        port = used.getsockname()[1]
        assert ports.preferred_port(port) != port
    (free,) = ports.free_ports(1)
    assert ports.preferred_port(free) == free
