"""Decodes values of Protobuf. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError

from tidelog.cli.console.schemas.registry import Schema
from tidelog.cli.console.schemas.wire_format import message_path

# Each after those that it imports.
_WELL_KNOWN: Final = (
    *("any", "source_context", "type", "api", "duration", "empty"),
    *("field_mask", "struct", "timestamp", "wrappers"),
)


def protobuf_decoder(schema: Schema) -> Callable[[bytes], Any]:
    """Return a function that decodes whole values with this schema.

    Errors: ValueError for a schema that cannot be used.
    """
    pool = descriptor_pool.DescriptorPool()
    for name in _WELL_KNOWN:
        module = import_module(f"google.protobuf.{name}_pb2")
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    try:
        for reference in schema.references:
            pool.Add(_file(reference.text, reference.name))
        name = f"schema-{schema.schema_id}.proto"
        pool.Add(_file(schema.text, name))
        file = pool.FindFileByName(name)
    except (TypeError, KeyError, DecodeError) as error:
        raise ValueError(f"the schema {schema.schema_id} is not a schema of Protobuf: {error}") from error

    def decode(data: bytes) -> Any:
        path, position = message_path(data)
        message = message_factory.GetMessageClass(_type(file, path))()
        try:
            message.ParseFromString(data[position:])
        except DecodeError as error:
            raise ValueError(str(error)) from error
        return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)

    return decode


def _file(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    file.name = name
    return file


def _type(file: FileDescriptor, path: tuple[int, ...]) -> Descriptor:
    """Return the type of a message by the indexes of its declaration."""
    types = list(file.message_types_by_name.values())
    for depth, index in enumerate(path):
        if not 0 <= index < len(types):
            raise ValueError(f"the schema has no message {path}")
        found = types[index]
        if depth + 1 < len(path):
            types = list(found.nested_types)
    return found
