"""The part of a node's configuration that one component uses, as a value of the component's own class.

The class has no defaults: type, default, bounds and documentation of a key are in
`tidelog.broker.config.keys`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.broker.config.settings import BrokerSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PartT = TypeVar("PartT", bound="DataclassInstance")


def projection(config: BrokerSettings, part: type[PartT], **replacements: Any) -> PartT:
    """Return a `part`: each field has the value of the attribute of `config` with its name.

    `replacements` are the values of fields that differ from the configured ones.
    """
    names = (field.name for field in fields(part) if field.name not in replacements)
    return part(**{name: getattr(config, name) for name in names}, **replacements)
