"""Listener addresses: names, hosts, ports, and invalid ones."""

from __future__ import annotations

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.listeners import Listener, SecurityProtocol, parse_listeners, parse_protocol_map

PROTOCOLS = {"PLAINTEXT": SecurityProtocol.PLAINTEXT, "IN-SIDE_2": SecurityProtocol.SSL}


@pytest.mark.parametrize(
    ("text", "name", "host", "port"),
    [
        ("PLAINTEXT://:9092", "PLAINTEXT", "", 9092),
        ("PLAINTEXT://localhost:0", "PLAINTEXT", "localhost", 0),
        ("plaintext://10.0.0.1:65535", "PLAINTEXT", "10.0.0.1", 65535),
        ("PLAINTEXT://[::1]:9092", "PLAINTEXT", "::1", 9092),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "PLAINTEXT", "fe80::1%eth0", 9092),
        ("IN-SIDE_2://a-b.example.org:1", "IN-SIDE_2", "a-b.example.org", 1),
    ],
)
def test_an_address_has_name_host_and_port(text: str, name: str, host: str, port: int) -> None:
    (listener,) = parse_listeners("listeners", [text], PROTOCOLS)
    assert (listener.name, listener.host, listener.port) == (name, host, port)
    assert listener.security_protocol is PROTOCOLS[name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PLAINTEXT",
        "PLAINTEXT://",
        "PLAINTEXT://host",
        "PLAINTEXT://host:",
        "PLAINTEXT://host:x",
        "PLAINTEXT://host:-1",
        "PLAINTEXT://host:65536",
        "PLAINTEXT://host:99999999",
        "PLAINTEXT://::1:9092",
        "PLAINTEXT://[::1:9092",
        "PLAINTEXT://ho st:1",
        "://host:1",
        "OTHER://host:1",
    ],
)
def test_an_invalid_address_is_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_listeners("listeners", [text], PROTOCOLS)
    assert (error.value.key, error.value.value) == ("listeners", text)


@pytest.mark.parametrize(
    "texts",
    [
        ["PLAINTEXT://a:1", "plaintext://b:2"],
        ["PLAINTEXT://a:1", "IN-SIDE_2://b:1"],
        ["PLAINTEXT://[::1]:1", "IN-SIDE_2://[::2]:1"],
    ],
)
def test_names_and_ports_must_differ(texts: list[str]) -> None:
    with pytest.raises(ConfigError):
        parse_listeners("listeners", texts, PROTOCOLS)


def test_one_port_may_serve_ipv4_and_ipv6() -> None:
    texts = ["PLAINTEXT://127.0.0.1:1", "IN-SIDE_2://[::1]:1"]
    assert len(parse_listeners("listeners", texts, PROTOCOLS)) == 2


def test_several_listeners_may_use_port_0() -> None:
    assert len(parse_listeners("listeners", ["PLAINTEXT://:0", "IN-SIDE_2://:0"], PROTOCOLS)) == 2


def test_a_listener_is_formatted_as_it_is_written() -> None:
    assert str(Listener("A", "::1", 1, SecurityProtocol.PLAINTEXT)) == "A://[::1]:1"
    assert str(Listener("A", "h", 1, SecurityProtocol.PLAINTEXT)) == "A://h:1"


def test_protocols_are_mapped_by_listener_name() -> None:
    assert parse_protocol_map("m", ["controller:plaintext", "X:SASL_SSL"]) == {
        "CONTROLLER": SecurityProtocol.PLAINTEXT,
        "X": SecurityProtocol.SASL_SSL,
    }


@pytest.mark.parametrize("items", [["X"], ["X:TLS"], [":SSL"], ["X:SSL", "x:SSL"]])
def test_an_invalid_protocol_map_is_an_error(items: list[str]) -> None:
    with pytest.raises(ConfigError):
        parse_protocol_map("listener.security.protocol.map", items)
