"""Checks of configuration values, so that every refusal names option, value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.errors import ErrorCode, KafkaError


class ConfigError(KafkaError):
    """A client option has a value that is not allowed; the text names option, value and allowed values."""

    def __init__(self, option: str, value: object, allowed: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, f"{option}={value!r} is not allowed: expected {allowed}")
        self.option = option
        self.value = value


def require_between(option: str, value: int, lowest: int, highest: int | None = None) -> None:
    """Refuse a number outside `lowest..highest` (inclusive; None: no upper bound)."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < lowest or (highest is not None and value > highest):
        bound = f"a whole number >= {lowest}" if highest is None else f"a whole number {lowest}..{highest}"
        raise ConfigError(option, value, bound)


def require_one_of(option: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse a value that is not in `allowed`."""
    choices = tuple(allowed)
    if value not in choices:
        raise ConfigError(option, value, "one of " + ", ".join(str(choice) for choice in choices))


def require_bool(option: str, value: object) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise ConfigError(option, value, "True or False")


def parse_bootstrap_servers(servers: str | Iterable[str]) -> tuple[tuple[str, int], ...]:
    """The (host, port) pairs of "host:port,host:port" or of a sequence of "host:port".

    IPv6 hosts stand in brackets: "[::1]:9092".
    """
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = tuple(_address(text.strip(), servers) for text in texts if text.strip())
    if not addresses:
        raise ConfigError("bootstrap_servers", servers, "at least one host:port")
    return addresses


def _address(text: str, servers: object) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError("bootstrap_servers", servers, f"host:port separated by commas; bad part {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
