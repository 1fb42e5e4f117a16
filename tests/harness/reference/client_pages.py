"""The pages of the client API and of errors, from the classes of the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final

from tests.harness.reference.error_meanings import MEANINGS
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.client_config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.partition_reader import PartitionReader
from tidelog.clients.producer.producer import Producer
from tidelog.clients.share_consumer.share_consumer import ShareConsumer
from tidelog.protocol.errors import ErrorCode
from tidelog.testing.embedded import EmbeddedCluster

NOTE: Final = "This page is generated from the code; `make docs` writes it again.\n"
_CLASSES: Final = (Producer, Consumer, ShareConsumer, Admin, PartitionReader, EmbeddedCluster)
_CONFIGS: Final[tuple[tuple[str, type[ClientConfig]], ...]] = (
    ("producers", ProducerConfig),
    ("consumers and partition readers", ConsumerConfig),
    ("share consumers", ShareConsumerConfig),
    ("admin clients", AdminConfig),
)


def clients_page() -> str:
    """Return the classes of the public API with their methods, and the options of all clients."""
    parts = [
        "# Client API\n",
        NOTE,
        "All classes on this page can be imported from `tidelog`. Methods with `await` are coroutines.",
        "`KafkaError` and `ErrorCode` are in `tidelog.protocol.errors` ([all errors](errors.md)),",
        "`TopicPartition` is in `tidelog.protocol.ids`, and the types for calls of `Admin` are in",
        "`tidelog.clients.admin.admin`. Keys and values of records are bytes. An `environment` replaces",
        "clock, random numbers and network, for tests. An `authenticator` replaces the options `sasl_*`.\n",
    ]
    for each in _CLASSES:
        parts += _class_lines(each)
    parts += [
        "## Options of all clients\n",
        f"{_text(ClientConfig.__doc__)}\n",
        *_options_table(ClientConfig, None),
    ]
    for title, config in _CONFIGS:
        parts += [
            f"\n## Options of {title}\n",
            f"{_text(config.__doc__)}\n",
            *_options_table(config, ClientConfig),
        ]
    return "\n".join(parts) + "\n"


def errors_page() -> str:
    """Return all error codes with their meanings."""
    parts = [
        "# Errors\n", NOTE,
        "A broker reports failures with Kafka's error codes. Tidelog's clients raise `KafkaError` (from",
        "`tidelog.protocol.errors`), whose `code` is one of them and whose text names subject and value.",
        "*Retriable*: the same request may succeed later; clients repeat it until their timeout.\n",
        "| number | name | retriable | meaning |\n|---|---|---|---|",
    ]  # fmt: skip
    for code in ErrorCode:
        retriable = "yes" if code.retriable else ""
        parts.append(f"| {int(code)} | `{code.name}` | {retriable} | {MEANINGS[code.name]}. |")
    return "\n".join(parts) + "\n"


def _class_lines(cls: type[Any]) -> Iterator[str]:
    yield f"## {cls.__name__}\n"
    yield f"{_text(cls.__doc__)}\n"
    yield f"`{cls.__name__}{_signature(cls.__init__)}`\n"
    yield "| method | result |\n|---|---|"
    for name, member in _public_members(cls):
        if isinstance(member, property):
            yield f"| `{name}` | {_cell(_first_line(member.__doc__))} |"
            continue
        prefix = "await " if inspect.iscoroutinefunction(member) else ""
        yield f"| `{prefix}{name}{_cell(_signature(member))}` | {_cell(_first_line(member.__doc__))} |"
    yield ""


def _public_members(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    for name, member in vars(cls).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def _signature(function: Any) -> str:
    """Return the parameters with their defaults, without types."""
    signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=inspect.Parameter.empty, default=_Default.of(each.default))
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


@dataclass(frozen=True)
class _Default:
    """A default value that is an enum member or a tuple with names, as an expression that creates it."""

    expression: str

    @classmethod
    def of(cls, value: object) -> object:
        """Return a value whose `repr` is the expression; the same value if it is neither of them."""
        if isinstance(value, Enum):
            return cls(f"{type(value).__name__}.{value.name}")
        if hasattr(value, "_field_defaults") and value == type(value)():
            return cls(f"{type(value).__name__}()")
        return value

    def __repr__(self) -> str:
        return self.expression


def _options_table(config: type[ClientConfig], base: type[ClientConfig] | None) -> Iterator[str]:
    """Yield the options that `config` has in addition to `base`, or with another default."""
    defaults = {} if base is None else {field.name: field.default for field in fields(base)}
    yield "| option | default | type |\n|---|---|---|"
    for field in fields(config):
        if field.name not in defaults or defaults[field.name] != field.default:
            yield f"| `{field.name}` | `{field.default!r}` | {_cell(f'`{field.type}`')} |"


def _text(documentation: str | None) -> str:
    """Return a docstring as paragraphs of Markdown."""
    text = inspect.cleandoc(documentation or "")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def _first_line(documentation: str | None) -> str:
    return _text(documentation).split("\n\n", maxsplit=1)[0]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
