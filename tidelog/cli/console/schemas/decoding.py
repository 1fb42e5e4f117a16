"""Decodes keys and values with the schemas of a registry (shell).

Bounds: SCHEMAS_MAX decoders are kept; a schema that cannot be used is requested again after RETRY_S. Values
above VALUE_BYTES_MAX are not decoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from tidelog.base.bounded_lru import BoundedLru
from tidelog.base.clock import Clock
from tidelog.cli.console.schemas.avro import avro_decoder
from tidelog.cli.console.schemas.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegistryError,
    Schema,
    SchemaRegistry,
)
from tidelog.cli.console.schemas.wire_format import HEADER_BYTES, schema_id
from tidelog.cli.output import bytes_to_json

SCHEMAS_MAX: Final = 500
VALUE_BYTES_MAX: Final = 256 * 1024
RETRY_S: Final = 10

Decoder = Callable[[bytes], Any]


class SchemaDecoder:
    """Decodes what serializers with a Schema Registry have written."""

    def __init__(self, registry: SchemaRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._decoders: BoundedLru[int, tuple[str, Decoder]] = BoundedLru(SCHEMAS_MAX, None)
        self._errors: BoundedLru[int, str] = BoundedLru(SCHEMAS_MAX, RETRY_S * 1000)

    async def decode(self, data: bytes | None) -> dict[str, Any] | None:
        """Return the decoded value with its schema, or the error; None if `data` has no schema."""
        if data is None or len(data) > VALUE_BYTES_MAX:
            return None
        identifier = schema_id(data)
        if identifier is None:
            return None
        try:
            schema_type, decoder = await self._decoder(identifier)
            value = decoder(data)
            text = json.dumps(_plain(value), ensure_ascii=False)
        except Exception as error:
            # Libraries raise any error for hostile bytes. One record must not hide the others.
            return {"schema_id": identifier, "error": _reason(error)}
        return {"schema_id": identifier, "schema_type": schema_type, "text": text}

    async def _decoder(self, identifier: int) -> tuple[str, Decoder]:
        now_ms = self._clock.monotonic_ms()
        found = self._decoders.get(identifier, now_ms)
        if found is not None:
            return found
        error_text = self._errors.get(identifier, now_ms)
        if error_text is not None:
            raise RegistryError(error_text)
        try:
            schema = await self._registry.schema(identifier)
            found = schema.schema_type, _decoder_of(schema)
        except Exception as error:
            self._errors.put(identifier, _reason(error), 1, now_ms)
            raise
        self._decoders.put(identifier, found, 1, now_ms)
        return found


def _decoder_of(schema: Schema) -> Decoder:
    """Return the decoder of whole values. Errors: ValueError; RegistryError without the needed library."""
    if schema.schema_type == JSON:
        return lambda data: json.loads(data[HEADER_BYTES:])
    if schema.schema_type == AVRO:
        decode = avro_decoder(schema)
        return lambda data: decode(data[HEADER_BYTES:])
    if schema.schema_type == PROTOBUF:
        try:
            from tidelog.cli.console.schemas.protobuf import protobuf_decoder
        except ImportError as error:
            text = "Protobuf needs the package protobuf: run pip install 'tidelog[schemas]'"
            raise RegistryError(text) from error
        return protobuf_decoder(schema)
    raise RegistryError(f"schemas of type {schema.schema_type} are not supported")


def _plain(value: Any) -> Any:
    """Return `value` with types of JSON only."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return bytes_to_json(value)
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value]


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
