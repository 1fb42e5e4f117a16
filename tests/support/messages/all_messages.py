"""Every declared message with its versions: requests, responses, records and headers."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import tidelog.protocol
from tidelog.protocol.registry import APIS, request_type, response_type
from tidelog.protocol.schema import ApiMessage, Message, Struct


def api_messages() -> list[type[ApiMessage]]:
    """Return the request and the response of every API."""
    return [kind(key) for key in APIS for kind in (request_type, response_type)]


def other_messages() -> list[type[Message]]:
    """Return headers, records of internal topics and of the metadata log, control records and member data."""
    messages = [
        member
        for module in _modules(tidelog.protocol)
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, Message)
        and not issubclass(member, ApiMessage)
        and member.__module__ == module.__name__
        and member.__module__ != Struct.__module__
    ]
    return sorted(messages, key=lambda cls: cls.__name__)


def all_messages() -> list[type[Message]]:
    """Return all messages."""
    return [*api_messages(), *other_messages()]


def versions_of(cls: type[Message]) -> range:
    """Return the versions of `cls`."""
    valid = cls.valid_versions
    assert valid.highest is not None
    return range(valid.lowest, valid.highest + 1)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield import_module(info.name)
