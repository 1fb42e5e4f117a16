"""Reads schemas from a Schema Registry (shell).

Bounds: REQUESTS_MAX requests at a time, RESPONSE_BYTES_MAX of a response, TIMEOUT_S, REFERENCES_MAX schemas
to which a schema refers.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from tidelog.base.dataclass import dataclass

REQUESTS_MAX: Final = 8
RESPONSE_BYTES_MAX: Final = 1 << 20
TIMEOUT_S: Final = 5.0
REFERENCES_MAX: Final = 64
AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"


class RegistryError(Exception):
    """A schema cannot be read; the text has the reason."""


@dataclass(frozen=True, slots=True)
class ReferencedSchema:
    """A schema that another one imports by this name."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, and those that it refers to: each after those that it needs itself.

    The texts of Protobuf schemas are FileDescriptorProto messages in base64.
    """

    schema_id: int
    schema_type: str
    text: str
    references: tuple[ReferencedSchema, ...] = ()


class SchemaRegistry:
    """A registry at `url`, which may contain user and password; use it as an async context manager."""

    def __init__(self, url: str) -> None:
        """Errors: ValueError if `url` is not an address of HTTP."""
        parsed = URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"{parsed.with_user(None)}: allowed is http://host:port or https://host:port")
        self._url = parsed.with_user(None)
        self._authentication = (
            None if parsed.user is None else aiohttp.BasicAuth(parsed.user, parsed.password or "")
        )
        self._limit = asyncio.Semaphore(REQUESTS_MAX)
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> SchemaRegistry:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        self._session = aiohttp.ClientSession(timeout=timeout, auth=self._authentication)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    async def schema(self, schema_id: int) -> Schema:
        """Return a schema with its references. Errors: RegistryError."""
        path = f"schemas/ids/{schema_id}"
        document = await self._get(path)
        schema_type = document.get("schemaType", AVRO)
        references: dict[str, ReferencedSchema] = {}
        await self._add_references(document, schema_type, references)
        if schema_type == PROTOBUF:
            document = await self._get(path, format="serialized")
        return Schema(schema_id, schema_type, _text(document), tuple(references.values()))

    async def _add_references(
        self, document: dict[str, Any], schema_type: str, found: dict[str, ReferencedSchema]
    ) -> None:
        for reference in document.get("references") or ():
            name = str(reference["name"])
            if name in found:
                continue
            if len(found) >= REFERENCES_MAX:
                raise RegistryError(f"the schema refers to more than {REFERENCES_MAX} others")
            subject = quote(str(reference["subject"]), safe="")
            path = f"subjects/{subject}/versions/{int(reference['version'])}"
            # The entry is added first, so that circular references end.
            found[name] = ReferencedSchema(name, "")
            referenced = await self._get(path)
            await self._add_references(referenced, schema_type, found)
            if schema_type == PROTOBUF:
                referenced = await self._get(f"schemas/ids/{int(referenced['id'])}", format="serialized")
            del found[name]
            found[name] = ReferencedSchema(name, _text(referenced))

    async def _get(self, path: str, **query: str) -> dict[str, Any]:
        url = URL(f"{self._url}".rstrip("/") + f"/{path}", encoded=True).with_query(query or None)
        try:
            async with self._limit, self._session.get(url, allow_redirects=False) as response:
                body = await response.content.read(RESPONSE_BYTES_MAX + 1)
                if response.status != 200:
                    raise RegistryError(f"the schema registry returned {response.status} for {path}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise RegistryError(f"cannot reach the schema registry: {reason}") from error
        if len(body) > RESPONSE_BYTES_MAX:
            raise RegistryError(f"{path}: the schema is larger than {RESPONSE_BYTES_MAX} bytes")
        try:
            document = json.loads(body)
        except ValueError as error:
            raise RegistryError(f"{path}: the schema registry returned no JSON") from error
        if not isinstance(document, dict):
            raise RegistryError(f"{path}: the schema registry returned no schema")
        return document


def _text(document: dict[str, Any]) -> str:
    text = document.get("schema")
    if not isinstance(text, str):
        raise RegistryError("the schema registry returned no schema")
    return text
