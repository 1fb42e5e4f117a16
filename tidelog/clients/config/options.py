"""Checks of option values; every error names the option, the value and the allowed values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.base.similar_names import similar_names
from tidelog.protocol.errors import ErrorCode, KafkaError


class ConfigError(KafkaError):
    """A client option has an invalid value; the text has the option, the value and the allowed values."""

    def __init__(self, option: str, value: object, allowed: str, *, text: str | None = None) -> None:
        text = f"Invalid option: {option}={value!r}; expected {allowed}" if text is None else text
        super().__init__(ErrorCode.INVALID_CONFIG, text)
        self.option = option
        self.value = value
        self.allowed = allowed


def unknown_option(option: str, value: object, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown option; its text has the options with similar names."""
    names = sorted(known)
    text = f"Unknown option: {option!r}; {similar_options(option, names)}"
    return ConfigError(option, value, "one of " + ", ".join(names), text=text)


def similar_options(option: str, names: Sequence[str]) -> str:
    """Return a hint with the `names` that are similar to `option`; with all of them if none is similar."""
    normalized = option.replace(".", "_").replace("-", "_").lower()
    near = similar_names(normalized, names)
    return f"did you mean {' or '.join(near)}?" if near else f"expected one of {', '.join(names)}"


def require_between(option: str, value: int, lowest: int, highest: int | None = None) -> None:
    """Raise ConfigError unless `value` is an integer in `lowest..highest` (None: no upper bound)."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < lowest or (highest is not None and value > highest):
        bound = f"a whole number >= {lowest}" if highest is None else f"a whole number {lowest}..{highest}"
        raise ConfigError(option, value, bound)


def require_one_of(option: str, value: object, allowed: Iterable[object]) -> None:
    """Raise ConfigError unless `value` is in `allowed`."""
    choices = tuple(allowed)
    if value not in choices:
        raise ConfigError(option, value, "one of " + ", ".join(dict.fromkeys(map(str, choices))))


def require_text(option: str, value: object) -> None:
    """Raise ConfigError unless `value` is a string."""
    if not isinstance(value, str):
        raise ConfigError(option, value, "text")


def require_bool(option: str, value: object) -> None:
    """Raise ConfigError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(option, value, "True or False")


def parse_bootstrap_servers(servers: str | Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Return the (host, port) pairs of "host:port,host:port" or of a sequence of "host:port".

    IPv6 hosts are in brackets: "[::1]:9092".
    """
    texts = servers.split(",") if isinstance(servers, str) else _texts(servers)
    addresses = tuple(_address(text.strip(), servers) for text in texts if text.strip())
    if not addresses:
        raise ConfigError("bootstrap_servers", servers, "at least one host:port")
    return addresses


def _texts(servers: object) -> list[str]:
    texts = []
    for text in servers if isinstance(servers, Iterable) else [servers]:
        if not isinstance(text, str):
            raise ConfigError("bootstrap_servers", servers, f"host:port as text; bad part {text!r}")
        texts.append(text)
    return texts


def _address(text: str, servers: object) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError("bootstrap_servers", servers, f"host:port separated by commas; bad part {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
